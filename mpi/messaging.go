package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/mpi/sched"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Communicators without a team
//
// Collectives of a communicator use a team in shared memory, if its ranks are on one node and a team is free. All other communicators have
// none: their collectives are schedules (schedule.go). There may be any number of them.
//
// The ranks agree on the number of such a communicator: each proposes one, all take the greatest, and each says whether it is free there. If it
// is taken at one of them, as several goroutines may make communicators at a time, they try again.
//
//   - A number is reserved at all ranks before the first of them sends a message with it. So early messages have a queue, and messages with a
//     number that is not reserved are late ones.

// newMessagingComm makes a communicator of some ranks of this one, in their order. All of them call it, with the number of the collective.
func newMessagingComm(c *Comm, op string, members []int, number int) (*Comm, error) {
	parent, e := c.g, c.g.e
	chosen, err := agreeNumber(c.ctx, parent, op, members, number)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.unlock()
	if e.closed.Load() {
		return nil, ErrFinalized
	}
	return &Comm{g: enterMessaging(parent, members, chosen), ctx: c.ctx}, nil
}

// enterMessaging makes the communicator of some ranks of this one, which have agreed on its number. The caller has the engine's lock.
func enterMessaging(g *group, members []int, number uint32) *group {
	e := g.e
	of := &group{e: e, me: slices.Index(members, g.me), n: len(members), number: number}
	for _, rank := range members {
		of.pes = append(of.pes, g.pe(rank))
	}
	of.ranks = rankTable(e, of.pes)
	inherit(of, g)
	e.enter(of)
	return of
}

// newSelf makes the communicator of this process alone.
func (e *engine) newSelf() *group {
	g := &group{e: e, self: true, n: 1, pes: []layout.PE{e.me}}
	g.ranks = rankTable(e, g.pes)
	e.mu.Lock()
	defer e.unlock()
	for reserved := false; !reserved; reserved = e.reserve(g.number) {
		e.numbers.proposed++
		g.number = e.numbers.proposed*layout.MaxTeams + messagingID
	}
	e.enter(g)
	return g
}

// agreeNumber returns the number of a new communicator of some ranks, which is reserved here. All of them call it, with the number tag of the collective.
func agreeNumber(ctx context.Context, parent *group, op string, members []int, tag int) (uint32, error) {
	x := newSubset(parent, op, members, tag)
	numbers, err := agreeNumbers(ctx, &x, 1)
	if err != nil && numbers != nil { // others may have made the communicator, and would wait for this rank
		parent.e.mu.Lock()
		x.tell(numbers[0], noticeLeft, parcel{})
		parent.e.unlock()
	}
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// agreeNumbers is agreeNumber for several communicators. After an error, numbers has those that other ranks may have: they are not reserved here.
func agreeNumbers(ctx context.Context, x *subset, count int) (numbers []uint32, err error) {
	e := x.parent.e
	for round := uint64(0); ; round += 2 {
		e.mu.Lock()
		e.numbers.proposed++
		mine := uint64(e.numbers.proposed)
		e.unlock()
		all, err := x.gather(ctx, round, mine)
		if err != nil {
			return nil, err
		}
		chosen := slices.Max(all)
		if chosen+uint64(count) > numbersMost {
			return nil, errNumbers(x.op)
		}
		numbers = numbers[:0]
		for i := range uint32(count) {
			numbers = append(numbers, (uint32(chosen)+i)*layout.MaxTeams+messagingID)
		}
		mine = 1
		e.mu.Lock()
		e.numbers.proposed = max(e.numbers.proposed, uint32(chosen)+uint32(count)-1)
		for _, number := range numbers { // if the first one can be reserved, all can
			if !e.reserve(number) {
				mine = 0
			}
		}
		e.unlock()
		all, err = x.gather(ctx, round+1, mine)
		if err == nil && !slices.Contains(all, 0) {
			return numbers, nil
		}
		if mine == 1 {
			e.mu.Lock()
			for _, number := range numbers {
				e.release(number)
			}
			e.unlock()
		}
		if err != nil {
			return numbers, err
		}
	}
}

// reserve reserves the number of a communicator. It returns false if that is not greater than all that were reserved before: so no number is used twice,
// and nothing that comes late meets a later communicator.
func (m *matcher) reserve(number uint32) bool {
	if number <= m.numbers.reserved {
		return false
	}
	m.numbers.reserved = number
	for _, n := range numbersOf(number) {
		m.future[n] = new(queue)
	}
	return true
}

// numbersOf returns the numbers in messages of a communicator.
func numbersOf(number uint32) [4]uint32 {
	return [...]uint32{number, number | hiddenComm, number | agreeingComm, number | partitionedComm}
}

// release ends what reserve has done.
func (m *matcher) release(number uint32) {
	for _, n := range numbersOf(number) {
		m.dropAll(m.future[n])
		delete(m.future, n)
	}
}

// gatherAll gives the words of each rank of a communicator without a team to all of them.
func gatherAll(ctx context.Context, g *group, op string, mine *coll.Words, all []coll.Words) error {
	x := gatherCall(op, sched.Allgather(g.n, g.me, sched.Regular(g.n, int(unsafe.Sizeof(*mine)))), mine, all)
	s := &schedule{}
	g.e.job.Waiter.Beat()
	g.e.mu.Lock()
	g.collectives.count(s, x)
	r, err := g.collectives.execute(x, s)
	g.e.unlock()
	if err == nil {
		_, err = r.finish(ctx)
	}
	return g.reportDeath(err)
}

func gatherCall(op string, plan *sched.Plan, mine *coll.Words, all []coll.Words) *call {
	return &call{op: op, kind: ofWords, plan: plan, src: unsafe.Pointer(mine), dst: unsafe.Pointer(unsafe.SliceData(all))}
}

// freeMessaging is Free of a communicator without a team.
func freeMessaging(c *Comm, op string) error {
	x, err := describeBarrier(c, op)
	if err == nil {
		var r *request
		if r, err = startCall(c.g, x); err == nil {
			_, err = r.finish(c.ctx)
		}
	}
	if err != nil && !errors.Is(err, ErrFreed) {
		c.g.e.mu.Lock()
		c.g.tell(noticeLeft)
		c.g.e.unlock()
	}
	c.g.markFreed(err == nil)
	switch {
	case err == nil || permitsLeaving(err):
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), c.ctx != nil && c.ctx.Err() != nil:
		return fmt.Errorf("%w; this rank has freed the communicator; hint: do not call Free again", err)
	}
	return err
}

// tell tells the other ranks of the communicator something. The caller has the engine's lock.
func (g *group) tell(what int32) {
	for rank := range g.pes {
		g.tellOne(rank, what, parcel{})
	}
}

// tellOne tells another rank something. The caller has the engine's lock.
func (g *group) tellOne(rank int, what int32, body parcel) {
	if pe := g.pe(rank); pe != g.e.me && !g.e.isDead(pe) {
		g.e.sendPacket(g.e.laneTo(pe), &packet{kind: kindNotice, match: matchOf(g.number, what), size: sizeOf(g.me, 0), body: body})
	}
}
