package coll_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// piecesOf returns bytes in which no two pieces are equal, nor the pieces of two broadcasts.
func piecesOf(n int, seed uint64) []byte {
	buf := make([]byte, n)
	for i := range buf {
		buf[i] = byte(seed + uint64(i) + uint64(i)>>8*7 + uint64(i)>>14*13)
	}
	return buf
}

// firstDifference returns where two buffers of one length differ, or -1 if they are equal.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Two teams with a common member broadcast private memory in many pieces, and both want that
// member's area. All members get the root's bytes, however late they are.
func TestBroadcastInPieces(t *testing.T) {
	nd := newNode(t, 4)
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	team := func(id int, members []int, me int) *coll.Team {
		tm, err := coll.New(nd.config(id, me, members))
		if err != nil {
			t.Error(err)
		}
		return tm
	}
	three, two := []int{0, 1, 2}, []int{0, 3}
	play := func(tm *coll.Team, id uint64, me int, rng, own *rand.Rand) {
		for range 1 + rng.IntN(3) {
			n, root, seed := 1+rng.IntN(2*layout.StreamSize), rng.IntN(tm.Size()), rng.Uint64()+id
			want := piecesOf(n, seed)
			buf := make([]byte, n)
			if me == root {
				copy(buf, want)
			}
			for range own.IntN(100) {
				runtime.Gosched()
			}
			if err := coll.BroadcastPrivate(t.Context(), tm, buf, root); err != nil {
				t.Errorf("member %d: %v", me, err)
				return
			}
			if i := firstDifference(buf, want); i >= 0 {
				t.Errorf("member %d: byte %d of %d from %d differs", me, i, n, root)
			}
		}
	}
	mustFinish(t, "BroadcastPrivate", func() {
		var wg sync.WaitGroup
		for pe := range 4 {
			wg.Go(func() {
				own := rand.New(rand.NewPCG(uint64(pe), 9))
				var a, b *coll.Team
				if pe < 3 {
					a = team(5, three, pe)
				}
				if pe == 0 || pe == 3 {
					b = team(6, two, pe/3)
				}
				for round := range uint64(rounds) {
					if a != nil {
						play(a, 1, pe, rand.New(rand.NewPCG(1, round)), own)
					}
					if b != nil {
						play(b, 2, pe/3, rand.New(rand.NewPCG(2, round)), own)
					}
				}
			})
		}
		wg.Wait()
	})
}

// A member that has broadcast lends the places to another team only when all members have read
// them. Here one member has not begun until the other team has broadcast, or waits in the only
// step.
func TestStreamOfSlowReader(t *testing.T) {
	nd := newNode(t, 4)
	broadcast := func(ctx context.Context, id int, members []int, me, n int, seed uint64) {
		tm, err := coll.New(nd.config(id, me, members))
		if err != nil {
			t.Error(err)
			return
		}
		want := piecesOf(n, seed)
		buf := make([]byte, n)
		if me == 0 {
			copy(buf, want)
		}
		if err := coll.BroadcastPrivate(ctx, tm, buf, 0); err != nil {
			t.Errorf("team %d, member %d: %v", id, me, err)
		} else if at := firstDifference(buf, want); at >= 0 {
			t.Errorf("team %d, member %d: byte %d of %d differs", id, me, at, n)
		}
	}
	three, two := []int{0, 1, 2}, []int{0, 3}
	const other = layout.StreamSize              // all places
	for _, n := range []int{800 << 10, 10_000} { // as many pieces as there are places, and one piece
		inStep, taken, poured := make(chan struct{}), make(chan struct{}), make(chan struct{})
		slow := context.Context(watchedCtx{t.Context(), sync.OnceValue(func() error {
			close(inStep)
			<-poured
			return nil
		})})
		if n > 10_000 {
			slow = t.Context()
			close(inStep)
		}
		mustFinish(t, "BroadcastPrivate", func() {
			var wg sync.WaitGroup
			wg.Go(func() {
				<-inStep
				broadcast(t.Context(), 5, three, 0, n, 1)
				<-taken // so that only the slow member keeps the places from being lent
				broadcast(t.Context(), 6, two, 0, other, 77)
				close(poured)
			})
			wg.Go(func() { broadcast(t.Context(), 6, two, 1, other, 77) })
			wg.Go(func() {
				broadcast(t.Context(), 5, three, 1, n, 1)
				close(taken)
			})
			wg.Go(func() {
				if n > 10_000 {
					<-poured
				}
				broadcast(slow, 5, three, 2, n, 1)
			})
			wg.Wait()
		})
	}
}

// A root that is as many pieces ahead as there are places waits for a member that has entered the
// step of the first piece but read nothing.
func TestStreamWaitsForReader(t *testing.T) {
	const n = layout.StreamSize + 1 // one piece too many
	nd := newNode(t, 2)
	inStep, ahead := make(chan struct{}), make(chan struct{})
	want, isAhead := piecesOf(n, 5), sync.OnceFunc(func() { close(ahead) })
	go func() {
		<-inStep
		nd.waitForSleeper(0)
		isAhead()
	}()
	reads := watchedCtx{t.Context(), sync.OnceValue(func() error {
		close(inStep)
		<-ahead
		return nil
	})}
	nd.each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		if me == 0 {
			defer isAhead() // a root that does not wait
			<-inStep
			return coll.BroadcastPrivate(t.Context(), tm, want, 0)
		}
		buf := make([]byte, n)
		err := coll.BroadcastPrivate(reads, tm, buf, 0)
		if at := firstDifference(buf, want); at >= 0 {
			t.Errorf("byte %d differs", at)
		}
		return err
	})
}

// A root that gives up in the middle, because no place is free, leaves no member waiting.
func TestStreamGivenUp(t *testing.T) {
	const n = 2 * layout.StreamSize
	nd := newNode(t, 2)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	gaveUp := make(chan struct{})
	nd.each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		if me == 0 {
			defer close(gaveUp)
			if err := coll.BroadcastPrivate(canceled, tm, piecesOf(n, 3), 0); !errors.Is(err, context.Canceled) {
				t.Errorf("the root: error %v, want %v", err, context.Canceled)
			}
			return nil
		}
		<-gaveUp
		if err := coll.BroadcastPrivate(t.Context(), tm, make([]byte, n), 0); !errors.Is(err, coll.ErrBroken) {
			t.Errorf("the other member: error %v, want %v", err, coll.ErrBroken)
		}
		return nil
	})
}
