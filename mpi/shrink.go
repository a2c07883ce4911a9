package mpi

import (
	"context"
	"errors"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Shrink makes a communicator of the ranks that live, in their order, whoever dies meanwhile. All of them get it, or none. A rank that dies at the end of
// the call may be in it. Shrink works on every communicator: also on one that is broken or revoked.
//
//   - Errors: *UsageError; ErrRankFinalized for a rank that has finalized or freed the communicator; ErrCommBroken when another rank has given this call
//     up; the end of c's context.
//   - Cost: two agreements. It starts again when a rank dies between them.
//   - Collective: over the ranks that live.
//   - Source: MPIX_Comm_shrink.
func (c *Comm) Shrink() (*Comm, error) {
	const op = "Comm.Shrink"
	if err := usableIfRevoked(c, op); err != nil {
		return nil, err
	}
	g := c.g
	if g.t != nil && g.upper == nil {
		of, err := shrinkTeam(c.ctx, g)
		switch {
		case err == nil:
			g.e.mu.Lock()
			inherit(of, g)
			g.e.unlock()
			return &Comm{g: of, ctx: c.ctx}, nil
		case !errors.Is(err, coll.ErrNoID):
			return nil, handled(g, g.failUnrevoked(op, err))
		}
	}
	s := startShrink(g, op, &Comm{ctx: c.ctx}, false)
	if err := s.finish(c.ctx); err != nil {
		return nil, handled(g, err)
	}
	return s.of, nil
}

// finish waits for a Shrink in messages. At the end of ctx this rank gives it up.
func (s *shrinking) finish(ctx context.Context) error {
	if err := s.r.await(ctx); err != nil {
		s.g.e.mu.Lock()
		if !s.r.isDone() {
			s.gaveUp, s.r.rare, s.r.detached = true, true, true
			s.g.e.unlock()
			return err
		}
		s.g.e.unlock()
	}
	_, err := s.r.takeOutcome()
	if err == nil {
		var dead []int
		for _, rank := range s.dead {
			dead = append(dead, int(rank))
		}
		awaitNews(s.g, dead) // so that Failed has them
	}
	return err
}

// Ishrink begins a Shrink. The communicator must not be used before the request is complete. It has no shared memory for collectives.
//
//   - Errors: as Shrink, from Wait.
//   - Concurrent calls: allowed; all ranks call Ishrink in the same order, and Shrink among them where the communicator has no shared memory.
//   - Collective: over the ranks that live.
//   - Source: MPIX_Comm_ishrink.
func (c *Comm) Ishrink() (*Comm, Request, error) {
	const op = "Comm.Ishrink"
	if err := usableIfRevoked(c, op); err != nil {
		return nil, Request{}, err
	}
	s := startShrink(c.g, op, &Comm{ctx: c.ctx}, false)
	return s.of, s.r.handle(c.ctx), nil
}

// shrinking is a Shrink in messages. In the first vote the ranks agree who has died, and on a number. In the second one they agree that all others have
// reserved it, and that nobody has died meanwhile. Otherwise they try again. The engine's lock guards it.
type shrinking struct {
	g      *group
	of     *Comm // whose group it sets
	r      *request
	gaveUp bool // its caller waits no more
	inner  bool // of Validate: the communicator is for the collectives of g

	second bool // the second vote is cast
	dead   []agree.Node
	number uint32
	flags  uint64 // of the second vote
}

// The flags of the second vote of a Shrink in messages.
const (
	shrinkReserved = 1 << iota // this rank has reserved the number
	shrinkGoesOn               // this rank has not given up
)

// startShrink begins a Shrink in messages, which sets the group of a communicator.
func startShrink(g *group, op string, of *Comm, inner bool) *shrinking {
	s := &shrinking{g: g, of: of, inner: inner}
	g.e.mu.Lock()
	vote := s.proposal()
	g.e.unlock()
	call := &agreeCall{vote: vote, next: s.next}
	s.r = g.agreeing.agreement.start(op, lineShrink, call)
	return s
}

// proposal returns the first vote.
func (s *shrinking) proposal() agree.Vote {
	s.second = false
	s.g.e.numbers.proposed++
	return newVote(0, 0, uint64(s.g.e.numbers.proposed))
}

// next goes on after a vote.
func (s *shrinking) next(d *agree.Decision) (vote agree.Vote, again bool) {
	a, e := s.g.agreeing.agreement, s.g.e
	r := a.lines[lineShrink].calls[0].r
	if !s.second {
		chosen := proposalOf(&d.Vote)
		if chosen >= numbersMost {
			e.complete(r, errNumbers(r.op))
			return vote, false
		}
		s.second, s.dead, s.number, s.flags = true, d.Failed, uint32(chosen)*layout.MaxTeams+messagingID, 0
		e.numbers.proposed = max(e.numbers.proposed, uint32(chosen))
		if e.reserve(s.number) {
			s.flags |= shrinkReserved
		}
		if !s.gaveUp {
			s.flags |= shrinkGoesOn
		}
		return newVote(s.flags, 0, 0), true
	}
	if d.Flags == shrinkReserved|shrinkGoesOn && slices.Equal(d.Failed, s.dead) {
		s.enter()
		e.complete(r, nil)
		return vote, false
	}
	if s.flags&shrinkReserved != 0 {
		e.release(s.number)
	}
	if d.Flags&shrinkGoesOn == 0 {
		e.complete(r, givenUpError(r.op))
		return vote, false
	}
	return s.proposal(), true
}

// enter makes the communicator of the ranks that live. If nobody waits for it, the others are told.
func (s *shrinking) enter() {
	var members, dead []int
	for rank := range s.g.n {
		if slices.Contains(s.dead, agree.Node(rank)) {
			dead = append(dead, rank)
		} else {
			members = append(members, rank)
		}
	}
	if s.inner {
		if former := s.g.validated.Load(); len(dead) == 0 || former != nil && slices.Equal(former.dead, dead) {
			s.g.e.release(s.number)
			return
		}
		recognize(s.g, enterMessaging(s.g, members, s.number), members, dead)
		return
	}
	s.of.g = enterMessaging(s.g, members, s.number)
	if s.gaveUp {
		s.of.g.tell(noticeLeft)
		markFreedLocked(s.of.g, false)
	}
}

// shrinkTeam is Shrink of a communicator whose ranks share memory. The votes that make the team find the communicator's number, too: it is above
// all that a rank has known.
func shrinkTeam(ctx context.Context, g *group) (*group, error) {
	e := g.e
	n := coll.Numbering{
		Known: func() uint64 {
			e.mu.Lock()
			defer e.unlock()
			return uint64(e.numbers.latestCount())
		},
		IsTaken: func(id int, number uint64) bool {
			e.mu.Lock()
			defer e.unlock()
			return uint64(e.numbers.latest(id)/layout.MaxTeams) >= number
		},
	}
	t, err := coll.NumberedSurvivors(ctx, g.t, func(ctx context.Context, flags uint64) (uint64, []int, error) {
		a, err := coll.Agree(ctx, g.t, flags)
		return a.Flags, a.Failed, err
	}, false, &n)
	e.mu.Lock()
	e.numbers.claimed = max(e.numbers.claimed, uint32(min(n.Number, numbersMost))) // also if it fails here: others may have made it
	if err != nil && n.Number > 0 && n.Number < numbersMost {
		e.dropFuture(numberOf(uint32(n.Number), n.ID))
	}
	e.unlock()
	if err != nil {
		return nil, err
	}
	of := e.groupOf(t, nil)
	of.number = numberOf(uint32(n.Number), t.ID())
	if n.Number >= numbersMost {
		err = errNumbers("Comm.Shrink")
	} else {
		err = e.enterOpen(of)
	}
	if err != nil {
		t.Leave()
		t.Release()
		return nil, err
	}
	return of, nil
}
