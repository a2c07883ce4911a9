package shmem_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// shaped is a collective on data, as the length tests see it. The count n is that of the
// specification: nelems of one PE, or of one block.
type shaped struct {
	name    string
	gives   func(n, npes int) int // elements of dst that the collective may write
	needs   func(n, npes int) int // elements of dst that the collective may write
	inPlace bool
	call    func(t *shmem.Team, dst, src shmem.Sym[int64], n int) error
	// want returns element i of dst on PE me if these PEs contribute, and false if the element
	// stays unchanged.
	want func(pes []int, me, n, i int) (int64, bool)
}

// sourceElement is element i of PE pe's source.
func sourceElement(pe, i int) int64 { return int64(pe+1)*1_000_000 + int64(i) }

// sumOver adds element i over the PEs that count.
func sumOver(pes []int, i int, counts func(pe int) bool) (sum int64) {
	for _, pe := range pes {
		if counts(pe) {
			sum += sourceElement(pe, i)
		}
	}
	return sum
}

func countOne(n, _ int) int       { return n }
func countEach(n, npes int) int   { return n * npes }
func countSpread(n, npes int) int { return max(0, 2*n*npes-1) }

// wantGathered is what FCollect writes. The blocks of dead PEs stay unchanged.
func wantGathered(pes []int, _, n, i int) (int64, bool) {
	return sourceElement(i/n, i%n), slices.Contains(pes, i/n)
}

func wantExchanged(pes []int, me, n, i int) (int64, bool) {
	return sourceElement(i/n, me*n+i%n), slices.Contains(pes, i/n)
}

var shapedCollectives = []shaped{
	{
		"Broadcast", countOne, countOne, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Broadcast(t, dst, src, 0) },
		func(_ []int, _, _, i int) (int64, bool) { return sourceElement(0, i), true },
	},
	{
		"Reduce", countOne, countOne, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error {
			return shmem.Reduce(t, dst, src, shmem.Sum)
		},
		func(pes []int, _, _, i int) (int64, bool) {
			return sumOver(pes, i, func(int) bool { return true }), true
		},
	},
	{
		"SumInScan", countOne, countOne, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.SumInScan(t, dst, src) },
		func(pes []int, me, _, i int) (int64, bool) {
			return sumOver(pes, i, func(pe int) bool { return pe <= me }), true
		},
	},
	{
		"SumExScan", countOne, countOne, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.SumExScan(t, dst, src) },
		func(pes []int, me, _, i int) (int64, bool) {
			return sumOver(pes, i, func(pe int) bool { return pe < me }), true
		},
	},
	{
		"FCollect", countOne, countEach, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.FCollect(t, dst, src) },
		wantGathered,
	},
	{
		"Collect", countOne, countEach, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Collect(t, dst, src) },
		func(pes []int, _, n, i int) (int64, bool) { // dead PEs leave no gap
			if i/n >= len(pes) {
				return 0, false
			}
			return sourceElement(pes[i/n], i%n), true
		},
	},
	{
		"Alltoall", countEach, countEach, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Alltoall(t, dst, src) },
		wantExchanged,
	},
	{
		"AlltoallS", countEach, countSpread, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], n int) error {
			return shmem.AlltoallS(t, dst, src, shmem.Stride{N: n, Dst: 2, Src: 1})
		},
		func(pes []int, me, n, i int) (int64, bool) {
			v, written := wantExchanged(pes, me, n, i/2)
			return v, written && i%2 == 0
		},
	},
}

// shapeGuard is the value of all elements that a collective must not write.
const shapeGuard = -77

// shapes calls collectives with destinations of all lengths. All elements of both objects that a
// call does not use hold the guard.
type shapes struct {
	t    *testing.T
	w    *shmem.World
	team *shmem.Team
	pes  []int // the contributors
	x, y shmem.Sym[int64]
}

const shapeRoom = 20_000

func newShapes(t *testing.T, w *shmem.World) *shapes {
	s := &shapes{t: t, w: w, team: w.Team(), x: must(shmem.Alloc[int64](w, shapeRoom))(t), y: must(shmem.Alloc[int64](w, shapeRoom))(t)}
	for pe := range w.NPEs() {
		s.pes = append(s.pes, pe)
	}
	return s
}

// source returns n elements of an object from lo on, filled with this PE's contribution.
func (s *shapes) source(in shmem.Sym[int64], lo, n int) shmem.Sym[int64] {
	for i := range n {
		in.Local()[lo+i] = sourceElement(s.w.MyPE(), i)
	}
	return in.Slice(lo, lo+n)
}

// reset writes the guard everywhere. After it, no PE is in a collective into which another PE
// still writes.
func (s *shapes) reset() {
	s.t.Helper()
	fillWith(s.x.Local(), shapeGuard)
	fillWith(s.y.Local(), shapeGuard)
	ok(s.t, s.team.Sync())
}

// check compares all elements of an object. Those from lo on are the destination of a call; those
// for which other returns true are the source.
func (s *shapes) check(what string, c *shaped, in shmem.Sym[int64], lo, n int, other func(i int) (int64, bool)) {
	s.t.Helper()
	need := c.needs(n, s.w.NPEs())
	for i, v := range in.Local() {
		want := int64(shapeGuard)
		written := false
		if i >= lo && i < lo+need {
			var x int64
			if x, written = c.want(s.pes, s.w.MyPE(), n, i-lo); written {
				want = x
			}
		}
		if x, is := other(i); is && !written {
			want = x
		}
		if v != want {
			s.t.Fatalf("%s %s of %d: element %d (%d of the destination, which needs %d) is %d, want %d", c.name, what, n, i, i-lo, need, v, want)
		}
	}
}

func noSource(int) (int64, bool) { return 0, false }

// sourceAt returns the contents of the n elements of this PE's source from lo on.
func (s *shapes) sourceAt(lo, n int) func(i int) (int64, bool) {
	return func(i int) (int64, bool) { return sourceElement(s.w.MyPE(), i-lo), i >= lo && i < lo+n }
}

// longEnough calls c with destinations that are exactly long enough, and with longer ones.
func (s *shapes) longEnough(c *shaped, n int) {
	s.t.Helper()
	gives, needs := c.gives(n, s.w.NPEs()), c.needs(n, s.w.NPEs())
	for _, more := range []int{0, 1, 5, 5 * (1 + s.w.MyPE()), 1500} { // equal on all PEs, and different
		s.reset()
		src, dst := s.source(s.x, 3, gives), s.y.Slice(2, 2+needs+more)
		ok(s.t, c.call(s.team, dst, src, n))
		s.check(fmt.Sprintf("with %d more elements", more), c, s.y, 2, n, noSource)
		if s.reset(); c.name == "Collect" { // Collect may use all of dst, because no PE knows how much it needs
			continue
		}
		src, dst = s.source(s.y, 2+needs, gives), s.y.Slice(2, 2+needs+more)
		ok(s.t, c.call(s.team, dst, src, n)) // the source follows the result
		s.check("before its source", c, s.y, 2, n, s.sourceAt(2+needs, gives))
	}
}

// inPlace calls c with a destination that begins where its source begins.
func (s *shapes) inPlace(c *shaped, n int) {
	s.t.Helper()
	for _, more := range []int{0, 1, 700} {
		s.reset()
		src, dst := s.source(s.x, 2, c.gives(n, s.w.NPEs())), s.x.Slice(2, 2+c.needs(n, s.w.NPEs())+more)
		err := c.call(s.team, dst, src, n)
		switch {
		case c.inPlace || n == 0:
			ok(s.t, err)
			s.check("in place", c, s.x, 2, n, noSource)
		default:
			wantError(s.t, err, shmem.ErrOverlap, "shmem."+c.name, "want disjoint elements")
		}
		if c.inPlace && n > 1 { // off by one element
			wantError(s.t, c.call(s.team, s.x.Slice(1, 1+n+more), s.x.Slice(2, 2+n), n), shmem.ErrOverlap,
				"shmem."+c.name, strconv.Itoa(n)+" elements written", "want disjoint elements or the same offset")
		}
	}
}

// tooShort calls c with destinations that are too short.
func (s *shapes) tooShort(c *shaped, n int) {
	s.t.Helper()
	needs := c.needs(n, s.w.NPEs())
	for _, has := range slices.Compact([]int{0, needs / 2, needs - 1}) {
		if has >= needs || has < 0 {
			continue
		}
		s.reset()
		src := s.source(s.x, 3, c.gives(n, s.w.NPEs()))
		want := "want at least " + strconv.Itoa(needs)
		if c.name == "AlltoallS" {
			want = "want at least (" // followed by the factors of the length
		}
		wantError(s.t, c.call(s.team, s.y.Slice(2, 2+has), src, n), shmem.ErrArgument, "shmem."+c.name, "destination", "has "+strconv.Itoa(has)+" elements", want)
		if i := slices.IndexFunc(s.y.Local(), func(v int64) bool { return v != shapeGuard }); i >= 0 {
			s.t.Fatalf("%s of %d into %d elements wrote element %d, want none written", c.name, n, has, i)
		}
	}
}

// tryAll tries all destination lengths, with sources that fit in a line, in a slot, and in
// neither.
func (s *shapes) tryAll() {
	s.t.Helper()
	for _, n := range []int{0, 1, 3, 100, 1100} {
		for i := range shapedCollectives {
			s.longEnough(&shapedCollectives[i], n)
		}
	}
}

// A collective accepts a destination that is longer than its result and leaves the rest unchanged,
// even if PEs pass different lengths. A shorter one is an error that names both lengths. The same
// holds when PEs compare their calls.
func TestShapes(t *testing.T) {
	for name, opts := range map[string][]shmemtest.Option{"plain": nil, "checked": withChecks} {
		for _, npes := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(name, npes), func(t *testing.T) {
				shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
					s := newShapes(t, w)
					s.tryAll()
					for _, n := range []int{0, 1, 3, 1100} {
						for i := range shapedCollectives {
							s.inPlace(&shapedCollectives[i], n)
							s.tooShort(&shapedCollectives[i], n)
						}
					}
					ok(t, w.Barrier())
				}, opts...)
			})
		}
	}
}

// PEs that compare their calls accept different destination lengths, and notice different source
// lengths even if the destinations are equally long.
func TestShapesDiffer(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		s := newShapes(t, w)
		for _, n := range []int{4, 1100} {
			for i := range shapedCollectives {
				c := &shapedCollectives[i]
				if c.name == "Collect" { // Collect accepts different lengths
					continue
				}
				for odd := range w.NPEs() {
					mine := n
					if w.MyPE() == odd {
						mine--
					}
					s.reset()
					src := s.source(s.x, 3, c.gives(mine, w.NPEs()))
					wantError(t, c.call(s.team, s.y, src, mine), shmem.ErrMismatch, "on PE "+strconv.Itoa(odd)+":")
					if i := slices.IndexFunc(s.y.Local(), func(v int64) bool { return v != shapeGuard }); i >= 0 {
						t.Fatalf("%s wrote element %d, want none written", c.name, i)
					}
				}
			}
		}
		s.tryAll() // the team goes on
		ok(t, w.Barrier())
	}, withChecks...)
}

// Survivors of a tolerant team may pass longer destinations as well.
func TestShapesAfterDeath(t *testing.T) {
	const npes, victim = 4, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		s := newShapes(t, w)
		ok(t, w.Barrier())
		if w.MyPE() == victim {
			dieWhenAsleep(w, 0, 1, 3)
		}
		ok(t, s.team.Sync()) // the victim dies in it
		s.pes = slices.Delete(s.pes, victim, victim+1)
		s.tryAll()
		for i := range shapedCollectives {
			if c := &shapedCollectives[i]; c.inPlace {
				s.inPlace(c, 100)
				s.inPlace(c, 1100)
			}
		}
		ok(t, w.Barrier())
	}, shmemtest.Recover(victim))
}
