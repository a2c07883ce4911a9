package explore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// copyOf copies w into a state of its own.
func copyOf(w *world) *world {
	c := *w
	c.members = make([]Member, w.n)
	for p, m := range w.members {
		switch {
		case m == nil:
		case w.isDead(p):
			c.members[p] = m // never modified
		default:
			c.members[p] = m.Clone()
		}
	}
	c.links = make([][]Message, len(w.links))
	for i, l := range w.links {
		c.links[i] = slices.Clone(l)
	}
	c.told, c.entered, c.own = slices.Clone(w.told), slices.Clone(w.entered), slices.Clone(w.own)
	c.may = slices.Clone(w.may)
	c.ready = bag{slices.Clone(w.ready.list), slices.Clone(w.ready.at)}
	c.effects, c.before, c.after = nil, nil, nil
	return &c
}

func stateOf(w *world) string {
	b := binary.AppendUvarint(nil, w.dead)
	b = append(b, byte(w.left.Deaths))
	for p, m := range w.members {
		b = binary.AppendUvarint(append(b, 0xfe), w.told[p])
		if m != nil {
			b = m.AppendState(b)
		}
	}
	for _, l := range w.links {
		b = append(b, 0xfd)
		for _, msg := range l {
			b = msg.AppendState(append(b, 0xfc))
		}
	}
	list := slices.Clone(w.ready.list)
	slices.Sort(list)
	return string(fmt.Append(b, list))
}

// endOf describes how a run ended: which members are dead, and what the others returned.
func endOf(g *Group) string {
	text := fmt.Sprint(g.Dead)
	for p, m := range g.Members {
		if g.IsDead(p) {
			continue
		}
		for call := range m.Returned() {
			text += fmt.Sprintf("; %d %s", p, m.Result(call))
		}
	}
	return text
}

// everything searches without any reduction: members die at any time and between any two actions
// of a step, any part of what they had sent is lost at any time, and messages may arrive after the
// news of their sender's death.
type everything struct {
	t         *testing.T
	seen      map[string]bool // nil: states are not recognized, so each schedule is run
	ends      map[string]bool
	schedules int
}

func (e *everything) visit(w *world) {
	if e.seen != nil {
		state := stateOf(w)
		if e.seen[state] {
			return
		}
		e.seen[state] = true
	}
	for slot := range w.ready.at {
		if w.ready.has(slot) {
			c := w.choice(slot)
			e.try(w, c)
			for c.Dies, c.Keep = true, 0; c.Keep < w.n+3; c.Keep++ {
				e.try(w, c)
			}
		}
	}
	for p := range w.n {
		e.try(w, Choice{Kind: Die, P: p})
		for q := range w.n {
			for keep := range len(w.links[q*w.n+p]) {
				e.try(w, Choice{Kind: Cut, P: p, Q: q, Keep: keep})
			}
		}
	}
	if w.isIdle() {
		e.schedules++
		e.ends[endOf(w.group(true))] = true
		if err := w.sys.Check(w.group(true)); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *everything) try(w *world, c Choice) {
	if !w.can(c) {
		return
	}
	next := copyOf(w)
	if err := next.do(c); err != nil {
		e.t.Fatal(err)
	}
	e.visit(next)
}

// TestReductionLosesNothing compares the ends that a search finds with those of a search that
// leaves nothing out.
func TestReductionLosesNothing(t *testing.T) {
	t.Parallel()
	for _, sys := range []*FTCO{
		{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Allreduce}}},
		{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Allreduce, Uniform: true}}},
		{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Reduce, Root: 1}}},
		{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast}}},
		{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast, Uniform: true}}},
		{Size: 4, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Allreduce}}},
		{Size: 4, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast, Uniform: true}}},
		{Size: 2, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast}, {Kind: ftco.Allreduce}}},
	} {
		if testing.Short() && sys.Size > 3 {
			continue
		}
		compareEnds(t, sys, Faults{Deaths: 2})
	}
}

// compareEnds compares the ends that both searches find.
func compareEnds(t *testing.T, sys System, f Faults) {
	t.Helper()
	w, err := newWorld(sys, f)
	if err != nil {
		t.Fatal(err)
	}
	e := &everything{t: t, seen: map[string]bool{}, ends: map[string]bool{}}
	e.visit(w)
	ends := map[string]bool{}
	s := newSearch(t.Context(), sys, f)
	s.onEnd = func(g *Group) { ends[endOf(g)] = true }
	count, failure := s.run()
	if failure != nil {
		t.Fatal(failure)
	}
	t.Logf("%v: %d states without reduction, %d with it; %d ends", sys, len(e.seen), count.States, len(ends))
	if !maps.Equal(ends, e.ends) {
		t.Errorf("%v: got the ends\n%s\nwant\n%s", sys, keys(ends), keys(e.ends))
	}
}

// TestStatesTellAll runs each schedule of small scenarios by itself, without merging states by
// what AppendState writes, and compares the ends.
func TestStatesTellAll(t *testing.T) {
	t.Parallel()
	for _, s := range []Scenario{
		{&FTCO{Size: 2, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Allreduce, Uniform: true}}}, Faults{Deaths: 1}},
		{&FTCO{Size: 2, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast}, {Kind: ftco.Allreduce}}}, Faults{Deaths: 1}},
		{&FTCO{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Allreduce}}}, Faults{}},
		{&FTCO{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Bcast}}}, Faults{Deaths: 1}},
	} {
		if f, ok := s.System.(*FTCO); testenv.Race && ok && f.Size > 2 {
			continue // one goroutine does everything
		}
		w, err := newWorld(s.System, s.Faults)
		if err != nil {
			t.Fatal(err)
		}
		all := &everything{t: t, ends: map[string]bool{}}
		all.visit(copyOf(w))
		merged := &everything{t: t, ends: map[string]bool{}, seen: map[string]bool{}}
		merged.visit(w)
		t.Logf("%v %+v: %d schedules, %d states, %d ends", s.System, s.Faults, all.schedules, len(merged.seen), len(all.ends))
		if !maps.Equal(all.ends, merged.ends) {
			t.Errorf("%v: got the ends\n%s\nwant\n%s", s.System, keys(merged.ends), keys(all.ends))
		}
	}
}

func keys(m map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(m)), "\n") }
