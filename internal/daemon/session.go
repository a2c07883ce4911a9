package daemon

import (
	"debug/elf"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

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
func (st *starter) leadsSession(p *localPE, reads bool) bool {
	if reads && st.cfg.Terminal {
		return false
	}
	at := st.cfg.place(p.job, p.id.PE)
	return !p.job.crowded && !shares(&at) || p.job.yieldless[p.job.appOf(p.id.PE)]
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

// niceness makes the sessions of PEs as nice to other sessions as this process is:
// the nice value that a PE inherits counts among the processes of its own
// session only.
type niceness struct {
	table      *table
	background *background
	logger     zerolog.Logger

	mu      sync.Mutex
	waiting []*localPE // whose sessions the kernel has put off, in order
}

// apply sets the nice value of a PE's session, now or later. One goroutine calls it, the one that starts processes.
func (n *niceness) apply(p *localPE) {
	nice := xunix.SessionNice()
	if nice == 0 {
		return
	}
	n.mu.Lock()
	queued := len(n.waiting) > 0
	n.mu.Unlock()
	if !queued && n.set(p, nice) {
		return
	}
	n.mu.Lock()
	n.waiting = append(n.waiting, p)
	first := len(n.waiting) == 1
	n.mu.Unlock()
	if first {
		n.background.serve(func() { n.applyRest(nice) })
	}
}

// nicePause is how often nice values are set that the kernel has put off.
const nicePause = 100 * time.Millisecond

// applyRest sets the nice values that the kernel has put off: an ordinary user may
// set one every 0.1 s. It is the only one that takes PEs from the queue, and ends when it has taken the last one: the next
// one begins anew.
func (n *niceness) applyRest(nice int) {
	tick := time.NewTicker(nicePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.background.closing:
			return
		}
		for next := n.next(); n.set(next, nice); next = n.next() {
			n.mu.Lock()
			n.waiting = n.waiting[1:]
			left := len(n.waiting)
			n.mu.Unlock()
			if left == 0 {
				return
			}
		}
	}
}

// next returns the PE that waits for longest.
func (n *niceness) next() *localPE {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting[0]
}

// set sets the nice value of a PE's session, if it has one of its own; false: it is to be tried again. No lock is held
// while the kernel is asked: SetSessionNice opens the file of the process first and asks then whether the number is still
// the PE's.
func (n *niceness) set(p *localPE, nice int) bool {
	if !p.session {
		return true
	}
	err := xunix.SetSessionNice(p.pid, nice, func() bool {
		n.table.mu.Lock()
		defer n.table.mu.Unlock()
		return !p.life.Ended()
	})
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		n.logger.Warn().Err(err).Stringer("pe", p.id).Int("nice", nice).Msg("the PE's session is not as nice as oshrun")
	}
	return true
}
