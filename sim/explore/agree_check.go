package explore

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
)

// Check holds agreements to what they promise: all who return from a round return
// the same, every living member's vote counts once and nobody's twice, who is
// listed is dead and who is not counted is listed, and all living members return,
// or all are stuck because two-phase commit blocks.
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

func (s *Agree) checkDecision(g *Group, p, i int, d *agree.Decision) error {
	if d.Outcome == agree.Undecided && s.Config.Algorithm == agree.EarlyReturning {
		return fmt.Errorf("round %d: %d is undecided", i+1, p)
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
	}
	return nil
}

func (s *Agree) checkEnds(g *Group) error {
	living, stuck, blocked := 0, 0, 0
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
		}
		if a.blocked {
			blocked++
		}
	}
	if stuck > 0 && (blocked == 0 || stuck < living || s.Config.Promote || s.Config.Algorithm == agree.EarlyReturning) {
		return fmt.Errorf("%d of %d never return, %d are blocked", stuck, living, blocked)
	}
	return nil
}
