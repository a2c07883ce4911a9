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

// watchedCtx is a context that calls ask in the middle of a wait, before the sleep.
type watchedCtx struct {
	context.Context
	ask func() error
}

func (w watchedCtx) Err() error { return w.ask() }

// callThenSum returns an operator that calls f before it adds.
func callThenSum(f func()) coll.Op[uint32] {
	return func(acc, in []uint32) {
		f()
		sum(acc, in)
	}
}

// repeated returns n elements of one value.
func repeated(n int, value uint32) []uint32 { return slices.Repeat([]uint32{value}, n) }

// A member that has finished a reduction, or whose context ended in its last step, does not write
// its area for another team while a slow member may still read its share there. Later it does.
func TestAreaOfSlowReader(t *testing.T) {
	t.Run("well", func(t *testing.T) { testSlowReader(t, nil) })
	t.Run("canceled", func(t *testing.T) { testSlowReader(t, context.Canceled) })
}

// testSlowReader makes the first member's reduction end with an error, or without if ends is nil.
func testSlowReader(t *testing.T, ends error) {
	const taken = 2 // the step after which shares are read
	nd := newNode(t, 4)
	team := areaUse{nd, 5, []int{0, 1, 2}}
	elsewhere := func(value uint32) { // PE 0, and a PE that is not in the first team
		other := areaUse{nd, 6, []int{0, 3}}
		var wg sync.WaitGroup
		for me := range 2 {
			wg.Go(func() {
				if err := other.reduce(t.Context(), me, value, 2*value, sum); err != nil {
					t.Errorf("the other team: member %d: %v", me, err)
				}
			})
		}
		wg.Wait()
	}
	step := func(me int) uint64 { return atomic.LoadUint64(&nd.m.Control(0).Entries[5][me].Seq) }
	slow, ended, through := make(chan struct{}), make(chan struct{}), make(chan struct{})
	isSlow := sync.OnceFunc(func() { close(slow) })
	fast := watchedCtx{t.Context(), func() error {
		if step(0) == taken {
			return ends
		}
		return nil
	}}
	reads := watchedCtx{t.Context(), func() error {
		if step(1) == taken {
			isSlow()
			<-through
		}
		return nil
	}}
	late := func() { // member 2 enters once member 1 is slow and the fast one has checked its context
		<-slow
		if ends != nil {
			<-ended
		}
	}
	mustFinish(t, "ReducePrivate", func() {
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := team.reduce(fast, 0, 1, 6, sum); !errors.Is(err, ends) {
				t.Errorf("the fast member: error %v, want %v", err, ends)
			}
			close(ended)
			elsewhere(70)
			close(through)
		})
		for me, x := range map[int]struct {
			ctx context.Context
			op  coll.Op[uint32]
		}{1: {reads, sum}, 2: {t.Context(), callThenSum(late)}} {
			wg.Go(func() {
				if err := team.reduce(x.ctx, me, uint32(1+me), 6, x.op); err != nil {
					t.Errorf("member %d: %v", me, err)
				}
			})
		}
		wg.Wait()
	})
	elsewhere(80)
	area := unsafe.Slice((*uint32)(unsafe.Pointer(&nd.m.Control(0).Area)), layout.AreaSize/4)
	if !slices.Contains(area, 80) {
		t.Error("the area was not reused although no member reads it any more")
	}
}

// Teams that use one area by turns find it free, because each leaves it free.
func TestAreaMoves(t *testing.T) {
	const rounds = 50
	nd := newNode(t, 3)
	mustFinish(t, "ReducePrivate", func() {
		var wg sync.WaitGroup
		for pe, uses := range [][]struct {
			areaUse
			me int
		}{
			{{areaUse{nd, 5, []int{0, 1, 2}}, 0}, {areaUse{nd, 6, []int{0, 2}}, 0}},
			{{areaUse{nd, 5, []int{0, 1, 2}}, 1}},
			{{areaUse{nd, 5, []int{0, 1, 2}}, 2}, {areaUse{nd, 6, []int{0, 2}}, 1}},
		} {
			wg.Go(func() {
				for k := range uint32(rounds) {
					for _, u := range uses {
						if err := u.reduce(t.Context(), u.me, k, k*uint32(len(u.members)), sum); err != nil {
							t.Errorf("PE %d, round %d, team %d: %v", pe, k, u.id, err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
	used := false
	area := unsafe.Slice((*uint32)(unsafe.Pointer(&nd.m.Control(0).Area)), layout.AreaSize/4)
	for i := range area {
		used = used || area[i] == 2*(rounds-1) // the share of the other team's last reduction
	}
	if !used {
		t.Error("the other team did not use the area in its last round")
	}
}

// panics is an operator that panics.
func panics(_, _ []uint32) { panic("of an operator") }

// A reduction runs in pieces through slots because the area is in use. If its operator panics in
// one piece and others follow, the team breaks: otherwise the other members would take the next
// collective's step for that of a piece.
func TestPanicBetweenPieces(t *testing.T) {
	const elems = 10_000
	nd := newNode(t, 2)
	nd.each(t, 6, []int{0, 1}, func(me int, outer *coll.Team) error {
		tm, err := coll.New(nd.config(7, me, []int{0, 1}))
		if err != nil {
			return err
		}
		inner := sync.OnceFunc(func() {
			op := coll.Op[uint32](sum)
			if me == 0 {
				op = panics
			}
			defer func() {
				if _ = recover(); me == 0 {
					if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
						t.Errorf("after the panic: error %v, want %v", err, coll.ErrBroken)
					}
				}
			}()
			if err := coll.ReducePrivate(t.Context(), tm, make([]uint32, elems), make([]uint32, elems), op, -1); !errors.Is(err, coll.ErrBroken) {
				t.Errorf("the other member: error %v, want %v", err, coll.ErrBroken)
			}
		})
		return coll.ReducePrivate(t.Context(), outer, make([]uint32, elems), make([]uint32, elems), callThenSum(inner), -1)
	})
}

// areaUse is a team whose reductions use areas.
type areaUse struct {
	nd      *node
	id      int
	members []int
}

// reduce adds 10,000 equal elements, which make one piece.
func (u areaUse) reduce(ctx context.Context, me int, value, want uint32, op coll.Op[uint32]) error {
	const elems = 10_000
	tm, err := coll.New(u.nd.config(u.id, me, u.members))
	if err != nil {
		return err
	}
	dst := make([]uint32, elems)
	if err := coll.ReducePrivate(ctx, tm, dst, repeated(elems, value), op, -1); err != nil {
		return err
	}
	if !slices.Equal(dst, repeated(elems, want)) {
		return fmt.Errorf("got %d ... %d, want %d", dst[0], dst[elems-1], want)
	}
	return nil
}

// An area is used again although a dead member was one of its readers.
func TestAreaOfDeadReader(t *testing.T) {
	nd := newNode(t, 3)
	over := make(chan struct{})
	defer close(over)
	all, both := areaUse{nd, 5, firstPEs(3)}, areaUse{nd, 6, []int{0, 2}}
	mustFinish(t, "ReducePrivate", func() {
		go func() { _ = all.reduce(t.Context(), 1, 1, 3, mortal{func() { nd.kill(1) }, over}.fold) }()
		var wg sync.WaitGroup
		for _, me := range []int{0, 2} {
			wg.Go(func() { wantDeadError(t, "a survivor", all.reduce(t.Context(), me, 1, 3, sum), 1) })
		}
		wg.Wait()
		for me := range 2 {
			wg.Go(func() {
				if err := both.reduce(t.Context(), me, 90, 180, sum); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	area := unsafe.Slice((*uint32)(unsafe.Pointer(&nd.m.Control(0).Area)), layout.AreaSize/4)
	if !slices.Contains(area, 90) {
		t.Error("the area was not reused although no living member reads it any more")
	}
}

// Members use areas only if the area of each of them is free.
func TestAreaOfAnyIsTaken(t *testing.T) {
	nd := newNode(t, 3)
	outer, inner := areaUse{nd, 5, []int{0, 1}}, areaUse{nd, 6, []int{0, 2}}
	started, done := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(started)
		if err := inner.reduce(t.Context(), 0, 70, 140, sum); err != nil {
			t.Errorf("the other team: member 0: %v", err)
		}
		close(done)
	})
	mustFinish(t, "ReducePrivate", func() {
		var wg sync.WaitGroup
		for me, f := range []func(){once, func() { <-done }} {
			wg.Go(func() {
				if err := outer.reduce(t.Context(), me, uint32(1+me), 3, callThenSum(f)); err != nil {
					t.Errorf("member %d: %v", me, err)
				}
			})
		}
		wg.Go(func() {
			<-started
			if err := inner.reduce(t.Context(), 1, 70, 140, sum); err != nil {
				t.Errorf("the other team: member 1: %v", err)
			}
		})
		wg.Wait()
	})
}
