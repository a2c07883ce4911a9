package explore

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
)

// Check checks what agreements promise:
//
//   - All members that return from a round return the same.
//   - The vote of each living member counts once, and no vote counts twice.
//   - All members that are listed are dead. All members that are not counted are listed, and so are
//     all that voters knew to be dead.
//   - A round is UNDECIDED only if its coordinator is dead.
//   - All living members return, or all are stuck in one round of two-phase commit in which all of them
//     have voted.
//   - Without failures the number of messages is as promised.
func (s *Agree) Check(g *Group) error {
	for p, m := range g.Members {
		a, ok := m.(*agreeMember)
		if !ok || a == nil {
			continue
		}
		for i := range a.results {
			if !g.Final && (p != g.Who || i < len(a.results)-1) {
				continue
			}
			if err := s.checkDecision(g, p, i, &a.results[i]); err != nil {
				return err
			}
		}
	}
	if g.Final {
		return s.checkEnds(g)
	}
	return nil
}

// checkDecision checks what member p has returned from round i.
func (s *Agree) checkDecision(g *Group, p, i int, d *agree.Decision) error {
	if d.Seq != uint64(i+1) || !slices.IsSorted(d.Failed) {
		return fmt.Errorf("round %d: %d returns from %d with %v", i+1, p, d.Seq, d.Failed)
	}
	if d.Outcome == agree.Undecided {
		if c := s.coordinator(g.Members[p], i); s.Config.Algorithm == agree.EarlyReturning || !g.IsDead(c) {
			return fmt.Errorf("round %d: %d is undecided, coordinator %d", i+1, p, c)
		}
	}
	for q, m := range g.Members {
		if a, ok := m.(*agreeMember); ok && a != nil && len(a.results) > i && (!g.IsDead(q) && !g.IsDead(p) || s.uniform()) {
			if o := &a.results[i]; o.Outcome != d.Outcome || o.Vote != d.Vote || !slices.Equal(o.Failed, d.Failed) {
				return fmt.Errorf("round %d: %d has %+v, %d has %+v", i+1, p, *d, q, *o)
			}
		}
		if d.Outcome == agree.Undecided {
			continue
		}
		count, listed := d.Payload[q], slices.Contains(d.Failed, agree.Node(q))
		if count > 1 || (count == 1) != (d.Flags>>q&1 == 0) || count == 0 && !listed || listed && !g.IsDead(q) {
			return fmt.Errorf("round %d: %d counts %d %d times, lists %v, flags %x", i+1, p, q, count, d.Failed, d.Flags)
		}
		if a, ok := m.(*agreeMember); ok && a != nil && count == 1 && i < len(a.brought) && a.brought[i]&^setOf(d.Failed) != 0 {
			return fmt.Errorf("round %d: %d lists %v, voter %d brought %v", i+1, p, d.Failed, q, list(a.brought[i]))
		}
	}
	return nil
}

// coordinator returns the coordinator of round i by the rounds that member m has returned from: the first
// member that the tree has not left out.
func (s *Agree) coordinator(m Member, i int) int {
	a, ok := m.(*agreeMember)
	if !ok {
		return 0
	}
	gone := uint64(0)
	for j := range i {
		switch d := &a.results[j]; {
		case d.Outcome == agree.Undecided:
			gone |= gone + 1
		case s.Config.Rebalance:
			gone |= setOf(d.Failed)
		}
	}
	return bits.TrailingZeros64(^gone)
}

// checkEnds checks the end of a run.
func (s *Agree) checkEnds(g *Group) error {
	living, stuck, blocked, least, most := 0, 0, 0, s.Rounds, 0
	for p, m := range g.Members {
		if g.IsDead(p) {
			continue
		}
		a, ok := m.(*agreeMember)
		if !ok {
			return fmt.Errorf("member %d is %T", p, m)
		}
		living++
		if len(a.results) < s.Rounds {
			stuck++
			if a.voted != len(a.results)+1 && s.Config.Algorithm != agree.EarlyReturning {
				return fmt.Errorf("%d is stuck in round %d, in which it has not voted", p, len(a.results)+1)
			}
		}
		least, most = min(least, len(a.results)), max(most, len(a.results))
		if a.blocked {
			blocked++
		}
	}
	if stuck > 0 && (blocked == 0 || stuck < living || least < most || s.Config.Promote || s.Config.Algorithm == agree.EarlyReturning) {
		return fmt.Errorf("%d of %d never return, %d are blocked", stuck, living, blocked)
	}
	sweeps := 2
	if s.Config.Durable {
		sweeps = 4
	}
	if want := sweeps * (s.Config.N - 1) * s.Rounds; g.Faultless && g.Sent != want {
		return fmt.Errorf("%w: %d, want %d", ErrCost, g.Sent, want)
	}
	return nil
}
