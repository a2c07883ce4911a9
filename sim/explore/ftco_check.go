package explore

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// Check checks P1 to P4 for the calls that have returned so far. That finds no less than a check at the
// end: a run may always go on without further faults.
func (s *FTCO) Check(g *Group) error {
	first := 0
	if !g.Final { // the calls before were checked when they returned
		first = g.Members[g.Who].Returned() - 1
	}
	for i := first; i < len(s.Sequence); i++ {
		if err := s.checkCall(g, i); err != nil {
			return fmt.Errorf("call %d, %s: %w", i+1, callText(s.Sequence[i]), err)
		}
	}
	if g.Final && g.Faultless {
		if want := s.cost(); g.Sent != want {
			return fmt.Errorf("%w: %d, want %d", ErrCost, g.Sent, want)
		}
	}
	return nil
}

// cost returns the number of messages of all calls without faults.
func (s *FTCO) cost() int {
	sweeps, loose := 0, 0
	for _, c := range s.Sequence {
		sweeps += 2
		if c.Uniform {
			sweeps += 2
		}
		if loose++; c.Kind == ftco.Bcast && loose < 8 {
			sweeps--
		} else {
			loose = 0
		}
	}
	return sweeps * (s.Size - 1)
}

// checkCall checks all results of call i.
func (s *FTCO) checkCall(g *Group, i int) error {
	var first *result
	who := 0
	for p, m := range g.Members {
		f, ok := m.(*ftcoMember)
		if !ok || f == nil || i >= len(f.results) {
			if g.Final && !g.IsDead(p) {
				return fmt.Errorf("%w: member %d", ErrHang, p)
			}
			continue
		}
		if g.IsDead(p) && !s.Sequence[i].Uniform {
			continue
		}
		r := &f.results[i]
		if g.Final || p == g.Who {
			if err := s.checkResult(g, i, p, r); err != nil {
				return err
			}
		}
		if first == nil {
			first, who = r, p
		} else if r.missing != first.missing || r.failed != first.failed || r.fails != first.fails ||
			s.Sequence[i].Kind != ftco.Reduce && (r.value != first.value || r.has != first.has) {
			return fmt.Errorf("%w: member %d %s, member %d %s", ErrAgree, who, resultOf(g, who, i), p, f.Result(i))
		}
	}
	return nil
}

// resultOf describes a result of member p.
func resultOf(g *Group, p, call int) string { return g.Members[p].Result(call) }

// checkResult checks the result of call i at member p.
func (s *FTCO) checkResult(g *Group, i, p int, r *result) error {
	call := s.Sequence[i]
	all := ^uint64(0) >> (64 - s.Size)
	living := all &^ g.Dead
	if r.failed&living != 0 || r.failed&^all != 0 || r.missing&^r.failed != 0 {
		return fmt.Errorf("%w: at member %d failed%v missing%v, living%v", ErrValid, p, list(r.failed), list(r.missing), list(living))
	}
	if r.fails != (call.Strict && r.failed != 0) {
		return fmt.Errorf("%w: member %d fails=%v, a strict call fails if a member was dead", ErrAgree, p, r.fails)
	}
	if r.missing&living != 0 {
		return fmt.Errorf("%w: at member %d missing%v, living%v", ErrValid, p, list(r.missing), list(living))
	}
	switch call.Kind {
	case ftco.Barrier:
		if r.has {
			return fmt.Errorf("%w: member %d gets a value from a barrier", ErrOnce, p)
		}
	case ftco.Bcast:
		lost := r.missing>>call.Root&1 != 0
		if r.has == lost || r.has && r.value != leaf(int(call.Root)) {
			return fmt.Errorf("%w: member %d has value%v (%v), root missing: %v", ErrOnce, p, r.value, r.has, lost)
		}
	case ftco.Reduce:
		if r.has != (p == int(call.Root)) {
			return fmt.Errorf("%w: member %d gets a value: %v, root is %d", ErrOnce, p, r.has, call.Root)
		}
		if r.has {
			return s.checkValue(call, p, r)
		}
	default:
		if !r.has {
			return fmt.Errorf("%w: member %d gets no value", ErrOnce, p)
		}
		return s.checkValue(call, p, r)
	}
	return nil
}

// checkValue checks the value of a reduction at member p.
func (s *FTCO) checkValue(call ftco.Call, p int, r *result) error {
	all := ^uint64(0) >> (64 - s.Size)
	if r.value.twice != 0 || r.value.has != all&^r.missing {
		return fmt.Errorf("%w: member %d has%v, missing%v", ErrOnce, p, r.value, list(r.missing))
	}
	if want := s.expression(call, r.value.has); r.value != want {
		return fmt.Errorf("%w: member %d, contributors%v", ErrAssoc, p, r.value)
	}
	return nil
}

// expression returns the contributions of set, combined by the tree: a node's own, then its children's
// in ascending order. The children of a missing node stand in for it.
func (s *FTCO) expression(call ftco.Call, set uint64) value {
	key := expressionKey{call.Root, set}
	if v, ok := s.known[key]; ok {
		return v
	}
	t, err := tree.NewKnomial(s.Size, s.Radix)
	if err != nil {
		return value{} // cannot be: the machines have such a tree
	}
	var sum func(v int32) value
	sum = func(v int32) value {
		acc := value{}
		if p := (int(v) + int(call.Root)) % s.Size; set>>p&1 != 0 {
			acc = leaf(p)
		}
		for i := range t.Degree(v) {
			switch part := sum(t.Child(v, i)); {
			case part.has == 0:
			case acc.has == 0:
				acc = part
			default:
				acc = acc.with(part)
			}
		}
		return acc
	}
	if s.known == nil {
		s.known = map[expressionKey]value{}
	}
	s.known[key] = sum(0)
	return s.known[key]
}

// expressionKey is what an expression depends on.
type expressionKey struct {
	root ftco.Node
	set  uint64
}
