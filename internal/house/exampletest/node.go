package exampletest

import (
	"bytes"
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
	command := fmt.Sprintf("oshrun --emulate 3 -n %s --recover .bin/%s %s", r.npes, r.Name, args)
	said := startAmid(t, install(t, r), command, pattern, 3, func(oshrun int) { killAgent(t, oshrun, r.Name) })
	if !strings.Contains(said, " is lost with ") {
		t.Errorf("standard error %q, want the loss of a node in it", said)
	}
}

// wellUnderWay is how much processor time of a PE is more than its start takes, in the hundredths of a second of /proc.
const wellUnderWay = 20

// killAgent kills the agent of a node when a PE of that node is well under way.
func killAgent(t *testing.T, oshrun int, example string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ; t.Context().Err() == nil; <-look.C {
		for _, daemon := range below(oshrun) {
			agent, busy := 0, false
			for _, child := range childrenOf(daemon) {
				line := commandOf(child)
				switch {
				case strings.HasSuffix(line, "\x00agent\x00"):
					agent = child
				case strings.Contains(line, example):
					busy = busy || ticksOf(child) >= wellUnderWay
				}
			}
			if agent == 0 || !busy {
				continue
			}
			p, err := os.FindProcess(agent)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				t.Errorf("kill of agent %d: %v", agent, err)
			}
			return
		}
	}
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

// ticksOf returns the time that a process has computed.
func ticksOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const utime = 11 // behind the name
	if len(fields) <= utime {
		return 0
	}
	n, _ := strconv.Atoi(fields[utime])
	return n
}
