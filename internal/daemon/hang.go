package daemon

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// pulse is what was seen last of a PE's progress.
type pulse struct {
	count uint64
	since time.Time // when it was seen to change, or to wait for others
	hung  bool
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
		case now := <-tick.C:
			s.mu.Lock()
			for _, p := range s.started() {
				s.feel(p, now, atMost)
			}
			s.mu.Unlock()
		case <-s.closing:
			return
		}
	}
}

// feel looks at a PE once. The caller holds the lock.
func (s *Step) feel(p *proc, now time.Time, atMost time.Duration) {
	if p.ails || p.dead || !p.connected || p.isSettled() || p.job.vitals == nil {
		p.pulse.since = now
		return
	}
	moved, hung := p.pulse.beat(p.job.vitals[p.id.PE], now, atMost)
	switch {
	case hung:
		s.changed(p, p.pid(), "hangs: no call of the library for "+atMost.String())
	case moved:
		s.changed(p, p.pid(), "goes on")
	}
}

// beat takes one look: moved says that a PE that was hung goes on, and hung that
// it is from now on.
func (b *pulse) beat(v symheap.Vitals, now time.Time, atMost time.Duration) (moved, hung bool) {
	count := atomic.LoadUint64(&v.Progress.Count)
	waits := atomic.LoadUint32(&v.Bell.Sleeping)&layout.BellAsleep != 0
	if count != b.count || waits || b.since.IsZero() {
		moved = b.hung
		b.count, b.since, b.hung = count, now, false
		return moved, false
	}
	if hung = !b.hung && now.Sub(b.since) >= atMost; hung {
		b.hung = true
	}
	return false, hung
}
