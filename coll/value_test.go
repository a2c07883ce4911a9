package coll_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// wide is a value that is larger than a slot and is broadcast in three pieces.
type wide [10_000]uint32

// wideSum adds wide values.
func wideSum(acc, in []wide) {
	for i := range acc {
		sum(acc[i][:], in[i][:])
	}
}

// largest is the largest value that fits into a slot, beyond the smallest that does not.
type (
	largest [coll.MaxPrivate]byte
	beyond  [coll.MaxPrivate + 1]byte
)

func init() {
	everyCollective["ReduceValue"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		v := uint32(1)
		return coll.ReduceValue(ctx, tm, &v, sum)
	}
	everyCollective["ReduceValue large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.ReduceValue(ctx, tm, new(wide), wideSum)
	}
}

// Values of all sizes are folded in the order of the group, whichever members are late, with other
// collectives in between.
func TestReduceValue(t *testing.T) {
	for _, members := range [][]int{{0}, {1, 0}, {2, 0, 3, 1}} {
		nd := newNode(t, len(members))
		nd.each(t, 3, members, func(me int, tm *coll.Team) error {
			for round := range 50 {
				// The operator does not commute: the digits come in the order of the group.
				digits, want := uint64(me+1), uint64(0)
				for i := range members {
					want = want*10 + uint64(i+1)
				}
				if err := coll.ReduceValue(t.Context(), tm, &digits, func(acc, in []uint64) { acc[0] = acc[0]*10 + in[0] }); err != nil || digits != want {
					return fmt.Errorf("got digits %d, want %d: %w", digits, want, err)
				}
				if err := errors.Join(
					reduceToLast(t.Context(), tm, round, new(largest), func(x *largest) []byte { return x[:] }),
					reduceToLast(t.Context(), tm, round, new(beyond), func(x *beyond) []byte { return x[:] }),
				); err != nil {
					return err
				}
				w, n := new(wide), uint32(len(members))
				for j := range w {
					w[j] = uint32(j*round + me)
				}
				if err := coll.ReduceValue(t.Context(), tm, w, wideSum); err != nil {
					return err
				}
				for j := range w {
					if want := uint32(j*round)*n + n*(n-1)/2; w[j] != want {
						return fmt.Errorf("element %d of a wide value is %d, want %d", j, w[j], want)
					}
				}
			}
			return nil
		})
	}
}

// reduceToLast reduces values to those of the last member.
func reduceToLast[T any](ctx context.Context, tm *coll.Team, round int, v *T, bytes func(*T) []byte) error {
	b := bytes(v)
	for j := range b {
		b[j] = byte(j*7 + tm.Me() + round)
	}
	if err := coll.ReduceValue(ctx, tm, v, func(acc, in []T) { copy(acc, in) }); err != nil {
		return err
	}
	for j := range b {
		if want := byte(j*7 + tm.Size() - 1 + round); b[j] != want {
			return fmt.Errorf("byte %d of %d is %d, want %d", j, len(b), b[j], want)
		}
	}
	return nil
}

// A reduction of a value larger than a slot has the same contributors on all survivors of a
// tolerant team, or fails on all of them alike and leaves their values unchanged. The team goes
// on.
func TestReduceValueIsWhole(t *testing.T) {
	const n, victim = 4, 1
	for folds := range n { // of the victim, before it dies
		nd := newNode(t, n)
		over := make(chan struct{})
		var ended, died sync.WaitGroup
		die := nd.killLater(&died, victim, folds*10)
		var failed [n]bool
		for me := range n {
			tm, v := nd.tolerantTeam(t, me), new(wide)
			for j := range v {
				v[j] = 1 << (8 * me)
			}
			if left := folds; me == victim {
				mortal := dieIn{left: &left, mortal: mortal{die, over}}
				go func() {
					_ = coll.ReduceValue(t.Context(), tm, v, func(acc, in []wide) { mortal.fold(acc[0][:], in[0][:]) })
					die()
				}()
				continue
			}
			ended.Go(func() {
				want := uint32(0x01010101)
				err := coll.ReduceValue(t.Context(), tm, v, wideSum)
				if failed[me] = err != nil; err != nil {
					wantDeadError(t, "a survivor", err, victim)
					want = 1 << (8 * me)
				}
				for j := range v {
					if v[j] != want {
						t.Errorf("element %d is %#x, want %#x after the error %v", j, v[j], want, err)
						break
					}
				}
				for len(tm.Outcome().Failed) == 0 && t.Context().Err() == nil { // it may die after the last step
					runtime.Gosched()
					if err := tm.Sync(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
				if err := coll.ReduceValue(t.Context(), tm, v, wideSum); err != nil {
					t.Errorf("the next reduction: %v", err)
				}
				small := uint32(1)
				if err := coll.ReduceValue(t.Context(), tm, &small, sum); err != nil || small != n-1 {
					t.Errorf("the next reduction of a small value: error %v, got %d, want %d", err, small, n-1)
				}
			})
		}
		mustFinish(t, "ReduceValue", func() { ended.Wait(); died.Wait() })
		close(over)
		if failed[0] != failed[2] || failed[0] != failed[3] {
			t.Errorf("%d folds: failed on some survivors only: %v", folds, failed)
		}
	}
}

// Members that call something else, or pass values of another size, get an error.
func TestReduceValueMismatch(t *testing.T) {
	for name, other := range map[string]func(ctx context.Context, tm *coll.Team) error{
		"another size": func(ctx context.Context, tm *coll.Team) error {
			v := uint64(1)
			return coll.ReduceValue(ctx, tm, &v, func(acc, in []uint64) { acc[0] += in[0] })
		},
		"a wide one": func(ctx context.Context, tm *coll.Team) error { return coll.ReduceValue(ctx, tm, new(wide), wideSum) },
		"a Sync":     func(ctx context.Context, tm *coll.Team) error { return tm.Sync(ctx) },
	} {
		nd := newNode(t, 2)
		nd.each(t, 3, []int{0, 1}, func(me int, tm *coll.Team) error {
			v := uint32(1)
			if me == 1 {
				err := other(t.Context(), tm)
				if _, differs := errors.AsType[*coll.OtherError](err); err != nil && !differs && !errors.Is(err, coll.ErrBroken) {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			}
			err := coll.ReduceValue(t.Context(), tm, &v, sum)
			if _, differs := errors.AsType[*coll.OtherError](err); !differs || v != 1 {
				return fmt.Errorf("%s on the other member: got %d and %w, want an OtherError", name, v, err)
			}
			return nil
		})
	}
}

// If an operator panics, the team still works if the member had entered all steps, as in a Reduce,
// and is broken otherwise.
func TestReduceValuePanic(t *testing.T) {
	for _, large := range []bool{false, true} {
		nd := newNode(t, 3)
		body := func(me int, tm *coll.Team) error {
			call := everyCollective["ReduceValue"]
			if large {
				call = everyCollective["ReduceValue large"]
			}
			if me == 0 {
				call = func(ctx context.Context, tm *coll.Team, _ int) (err error) {
					defer func() {
						if recover() == nil {
							err = errors.New("no panic")
						}
					}()
					if large {
						return coll.ReduceValue(ctx, tm, new(wide), func(_, _ []wide) { panic("of an operator") })
					}
					return coll.ReduceValue(ctx, tm, new(uint32), panics)
				}
			}
			if err := call(t.Context(), tm, 0); large && me != 0 && !errors.Is(err, coll.ErrBroken) || (!large || me == 0) && err != nil {
				return fmt.Errorf("large %v, member %d: %w", large, me, err)
			}
			if err := tm.Sync(t.Context()); large != errors.Is(err, coll.ErrBroken) || !large && err != nil {
				return fmt.Errorf("large %v, member %d, the next collective: %w", large, me, err)
			}
			return nil
		}
		mustFinish(t, "ReduceValue", func() { nd.each(t, 3, []int{0, 1, 2}, body) })
	}
}

// A reduction of a value that fits into a slot does not allocate.
func TestReduceValueAllocatesNothing(t *testing.T) {
	nd := newNode(t, 1)
	tm := nd.member(t, 0, nd.failures)
	v, w := uint32(1), largest{}
	if n := testing.AllocsPerRun(100, func() {
		if err := coll.ReduceValue(t.Context(), tm, &v, sum); err != nil {
			t.Error(err)
		}
		if err := coll.ReduceValue(t.Context(), tm, &w, func(acc, in []largest) { acc[0][0] += in[0][0] }); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
