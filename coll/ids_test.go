package coll_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A number of a group is greater than all that its members have had with the id, also if
// one of them had a group with it while the others were waited for.
func TestSlowSplit(t *testing.T) {
	nd := newNode(t, 2)
	world, alone := nd.member(t, 0, nd.failures), (*coll.Team)(nil)
	nd.each(t, 1, []int{0}, func(_ int, tm *coll.Team) error { alone = tm; return nil })
	slow := make(chan error, 2)
	split := func(world *coll.Team, me int) {
		g, err := coll.Split(t.Context(), world, upTo(2), false)
		if err == nil {
			err = nd.proves(t.Context(), g, upTo(2), me, 5, 1)
		}
		slow <- err
	}
	within(t, "Split", func() {
		go split(world, 0)
		nd.asleep(0)
		g, err := coll.Split(t.Context(), alone, upTo(1), false)
		if err != nil {
			t.Error(err)
			return
		}
		for range 100 {
			err = errors.Join(err, g.Sync(t.Context()))
		}
		if err = errors.Join(err, g.Dissolve(t.Context())); err != nil {
			t.Error(err)
		}
		last := nd.m.Control(0).Teams[g.ID()].Seq
		go split(nd.member(t, 1, nd.failures), 1)
		for range 2 {
			if err := <-slow; err != nil {
				t.Error(err)
			}
		}
		for pe := range 2 {
			if tm := nd.m.Control(pe).Teams[g.ID()]; tm.Used != 0 && tm.Seq <= last {
				t.Errorf("PE %d: the group with id %d is at %d, another one was at %d", pe, g.ID(), tm.Seq, last)
			}
		}
	})
}

// Who has released a team writes into none of its words any more: they may be another's.
func TestLeaveReleased(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, upTo(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		g, err := coll.Split(ctx, world, [][]int{{0, 1}, {0, 1}, nil}[me], false)
		if err != nil {
			return err
		}
		g.Release()
		if err := world.Sync(ctx); err != nil {
			return err
		}
		next, err := coll.Split(ctx, world, [][]int{{0, 2}, nil, {0, 2}}[me], false)
		if err != nil {
			return err
		}
		if me == 1 {
			words, votes := nd.m.Control(0).Entries[g.ID()], nd.m.Control(1).Votes[g.ID()]
			if g.Leave(); words != nd.m.Control(0).Entries[g.ID()] || votes != nd.m.Control(1).Votes[g.ID()] {
				t.Error("a member of an earlier group wrote into the words of this one")
			}
		}
		if err := world.Sync(ctx); err != nil || me == 1 {
			return err
		}
		return next.Dissolve(ctx)
	})
}

// meddling is a context that does something, once, where a wait looks at it.
type meddling struct {
	context.Context
	look func() error
}

func (m meddling) Err() error { return m.look() }

// The id of a group that came to nothing is free only when nobody writes into its words
// any more: here one gives up in the midst of a Split that fails.
func TestFailedClaimIsHeld(t *testing.T) {
	nd := newNodeWith(t, 3, wait.PolicyFor(3, 1))
	const id = 3
	held, looked := make(chan struct{}), make(chan struct{})
	given := func(pe int) uint64 { return atomic.LoadUint64(&nd.m.Control(pe).Teams[id].Used) }
	nd.each(t, 0, upTo(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		var once sync.Once
		switch me {
		case 0: // has claimed, waits for the others, and takes its time to give up
			ctx = meddling{ctx, func() error {
				if given(0) == 0 {
					return nil
				}
				once.Do(func() { close(held); <-looked })
				return context.Canceled
			}}
		case 1: // loses the race for the id behind its offer, and comes late to the claims
			ctx = meddling{ctx, func() error {
				once.Do(func() { atomic.StoreUint64(&nd.m.Control(1).Teams[id].Used, 1<<40); <-held })
				return nil
			}}
		case 2: // comes last to the offers
			for given(1) == 0 {
				runtime.Gosched()
			}
			go func() {
				<-held
				for atomic.LoadUint64(&nd.m.Control(2).Teams[0].Seq) < 3 { // in the next try
					runtime.Gosched()
				}
				if given(2) == 0 {
					t.Error("PE 2 has freed the id of which PE 0 may still write words")
				}
				close(looked)
			}()
		}
		_, err := coll.Split(ctx, world, upTo(3), false)
		if err == nil {
			return errors.New("a Split went well of which one member gave up")
		}
		return nil
	})
}

// Who gives a Split up frees the id only when no other member can claim it any more: one that
// is slow would write into the words of another group.
func TestSlowClaim(t *testing.T) {
	nd := newNodeWith(t, 3, wait.PolicyFor(3, 1))
	waits, others, slow := make(chan struct{}), make(chan struct{}), make(chan struct{})
	claimed := func(pe int) bool {
		for id := range nd.m.Control(pe).Teams {
			if atomic.LoadUint64(&nd.m.Control(pe).Teams[id].Used) != 0 {
				return true
			}
		}
		return false
	}
	pair := make([]*coll.Team, 3)
	nd.each(t, 1, []int{0, 2}, func(me int, tm *coll.Team) error { pair[2*me] = tm; return nil })
	within(t, "Split", func() {
		nd.each(t, 0, upTo(3), func(me int, world *coll.Team) error {
			var once sync.Once
			if me == 2 { // comes last to the offers
				<-waits
			}
			g, err := coll.Split(meddling{t.Context(), func() error {
				if me == 1 { // has made its offer, and is slow to see those of the others
					once.Do(func() { close(waits); <-others })
				} else if claimed(me) {
					return context.Canceled
				}
				return nil
			}}, world, upTo(3), false)
			if me == 1 {
				defer close(slow)
				if g != nil || !errors.Is(err, coll.ErrBroken) { // although both have come to the claims
					return fmt.Errorf("the slow one: %v, %w, want ErrBroken", g, err)
				}
				return nil
			}
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("who gives up: %w", err)
			}
			if err = pair[me].Sync(t.Context()); err == nil { // both have released the group
				g, err = coll.Split(t.Context(), pair[me], upTo(2), false)
			}
			if err == nil {
				err = pair[me].Sync(t.Context())
			}
			if err != nil {
				return err
			}
			words := nd.m.Control(0).Entries[g.ID()]
			if err := pair[me].Sync(t.Context()); err != nil {
				return err
			}
			if me == 0 {
				close(others)
			}
			<-slow
			if words != nd.m.Control(0).Entries[g.ID()] {
				return errors.New("a member of an earlier group wrote into the words of this one")
			}
			if err := pair[me].Sync(t.Context()); err != nil {
				return err
			}
			return errors.Join(g.Sync(t.Context()), g.Dissolve(t.Context()))
		})
	})
}

// A member that dies between the votes of Survivors is in no group that they make.
func TestSurvivorsDiesBetween(t *testing.T) {
	nd := newNode(t, 3)
	b := &ballot{n: 2, failed: []int{2}}
	var wg sync.WaitGroup
	for me := range 2 {
		world, first := nd.member(t, me, nd.failures), true
		wg.Go(func() {
			g, err := coll.Survivors(t.Context(), world, func(ctx context.Context, flags uint64) (uint64, []int, error) {
				all, failed, err := b.vote(ctx, flags)
				if first { // it took part in this one
					first, failed = false, nil
				}
				return all, failed, err
			}, false)
			if err != nil {
				t.Errorf("PE %d: %v", me, err)
				return
			}
			if pes := g.PEs(); !slices.Equal(pes, []layout.PE{0, 1}) {
				t.Errorf("PE %d: a group of PEs %v, want 0 and 1, as 2 died meanwhile", me, pes)
				return
			}
			if err := errors.Join(nd.proves(t.Context(), g, upTo(2), me, 5, 9), g.Dissolve(t.Context())); err != nil {
				t.Errorf("PE %d: %v", me, err)
			}
		})
	}
	within(t, "Survivors", wg.Wait)
}
