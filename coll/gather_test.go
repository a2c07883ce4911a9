package coll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// If PEs take turns, members that enter an exchange late move the blocks of waiting members,
// except those of a member that has given up: its destination may be in use for something else.
func TestExchangeGivenUp(t *testing.T) {
	const n = layout.SlotSize / 4
	b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 1<<20, N: n}
	nd := newNode(t, 2)
	gone, over := context.WithCancel(t.Context())
	over()
	team := func(me int) *coll.Team {
		nd.waiters[me].Crowded = true
		return newTeam(t, nd.config(5, me, []int{0, 1}))
	}
	for me := range 2 {
		copy(elements[uint32](nd, me, 1<<20, 2*n), repeated(2*n, uint32(1+me)))
	}
	mustFinish(t, "Alltoall", func() {
		first, second := team(0), team(1)
		if err := coll.Alltoall[uint32](gone, first, b); !errors.Is(err, context.Canceled) {
			t.Errorf("the member that gives up: error %v, want %v", err, context.Canceled)
		}
		dst := elements[uint32](nd, 0, 0, 2*n)
		copy(dst, repeated(2*n, 70))
		if err := coll.Alltoall[uint32](t.Context(), second, b); !errors.Is(err, coll.ErrBroken) {
			t.Errorf("the late member: error %v, want %v", err, coll.ErrBroken)
		}
		if !slices.Equal(dst, repeated(2*n, 70)) {
			t.Error("the late member wrote to the destination of the member that gave up")
		}
	})
}

// If PEs take turns, a member moves no blocks to one that came earlier and calls another exchange.
func TestExchangeLaterThanOther(t *testing.T) {
	const n = layout.SlotSize/4 + 1
	b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 1<<20, N: n}
	nd := newNode(t, 2)
	gone, over := context.WithCancel(t.Context())
	over()
	for _, w := range nd.waiters {
		w.Crowded = true
	}
	mustFinish(t, "Alltoall", func() {
		first, second := newTeam(t, nd.config(5, 0, []int{0, 1})), newTeam(t, nd.config(5, 1, []int{0, 1}))
		if err := coll.FCollect[uint32](gone, first, b); !errors.Is(err, context.Canceled) {
			t.Errorf("the member that gives up: error %v, want %v", err, context.Canceled)
		}
		err := coll.Alltoall[uint32](t.Context(), second, b)
		if other, is := errors.AsType[*coll.OtherError](err); !is || other.Member != 0 {
			t.Errorf("the late member: error %v, want an OtherError that names member 0", err)
		}
	})
}

// If PEs take turns, the error also names a member that calls another exchange, whether that has
// as many steps or fewer.
func TestExchangeOfOther(t *testing.T) {
	for _, n := range []int{layout.SlotSize / 4, layout.SlotSize/4 + 1} {
		if t.Failed() {
			break
		}
		b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 1<<20, N: n}
		nd := newNode(t, 3)
		for _, w := range nd.waiters {
			w.Crowded, w.Most = true, 100*time.Millisecond // sleeps end, so that they notice the end of a context
			w.First = min(w.First, w.Most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // it takes only milliseconds
		mustFinish(t, "Alltoall", func() {
			nd.each(t, 0, firstPEs(3), func(me int, tm *coll.Team) error {
				if me == 1 {
					_ = coll.FCollect[uint32](ctx, tm, b) // if it has fewer steps, it succeeds
					return nil
				}
				err := coll.Alltoall[uint32](ctx, tm, b)
				other, is := errors.AsType[*coll.OtherError](err)
				if !errors.Is(err, coll.ErrBroken) && (!is || other.Member != 1) {
					return fmt.Errorf("%d elements: %w, want an OtherError that names member 1, or ErrBroken after it", n, err)
				}
				return nil
			})
		})
		cancel()
	}
}
