package coll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// watched is a context that is asked in the midst of a wait, before the sleep.
type watched struct {
	context.Context
	ask func() error
}

func (w watched) Err() error { return w.ask() }

// calls is an operator that calls f before it adds.
type calls struct {
	sum
	f func()
}

func (c calls) Fold(acc, in []uint32) {
	c.f()
	c.sum.Fold(acc, in)
}

// filled returns so many elements of one value.
func filled(n int, value uint32) []uint32 { return slices.Repeat([]uint32{value}, n) }

// Who leaves the last step of a reduction by the end of its context does not write its area
// for another team while a slow member may still take its share there; later it does.
func TestAreaOfSlowReader(t *testing.T) {
	const (
		elems = 10_000 // one piece: the offer is step 1, and three follow
		taken = 3      // behind which shares are taken
		last  = 4
	)
	nd := newNode(t, 4)
	reduce := func(ctx context.Context, id int, members []int, me int, value, want uint32, op coll.Folder[uint32]) error {
		tm, err := coll.New(coll.Config{Map: nd.m, Waiter: nd.waiters[members[me]], Members: members, Me: me, ID: id, Failures: nd.failures})
		if err != nil {
			return err
		}
		dst := make([]uint32, elems)
		if err := coll.ReducePrivate(ctx, tm, dst, filled(elems, value), op, -1); err != nil {
			return err
		}
		if !slices.Equal(dst, filled(elems, want)) {
			return fmt.Errorf("got %d ... %d, want %d", dst[0], dst[elems-1], want)
		}
		return nil
	}
	elsewhere := func(value uint32) { // PE 0 and one that is not in the first team
		var wg sync.WaitGroup
		for me := range 2 {
			wg.Go(func() {
				if err := reduce(t.Context(), 6, []int{0, 3}, me, value, 2*value, sum{}); err != nil {
					t.Errorf("member %d of the other team: %v", me, err)
				}
			})
		}
		wg.Wait()
	}
	step := func(me int) uint64 { return atomic.LoadUint64(&nd.m.Control(0).Entries[5][me].Seq) }
	slow, left := make(chan struct{}), make(chan struct{})
	isSlow := sync.OnceFunc(func() { close(slow) })
	leaves := watched{t.Context(), func() error {
		if step(0) == last {
			return context.Canceled
		}
		return nil
	}}
	reads := watched{t.Context(), func() error {
		if step(1) == taken {
			isSlow()
			<-left
		}
		return nil
	}}
	within(t, "ReducePrivate", func() {
		team := []int{0, 1, 2}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := reduce(leaves, 5, team, 0, 1, 6, sum{}); !errors.Is(err, context.Canceled) {
				t.Errorf("who leaves: %v, want %v", err, context.Canceled)
			}
			elsewhere(70)
			close(left)
		})
		for me, x := range map[int]struct {
			ctx context.Context
			op  coll.Folder[uint32]
		}{1: {reads, sum{}}, 2: {t.Context(), calls{f: func() { <-slow }}}} {
			wg.Go(func() {
				if err := reduce(x.ctx, 5, team, me, uint32(1+me), 6, x.op); err != nil {
					t.Errorf("member %d: %v", me, err)
				}
			})
		}
		wg.Wait()
	})
	elsewhere(80)
	area := unsafe.Slice((*uint32)(unsafe.Pointer(&nd.m.Control(0).Area)), layout.AreaSize/4)
	if !slices.Contains(area, 80) {
		t.Error("the area was not written again, and nobody reads it any more")
	}
}

// panics is an operator that does.
type panics struct{}

func (panics) Fold(_, _ []uint32) { panic("of an operator") }

// A reduction in pieces that go through slots, as the area is in use, breaks the team when the
// operator panics in one and others follow: the others would take the next collective's step
// for that of a piece.
func TestPanicBetweenPieces(t *testing.T) {
	const elems = 10_000
	nd := newNode(t, 2)
	nd.each(t, 6, []int{0, 1}, func(me int, outer *coll.Team) error {
		tm, err := coll.New(coll.Config{Map: nd.m, Waiter: nd.waiters[me], Members: []int{0, 1}, Me: me, ID: 7, Failures: nd.failures})
		if err != nil {
			return err
		}
		inner := sync.OnceFunc(func() {
			op := coll.Folder[uint32](sum{})
			if me == 0 {
				op = panics{}
			}
			defer func() {
				if _ = recover(); me == 0 {
					if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
						t.Errorf("after the panic: %v, want %v", err, coll.ErrBroken)
					}
				}
			}()
			if err := coll.ReducePrivate(t.Context(), tm, make([]uint32, elems), make([]uint32, elems), op, -1); !errors.Is(err, coll.ErrBroken) {
				t.Errorf("the other member: %v, want %v", err, coll.ErrBroken)
			}
		})
		return coll.ReducePrivate(t.Context(), outer, make([]uint32, elems), make([]uint32, elems), calls{f: inner}, -1)
	})
}
