package shmem_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// wantError checks that err is cause and that its text contains all words.
func wantError(t *testing.T, err, cause error, words ...string) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Errorf("got error %v, want %v", err, cause)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want it to contain %q", err, w)
		}
	}
}

// Bad calls return errors that say what failed, the value and what is wanted.
func TestBadCalls(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Calloc[int64](w, 10))(t)
		var none shmem.Sym[int64]
		for _, pe := range []int{-1, 2, 1 << 40} {
			wantError(t, shmem.P(c, x, 1, pe), shmem.ErrPERange, "shmem.P", "team of 2", "want 0 to 1")
			_, err := shmem.AtomicFetchAdd(c, x, 1, pe)
			wantError(t, err, shmem.ErrPERange, "AtomicFetchAdd")
			_, err = shmem.G(c, x, pe)
			wantError(t, err, shmem.ErrPERange, "shmem.G")
		}
		wantError(t, shmem.Put(c, x, make([]int64, 11), 0), shmem.ErrBounds, "Put", "11 elements", "10")
		wantError(t, shmem.Get(c, make([]int64, 11), x, 0), shmem.ErrBounds, "Get", "11 elements", "10")
		wantError(t, shmem.PutNBI(c, x.Slice(8, 10), make([]int64, 3), 0), shmem.ErrBounds, "3 elements", "2")
		_, err := shmem.GetNBI(c, make([]int64, 11), x, 0)
		wantError(t, err, shmem.ErrBounds, "GetNBI")
		for _, bad := range []shmem.Sym[int64]{x.At(10), x.At(-1), x.Slice(3, 11), x.Slice(4, 3), x.Slice(-1, 2), x.At(10).At(0)} {
			wantError(t, shmem.P(c, bad, 1, 0), shmem.ErrBounds, "index", "of 10 elements", "0 <= i < 10 or 0 <= i <= j <= 10")
			if bad.Len() != 0 || bad.Local() != nil {
				t.Errorf("handle of a bad index has length %d, want 0", bad.Len())
			}
			if _, reachable := bad.Peer(1); reachable {
				t.Error("handle of a bad index is reachable on a peer")
			}
		}
		wantError(t, shmem.P(c, none, 1, 0), shmem.ErrForeignHandle, "zero value")
		wantError(t, shmem.P(nil, x, 1, 0), shmem.ErrArgument, "context is nil")
		wantError(t, shmem.WaitUntil(c, x, shmem.Cmp(9), 1), shmem.ErrArgument, "comparison 9")
		wantError(t, shmem.PutSignal(c, x, nil, must(shmem.Calloc[uint64](w, 1))(t), 1, shmem.SignalOp(7), 0), shmem.ErrArgument, "7")
		wantError(t, shmem.WaitUntil(c, none, shmem.EQ, 1), shmem.ErrForeignHandle)
		_, err = (shmem.Pending[int]{}).Wait()
		wantError(t, err, shmem.ErrArgument)
		testBadCollectiveCalls(t, w, x)
	})
}

func testBadCollectiveCalls(t *testing.T, w *shmem.World, x shmem.Sym[int64]) {
	team := w.Team()
	y := must(shmem.Calloc[int64](w, 10))(t)
	wantError(t, shmem.Broadcast(team, y, x, 2), shmem.ErrPERange, "root 2", "0 to 1")
	wantError(t, shmem.Broadcast(team, y.Slice(0, 9), x, 0), shmem.ErrArgument, "9 elements, want at least 10")
	wantError(t, shmem.Broadcast(team, x.Slice(1, 10), x.Slice(0, 9), 0), shmem.ErrOverlap)
	wantError(t, shmem.Reduce(team, x.Slice(1, 10), x.Slice(0, 9), shmem.Sum), shmem.ErrOverlap, "overlap")
	wantError(t, shmem.Reduce[int64](team, y, x, nil), shmem.ErrArgument, "operator is nil")
	wantError(t, shmem.FCollect(team, y, x), shmem.ErrArgument, "10 elements, want at least 20")
	wantError(t, shmem.Alltoall(team, y.Slice(0, 9), x.Slice(0, 9)), shmem.ErrArgument, "multiple")
	wantError(t, shmem.Broadcast(nil, y, x, 0), shmem.ErrArgument, "team is nil")
}

// A handle without elements works for transfers of no elements, and for nothing else.
func TestNoElements(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Calloc[int64](w, 10))(t)
		for _, none := range []shmem.Sym[int64]{x.Slice(3, 3), x.Slice(10, 10), must(shmem.Alloc[int64](w, 0))(t)} {
			ok(t, shmem.Put(c, none, nil, 1))
			ok(t, shmem.Get(c, nil, none.Slice(0, 0), 1))
			wantError(t, shmem.P(c, none, 1, 0), shmem.ErrBounds, "1 elements, want at most the object's 0")
			wantError(t, shmem.Put(c, none, []int64{1}, 0), shmem.ErrBounds, "1 elements")
			_, err := shmem.AtomicFetchAdd(c, none, 1, 0)
			wantError(t, err, shmem.ErrBounds, "AtomicFetchAdd")
			wantError(t, shmem.WaitUntil(c, none, shmem.EQ, 0), shmem.ErrBounds)
			wantError(t, shmem.Put(c, none, nil, 2), shmem.ErrPERange)
			if none.Local() != nil || none.At(0).Local() != nil {
				t.Error("a handle without elements has a local slice")
			}
		}
		var zero shmem.Sym[int64]
		for _, bad := range []shmem.Sym[int64]{zero, zero.Slice(0, 0)} {
			wantError(t, shmem.Put(c, bad, nil, 0), shmem.ErrForeignHandle, "zero value")
			if bad.Local() != nil {
				t.Error("an invalid handle has a local slice")
			}
		}
		wantError(t, shmem.P(&shmem.Ctx{}, x, 1, 0), shmem.ErrArgument, "context is nil")
		ok(t, shmem.Free(w, x))
		wantError(t, shmem.Put(c, x.Slice(2, 2), nil, 1), shmem.ErrFreed)
	})
}

// Element types with pointers are refused with an error that names the field.
func TestElementTypes(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		type inner struct {
			A [3]struct{ S string }
		}
		_, err := shmem.Alloc[inner](w, 1)
		wantError(t, err, shmem.ErrElementType, "field A", "field S", "string")
		_, err = shmem.Alloc[*int](w, 1)
		wantError(t, err, shmem.ErrElementType, "pointer")
		_, err = shmem.Alloc[struct{}](w, 1)
		wantError(t, err, shmem.ErrElementType, "no size")
		_, err = shmem.Alloc[struct {
			A [0]*int
			B complex128
			C [4]uint8
		}](w, 1)
		ok(t, err)
	})
}

// A handle cannot be converted to another element type: three elements of a larger type would
// reach past the end of the object.
func TestHandlesDoNotConvert(t *testing.T) {
	for _, other := range []reflect.Type{reflect.TypeFor[shmem.Sym[int64]](), reflect.TypeFor[shmem.Sym[int8]]()} {
		if bytes := reflect.TypeFor[shmem.Sym[uint8]](); bytes.ConvertibleTo(other) || bytes.Size() != 24 {
			t.Errorf("%v of %d bytes converts to %v or is larger than three words", bytes, bytes.Size(), other)
		}
	}
}

// A handle is invalid once its object is freed, even if the slot is used again.
func TestUseAfterFree(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Alloc[int32](w, 10))(t)
		wantError(t, shmem.Free(w, x.At(3)), shmem.ErrArgument, "part of an object")
		ok(t, shmem.Free(w, x))
		y := must(shmem.Alloc[int32](w, 10))(t)
		wantError(t, shmem.P(c, x, 1, 0), shmem.ErrFreed, "freed")
		wantError(t, shmem.Free(w, x), shmem.ErrFreed)
		if x.Local() != nil {
			t.Error("a freed object has a local slice")
		}
		ok(t, shmem.P(c, y, 1, 0))
		z := must(shmem.Realloc(w, y, 1000))(t)
		wantError(t, shmem.P(c, y, 1, 0), shmem.ErrFreed)
		ok(t, shmem.P(c, z.At(999), 1, 1))
	})
}

// After Finalize every call returns ErrFinalized. A later Init makes a different world.
func TestUseAfterFinalize(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Alloc[int32](w, 10))(t)
		ok(t, w.Finalize())
		if shmem.Initialized() {
			t.Error("Initialized returned true after Finalize")
		}
		wantError(t, shmem.P(c, x, 1, 0), shmem.ErrFinalized, "Finalize")
		wantError(t, shmem.WaitUntil(c, x, shmem.EQ, 1), shmem.ErrFinalized)
		wantError(t, c.Quiet(), shmem.ErrFinalized)
		wantError(t, c.Fence(), shmem.ErrFinalized)
		wantError(t, w.Barrier(), shmem.ErrFinalized)
		wantError(t, w.Finalize(), shmem.ErrFinalized)
		_, err := shmem.Alloc[int32](w, 1)
		wantError(t, err, shmem.ErrFinalized)
		v, err := shmem.Init()
		ok(t, err)
		wantError(t, shmem.P(v.Ctx(), x, 1, 0), shmem.ErrForeignHandle, "another world")
		y := must(shmem.Calloc[int32](v, 10))(t)
		ok(t, shmem.P(v.Ctx(), y, 7, 1-v.MyPE()))
		ok(t, v.Barrier())
		if y.Local()[0] != 7 {
			t.Errorf("after a second Init the element that was put is %d, want 7", y.Local()[0])
		}
		ok(t, v.Finalize())
	})
}

// Calls of Init and Finalize nest.
func TestNestedInit(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		v := must(shmem.Init())(t)
		x := must(shmem.Calloc[int](v, 1))(t)
		ok(t, v.Finalize())
		ok(t, shmem.P(w.Ctx(), x, 3, 1-w.MyPE()))
		ok(t, w.Barrier())
		if x.Local()[0] != 3 {
			t.Error("the inner Finalize ended the world")
		}
	})
}

// A world that has ended leaves no goroutine behind, because a process may have any number of
// worlds.
func TestWorldsLeaveNoGoroutine(t *testing.T) {
	shmemtest.RunBare(t, 2, func(t *testing.T) {
		worlds := func(n int) {
			for range n {
				w := must(shmem.Init())(t)
				ok(t, w.Finalize())
			}
		}
		worlds(1)
		const many = 20
		before := runtime.NumGoroutine() // goroutines of the first world may still be ending
		worlds(many)
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() >= before+many; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines after %d worlds, but %d before", runtime.NumGoroutine(), many, before)
			}
		}
	})
}

// The error of an exhausted heap names the size asked for, the free size, the variable and a value
// that would be enough, and that value is. All PEs get the error, and their heaps stay alike.
func TestExhaustion(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		before := w.Heap()
		_, err := shmem.Alloc[byte](w, 5<<20)
		wantError(t, err, shmem.ErrExhausted, "5242880 bytes asked", "SHMEM_SYMMETRIC_SIZE=9M", "--heap-size 9M")
		if w.Heap() != before {
			t.Errorf("heap %+v after a refused Alloc, want %+v", w.Heap(), before)
		}
		ok(t, w.Barrier())
		must(shmem.Alloc[byte](w, 1<<20))(t)
	}, shmemtest.HeapSize(4<<20))
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		objects := 0
		for err := error(nil); err == nil; objects++ {
			if _, err = shmem.Alloc[byte](w, 1); err != nil {
				wantError(t, err, shmem.ErrExhausted, "as many objects", "65536", "hint")
			}
		}
		if free := w.Heap().Free; objects < 65000 || free < 1<<20 {
			t.Errorf("%d objects used up the table with %d bytes free, want at least 65000 objects and 1 MiB", objects, free)
		}
	}, shmemtest.HeapSize(8<<20))
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		must(shmem.Alloc[byte](w, 5<<20))(t)
	}, shmemtest.Env("SHMEM_SYMMETRIC_SIZE=9M"))
}

// PEs that allocate different sizes all get an error.
func TestAllocMismatch(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		_, err := shmem.Alloc[int64](w, 10+w.MyPE()/2)
		wantError(t, err, shmem.ErrMismatch, "PE 0 called Alloc of 80 bytes", "PE 2 called Alloc of 88 bytes")
		x := must(shmem.Calloc[int64](w, 10))(t)
		ok(t, shmem.P(w.Ctx(), x, 5, (w.MyPE()+1)%3))
		ok(t, w.Barrier())
		if x.Local()[0] != 5 {
			t.Error("heaps differ after a mismatch")
		}
	})
}

// A wait ends with its context, leaves the flag unchanged and may be repeated. A collective that
// ends so breaks its team.
func TestWith(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := shmem.WaitUntil(w.Ctx().With(ctx), x, shmem.EQ, 5)
		wantError(t, err, context.DeadlineExceeded, "WaitUntil", "== 5")
		ok(t, w.Barrier())
		ok(t, shmem.P(w.Ctx(), x, 5, 1-w.MyPE()))
		ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.EQ, 5))
		ok(t, w.Barrier())

		if w.MyPE() == 1 { // PE 1 must not arrive before PE 0 has given up
			ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.EQ, 6))
			return
		}
		cause := errors.New("enough")
		ctx2, cancel2 := context.WithCancelCause(t.Context())
		cancel2(cause)
		wantError(t, w.With(ctx2).Barrier(), cause, "shmem.Barrier: waiting for PE 1", "the team is broken", "Finalize ends well")
		wantError(t, w.Barrier(), shmem.ErrTeamBroken, "hint: Team.Shrink", "Finalize ends well")
		wantError(t, shmem.Reduce(w.Team(), x, x, shmem.Sum), shmem.ErrTeamBroken)
		ok(t, shmem.P(w.Ctx(), x, 6, 1))
	}) // Finalize ends both PEs although the team is broken
}

// A PE that waits in a collective for a PE that has finalized gets an error: on one node, and if that PE is the first one of
// the job, or of its node, or neither.
func TestFinalizedPeer(t *testing.T) {
	for _, gone := range []int{0, 1} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
				if w.MyPE() == gone {
					ok(t, w.Finalize()) // counts as this PE's part in the others' barrier
					return
				}
				ok(t, w.Barrier())
				err := w.Barrier()
				wantError(t, err, shmem.ErrPEFinalized, "Barrier", fmt.Sprintf("PE [%d]", gone))
				if pe, is := errors.AsType[*shmem.PEError](err); !is || len(pe.PEs) != 1 || pe.PEs[0] != gone {
					t.Errorf("error %v does not name PE %d", err, gone)
				}
			}, shmemtest.Nodes(1, 2, 3)) // Finalize ends the others although the team is broken
		})
	}
}
