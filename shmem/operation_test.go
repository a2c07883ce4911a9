package shmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The generic and the untyped half of every operation write the same memory, return the same
// results and refuse the same arguments.
func TestHalvesAgree(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		compareCopies[uint8](t, w)
		compareCopies[int16](t, w)
		compareCopies[float32](t, w)
		compareCopies[complex128](t, w)
		compareCopies[[3]byte](t, w)
		compareCopies[struct{ A, B, C uint64 }](t, w)
		compareWords[float32](t, w)
		compareWords[float64](t, w)
		compareIntegers[int](t, w)
		compareIntegers[int32](t, w)
		compareIntegers[uint32](t, w)
		compareIntegers[int64](t, w)
		compareIntegers[uint64](t, w)
		compareIntegers[uintptr](t, w)
		compareBits[int32](t, w)
		compareBits[int64](t, w)
		compareBits[uint](t, w)
		compareBits[uint32](t, w)
		compareBits[uint64](t, w)
	})
}

// side is what one half works on.
type side[T any] struct {
	c    *shmem.Ctx
	x    shmem.Sym[T]
	sig  shmem.Sym[uint64]
	buf  []T
	said []string // results as text
}

func (h *side[T]) note(v any, err error) { h.said = append(h.said, fmt.Sprint(v, " ", err)) }

const elements = 40

// compareHalves calls each operation many times on both halves, with the same arguments and random
// numbers.
func compareHalves[T any](t *testing.T, w *shmem.World, ops map[string]func(h *side[T], r *rand.Rand)) {
	t.Helper()
	random := func(r *rand.Rand, to []T) {
		for i := range to {
			to[i] = randomValue[T](r)
		}
	}
	slow := shmem.SlowHalf(w.Ctx())
	for name, op := range ops {
		for seed := range uint64(30) {
			var all [2]*side[T]
			for i, c := range []*shmem.Ctx{w.Ctx(), slow} {
				r := rand.New(rand.NewPCG(seed, 1))
				h := &side[T]{c: c, x: must(shmem.Alloc[T](w, elements))(t), sig: must(shmem.Alloc[uint64](w, 1))(t), buf: make([]T, elements)}
				random(r, h.x.Local())
				random(r, h.buf)
				h.sig.Local()[0] = r.Uint64() // a new block holds what the previous owner wrote
				op(h, r)
				all[i] = h
			}
			fast, plain := all[0], all[1]
			if !slices.Equal(fast.said, plain.said) {
				t.Errorf("%s of %T, seed %d: %q, but %q without types", name, fast.buf[0], seed, fast.said, plain.said)
			}
			for what, pair := range map[string][2]any{
				"memory": {fast.x.Local(), plain.x.Local()}, "signal": {fast.sig.Local(), plain.sig.Local()}, "buffer": {fast.buf, plain.buf},
			} {
				if f, p := fmt.Sprint(pair[0]), fmt.Sprint(pair[1]); f != p {
					t.Errorf("%s of %T, seed %d: %s is %s, but %s without types", name, fast.buf[0], seed, what, f, p)
				}
			}
			for _, h := range all {
				ok(t, shmem.Free(w, h.x))
				ok(t, shmem.Free(w, h.sig))
			}
		}
	}
}

// randomValue returns a value of random bytes, but no NaN: different NaNs print alike.
func randomValue[T any](r *rand.Rand) (v T) {
	switch p := any(&v).(type) {
	case *uint8:
		*p = uint8(r.Uint32())
	case *int16:
		*p = int16(r.Uint32())
	case *float32:
		*p = r.Float32()
	case *float64:
		*p = r.Float64()
	case *complex128:
		*p = complex(r.Float64(), r.Float64())
	case *[3]byte:
		*p = [3]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
	case *struct{ A, B, C uint64 }:
		p.A, p.B, p.C = r.Uint64(), r.Uint64(), r.Uint64()
	case *int:
		*p = int(r.Uint64())
	case *int32:
		*p = int32(r.Uint32())
	case *uint32:
		*p = r.Uint32()
	case *int64:
		*p = int64(r.Uint64())
	case *uint:
		*p = uint(r.Uint64())
	case *uint64:
		*p = r.Uint64()
	case *uintptr:
		*p = uintptr(r.Uint64())
	default:
		panic(fmt.Sprintf("no random values of %T", v))
	}
	return v
}

func compareCopies[T any](t *testing.T, w *shmem.World) {
	t.Helper()
	span := func(r *rand.Rand) (i, j int) {
		i = r.IntN(elements + 1)
		return i, min(elements, i+r.IntN(4)*r.IntN(12))
	}
	strides := func(r *rand.Rand, block int) shmem.Stride {
		return shmem.Stride{Dst: r.IntN(6), Src: r.IntN(6), Block: block, N: r.IntN(9)}
	}
	compareHalves(t, w, map[string]func(h *side[T], r *rand.Rand){
		"Put": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			h.note("", causeOf(shmem.Put(h.c, h.x.Slice(i, elements), h.buf[i:j], 0)))
		},
		"PutNBI": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			h.note("", causeOf(shmem.PutNBI(h.c, h.x.Slice(i, elements), h.buf[i:j], 0)))
		},
		"Get": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			h.note("", causeOf(shmem.Get(h.c, h.buf[i:j], h.x.Slice(i, elements), 0)))
		},
		"GetNBI": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			p, err := shmem.GetNBI(h.c, h.buf[i:j], h.x.Slice(i, elements), 0)
			h.note("", causeOf(err))
			if err == nil {
				got, err := p.Wait()
				h.note(got, err)
			}
		},
		"P": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(shmem.P(h.c, h.x.At(r.IntN(elements+1)), h.buf[0], 0)))
		},
		"G": func(h *side[T], r *rand.Rand) {
			v, err := shmem.G(h.c, h.x.At(r.IntN(elements+1)), 0)
			h.note(v, causeOf(err))
		},
		"IPut": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(shmem.IPut(h.c, h.x, h.buf, strides(r, r.IntN(3)), 0)))
		},
		"IGet": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(shmem.IGet(h.c, h.buf, h.x, strides(r, r.IntN(3)), 0)))
		},
		"IBPut": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(shmem.IBPut(h.c, h.x, h.buf, strides(r, r.IntN(7)), 0)))
		},
		"IBGet": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(shmem.IBGet(h.c, h.buf, h.x, strides(r, r.IntN(7)), 0)))
		},
		"PutSignal": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			h.note("", causeOf(shmem.PutSignal(h.c, h.x.Slice(i, elements), h.buf[i:j], h.sig, r.Uint64(), shmem.SignalOp(r.IntN(3)), 0)))
		},
		"PutSignalNBI": func(h *side[T], r *rand.Rand) {
			i, j := span(r)
			h.note("", causeOf(shmem.PutSignalNBI(h.c, h.x.Slice(i, elements), h.buf[i:j], h.sig, r.Uint64(), shmem.SignalOp(r.IntN(3)), 0)))
		},
		"SignalSet": func(h *side[T], r *rand.Rand) { h.note("", causeOf(h.c.SignalSet(h.sig, r.Uint64(), r.IntN(2)))) },
		"SignalAdd": func(h *side[T], r *rand.Rand) {
			h.note("", causeOf(h.c.SignalSet(h.sig, 5, 0)))
			h.note("", causeOf(h.c.SignalAdd(h.sig, r.Uint64(), 0)))
		},
	})
}

// causeOf returns the sentinel of an operation's error. The full texts contain offsets, which
// differ.
func causeOf(err error) error {
	for _, of := range []error{shmem.ErrBounds, shmem.ErrArgument, shmem.ErrPERange, shmem.ErrOverlap} {
		if errors.Is(err, of) {
			return of
		}
	}
	return err
}

func compareWords[T shmem.AMOExt](t *testing.T, w *shmem.World) {
	t.Helper()
	compareHalves(t, w, map[string]func(h *side[T], r *rand.Rand){
		"AtomicFetch": func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetch(h.c, h.x, 0)) },
		"AtomicSet":   func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicSet(h.c, h.x, h.buf[0], 0)) },
		"AtomicSwap":  func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicSwap(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchNBI": func(h *side[T], _ *rand.Rand) {
			h.await(shmem.AtomicFetchNBI(h.c, h.x, 0))
		},
		"AtomicSwapNBI": func(h *side[T], _ *rand.Rand) {
			h.await(shmem.AtomicSwapNBI(h.c, h.x, h.buf[0], 0))
		},
	})
}

func (h *side[T]) await(p shmem.Pending[T], err error) {
	if err != nil {
		h.note("", err)
		return
	}
	h.note(p.Wait())
}

func compareIntegers[T shmem.AMO](t *testing.T, w *shmem.World) {
	t.Helper()
	compareWords[T](t, w)
	compareHalves(t, w, map[string]func(h *side[T], r *rand.Rand){
		"AtomicCompareSwap": func(h *side[T], r *rand.Rand) {
			cond := []T{h.x.Local()[0], h.buf[1]}[r.IntN(2)]
			h.note(shmem.AtomicCompareSwap(h.c, h.x, cond, h.buf[0], 0))
		},
		"AtomicCompareSwapNBI": func(h *side[T], r *rand.Rand) {
			cond := []T{h.x.Local()[0], h.buf[1]}[r.IntN(2)]
			h.await(shmem.AtomicCompareSwapNBI(h.c, h.x, cond, h.buf[0], 0))
		},
		"AtomicInc":         func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicInc(h.c, h.x, 0)) },
		"AtomicFetchInc":    func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetchInc(h.c, h.x, 0)) },
		"AtomicFetchIncNBI": func(h *side[T], _ *rand.Rand) { h.await(shmem.AtomicFetchIncNBI(h.c, h.x, 0)) },
		"AtomicAdd":         func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicAdd(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchAdd":    func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetchAdd(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchAddNBI": func(h *side[T], _ *rand.Rand) { h.await(shmem.AtomicFetchAddNBI(h.c, h.x, h.buf[0], 0)) },
	})
}

func compareBits[T shmem.AMOBits](t *testing.T, w *shmem.World) {
	t.Helper()
	compareHalves(t, w, map[string]func(h *side[T], r *rand.Rand){
		"AtomicAnd":         func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicAnd(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchAnd":    func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetchAnd(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchAndNBI": func(h *side[T], _ *rand.Rand) { h.await(shmem.AtomicFetchAndNBI(h.c, h.x, h.buf[0], 0)) },
		"AtomicOr":          func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicOr(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchOr":     func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetchOr(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchOrNBI":  func(h *side[T], _ *rand.Rand) { h.await(shmem.AtomicFetchOrNBI(h.c, h.x, h.buf[0], 0)) },
		"AtomicXor":         func(h *side[T], _ *rand.Rand) { h.note("", shmem.AtomicXor(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchXor":    func(h *side[T], _ *rand.Rand) { h.note(shmem.AtomicFetchXor(h.c, h.x, h.buf[0], 0)) },
		"AtomicFetchXorNBI": func(h *side[T], _ *rand.Rand) { h.await(shmem.AtomicFetchXorNBI(h.c, h.x, h.buf[0], 0)) },
	})
}
