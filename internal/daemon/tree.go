package daemon

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
)

// process is what the kernel says of a process.
type process struct {
	parent, group int
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
	// pid (name) state ppid pgrp ...; the name may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 3 {
		return process{}
	}
	p := process{zombie: fields[0] == "Z", stopped: fields[0] == "T", traced: fields[0] == "t"}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
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

// descends says whether process pid is the process of the PE or comes from it:
// by its ancestors, or, for an orphan that this process inherited, by its
// environment.
func (s *Step) descends(pid int, p *proc) bool {
	self, top := os.Getpid(), p.pid()
	for child := pid; pid > 1; {
		if pid == top {
			return true
		}
		if pid == self {
			return marked(child, p.job.nspace, p.id.PE)
		}
		child, pid = pid, look(pid).parent
	}
	return false
}

// belongs says whether process pid may be of a PE, of whichever: descends says
// yes of no other.
func (s *Step) belongs(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for child, self := pid, os.Getpid(); pid > 1; child, pid = pid, look(pid).parent {
		if pid == self {
			return s.hasJobOf(child)
		}
		if s.isPE(pid) {
			return true
		}
	}
	return false
}

// isPE says whether pid is the number of a PE's process. The caller holds the
// lock.
func (s *Step) isPE(pid int) bool {
	for _, j := range s.jobs {
		for _, p := range j.procs {
			if p != nil && p.pid() == pid {
				return true
			}
		}
	}
	return false
}

// marked says whether a process has a job's name, and a PE's number unless that
// is negative, in its environment.
func marked(pid int, nspace string, pe int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	has := func(name, value string) bool {
		return bytes.Contains(append([]byte{0}, env...), []byte("\x00"+name+"="+value+"\x00"))
	}
	return has(envvar.PMIxNamespace, nspace) && (pe < 0 || has(envvar.PMIxRank, strconv.Itoa(pe)))
}

// hasJobOf says whether a process has the name of one of the jobs in its
// environment. The caller holds the lock.
func (s *Step) hasJobOf(pid int) bool {
	for _, j := range s.jobs {
		if marked(pid, j.nspace, -1) {
			return true
		}
	}
	return false
}

// leads says whether pid is the process of a PE that is not reaped yet: after
// that the number may be anybody's.
func (s *Step) leads(pid int) bool {
	for _, p := range s.started() {
		if p.pid() == pid && !p.life.Reaped() {
			return true
		}
	}
	return false
}

// orphans returns the children of this process, other than PEs, that belong to
// its jobs: where children are the step's own, all of them; otherwise those in
// the group of a PE or with a job's name in their environment. The caller
// holds the lock.
func (s *Step) orphans(all map[int]process) (found []int) {
	groups := map[int]bool{}
	for _, p := range s.started() {
		groups[p.pid()] = true
	}
	self := os.Getpid()
	for pid, is := range all {
		if is.parent == self && !s.leads(pid) && (s.cfg.OwnsChildren || groups[is.group] || s.hasJobOf(pid)) {
			found = append(found, pid)
		}
	}
	return found
}
