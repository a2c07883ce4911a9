package mpi

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/mpi/sched"
)

// # Collectives of some ranks
//
// The ranks that make a communicator gather words among themselves only, in the hidden communicator of the one that it comes of. Other ranks of that may have
// died, or be elsewhere.
//
//   - Messages of a call that has failed may still be there when its ranks try again, and a rank may be there still when others try again. So the tag of a
//     message is a hash of the attempt and the round that it belongs to, and the message says both: others with the same hash are dropped. All ranks of
//     a call count its attempts alike: each of them calls it as often.
//   - A rank that gives a call up tells the ranks of that call (noticeGivenUp). The communicator that the new one comes of stays whole.

// subset is such a call.
type subset struct {
	parent  *group
	op      string
	members []int // ranks of the parent
	number  int   // which tells it from other calls of these ranks: the tag of CreateGroup, bySplit, or less for calls of Idup
	attempt uint64
}

// newSubset returns the next call of some ranks with a number.
func newSubset(parent *group, op string, members []int, number int) subset {
	parent.e.mu.Lock()
	defer parent.e.unlock()
	return subset{parent, op, members, number, parent.collectives.newAttempt(members, number)}
}

// bySplit is the number of communicators that Split makes.
const bySplit = -1

// givenUpMost is how many attempts that others have given up a rank remembers. They are for calls that it has not made yet.
const givenUpMost = 64

// earlyGivenUp is a call that a rank has given up in a communicator which this process has not made yet.
type earlyGivenUp struct {
	comm    uint32
	attempt uint64
}

// newAttempt returns what tells the next call of some ranks with a number from all others. The caller has the engine's lock.
func (k *collectives) newAttempt(members []int, number int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, members, number)
	call := h.Sum64()
	if k.attempts == nil {
		k.attempts = map[uint64]uint64{}
	}
	k.attempts[call]++
	fmt.Fprint(h, k.attempts[call])
	return h.Sum64()
}

// tag returns the tag of the messages of a round.
func (x *subset) tag(round uint64) int32 {
	h := fnv.New64a()
	fmt.Fprint(h, x.attempt, round)
	return subsetTags | int32(h.Sum64()>>35)
}

// gather gives a word of each rank to all of them.
func (x *subset) gather(ctx context.Context, round, word uint64) ([]uint64, error) {
	g, e := x.parent, x.parent.e
	n := len(x.members)
	mine, words := coll.Words{word, 0, round, x.attempt}, make([]coll.Words, n)
	plan := sched.AllgatherDirect(n, slices.Index(x.members, g.me), sched.Regular(n, int(unsafe.Sizeof(mine))))
	s := &schedule{tag: x.tag(round), ranks: x.members, subset: x, round: round}
	e.job.Waiter.Beat()
	e.mu.Lock()
	r, err := g.collectives.execute(gatherCall(x.op, plan, &mine, words), s)
	e.unlock()
	if err == nil {
		_, err = r.finish(ctx)
	}
	all := make([]uint64, n)
	for i := range words {
		all[i] = words[i][0]
	}
	return all, g.reportDeath(err)
}

// isStale reports whether a step has received a message of another attempt or round.
func (s *schedule) isStale(i int) bool {
	step := s.run.Step(i)
	if s.subset == nil || step.Kind != sched.Recv {
		return false
	}
	w := (*coll.Words)(s.at(step.At))
	return w[3] != s.subset.attempt || w[2] != s.round
}

// tell tells the other ranks of the call something about a communicator. The caller has the engine's lock.
func (x *subset) tell(comm uint32, what int32, body parcel) {
	g, e := x.parent, x.parent.e
	me := slices.Index(x.members, g.me)
	for _, rank := range x.members {
		if pe := g.pe(rank); rank != g.me && !e.isDead(pe) {
			e.sendPacket(e.laneTo(pe), &packet{kind: kindNotice, match: matchOf(comm, what), size: sizeOf(me, 0), body: body})
		}
	}
}

// giveUp gives a schedule up that other ranks may wait for, and tells them. The caller has the engine's lock.
func (s *schedule) giveUp() {
	if x := s.subset; x != nil {
		x.tell(x.parent.number, noticeGivenUp, parcel{to: x.attempt})
		return
	}
	s.r.g.collectives.breakOff(becauseGivenUp)
}

// noteGivenUp notes that a rank has given a call of some ranks up.
func noteGivenUp(e *engine, comm uint32, attempt uint64) {
	g := e.groups[comm]
	if w := e.world; g == nil && w != nil && comm == w.number { // it is revoked
		g = w
	}
	if g == nil {
		if e.isComing(comm) {
			e.givenUp = append(e.givenUp, earlyGivenUp{comm, attempt})
		}
		return
	}
	k := &g.collectives
	if k.givenUp = append(k.givenUp, attempt); len(k.givenUp) > givenUpMost {
		k.givenUp = k.givenUp[1:]
	}
	k.failAll(func(s *schedule) error {
		if s.subset != nil && s.subset.attempt == attempt {
			return givenUpError(s.r.op)
		}
		return nil
	})
}

// givenUpError returns the error of a call that another rank has given up.
func givenUpError(op string) error {
	return fmt.Errorf("mpi.%s: %w: another rank has given this call up; hint: all ranks may call it again", op, ErrCommBroken)
}
