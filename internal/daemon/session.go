package daemon

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// leadsSession says whether a PE leads a session of its own.
//
// The kernel's autogroup divides the processors among sessions first and among
// the processes of a session then. PEs that share a session share the part of
// one; beside other work of that session they get less still.
//
// Two kinds of PEs stay in the session of this process:
//
//   - a PE that reads the terminal, because no other session has it: /dev/tty;
//   - a PE that takes turns with others on a processor. sched_yield, by which a
//     waiting PE lets the others run, chooses among the processes of one session
//     only. The barrier of 16 PEs on 2 processors would take 100 times as long.
//     MPICH never yields, and so loses nothing by a session.
func (s *Step) leadsSession(p *proc, reads bool) bool {
	if reads && s.cfg.Terminal {
		return false
	}
	at := s.place(p.job, p.id.PE)
	return !p.job.crowded && !shares(&at) || p.job.yieldless[p.job.app(p.id.PE)]
}

// shares says whether a PE is bound to fewer processors than there are PEs bound
// to them.
func shares(at *plan.Place) bool { return at.CPUs != nil && at.Sharers > len(at.CPUs) }

// linksMPICH says whether a program is linked to the library of MPICH.
func linksMPICH(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false // a script
	}
	defer func() { _ = f.Close() }()
	libs, _ := f.ImportedLibraries() // none of a static program
	for _, lib := range libs {
		if strings.HasPrefix(lib, "libmpich") {
			return true
		}
	}
	return false
}

// weigh makes the session of a PE as nice to other sessions as this process is:
// the nice value that the PE inherits counts among the processes of its own
// session only.
func (s *Step) weigh(p *proc) {
	nice := xunix.SessionNice()
	if !p.session || nice == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unheard) == 0 && s.setNice(p, nice) {
		return
	}
	if s.unheard = append(s.unheard, p); len(s.unheard) == 1 {
		s.serving.Go(func() { s.weighRest(nice) })
	}
}

// nicePause is how often nice values are set that the kernel has put off.
const nicePause = 100 * time.Millisecond

// weighRest sets the nice values that the kernel has put off: an ordinary user may
// set one every 0.1 s.
func (s *Step) weighRest(nice int) {
	tick := time.NewTicker(nicePause)
	defer tick.Stop()
	for left := true; left; {
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
		s.mu.Lock()
		for len(s.unheard) > 0 && s.setNice(s.unheard[0], nice) {
			s.unheard = s.unheard[1:]
		}
		left = len(s.unheard) > 0
		s.mu.Unlock()
	}
}

// setNice sets the nice value of a PE's session; false: it is to be tried again.
// The caller holds the lock.
func (s *Step) setNice(p *proc, nice int) bool {
	if p.life.Ended() {
		return true // its number may be somebody else's
	}
	err := xunix.SetSessionNice(p.pid(), nice)
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.cfg.Logger.Warn().Err(err).Stringer("pe", p.id).Int("nice", nice).Msg("the PE's session is not as nice as oshrun")
	}
	return true
}

// Suspend asks all PEs that run to stop, and stops at once those that cannot be
// asked. SIGTSTP stops no process of a session whose parents are all outside of
// it. So a PE that leads a session gets SIGSTOP, unless one of the processes in
// its group handles SIGTSTP: then the group gets that, and the caller has to stop
// those that go on.
func (s *Step) Suspend() {
	all := lookAround()
	s.mu.Lock()
	s.suspended = true
	s.mu.Unlock()
	s.signalEach(xunix.SIGTSTP, func(p *proc) syscall.Signal {
		if !p.session {
			return xunix.SIGTSTP
		}
		for pid, is := range all {
			if is.group == p.pid() && handles(pid, xunix.SIGTSTP) {
				return xunix.SIGTSTP
			}
		}
		return xunix.SIGSTOP
	})
}

// handles says whether a process has a handler for a signal, or blocks it, as
// those do that wait for it.
func handles(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for _, name := range []string{"SigCgt:", "SigBlk:"} {
		_, rest, _ := bytes.Cut(status, []byte("\n"+name))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		set, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
		if err == nil && set>>(uint(sig)-1)&1 != 0 {
			return true
		}
	}
	return false
}
