package shmem_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Random one-sided operations of all PEs, checked against a serial model of all memory:
// each PE has a part of every PE's object to itself, so that it knows what it reads
// there, and all PEs play all of them in the model. What commutes is done on elements
// of everybody's.

const (
	serialSpan   = 60 // elements of each actor
	serialShared = 4  // elements behind them that everybody adds to
	serialSteps  = 40 // of each actor between two looks at everything
	serialRounds = 6
)

// serial is an element type's memory, in the model and in the job.
type serial[T comparable] struct {
	t    *testing.T
	w    *shmem.World
	c    *shmem.Ctx
	n    int               // PEs of its team, which are all in some order
	me   int               // this one's number there
	x    shmem.Sym[T]      // serialSpan of each PE, and serialShared
	sig  shmem.Sym[uint64] // two of each PE: set, and added to
	mem  [][]T             // x of each PE
	sigs [][]uint64
	seed uint64
	// more makes one operation that not all types have, or none.
	more func(s *serial[T], rng *rand.Rand, at place)
}

// A place is where an actor works in one step, and whether it is this PE.
type place struct {
	actor, pe, off int // off is from the start of x
	real           bool
}

// serialOf runs one element type on a context of a team, in which all PEs are.
func serialOf[T comparable](t *testing.T, w *shmem.World, team *shmem.Team, seed uint64, more func(*serial[T], *rand.Rand, place)) {
	t.Helper()
	n := w.NPEs()
	c := must(team.NewCtx())(t)
	s := &serial[T]{t: t, w: w, c: c, n: n, me: team.MyPE(), seed: seed, more: more}
	s.x = must(shmem.Calloc[T](w, n*serialSpan+serialShared))(t)
	s.sig = must(shmem.Calloc[uint64](w, 2*n))(t)
	for range n {
		s.mem = append(s.mem, make([]T, s.x.Len()))
		s.sigs = append(s.sigs, make([]uint64, 2*n))
	}
	for round := range serialRounds {
		for actor := range n {
			rng := rand.New(rand.NewPCG(seed, uint64(round*n+actor)))
			for range serialSteps {
				at := place{actor: actor, pe: rng.IntN(n), off: actor*serialSpan + rng.IntN(serialSpan), real: actor == s.me}
				s.step(rng, at)
			}
		}
		what := fmt.Sprintf("round %d of seed %d", round, seed)
		settled(t, w, what, s.x, s.mem[s.me])
		settled(t, w, what+", signals", s.sig, s.sigs[s.me])
	}
	ok(t, c.Destroy())
	ok(t, shmem.Free(w, s.sig))
	ok(t, shmem.Free(w, s.x))
}

// do makes an operation for real, where this PE is the actor, and has it complete.
func (s *serial[T]) do(rng *rand.Rand, at place, op func(c *shmem.Ctx) error) {
	s.t.Helper()
	order := rng.IntN(3)
	if !at.real {
		return
	}
	c := s.c
	if err := op(c); err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	switch order {
	case 0:
		ok(s.t, c.Quiet())
	case 1:
		ok(s.t, c.QuietPE(at.pe))
	default:
		ok(s.t, c.QuietPE(s.me, at.pe, at.pe))
	}
}

// same checks what an operation has returned.
func (s *serial[T]) same(what string, got, want []T) {
	s.t.Helper()
	holds(s.t, fmt.Sprintf("%s of seed %d", what, s.seed), got, want)
}

// step makes one random operation.
func (s *serial[T]) step(rng *rand.Rand, at place) {
	s.t.Helper()
	room := (at.actor+1)*serialSpan - at.off // of the actor's own elements from there on
	n := rng.IntN(room + 1)
	dst, there := s.x.Slice(at.off, s.x.Len()), s.mem[at.pe][at.off:]
	base := int(rng.Uint32() >> 1)
	switch kind := rng.IntN(16); kind {
	case 0, 1:
		src := values[T](at.actor, base, n)
		put := shmem.Put[T]
		if kind == 1 {
			put = shmem.PutNBI[T]
		}
		s.do(rng, at, func(c *shmem.Ctx) error { return put(c, dst, src, at.pe) })
		copy(there, src)
	case 2:
		v := elem[T](at.actor, base)
		s.do(rng, at, func(c *shmem.Ctx) error { return shmem.P(c, dst, v, at.pe) })
		there[0] = v
	case 3, 4:
		stride := randomStride(rng, kind == 4, room)
		src := values[T](at.actor, base, extent(stride.N, stride.Src, stride.Block))
		put := shmem.IPut[T]
		if kind == 4 {
			put = shmem.IBPut[T]
		}
		s.do(rng, at, func(c *shmem.Ctx) error { return put(c, dst, src, stride, at.pe) })
		scatter(there, src, stride)
	case 5, 6:
		s.signaled(rng, at, n, base, kind == 6)
	case 7, 8:
		got := values[T](at.actor, base, n)
		s.do(rng, at, func(c *shmem.Ctx) error {
			if kind == 7 {
				return shmem.Get(c, got, dst, at.pe)
			}
			return fails(waited(shmem.GetNBI(c, got, dst, at.pe)))
		})
		if at.real {
			s.same("get", got, there[:n])
		}
	case 9:
		got := make([]T, 1)
		s.do(rng, at, func(c *shmem.Ctx) (err error) { got[0], err = shmem.G(c, dst, at.pe); return err })
		if at.real {
			s.same("g", got, there[:1])
		}
	case 10, 11:
		stride := randomStride(rng, kind == 11, room)
		stride.Dst, stride.Src = stride.Src, stride.Dst // the model's is the limited one
		got := values[T](at.actor, base, extent(stride.N, stride.Dst, stride.Block))
		want := append([]T(nil), got...)
		get := shmem.IGet[T]
		if kind == 11 {
			get = shmem.IBGet[T]
		}
		s.do(rng, at, func(c *shmem.Ctx) error { return get(c, got, dst, stride, at.pe) })
		if at.real {
			scatter(want, there, stride)
			s.same("strided get", got, want)
		}
	default:
		s.more(s, rng, at)
	}
}

// extent is how many elements blocks reach over.
func extent(n, step, block int) int {
	if n == 0 {
		return 0
	}
	return (n-1)*step + max(block, 1)
}

// randomStride is one whose destination has so many elements.
func randomStride(rng *rand.Rand, blocks bool, room int) shmem.Stride {
	s := shmem.Stride{Block: rng.IntN(2)}
	if blocks {
		s.Block = 1 + rng.IntN(min(room, 9))
	}
	block := max(s.Block, 1)
	s.Dst, s.Src = block+rng.IntN(4), block+rng.IntN(4)
	s.N = rng.IntN((room-block)/s.Dst + 2)
	return s
}

// signaled is a step of a put with a signal, or of a signal alone, which the actor then
// sees at the target.
func (s *serial[T]) signaled(rng *rand.Rand, at place, n, base int, nbi bool) {
	s.t.Helper()
	op, v := shmem.SignalOp(rng.IntN(2)), rng.Uint64()
	i := 2*at.actor + int(op)
	sig, src, alone := s.sig.At(i), values[T](at.actor, base, n), rng.IntN(4) == 0
	put := shmem.PutSignal[T]
	if nbi {
		put = shmem.PutSignalNBI[T]
	}
	s.do(rng, at, func(c *shmem.Ctx) error {
		switch {
		case !alone:
			return put(c, s.x.Slice(at.off, s.x.Len()), src, sig, v, op, at.pe)
		case op == shmem.SignalAdd:
			return c.SignalAdd(sig, v, at.pe)
		}
		return c.SignalSet(sig, v, at.pe)
	})
	if !alone {
		copy(s.mem[at.pe][at.off:], src)
	}
	old := s.sigs[at.pe][i]
	if op == shmem.SignalAdd {
		v += old
	}
	s.sigs[at.pe][i] = v
	if at.real && at.pe == at.actor {
		c := s.c
		if got := must(c.SignalFetch(sig))(s.t); got != v {
			s.t.Fatalf("seed %d: a signal is %x, want %x", s.seed, got, v)
		}
		if got := must(c.SignalWaitUntil(sig, shmem.EQ, v))(s.t); got != v {
			s.t.Fatalf("seed %d: a signal was waited for as %x, want %x", s.seed, got, v)
		}
	}
}

// noMore is for types without atomic operations.
func noMore[T comparable](*serial[T], *rand.Rand, place) {}

// swaps has the atomic operations of all types that have any.
func swaps[T shmem.AMOExt](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	x, there, v := s.x.At(at.off), &s.mem[at.pe][at.off], elem[T](at.actor, int(rng.Uint32()))
	old, kind := *there, rng.IntN(5)
	s.do(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			got, err = shmem.AtomicFetch(c, x, at.pe)
		case 1:
			got, err = waited(shmem.AtomicFetchNBI(c, x, at.pe))
		case 2:
			err = shmem.AtomicSet(c, x, v, at.pe)
		case 3:
			got, err = shmem.AtomicSwap(c, x, v, at.pe)
		default:
			got, err = waited(shmem.AtomicSwapNBI(c, x, v, at.pe))
		}
		s.same(fmt.Sprintf("swap %d", kind), []T{got}, []T{old})
		return err
	})
	if kind >= 2 {
		*there = v
	}
}

// arithmetic has the others of integers, and adding to what is everybody's.
func arithmetic[T shmem.AMO](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	if rng.IntN(2) == 0 {
		swaps(s, rng, at)
		return
	}
	v, kind, hit := elem[T](at.actor, int(rng.Uint32())), rng.IntN(8), rng.IntN(2) == 0
	shared := kind < 6 && rng.IntN(2) == 0
	if shared {
		at.off = s.n*serialSpan + rng.IntN(serialShared)
	}
	x, there := s.x.At(at.off), &s.mem[at.pe][at.off]
	old, cond := *there, *there
	if !hit {
		cond++
	}
	s.do(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			err = shmem.AtomicInc(c, x, at.pe)
		case 1:
			got, err = shmem.AtomicFetchInc(c, x, at.pe)
		case 2:
			got, err = waited(shmem.AtomicFetchIncNBI(c, x, at.pe))
		case 3:
			err = shmem.AtomicAdd(c, x, v, at.pe)
		case 4:
			got, err = shmem.AtomicFetchAdd(c, x, v, at.pe)
		case 5:
			got, err = waited(shmem.AtomicFetchAddNBI(c, x, v, at.pe))
		case 6:
			got, err = shmem.AtomicCompareSwap(c, x, cond, v, at.pe)
		default:
			got, err = waited(shmem.AtomicCompareSwapNBI(c, x, cond, v, at.pe))
		}
		if !shared {
			s.same(fmt.Sprintf("arithmetic %d", kind), []T{got}, []T{old})
		}
		return err
	})
	switch {
	case kind < 3:
		*there++
	case kind < 6:
		*there += v
	case hit:
		*there = v
	}
}

// bitwise has the others of types whose bits can be combined.
func bitwise[T interface {
	shmem.AMO
	shmem.AMOBits
}](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	if rng.IntN(2) == 0 {
		arithmetic(s, rng, at)
		return
	}
	x, there, v := s.x.At(at.off), &s.mem[at.pe][at.off], elem[T](at.actor, int(rng.Uint32()))
	old, kind := *there, rng.IntN(9)
	s.do(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			err = shmem.AtomicAnd(c, x, v, at.pe)
		case 1:
			got, err = shmem.AtomicFetchAnd(c, x, v, at.pe)
		case 2:
			got, err = waited(shmem.AtomicFetchAndNBI(c, x, v, at.pe))
		case 3:
			err = shmem.AtomicOr(c, x, v, at.pe)
		case 4:
			got, err = shmem.AtomicFetchOr(c, x, v, at.pe)
		case 5:
			got, err = waited(shmem.AtomicFetchOrNBI(c, x, v, at.pe))
		case 6:
			err = shmem.AtomicXor(c, x, v, at.pe)
		case 7:
			got, err = shmem.AtomicFetchXor(c, x, v, at.pe)
		default:
			got, err = waited(shmem.AtomicFetchXorNBI(c, x, v, at.pe))
		}
		s.same(fmt.Sprintf("bitwise %d", kind), []T{got}, []T{old})
		return err
	})
	switch kind / 3 {
	case 0:
		*there &= v
	case 1:
		*there |= v
	default:
		*there ^= v
	}
}

// TestOneSidedSerial takes seeds in turn and, where the environment has one, that of
// TEST_SEED alone. Every failure names its seed.
func TestOneSidedSerial(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	if testing.Short() {
		seeds = seeds[:1]
	}
	if only, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64); err == nil {
		seeds = []uint64{only}
	}
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, seed := range seeds {
					t.Logf("seed %d", seed)
					serialTypes(t, w, w.Team(), seed)
				}
				for _, team := range orders(t, w) {
					serialOf(t, w, team, seeds[0], noMore[complex128])
					serialOf(t, w, team, seeds[0], swaps[float32])
					serialOf(t, w, team, seeds[0], bitwise[int64])
					ok(t, team.Destroy())
				}
			})
		})
	}
}

// orders are teams of all PEs: the other way round, and in an order that is no sequence.
func orders(t *testing.T, w *shmem.World) []*shmem.Team {
	t.Helper()
	n := w.NPEs()
	mixed := rand.New(rand.NewPCG(5, 6)).Perm(n)
	t.Logf("members %v", mixed)
	return []*shmem.Team{
		must(w.Team().SplitStrided(n-1, -1, n, nil))(t),
		must(shmem.TeamOf(w.Team(), mixed))(t),
	}
}

func serialTypes(t *testing.T, w *shmem.World, team *shmem.Team, seed uint64) {
	t.Helper()
	serialOf(t, w, team, seed, noMore[uint8])
	serialOf(t, w, team, seed, noMore[int16])
	serialOf(t, w, team, seed, noMore[[3]byte])
	serialOf(t, w, team, seed, noMore[mixed])
	serialOf(t, w, team, seed, noMore[complex128])
	serialOf(t, w, team, seed, noMore[[15]byte])
	serialOf(t, w, team, seed, swaps[float32])
	serialOf(t, w, team, seed, swaps[float64])
	serialOf(t, w, team, seed, arithmetic[int])
	serialOf(t, w, team, seed, arithmetic[uintptr])
	serialOf(t, w, team, seed, bitwise[int32])
	serialOf(t, w, team, seed, bitwise[uint32])
	serialOf(t, w, team, seed, bitwise[int64])
	serialOf(t, w, team, seed, bitwise[uint64])
}
