package daemon

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// pulse is what the step remembers of a PE's progress.
type pulse struct {
	count  uint64        // of calls that may wait, at the latest look
	looked time.Time     // the latest look; zero: none since the PE could have hung
	used   time.Duration // processor time of the PE's process up to that look
	still  time.Duration // for how long the word has stood still while the PE could have moved it
	hung   bool          // the user was told so
}

// glance is what one look at a PE finds.
type glance struct {
	count uint64        // of calls that may wait
	calls bool          // it has made calls that do not wait since the look before
	waits bool          // it waits for others, or has not come through Init yet
	used  time.Duration // processor time of its process so far
	ready bool          // a thread of it runs, or would if it had a processor
}

// hangLooks is how often a PE is looked at in the time that it may take.
const hangLooks = 8

// seeHangs looks whether PEs go on: whether they call the library, or wait in it
// for others. It is only asked for where both is to be expected all the time.
func (s *Step) seeHangs(atMost time.Duration) {
	tick := time.NewTicker(max(atMost/hangLooks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.findHangs(atMost)
		case <-s.closing:
			return
		}
	}
}

// suspect is a PE that has called nothing since the look before.
type suspect struct {
	p   *proc
	pid int
	glance
	now time.Time
}

// findHangs looks at all PEs once. The threads of those whose word stands still are
// looked up in /proc, for which the lock is given back.
func (s *Step) findHangs(atMost time.Duration) {
	var suspects []suspect
	s.mu.Lock()
	for _, p := range s.started() {
		if s.suspended || !p.canHang() {
			p.pulse = pulse{}
			continue
		}
		pid := p.member
		if pid == 0 {
			pid = p.pid()
		}
		x := suspect{p: p, pid: pid, glance: glanceAt(p.job.vitals[p.id.PE]), now: time.Now()}
		x.used, _ = xunix.ProcessTimeOf(pid) // of a process that is gone: Running says so
		if p.pulse.stands(x.glance) {
			suspects = append(suspects, x)
			continue
		}
		s.tellPulse(x, atMost)
	}
	s.mu.Unlock()
	for i, x := range suspects {
		ready, ok := xunix.Running(x.pid)
		suspects[i].ready, suspects[i].waits = ready, !ok // what is ending does not hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range suspects {
		if !s.suspended && x.p.canHang() {
			s.tellPulse(x, atMost)
		}
	}
}

// canHang says whether a PE is to be looked at. The caller holds the lock of the step.
func (p *proc) canHang() bool {
	return p.debug == notDebugged && p.ails == 0 && !p.life.Dead() && p.life.Inside() && p.job.vitals != nil
}

// tellPulse takes a look into a PE's pulse and tells the user what has changed. The
// caller holds the lock.
func (s *Step) tellPulse(x suspect, atMost time.Duration) {
	moved, hung := x.p.pulse.beat(x.glance, x.now, atMost)
	switch {
	case hung:
		s.tellIll(x.p, x.p.pid(), "hangs: no call of the library but Put for "+atMost.String())
	case moved:
		s.tellWell(x.p, x.p.pid(), "goes on")
	}
}

// glanceAt reads the words of a PE, and makes it mark its calls anew.
func glanceAt(v symheap.Vitals) glance {
	g := glance{count: atomic.LoadUint64(&v.Progress.Count), calls: atomic.LoadUint64(&v.Progress.Calls) != 0}
	if g.calls {
		atomic.StoreUint64(&v.Progress.Calls, 0) // a call between the two counts for this look
	}
	asleep := atomic.LoadUint32(&v.Bell.Sleeping)&layout.BellAsleep != 0
	meets := atomic.LoadUint64(&v.Progress.Meets) != 0
	g.waits = asleep || meets || g.count == 0
	return g
}

// stands says whether the word has not moved since the latest look, nor calls were marked.
func (b *pulse) stands(g glance) bool {
	return !g.waits && !g.calls && g.count == b.count && !b.looked.IsZero()
}

// beat takes one look: moved says that a PE that was hung goes on, and hung that
// it is from now on.
//
// Time counts against a PE only if the PE could have used it: while a thread of it is
// ready, the time that it had a processor, and all time while none is.
func (b *pulse) beat(g glance, now time.Time, atMost time.Duration) (moved, hung bool) {
	stands, passed, used := b.stands(g), now.Sub(b.looked), g.used-b.used
	b.count, b.looked, b.used = g.count, now, g.used
	if !stands {
		moved, b.hung, b.still = b.hung, false, 0
		return moved, false
	}
	if g.ready {
		passed = min(passed, max(used, 0))
	}
	b.still += passed
	hung = !b.hung && b.still >= atMost
	b.hung = b.hung || hung
	return false, hung
}
