package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// signals sends to PEs what the user, and the front end, want to send.
type signals struct {
	table    *table
	meter    *memoryMeter
	ailments *ailments
	orphans  *orphans
}

// send is Step.Signal.
func (s *signals) send(sig syscall.Signal) {
	s.sendEach(sig, func(*localPE) syscall.Signal { return sig })
	if sig == xunix.SIGCONT {
		s.ailments.resume()
	}
}

// sendEach sends a signal to each process that has not ended, which of says under the lock of the table, and
// sig to what is left without a parent.
func (s *signals) sendEach(sig syscall.Signal, of func(*localPE) syscall.Signal) {
	s.meter.measureAll() // what is killed has no memory to look at
	if s.sendToPEs(sig, of) {
		s.orphans.signalAll(sig)
	}
}

// sendToPEs sends the signals to PEs. Behind says that a program goes on whose PE's process has ended.
func (s *signals) sendToPEs(sig syscall.Signal, of func(*localPE) syscall.Signal) (behind bool) {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	kill := sig == syscall.SIGKILL
	t.killed = t.killed || kill
	for _, p := range t.started() {
		switch {
		case !p.life.Ended():
			if !p.spared(sig, t.refusing) {
				p.signal(of(p))
			}
		case p.life.GoesOn():
			behind = true
			if kill {
				p.endProgram()
			}
		}
	}
	return behind
}

// suspend is Step.Suspend. Which groups handle SIGTSTP is looked up before the lock is taken.
func (s *signals) suspend() {
	handling := groupsThatHandle(xunix.SIGTSTP, s.sessionLeaders())
	s.ailments.suspend()
	s.sendEach(xunix.SIGTSTP, func(p *localPE) syscall.Signal {
		if !p.session || handling[p.pid] {
			return xunix.SIGTSTP
		}
		return xunix.SIGSTOP
	})
}

// sessionLeaders returns the numbers of the PEs' processes that lead sessions.
func (s *signals) sessionLeaders() map[int]bool {
	leaders := map[int]bool{}
	for _, p := range s.table.allStarted() {
		if p.session {
			leaders[p.pid] = true
		}
	}
	return leaders
}

// groupsThatHandle returns those of the process groups that have a process which handles a signal.
func groupsThatHandle(sig syscall.Signal, groups map[int]bool) map[int]bool {
	handling := map[int]bool{}
	for pid, is := range lookAround() {
		if groups[is.group] && !handling[is.group] && handlesSignal(pid, sig) {
			handling[is.group] = true
		}
	}
	return handling
}

// allStopped is Step.Stopped. A process that ends while it is looked at does not count.
func (s *signals) allStopped() bool {
	for _, p := range s.running() {
		if is, held := s.table.lookAt(p); held && !is.stopped {
			return false
		}
	}
	return true
}

// running returns the PEs whose processes have not ended.
func (s *signals) running() (all []*localPE) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, p := range s.table.started() {
		if !p.life.Ended() {
			all = append(all, p)
		}
	}
	return all
}

// handlesSignal says whether a process has a handler for a signal, or blocks it, as
// those do that wait for it.
func handlesSignal(pid int, sig syscall.Signal) bool {
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
