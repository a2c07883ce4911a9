package shmem_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// shaped is a collective on data as the tests of lengths see it. A count n is that of the
// specification: nelems of one PE, or of one block.
type shaped struct {
	name    string
	gives   func(n, npes int) int // elements of src
	needs   func(n, npes int) int // elements of dst that the collective may write
	inPlace bool
	call    func(t *shmem.Team, dst, src shmem.Sym[int64], n int) error
	// want returns what element i of dst becomes on PE me when these PEs contribute; false: as it was.
	want func(pes []int, me, n, i int) (int64, bool)
}

// given is element i of PE pe's source.
func given(pe, i int) int64 { return int64(pe+1)*1_000_000 + int64(i) }

// added returns the sum of element i over those PEs that count.
func added(pes []int, i int, counts func(pe int) bool) (sum int64) {
	for _, pe := range pes {
		if counts(pe) {
			sum += given(pe, i)
		}
	}
	return sum
}

func one(n, _ int) int       { return n }
func each(n, npes int) int   { return n * npes }
func spread(n, npes int) int { return max(0, 2*n*npes-1) }

// gathered is what FCollect writes: blocks of the dead stay as they were.
func gathered(pes []int, _, n, i int) (int64, bool) {
	return given(i/n, i%n), slices.Contains(pes, i/n)
}

func exchanged(pes []int, me, n, i int) (int64, bool) {
	return given(i/n, me*n+i%n), slices.Contains(pes, i/n)
}

var shapedCollectives = []shaped{
	{
		"Broadcast", one, one, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Broadcast(t, dst, src, 0) },
		func(_ []int, _, _, i int) (int64, bool) { return given(0, i), true },
	},
	{
		"Reduce", one, one, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error {
			return shmem.Reduce(t, dst, src, shmem.Sum)
		},
		func(pes []int, _, _, i int) (int64, bool) {
			return added(pes, i, func(int) bool { return true }), true
		},
	},
	{
		"SumInScan", one, one, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.SumInScan(t, dst, src) },
		func(pes []int, me, _, i int) (int64, bool) {
			return added(pes, i, func(pe int) bool { return pe <= me }), true
		},
	},
	{
		"SumExScan", one, one, true,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.SumExScan(t, dst, src) },
		func(pes []int, me, _, i int) (int64, bool) {
			return added(pes, i, func(pe int) bool { return pe < me }), true
		},
	},
	{
		"FCollect", one, each, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.FCollect(t, dst, src) },
		gathered,
	},
	{
		"Collect", one, each, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Collect(t, dst, src) },
		func(pes []int, _, n, i int) (int64, bool) { // the dead leave no gap
			if i/n >= len(pes) {
				return 0, false
			}
			return given(pes[i/n], i%n), true
		},
	},
	{
		"Alltoall", each, each, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], _ int) error { return shmem.Alltoall(t, dst, src) },
		exchanged,
	},
	{
		"AlltoallS", each, spread, false,
		func(t *shmem.Team, dst, src shmem.Sym[int64], n int) error {
			return shmem.AlltoallS(t, dst, src, shmem.Stride{N: n, Dst: 2, Src: 1})
		},
		func(pes []int, me, n, i int) (int64, bool) {
			v, written := exchanged(pes, me, n, i/2)
			return v, written && i%2 == 0
		},
	},
}

// shapeGuard is in all elements that a collective must not touch.
const shapeGuard = -77

// shapes calls collectives with destinations of all lengths. The elements of both objects but those
// that a call uses hold the guard.
type shapes struct {
	t    *testing.T
	w    *shmem.World
	team *shmem.Team
	pes  []int // that contribute
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

// source returns the n elements of an object from lo on, filled with what this PE gives.
func (s *shapes) source(in shmem.Sym[int64], lo, n int) shmem.Sym[int64] {
	for i := range n {
		in.Local()[lo+i] = given(s.w.MyPE(), i)
	}
	return in.Slice(lo, lo+n)
}

// reset puts the guard everywhere. No PE is in a collective behind it that another PE still writes for.
func (s *shapes) reset() {
	s.t.Helper()
	fillWith(s.x.Local(), shapeGuard)
	fillWith(s.y.Local(), shapeGuard)
	ok(s.t, s.team.Sync())
}

// holds checks an object whose elements from lo on are the destination of a call. Elements for which
// other says so are those of the source.
func (s *shapes) holds(what string, c *shaped, in shmem.Sym[int64], lo, n int, other func(i int) (int64, bool)) {
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

func nowhere(int) (int64, bool) { return 0, false }

// sourceAt says what the n elements of this PE's source from lo on hold.
func (s *shapes) sourceAt(lo, n int) func(i int) (int64, bool) {
	return func(i int) (int64, bool) { return given(s.w.MyPE(), i-lo), i >= lo && i < lo+n }
}

// longEnough calls c with destinations that are as long as needed, and longer.
func (s *shapes) longEnough(c *shaped, n int) {
	s.t.Helper()
	gives, needs := c.gives(n, s.w.NPEs()), c.needs(n, s.w.NPEs())
	for _, more := range []int{0, 1, 5, 5 * (1 + s.w.MyPE()), 1500} { // the same on all PEs, and not
		s.reset()
		src, dst := s.source(s.x, 3, gives), s.y.Slice(2, 2+needs+more)
		ok(s.t, c.call(s.team, dst, src, n))
		s.holds(fmt.Sprintf("with %d elements more", more), c, s.y, 2, n, nowhere)
		if s.reset(); c.name == "Collect" { // which may use all of dst, as no PE knows how much it needs
			continue
		}
		src, dst = s.source(s.y, 2+needs, gives), s.y.Slice(2, 2+needs+more)
		ok(s.t, c.call(s.team, dst, src, n)) // the elements behind the result are those of the source
		s.holds("before its source", c, s.y, 2, n, s.sourceAt(2+needs, gives))
	}
}

// inPlace calls c with a destination that begins where the source begins.
func (s *shapes) inPlace(c *shaped, n int) {
	s.t.Helper()
	for _, more := range []int{0, 1, 700} {
		s.reset()
		src, dst := s.source(s.x, 2, c.gives(n, s.w.NPEs())), s.x.Slice(2, 2+c.needs(n, s.w.NPEs())+more)
		err := c.call(s.team, dst, src, n)
		switch {
		case c.inPlace || n == 0:
			ok(s.t, err)
			s.holds("in place", c, s.x, 2, n, nowhere)
		default:
			refused(s.t, err, shmem.ErrOverlap, "shmem."+c.name, "want disjoint elements")
		}
		if c.inPlace && n > 1 { // one element off
			refused(s.t, c.call(s.team, s.x.Slice(1, 1+n+more), s.x.Slice(2, 2+n), n), shmem.ErrOverlap,
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
			want = "want at least (" // and how many these are made up of
		}
		refused(s.t, c.call(s.team, s.y.Slice(2, 2+has), src, n), shmem.ErrArgument, "shmem."+c.name, "destination", "has "+strconv.Itoa(has)+" elements", want)
		if i := slices.IndexFunc(s.y.Local(), func(v int64) bool { return v != shapeGuard }); i >= 0 {
			s.t.Fatalf("%s of %d into %d elements has written element %d", c.name, n, has, i)
		}
	}
}

// all tries all lengths of the destination for sources of some lengths: in a line, in a slot, beyond slots.
func (s *shapes) all() {
	s.t.Helper()
	for _, n := range []int{0, 1, 3, 100, 1100} {
		for i := range shapedCollectives {
			s.longEnough(&shapedCollectives[i], n)
		}
	}
}

// A collective takes a destination that is longer than its result, whose elements behind the result stay
// as they are, also where PEs pass different lengths; a shorter one is an error that says both lengths.
// So it is where PEs compare what they call.
func TestShapes(t *testing.T) {
	for name, opts := range map[string][]shmemtest.Option{"plain": nil, "checked": checking} {
		for _, npes := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(name, npes), func(t *testing.T) {
				shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
					s := newShapes(t, w)
					s.all()
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

// Comparing PEs take different lengths of the destination for no difference, and find different lengths
// of the source though the destinations have the same.
func TestShapesDiffer(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		s := newShapes(t, w)
		for _, n := range []int{4, 1100} {
			for i := range shapedCollectives {
				c := &shapedCollectives[i]
				if c.name == "Collect" { // takes different lengths
					continue
				}
				for odd := range w.NPEs() {
					mine := n
					if w.MyPE() == odd {
						mine--
					}
					s.reset()
					src := s.source(s.x, 3, c.gives(mine, w.NPEs()))
					refused(t, c.call(s.team, s.y, src, mine), shmem.ErrMismatch, "on PE "+strconv.Itoa(odd)+":")
					if i := slices.IndexFunc(s.y.Local(), func(v int64) bool { return v != shapeGuard }); i >= 0 {
						t.Fatalf("%s has written element %d", c.name, i)
					}
				}
			}
		}
		s.all() // the team goes on
		ok(t, w.Barrier())
	}, checking...)
}

// Survivors of a tolerant team pass longer destinations as well.
func TestShapesAfterDeath(t *testing.T) {
	const npes, victim = 4, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		s := newShapes(t, w)
		ok(t, w.Barrier())
		if w.MyPE() == victim {
			dieWhen(w, 0, 1, 3)
		}
		ok(t, s.team.Sync()) // in which it dies
		s.pes = slices.Delete(s.pes, victim, victim+1)
		s.all()
		for i := range shapedCollectives {
			if c := &shapedCollectives[i]; c.inPlace {
				s.inPlace(c, 100)
				s.inPlace(c, 1100)
			}
		}
		ok(t, w.Barrier())
	}, shmemtest.Recover(victim))
}
