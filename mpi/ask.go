package mpi

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// # Ranks in different collectives
//
// Ranks that call different collectives would wait for each other. So a rank that waits for long asks the ranks that it waits for: it tells them
// which collective of the communicator it is in, and its signature. A rank that has called, or calls later, another one as the same collective ends it
// for all. This costs nothing while all is well.

// askAfter is how long a collective makes no progress before its rank asks. It may well be late then for another cause.
const askAfter = 20 * time.Millisecond

// askAgain is when it asks again: a rank may not have made the communicator yet, and hears nothing.
const askAgain = time.Second

// recentCalls is how many collectives of a communicator a rank remembers.
const recentCalls = 64

// recentCall is a collective that a rank has called.
type recentCall struct {
	number uint64
	kind   kindOf
	root   int
	bytes  int
}

// ask is what a rank has asked.
type ask struct {
	rank      int
	number    uint64
	signature uint64
}

// describe names the call for comparisons.
func (c *call) describe() string {
	return fmt.Sprintf("%s, root %d, %d bytes", kindNames[c.kind], c.root, c.bytes)
}

// signature is a hash of what must be the same at all ranks.
func (c *recentCall) signature() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d", c.kind, c.root, c.bytes)
	return h.Sum64()
}

// count gives a collective of all ranks its number and its tag. The caller has the engine's lock.
func (k *collectives) count(s *schedule, c *call) {
	k.begun++
	s.number, s.tag = k.begun, int32(uint64(c.kind)<<sequenceBits|k.begun%collectivesMost)<<labelBits
	mine := &k.recent[k.begun%recentCalls]
	*mine = recentCall{k.begun, c.kind, c.root, c.bytes}
	if len(k.asks) > 0 {
		for _, a := range k.asks {
			k.answer(a)
		}
		k.asks = slices.DeleteFunc(k.asks, func(a ask) bool { return a.number <= k.begun })
	}
}

// answer breaks the communicator if a rank is in another collective than this one was or is.
func (k *collectives) answer(a ask) {
	g := k.g
	mine := &k.recent[a.number%recentCalls]
	if mine.number != a.number || mine.signature() == a.signature {
		return
	}
	for _, s := range slices.Clone(k.schedules) {
		if s.subset == nil {
			g.e.failSchedule(s, usage(s.r.op, errMismatched, "rank %d called another collective, or with another root or length, want the same call on all ranks", a.rank))
			g.e.goOn(s)
		}
	}
	k.breakOff(becauseMismatch)
}

// askPeers asks the ranks for which a schedule waits, if it has waited for long. The caller has the engine's lock.
func (s *schedule) askPeers() {
	left, now := s.run.Left(), time.Now()
	if s.number == 0 || s.asked == left && now.Sub(s.waited) < askAgain {
		return
	}
	if s.waitedAt != left {
		s.waitedAt, s.waited = left, now
		return
	}
	if now.Sub(s.waited) < askAfter {
		return
	}
	s.asked, s.waited = left, now
	g := s.r.g
	signature := g.collectives.recent[s.number%recentCalls].signature()
	if g.collectives.recent[s.number%recentCalls].number != s.number {
		return // so many have begun since that it is forgotten
	}
	var asked []int
	for _, r := range s.open {
		if rank := g.rank(r.pe); !slices.Contains(asked, rank) {
			asked = append(asked, rank)
			g.tellOne(rank, noticeAsk, parcel{to: s.number, from: signature})
		}
	}
}

// noteAsk answers a rank that asks, now or when this rank gets there.
func noteAsk(e *engine, comm uint32, rank int, p *parcel) {
	g := e.groups[comm]
	if g == nil || rank >= g.n {
		return
	}
	a := ask{rank, p.to, p.from}
	if a.number <= g.collectives.begun {
		g.collectives.answer(a)
		return
	}
	g.collectives.asks = slices.DeleteFunc(g.collectives.asks, func(x ask) bool { return x.rank == rank })
	g.collectives.asks = append(g.collectives.asks, a)
}

// isLeftLong reports whether a rank is known to have left for longer than news of a death take.
func (s *schedule) isLeftLong() bool {
	if s.leftSeen.IsZero() {
		s.leftSeen = time.Now()
	}
	return time.Since(s.leftSeen) > deathGrace
}
