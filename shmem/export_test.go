package shmem

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Asleep reports whether a PE sleeps in a wait. Of a PE of another node, whose words this process does not see, it says so at
// once.
func Asleep(w *World, pe int) bool {
	j := w.session.h.job
	local, near := j.Place.Local(layout.PE(pe))
	return !near || atomic.LoadUint32(&j.Map.Control(local).Bell.Sleeping)&layout.BellAsleep != 0
}

// Direct reports whether a Quiet on the handle needs one instruction.
func Direct(c *Ctx) bool { return atomic.LoadUint32(&c.direct) == 1 }

// Noticed reports whether this process knows of a death, so that its fast path is closed.
func Noticed(w *World) bool { return w.session.h.fastClosed.Load() }

// Queued returns how many PEs hold a lock or wait for it. PEs that gave up waiting count until the
// queue has passed over them.
func Queued(w *World, l Lock) int {
	var q lockQueue
	if err := l.openQueue(&q, w.Ctx(), "Queued"); err != nil {
		return -1
	}
	return int((q.mem.load(q.tail()) - ticketOf(q.mem.load(q.head()))) & ticketMask)
}

// Waits reports whether a PE that holds a lock or waits for it has a place in its queue. A PE that gave up waiting has none.
func Waits(w *World, l Lock, pe int) bool {
	var q lockQueue
	if err := l.openQueue(&q, w.Ctx(), "Waits"); err != nil {
		return false
	}
	for t, tail := ticketOf(q.mem.load(q.head())), q.mem.load(q.tail()); t != tail; t = ticketAfter(t) {
		if s := q.mem.load(q.slot(t)); holdsTicket(s, t) && int(peOf(s)) == pe && s&lockFlags == 0 {
			return true
		}
	}
	return false
}

// Home returns the PE whose memory holds the queue of a lock.
func Home(l Lock) int { return int(l.home) }

// TeamOf makes a team of members of t in any order. No split of the specification makes such
// teams, but shrinking a team may.
func TeamOf(t *Team, members []int) (*Team, error) {
	mine := members
	if !slices.Contains(members, t.me) {
		mine = nil
	}
	var n member
	var err error
	if t.upper != nil {
		n, err = madeMember(t.upper.Split(t.ctx, callSplitStrided, mine, false))
	} else if part, e := coll.Split(t.ctx, t.coll, mine, false); part != nil {
		n = part
	} else {
		err = e
	}
	if err != nil || n == nil {
		return nil, t.publicError("TeamOf", err)
	}
	return registerTeam(t.h, n, numbersOf(t.group.worldPEs(members)), TeamConfig{Mode: ModeStrict}), nil
}

// Atomically stores a value that other PEs read.
func Atomically(p *int64, v int64) { atomic.StoreInt64(p, v) }

// SlowHalf returns a context whose fast test always fails.
func SlowHalf(c *Ctx) *Ctx {
	d := &Ctx{h: c.h, shared: c.shared, tags: c.tags, mark: c.mark, ctx: c.ctx}
	d.origin.ctx = d
	return d
}

// Handles returns how many handles of a context Destroy would disable.
func Handles(c *Ctx) int {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	return len(c.shared.handles)
}
