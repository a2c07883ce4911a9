package shmem

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Asleep reports whether a PE sleeps in a wait.
func Asleep(w *World, pe int) bool {
	return atomic.LoadUint32(&w.session.h.job.Map.Control(layout.Local(pe)).Bell.Sleeping)&layout.BellAsleep != 0
}

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

// Home returns the PE whose memory holds the queue of a lock.
func Home(l Lock) int { return int(l.home) }

// TeamOf makes a team of members of t in any order. No split of the specification makes such
// teams, but shrinking a team may.
func TeamOf(t *Team, members []int) (*Team, error) {
	mine := members
	if !slices.Contains(members, t.me) {
		mine = nil
	}
	n, err := coll.Split(t.ctx, t.coll, mine, false)
	if err != nil || n == nil {
		return nil, t.publicError("TeamOf", err)
	}
	var pes []layout.PE
	for _, m := range members {
		pes = append(pes, t.group.pes[m])
	}
	return registerTeam(t.h, n, pes, TeamConfig{Mode: ModeStrict}), nil
}

// Atomically stores a value that other PEs read.
func Atomically(p *int64, v int64) { atomic.StoreInt64(p, v) }

// SlowHalf returns a context whose fast test always fails.
func SlowHalf(c *Ctx) *Ctx {
	return &Ctx{h: c.h, shared: c.shared, tags: c.tags, mark: c.mark, ctx: c.ctx}
}
