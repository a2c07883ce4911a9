package board

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// explorer visits every state of a model once.
type explorer struct {
	m     *model
	seen  map[[2]uint64]struct{}
	seeds [2]maphash.Seed
	path  []event
	err   error
	ends  int
}

// event is what happened. It becomes text only when a failure is reported.
type event struct {
	what string
	p    int
	to   *at // where a member has gone on to; nil: something else has happened to it
}

func (e event) String() string {
	if e.to != nil {
		return fmt.Sprint(e.p, " goes on to ", *e.to)
	}
	return fmt.Sprint(e.what, e.p)
}

func explore(m *model, deaths int) *explorer {
	x := &explorer{m: m, seen: map[[2]uint64]struct{}{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	s := state{deaths: uint8(deaths)}
	x.visit(&s)
	return x
}

func (x *explorer) visit(s *state) {
	key := [2]uint64{maphash.Comparable(x.seeds[0], *s), maphash.Comparable(x.seeds[1], *s)}
	if _, known := x.seen[key]; known || x.err != nil {
		return
	}
	x.seen[key] = struct{}{}
	moved := false
	for p := range x.m.n {
		bit := uint8(1) << p
		if s.dead&bit != 0 {
			if s.when[p] == 0 {
				next := *s
				next.epoch++
				next.when[p] = next.epoch
				for i := range next.at {
					next.at[i].asleep = false // the step wakes all members
				}
				x.visitNext(&next, event{"the step publishes the death of ", p, nil}, nil)
				moved = true
			}
			continue
		}
		next := *s
		ok, err := x.m.step(&next, p)
		if ok {
			x.visitNext(&next, event{"", p, &next.at[p]}, err)
			moved = true
		}
		if s.deaths > 0 && bits.OnesCount8(s.dead) < x.m.n-1 && (ok || s.at[p].asleep) && int(s.at[p].op) < len(x.m.prog) {
			next := *s
			next.deaths--
			next.dead |= bit
			next.at[p] = at{}
			x.visitNext(&next, event{"dead: member ", p, nil}, nil)
		}
	}
	if !moved {
		x.ends++
		if err := x.m.final(s); err != nil {
			x.fail(err)
		}
	}
}

func (x *explorer) visitNext(s *state, what event, err error) {
	if x.err != nil {
		return
	}
	x.path = append(x.path, what)
	if err != nil {
		x.fail(err)
	} else {
		x.visit(s)
	}
	x.path = x.path[:len(x.path)-1]
}

func (x *explorer) fail(err error) {
	words := make([]string, len(x.path))
	for i, e := range x.path {
		words[i] = e.String()
	}
	x.err = fmt.Errorf("%w, after:\n%s", err, strings.Join(words, "\n"))
}

// scenario is explored with the real protocol and with its mutants.
type scenario struct {
	n, deaths int
	prog      []uint8
}

var scenarios = []scenario{
	{2, 1, []uint8{exchange, broadcast, broadcast, broadcast}},
	{2, 1, []uint8{reduction, exchange, reduction}},
	{3, 2, []uint8{exchange, exchange, exchange}},
	{3, 2, []uint8{broadcast, broadcast, broadcast}},
	{3, 1, []uint8{broadcast, broadcast1, broadcast, exchange}},
	{3, 2, []uint8{agreement, agreement}},
	{3, 1, []uint8{reduction, exchange}},
	{3, 2, []uint8{reduction}},
	{4, 2, []uint8{exchange}},
	{4, 2, []uint8{agreement}},
	{4, 1, []uint8{broadcast, broadcast, broadcast}},
	{5, 1, []uint8{exchange}},
}

// TestExplore explores all orders of members' moves, deaths and publications.
func TestExplore(t *testing.T) {
	for _, s := range scenarios {
		t.Run(fmt.Sprintf("%d members, %d deaths, %v", s.n, s.deaths, s.prog), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && s.n > 3 {
				t.Skip("takes seconds")
			}
			if s.n > 2 {
				testenv.SkipSerial(t)
			}
			x := explore(&model{correctRules(), s.n, s.prog}, s.deaths)
			t.Logf("%d states, %d ends", len(x.seen), x.ends)
			if x.err != nil {
				t.Error(x.err)
			}
		})
	}
}

// mutants are plausible mistakes in the protocol.
var mutants = []struct {
	name   string
	change func(r *rules)
}{
	{"a word that was read before the news of a death counts as the last one", func(r *rules) { r.stale = true }},
	{"contributors are the members that are not known to be dead", func(r *rules) {
		r.present = func(known, in uint8) uint8 { return in &^ known }
	}},
	{"a slot is written one step early", func(r *rules) {
		r.free = func(c *Cells, seq uint64, p Place) uint64 { return max(c.Occupy(seq, p), 1) - 1 }
	}},
	{"a part is made again with the contributions of the living only", func(r *rules) {
		r.makeFrom = func(_, second uint8) uint8 { return second }
	}},
	{"pieces are pushed without a log", func(r *rules) {
		r.recover = func(word uint64, piece int) Means {
			if word >= Pushed(piece) {
				return Have
			}
			return Make
		}
	}},
	{"what was pushed is not recognized", func(r *rules) { r.recover = func(uint64, int) Means { return Make } }},
	{"a piece is called logged before it is", func(r *rules) { r.saysFirst = true }},
	{"a piece is called pushed before it is", func(r *rules) { r.saysPushed = true }},
	{"a result made aside is installed at once", func(r *rules) { r.hasty = true }},
	{"a survivor that has made the missing parts does not wait for the others", func(r *rules) { r.early = true }},
	{"a member that enters does not look for deaths before it rings", func(r *rules) { r.blind = true }},
	{"an agreement lists the deaths that a member knows of", func(r *rules) {
		r.failed = func(_, known uint8, _ *[maxMembers]uint8) uint8 { return known }
	}},
}

// TestMutants: the exploration finds each mistake.
func TestMutants(t *testing.T) {
	testenv.SkipSerial(t)
	for _, mt := range mutants {
		t.Run(mt.name, func(t *testing.T) {
			r := correctRules()
			mt.change(&r)
			for _, s := range scenarios[:8] {
				if x := explore(&model{r, s.n, s.prog}, s.deaths); x.err != nil {
					what, _, _ := strings.Cut(x.err.Error(), "\n")
					t.Logf("%d members, %d deaths, %v: %s %d moves", s.n, s.deaths, s.prog, what, strings.Count(x.err.Error(), "\n"))
					return
				}
			}
			t.Error("the exploration does not find this mistake")
		})
	}
}
