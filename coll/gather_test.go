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

// Where PEs take turns, members that enter an exchange late move the blocks of those who wait, but
// for one that has given up: its destination may be in use for something else.
func TestExchangeGivenUp(t *testing.T) {
	const n = layout.SlotSize / 4
	b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 1<<20, N: n}
	nd := newNode(t, 2)
	gone, over := context.WithCancel(t.Context())
	over()
	team := func(me int) *coll.Team {
		nd.waiters[me].Crowded = true
		tm, err := coll.New(coll.Config{Map: nd.m.Map, Waiter: nd.waiters[me], Members: near(0, 1), Me: me, ID: 5, Failures: nd.failures})
		if err != nil {
			t.Fatal(err)
		}
		return tm
	}
	for me := range 2 {
		copy(at[uint32](nd, me, 1<<20, 2*n), filled(2*n, uint32(1+me)))
	}
	within(t, "Alltoall", func() {
		first, second := team(0), team(1)
		if err := coll.Alltoall[uint32](gone, first, b); !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up: %v, want %v", err, context.Canceled)
		}
		dst := at[uint32](nd, 0, 0, 2*n)
		copy(dst, filled(2*n, 70))
		if err := coll.Alltoall[uint32](t.Context(), second, b); !errors.Is(err, coll.ErrBroken) {
			t.Errorf("who comes late: %v, want %v", err, coll.ErrBroken)
		}
		if !slices.Equal(dst, filled(2*n, 70)) {
			t.Error("who comes late has written to the destination of one that has given up")
		}
	})
}

// A member that calls another exchange is named where PEs take turns, too, in one of as many steps and
// in a shorter one.
func TestExchangeOfOther(t *testing.T) {
	for _, n := range []int{layout.SlotSize / 4, layout.SlotSize/4 + 1} {
		if t.Failed() {
			break
		}
		b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 1<<20, N: n}
		nd := newNode(t, 3)
		for _, w := range nd.waiters {
			w.Crowded, w.Most = true, 100*time.Millisecond // sleeps end, so that a context's end is seen
			w.First = min(w.First, w.Most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // it takes milliseconds
		within(t, "Alltoall", func() {
			nd.each(t, 0, upTo(3), func(me int, tm *coll.Team) error {
				if me == 1 {
					_ = coll.FCollect[uint32](ctx, tm, b) // if it is short, it ends well
					return nil
				}
				err := coll.Alltoall[uint32](ctx, tm, b)
				other, is := errors.AsType[*coll.OtherError](err)
				if !errors.Is(err, coll.ErrBroken) && (!is || other.Member != 1) {
					return fmt.Errorf("%d elements: %w, want an OtherError of member 1, or ErrBroken behind it", n, err)
				}
				return nil
			})
		})
		cancel()
	}
}
