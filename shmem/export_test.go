package shmem

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Asleep says whether a PE sleeps in a wait.
func Asleep(w *World, pe int) bool {
	return atomic.LoadUint32(&w.session.h.job.Map.Control(layout.Local(pe)).Bell.Sleeping)&layout.BellAsleep != 0
}

// Noticed says whether this process knows of a death and its data path is closed.
func Noticed(w *World) bool { return w.session.h.fastClosed.Load() }

// Queued returns how many PEs hold a lock or wait for it, or have left its queue and
// are not passed over yet.
func Queued(w *World, l Lock) int {
	var q lockQueue
	if err := l.openQueue(&q, w.Ctx(), "Queued"); err != nil {
		return -1
	}
	return int((q.mem.load(q.tail()) - ticketOf(q.mem.load(q.head()))) & ticketMask)
}

// Home returns the PE that has the queue of a lock.
func Home(l Lock) int { return int(l.home) }

// TeamOf makes a team of members of t in any order, one that no split of the
// specification makes but the shrinking of a team may.
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

// Atomically stores what other PEs look at.
func Atomically(p *int64, v int64) { atomic.StoreInt64(p, v) }

// SlowHalf returns the context with a fast test that always fails.
func SlowHalf(c *Ctx) *Ctx {
	return &Ctx{h: c.h, shared: c.shared, tags: c.tags, mark: c.mark, ctx: c.ctx}
}
