package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/reach"
)

func init() {
	everyCollective["ReducePrivate direct"] = func(ctx context.Context, tm *coll.Team, root int) error {
		return coll.ReducePrivate(ctx, tm, make([]uint32, 40_000), make([]uint32, 40_000), sum, root)
	}
}

// newPair returns a node of two PEs that say that they can reach each other.
func newPair(t *testing.T) *node {
	t.Helper()
	nd := newNode(t, 2)
	for pe := range 2 {
		reach.Publish(nd.m.Control(pe))
	}
	return nd
}

// refuseFrom lets accesses to the memory of other processes fail from the k-th one on, counted from 0, and counts
// them. A negative k lets none fail. The test is not parallel to others.
func refuseFrom(t *testing.T, k int, why error) (accesses *atomic.Int32) {
	t.Helper()
	accesses = new(atomic.Int32)
	reach.Refuse = func() error {
		if n := int(accesses.Add(1)) - 1; k >= 0 && n >= k {
			return why
		}
		return nil
	}
	t.Cleanup(func() { reach.Refuse = nil })
	return accesses
}

// unending returns a context that cannot end: with another one, members copy nothing directly.
func unending(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// playDirect makes random collectives of private memory on a team of two members, and changes each buffer as soon as
// the collective has returned. The members draw by rng, which is the same on both. A member that fails leaves the team, so
// that the other one does not wait for it.
func playDirect(ctx context.Context, tm *coll.Team, me, rounds int, rng *rand.Rand) (err error) {
	defer func() {
		if err != nil {
			tm.Leave()
		}
	}()
	for round := range rounds {
		kind, root, n, salt := rng.IntN(8), rng.IntN(2), 1+rng.IntN(100_000), rng.Uint32()
		of := func(m, i int) uint32 { return salt + uint32(m)*1000003 + uint32(i)*7 }
		src, dst := make([]uint32, n), make([]uint32, n)
		for i := range src {
			src[i] = of(me, i)
		}
		want := func(i int) uint32 { return of(0, i)*3 + of(1, i) }
		switch kind {
		case 0:
			err, dst = tm.Sync(ctx), nil
		case 1, 2, 3:
			if kind == 1 {
				n *= 32 // some halves are more than one system call
			}
			buf := piecesOf(n, uint64(salt)+uint64(me))
			if err = coll.BroadcastDirect(ctx, tm, buf, root); err == nil {
				if at := firstDifference(buf, piecesOf(n, uint64(salt)+uint64(root))); at >= 0 {
					return fmt.Errorf("round %d: byte %d of %d from member %d differs", round, at, n, root)
				}
			}
			clear(buf)
			dst = nil
		case 4:
			err = coll.ReducePrivate(ctx, tm, src, src, weighted, root)
			dst = src
		default:
			err = coll.ReducePrivate(ctx, tm, dst, src, weighted, root)
			clear(src)
		}
		if err != nil {
			return fmt.Errorf("round %d, kind %d: %w", round, kind, err)
		}
		if me != root {
			dst = nil
		}
		for i, v := range dst {
			if v != want(i) {
				return fmt.Errorf("round %d, kind %d: element %d of %d at member %d is %d, want %d", round, kind, i, n, root, v, want(i))
			}
		}
		clear(dst)
	}
	return nil
}

// bytesOfWords returns the bytes of a slice.
func bytesOfWords(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words))
}

// weighted is an operator for which the order of its operands matters.
func weighted(acc, in []uint32) {
	for i := range acc {
		acc[i] = acc[i]*3 + in[i]
	}
}

// Two members that reach each other copy large data directly, of any size and for any root, without a barrier
// between the collectives. Trials are among them.
func TestDirect(t *testing.T) {
	accesses := refuseFrom(t, -1, nil)
	watchNothing(t)
	newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		return playDirect(unending(t), tm, me, 600, rand.New(rand.NewPCG(1, 2)))
	})
	if n := accesses.Load(); n < 500 {
		t.Errorf("%d accesses, want more: one for each small reduction and two for the others, of half of the rounds", n)
	}
}

// Wherever the kernel begins to refuse, the collective goes through areas, and those after it do so on both members.
// A context that can end, and a member that no other one reaches, keep both members from copying directly.
func TestDirectRefused(t *testing.T) {
	const most = 12
	for k := range 12 {
		nd, accesses := newPair(t), refuseFrom(t, k, syscall.EPERM)
		nd.each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
			return playDirect(unending(t), tm, me, 60, rand.New(rand.NewPCG(uint64(k), 3)))
		})
		// Both members make all accesses of a collective before they learn that one was refused: at most the blocks of
		// 100,000 elements, read and written.
		if n := int(accesses.Load()); n <= k || n > k+most {
			t.Errorf("refused from access %d on: %d accesses, want one more to %d more", k, n, most)
		}
	}
}

func TestDirectPasses(t *testing.T) {
	for _, who := range []int{0, 1, 2} { // 2: both
		accesses := refuseFrom(t, -1, nil)
		newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
			ctx := unending(t)
			if who == me || who == 2 {
				ctx = t.Context()
			}
			return playDirect(ctx, tm, me, 30, rand.New(rand.NewPCG(4, 5)))
		})
		if n := accesses.Load(); n != 0 {
			t.Errorf("the context of member %d can end: %d accesses, want none", who, n)
		}
	}
	for who := range 2 {
		nd := newPair(t)
		nd.m.Control(who).Reach.PID = 0
		nd.each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
			return playDirect(unending(t), tm, me, 30, rand.New(rand.NewPCG(4, 6)))
		})
	}
}

// What two members fold in place needs their sources until the end: it is never copied directly.
func TestDirectInPlace(t *testing.T) {
	accesses := refuseFrom(t, -1, nil)
	newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		all := make([]uint32, 40_000)
		for i := range all {
			all[i] = uint32(i * (1 + me))
		}
		if err := coll.ReducePrivate(unending(t), tm, all, all, sum, 1); err != nil {
			return err
		}
		for i, v := range all {
			if want := uint32(i * (1 + 2*me)); v != want { // member 0 keeps its own
				return fmt.Errorf("element %d at member %d is %d, want %d", i, me, v, want)
			}
		}
		return nil
	})
	if n := accesses.Load(); n != 0 {
		t.Errorf("%d accesses, want none", n)
	}
}

// A member that begins with direct copies gets an error if the other one has called another collective, or has given
// another size. Neither waits forever.
func TestDirectMismatch(t *testing.T) {
	ctx := unending(t)
	broadcasts := func(n, root int) func(tm *coll.Team) error {
		return func(tm *coll.Team) error { return coll.BroadcastDirect(ctx, tm, make([]byte, n), root) }
	}
	reduces := func(n, root int) func(tm *coll.Team) error {
		return func(tm *coll.Team) error {
			return coll.ReducePrivate(ctx, tm, make([]uint32, n), make([]uint32, n), sum, root)
		}
	}
	calls := []func(tm *coll.Team) error{
		broadcasts(40_000, 0), broadcasts(40_001, 0), broadcasts(40_000, 1), reduces(10_000, 0), reduces(10_001, 0), reduces(10_000, 1),
		broadcasts(20_000, 0), broadcasts(9, 0), reduces(3000, 0), reduces(1, 0), reduces(10_000, -1),
		func(tm *coll.Team) error { return tm.Sync(ctx) },
	}
	const direct = 6 // of the calls
	for a, first := range calls {
		for b, second := range calls {
			if a == b {
				continue
			}
			var errs [2]error
			newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
				call := first
				if me == 1 {
					call = second
				}
				errs[me] = call(tm)
				tm.Leave()
				return nil
			})
			for me, err := range errs {
				if _, other := errors.AsType[*coll.OtherError](err); !other && !errors.Is(err, coll.ErrBroken) && [2]int{a, b}[me] < direct {
					t.Errorf("calls %d and %d: member %d got %v, want an error of another call", a, b, me, err)
				}
			}
		}
	}
}

// A root whose operator panics returns only when the other member writes to the root's memory no more.
func TestDirectOperatorPanics(t *testing.T) {
	const n = 100_000 // more than the root folds alone
	nd := newPair(t)
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	nd.each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		if me == 1 {
			err := coll.ReducePrivate(unending(t), tm, nil, make([]uint32, n), func(acc, in []uint32) {
				<-goOn
				sum(acc, in)
			}, 0)
			if !errors.Is(err, coll.ErrBroken) {
				t.Errorf("the other member got %v, want %v", err, coll.ErrBroken)
			}
			return nil
		}
		defer func() {
			entered := atomic.LoadUint64(&nd.m.Control(0).Entries[5][1].Seq)
			release()
			if r := recover(); r != "panic" {
				t.Errorf("recovered %v, want the operator's panic", r)
			}
			if entered < 2 {
				t.Errorf("the root's call ended when the other member was in step %d, want 2", entered)
			}
			if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
				t.Errorf("after the panic: %v, want %v", err, coll.ErrBroken)
			}
		}()
		return coll.ReducePrivate(unending(t), tm, make([]uint32, n), make([]uint32, n), func(_, _ []uint32) {
			for atomic.LoadUint64(&nd.m.Control(0).Entries[5][1].Seq) < 1 {
				runtime.Gosched()
			}
			go func() { // from here on, the root sleeps only to wait for the other member
				nd.waitForSleeper(0)
				release()
			}()
			panic("panic")
		}, 0)
	})
}
