package daemon

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
)

// What is in this file asks the kernel about processes. No lock may be held meanwhile: see table.

// process is what the kernel says of a process.
type process struct {
	parent, group int
	start         uint64 // when it was started, in ticks since the start of the machine
	zombie        bool
	stopped       bool
	traced        bool // and stopped by its debugger
}

// look returns what the kernel says of process pid, zeros if there is none.
func look(pid int) process {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}
	}
	// pid (name) state ppid pgrp ...; the name may hold anything. The start is field 22.
	const startField = 22 - 3
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= startField {
		return process{}
	}
	p := process{zombie: fields[0] == "Z", stopped: fields[0] == "T", traced: fields[0] == "t"}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	p.start, _ = strconv.ParseUint(fields[startField], 10, 64)
	return p
}

// over says whether the process has ended: it is not there, or is to be reaped.
func (p process) over() bool { return p.zombie || p == process{} }

// lookAround returns all processes of the machine.
func lookAround() map[int]process {
	all := map[int]process{}
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			all[pid] = look(pid)
		}
	}
	return all
}

// tree yields process top and what descends from it.
func tree(all map[int]process, top int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for pid := range all {
			for at := pid; at > 1; at = all[at].parent {
				if at == top {
					if !yield(pid) {
						return
					}
					break
				}
			}
		}
	}
}

// ancestry returns process pid and its ancestors below this process. Orphan is the last of them if it is a child of this
// process, otherwise 0.
func ancestry(pid int) (ancestors []int, orphan int) {
	self := os.Getpid()
	for child := 0; pid > 1; child, pid = pid, look(pid).parent {
		if pid == self {
			return ancestors, child
		}
		ancestors = append(ancestors, pid)
	}
	return ancestors, 0
}

// descends says whether process pid is the process of the PE or comes from it:
// by its ancestors, or, for an orphan that this process inherited, by its
// environment. A process that has the number of the PE's process after that was reaped is told by its start.
func (p *localPE) descends(pid int) bool {
	self := os.Getpid()
	for child := pid; pid > 1; {
		if pid == self {
			return environOf(child).hasPE(p.job.nspace, p.id.PE)
		}
		is := look(pid)
		if pid == p.pid {
			return is.start == p.start
		}
		child, pid = pid, is.parent
	}
	return false
}

// environment is the environment of a process as it was when its program began: settings between zero bytes.
type environment []byte

// Bounds of how often environOf looks.
const (
	execTime = time.Second // far longer than a process that becomes another program has no environment
	bareSeen = 3           // how often a process is seen with arguments and without an environment that has none
)

// environOf returns the environment of a process, nil if that cannot be read. In the midst of an exec, a process has neither
// environment nor arguments for a moment, which is waited for: it would be taken for one of another job.
func environOf(pid int) environment {
	began := time.Now()
	for bare := 0; bare < bareSeen && time.Since(began) < execTime; <-time.After(100 * time.Microsecond) {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || look(pid).over() {
			return nil
		}
		if len(env) > 0 {
			return append([]byte{0}, env...)
		}
		if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(args) > 0 {
			bare++ // the first time, the exec may have ended since
		}
	}
	return nil
}

// has says whether the environment has a setting.
func (e environment) has(name, value string) bool {
	return bytes.Contains(e, []byte("\x00"+name+"="+value+"\x00"))
}

// hasPE says whether the environment names a PE of a job.
func (e environment) hasPE(nspace string, pe int) bool {
	return e.has(envvar.PMIxNamespace, nspace) && e.has(envvar.PMIxRank, strconv.Itoa(pe))
}

// hasAnyJob says whether the environment names one of the jobs.
func (e environment) hasAnyJob(nspaces []string) bool {
	for _, nspace := range nspaces {
		if e.has(envvar.PMIxNamespace, nspace) {
			return true
		}
	}
	return false
}
