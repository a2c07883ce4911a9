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

// All PEs make random one-sided operations, which are checked against a serial model of all
// memory. Each PE has a part of every PE's object to itself, so it knows what it reads there. All
// PEs replay all operations in the model. Commutative operations work on elements that all PEs
// share.

const (
	serialSpan   = 60 // elements of each actor
	serialShared = 4  // elements after those, to which all PEs add
	serialSteps  = 40 // steps of each actor between two comparisons of all memory
	serialRounds = 6
)

// serial is the memory of one element type, in the model and in the job.
type serial[T comparable] struct {
	t    *testing.T
	w    *shmem.World
	c    *shmem.Ctx
	n    int               // the team's size; all PEs are in it, in some order
	me   int               // this PE's number there
	x    shmem.Sym[T]      // serialSpan elements for each PE, then serialShared
	sig  shmem.Sym[uint64] // two for each PE: one is set, one is added to
	mem  [][]T             // x of each PE
	sigs [][]uint64
	seed uint64
	// extra makes one operation that not all types have, or none.
	extra func(s *serial[T], rng *rand.Rand, at place)
}

// place is where an actor works in one step, and whether the actor is this PE.
type place struct {
	actor, pe, off int // off counts from the start of x
	real           bool
}

// runSerial tests one element type on a context of a team of all PEs.
func runSerial[T comparable](t *testing.T, w *shmem.World, team *shmem.Team, seed uint64, more func(*serial[T], *rand.Rand, place)) {
	t.Helper()
	n := w.NPEs()
	c := must(team.NewCtx())(t)
	s := &serial[T]{t: t, w: w, c: c, n: n, me: team.MyPE(), seed: seed, extra: more}
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
		quietAndCheck(t, w, what, s.x, s.mem[s.me])
		quietAndCheck(t, w, what+", signals", s.sig, s.sigs[s.me])
	}
	ok(t, c.Destroy())
	ok(t, shmem.Free(w, s.sig))
	ok(t, shmem.Free(w, s.x))
}

// apply makes an operation if this PE is the actor, and completes it.
func (s *serial[T]) apply(rng *rand.Rand, at place, op func(c *shmem.Ctx) error) {
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

// check compares what an operation returned.
func (s *serial[T]) check(what string, got, want []T) {
	s.t.Helper()
	checkElements(s.t, fmt.Sprintf("%s of seed %d", what, s.seed), got, want)
}

// step makes one random operation.
func (s *serial[T]) step(rng *rand.Rand, at place) {
	s.t.Helper()
	room := (at.actor+1)*serialSpan - at.off // of the actor's own elements, from there on
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
		s.apply(rng, at, func(c *shmem.Ctx) error { return put(c, dst, src, at.pe) })
		copy(there, src)
	case 2:
		v := elem[T](at.actor, base)
		s.apply(rng, at, func(c *shmem.Ctx) error { return shmem.P(c, dst, v, at.pe) })
		there[0] = v
	case 3, 4:
		stride := randomStride(rng, kind == 4, room)
		src := values[T](at.actor, base, extent(stride.N, stride.Src, stride.Block))
		put := shmem.IPut[T]
		if kind == 4 {
			put = shmem.IBPut[T]
		}
		s.apply(rng, at, func(c *shmem.Ctx) error { return put(c, dst, src, stride, at.pe) })
		scatter(there, src, stride)
	case 5, 6:
		s.signalStep(rng, at, n, base, kind == 6)
	case 7, 8:
		got := values[T](at.actor, base, n)
		s.apply(rng, at, func(c *shmem.Ctx) error {
			if kind == 7 {
				return shmem.Get(c, got, dst, at.pe)
			}
			return errOf(waitResult(shmem.GetNBI(c, got, dst, at.pe)))
		})
		if at.real {
			s.check("get", got, there[:n])
		}
	case 9:
		got := make([]T, 1)
		s.apply(rng, at, func(c *shmem.Ctx) (err error) { got[0], err = shmem.G(c, dst, at.pe); return err })
		if at.real {
			s.check("g", got, there[:1])
		}
	case 10, 11:
		stride := randomStride(rng, kind == 11, room)
		stride.Dst, stride.Src = stride.Src, stride.Dst // the model's destination is the limited one
		got := values[T](at.actor, base, extent(stride.N, stride.Dst, stride.Block))
		want := append([]T(nil), got...)
		get := shmem.IGet[T]
		if kind == 11 {
			get = shmem.IBGet[T]
		}
		s.apply(rng, at, func(c *shmem.Ctx) error { return get(c, got, dst, stride, at.pe) })
		if at.real {
			scatter(want, there, stride)
			s.check("strided get", got, want)
		}
	default:
		s.extra(s, rng, at)
	}
}

// extent returns how many elements n elements in blocks span.
func extent(n, step, block int) int {
	if n == 0 {
		return 0
	}
	return (n-1)*step + max(block, 1)
}

// randomStride returns a stride whose destination has this many elements.
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

// signalStep makes a put with a signal, or only a signal. The actor then reads the signal at the
// target.
func (s *serial[T]) signalStep(rng *rand.Rand, at place, n, base int, nbi bool) {
	s.t.Helper()
	op, v := shmem.SignalOp(rng.IntN(2)), rng.Uint64()
	i := 2*at.actor + int(op)
	sig, src, alone := s.sig.At(i), values[T](at.actor, base, n), rng.IntN(4) == 0
	put := shmem.PutSignal[T]
	if nbi {
		put = shmem.PutSignalNBI[T]
	}
	s.apply(rng, at, func(c *shmem.Ctx) error {
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
			s.t.Fatalf("seed %d: the signal is %x, want %x", s.seed, got, v)
		}
		if got := must(c.SignalWaitUntil(sig, shmem.EQ, v))(s.t); got != v {
			s.t.Fatalf("seed %d: the wait for the signal returned %x, want %x", s.seed, got, v)
		}
	}
}

// noExtraOps is for types without atomic operations.
func noExtraOps[T comparable](*serial[T], *rand.Rand, place) {}

// swapOps makes one of the atomic operations that all atomic types have.
func swapOps[T shmem.AMOExt](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	x, there, v := s.x.At(at.off), &s.mem[at.pe][at.off], elem[T](at.actor, int(rng.Uint32()))
	old, kind := *there, rng.IntN(5)
	s.apply(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			got, err = shmem.AtomicFetch(c, x, at.pe)
		case 1:
			got, err = waitResult(shmem.AtomicFetchNBI(c, x, at.pe))
		case 2:
			err = shmem.AtomicSet(c, x, v, at.pe)
		case 3:
			got, err = shmem.AtomicSwap(c, x, v, at.pe)
		default:
			got, err = waitResult(shmem.AtomicSwapNBI(c, x, v, at.pe))
		}
		s.check(fmt.Sprintf("swap %d", kind), []T{got}, []T{old})
		return err
	})
	if kind >= 2 {
		*there = v
	}
}

// arithmeticOps makes one of the other operations of integers, or adds to a shared element.
func arithmeticOps[T shmem.AMO](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	if rng.IntN(2) == 0 {
		swapOps(s, rng, at)
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
	s.apply(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			err = shmem.AtomicInc(c, x, at.pe)
		case 1:
			got, err = shmem.AtomicFetchInc(c, x, at.pe)
		case 2:
			got, err = waitResult(shmem.AtomicFetchIncNBI(c, x, at.pe))
		case 3:
			err = shmem.AtomicAdd(c, x, v, at.pe)
		case 4:
			got, err = shmem.AtomicFetchAdd(c, x, v, at.pe)
		case 5:
			got, err = waitResult(shmem.AtomicFetchAddNBI(c, x, v, at.pe))
		case 6:
			got, err = shmem.AtomicCompareSwap(c, x, cond, v, at.pe)
		default:
			got, err = waitResult(shmem.AtomicCompareSwapNBI(c, x, cond, v, at.pe))
		}
		if !shared {
			s.check(fmt.Sprintf("arithmetic %d", kind), []T{got}, []T{old})
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

// bitwiseOps makes one of the other operations of types whose bits can be combined.
func bitwiseOps[T interface {
	shmem.AMO
	shmem.AMOBits
}](s *serial[T], rng *rand.Rand, at place) {
	s.t.Helper()
	if rng.IntN(2) == 0 {
		arithmeticOps(s, rng, at)
		return
	}
	x, there, v := s.x.At(at.off), &s.mem[at.pe][at.off], elem[T](at.actor, int(rng.Uint32()))
	old, kind := *there, rng.IntN(9)
	s.apply(rng, at, func(c *shmem.Ctx) (err error) {
		got := old
		switch kind {
		case 0:
			err = shmem.AtomicAnd(c, x, v, at.pe)
		case 1:
			got, err = shmem.AtomicFetchAnd(c, x, v, at.pe)
		case 2:
			got, err = waitResult(shmem.AtomicFetchAndNBI(c, x, v, at.pe))
		case 3:
			err = shmem.AtomicOr(c, x, v, at.pe)
		case 4:
			got, err = shmem.AtomicFetchOr(c, x, v, at.pe)
		case 5:
			got, err = waitResult(shmem.AtomicFetchOrNBI(c, x, v, at.pe))
		case 6:
			err = shmem.AtomicXor(c, x, v, at.pe)
		case 7:
			got, err = shmem.AtomicFetchXor(c, x, v, at.pe)
		default:
			got, err = waitResult(shmem.AtomicFetchXorNBI(c, x, v, at.pe))
		}
		s.check(fmt.Sprintf("bitwise %d", kind), []T{got}, []T{old})
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

// TestOneSidedSerial runs through a range of seeds, or only that of TEST_SEED if the environment
// has it. Every failure names its seed.
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
					runSerialTypes(t, w, w.Team(), seed)
				}
				for _, team := range permutedTeams(t, w) {
					runSerial(t, w, team, seeds[0], noExtraOps[complex128])
					runSerial(t, w, team, seeds[0], swapOps[float32])
					runSerial(t, w, team, seeds[0], bitwiseOps[int64])
					ok(t, team.Destroy())
				}
			})
		})
	}
}

// permutedTeams returns teams of all PEs: in reverse, and in an order that is no arithmetic
// sequence.
func permutedTeams(t *testing.T, w *shmem.World) []*shmem.Team {
	t.Helper()
	n := w.NPEs()
	mixed := rand.New(rand.NewPCG(5, 6)).Perm(n)
	t.Logf("team of %v", mixed)
	return []*shmem.Team{
		must(w.Team().SplitStrided(n-1, -1, n, nil))(t),
		must(shmem.TeamOf(w.Team(), mixed))(t),
	}
}

func runSerialTypes(t *testing.T, w *shmem.World, team *shmem.Team, seed uint64) {
	t.Helper()
	runSerial(t, w, team, seed, noExtraOps[uint8])
	runSerial(t, w, team, seed, noExtraOps[int16])
	runSerial(t, w, team, seed, noExtraOps[[3]byte])
	runSerial(t, w, team, seed, noExtraOps[mixed])
	runSerial(t, w, team, seed, noExtraOps[complex128])
	runSerial(t, w, team, seed, noExtraOps[[15]byte])
	runSerial(t, w, team, seed, swapOps[float32])
	runSerial(t, w, team, seed, swapOps[float64])
	runSerial(t, w, team, seed, arithmeticOps[int])
	runSerial(t, w, team, seed, arithmeticOps[uintptr])
	runSerial(t, w, team, seed, bitwiseOps[int32])
	runSerial(t, w, team, seed, bitwiseOps[uint32])
	runSerial(t, w, team, seed, bitwiseOps[int64])
	runSerial(t, w, team, seed, bitwiseOps[uint64])
}
