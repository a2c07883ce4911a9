package exampletest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SurviveNode starts the example in the current folder on 3 emulated nodes under --recover, with some arguments, and kills the agent of a
// node when the PEs are well under way. The example must end with status 3. pattern is that of Run.
func SurviveNode(t *testing.T, args, pattern string) {
	t.Helper()
	r := here(t)
	Lose(t, Loss{Options: "-n " + r.npes, Args: args, PE: -1, Victim: Agent, After: 200 * time.Millisecond, Pattern: pattern})
}

// Victim is a process that is killed.
type Victim int

// The victims.
const (
	Agent    Victim = iota // the agent of a node
	Daemon                 // the daemon of a node
	OnePE                  // a PE
	AllOfOne               // all processes of a node
)

// String names the victim.
func (v Victim) String() string { return [...]string{"agent", "daemon", "PE", "node"}[v] }

// Loss is a job in which a process is killed when the PEs are well under way.
type Loss struct {
	Options string // of oshrun
	Args    string // of the example
	PE      int    // the victim, or a PE of its node; -1: any that is well under way first
	Victim  Victim
	After   time.Duration // processor time of a PE that is more than its start takes
	Pattern string        // as of Run
}

// Lose starts the example in the current folder on 3 emulated nodes under --recover, and kills the victim. The example must end with
// status 3. Lose returns its output.
func Lose(t *testing.T, l Loss) (output string) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(dir)
	command := fmt.Sprintf("oshrun --emulate 3 %s --recover .bin/%s %s", l.Options, name, l.Args)
	output, said := startAmid(t, install(t, Row{Name: name}), command, l.Pattern, 3, func(oshrun int) { l.kill(t, oshrun, name) })
	if l.Victim != OnePE && !strings.Contains(said, " is lost with ") {
		t.Errorf("standard error %q, want the loss of a node in it", said)
	}
	return output
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// kill kills the victim when a PE of its node, or the one that is named, is well under way.
func (l *Loss) kill(t *testing.T, oshrun int, example string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ; t.Context().Err() == nil; <-look.C {
		if ticksOf(oshrun) < 0 {
			t.Errorf("the job has ended before a PE had computed for %v", l.After)
			return
		}
		for _, daemon := range below(oshrun) {
			if victims := l.victims(daemon, example); victims != nil {
				for _, pid := range victims {
					p, err := os.FindProcess(pid)
					if err == nil {
						err = p.Kill()
					}
					if err != nil && !errors.Is(err, os.ErrProcessDone) { // one of several may end with another
						t.Errorf("kill of process %d: %v", pid, err)
					}
				}
				return
			}
		}
	}
}

// victims returns the processes to kill, if they are those of a daemon, and it is time.
func (l *Loss) victims(daemon int, example string) []int {
	agent, pe, all := 0, 0, []int{daemon}
	for _, child := range childrenOf(daemon) {
		line := commandOf(child)
		switch {
		case strings.HasSuffix(line, "\x00agent\x00"):
			agent = child
		case !strings.Contains(line, example):
			continue
		case (l.PE < 0 || rankOf(child) == l.PE) && ticksOf(child) >= int(l.After/tick):
			pe = child
		}
		all = append(all, child)
	}
	switch {
	case agent == 0 || pe == 0:
		return nil
	case l.Victim == Agent:
		return []int{agent}
	case l.Victim == Daemon:
		return []int{daemon}
	case l.Victim == OnePE:
		return []int{pe}
	}
	return all
}

// below returns a process and all that it has started, directly or not.
func below(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, childrenOf(all[i])...)
	}
	return all
}

// childrenOf returns the children of a process; none if it has ended.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for word := range bytes.FieldsSeq(text) {
			if n, err := strconv.Atoi(string(word)); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// commandOf returns the command line of a process, each word with a zero byte behind it.
func commandOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

// rankOf returns the number of a PE, or -1 if a process is none.
func rankOf(pid int) int {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for word := range strings.SplitSeq(string(env), "\x00") {
		if text, is := strings.CutPrefix(word, "PMIX_RANK="); is {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return -1
}

// ticksOf returns the processor time of a process; -1: it has ended.
func ticksOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const state, utime, stime = 0, 11, 12 // behind the name
	if len(fields) <= stime || fields[state] == "Z" {
		return -1
	}
	user, err1 := strconv.Atoi(fields[utime])
	system, err2 := strconv.Atoi(fields[stime])
	if err1 != nil || err2 != nil {
		return -1
	}
	return user + system
}
