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

// The numbers of a group are greater than all that its members have used with its id, even if one
// member had another group with that id while it waited for the others.
func TestSlowSplit(t *testing.T) {
	nd := newNode(t, 2)
	world, alone := nd.member(t, 0, nd.failures), (*coll.Team)(nil)
	nd.each(t, 1, []int{0}, func(_ int, tm *coll.Team) error { alone = tm; return nil })
	slow := make(chan error, 2)
	split := func(world *coll.Team, me int) {
		g, err := coll.Split(t.Context(), world, firstPEs(2), false)
		if err == nil {
			err = nd.checkGroup(t.Context(), g, firstPEs(2), me, 5, 1)
		}
		slow <- err
	}
	mustFinish(t, "Split", func() {
		go split(world, 0)
		nd.waitForSleeper(0)
		g, err := coll.Split(t.Context(), alone, firstPEs(1), false)
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
				t.Errorf("PE %d: the group with id %d is at step %d, but an earlier one was at %d", pe, g.ID(), tm.Seq, last)
			}
		}
	})
}

// A member that has released a team no longer writes any of its words, because they may belong to
// another team.
func TestLeaveReleased(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
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
				t.Error("a member of an earlier group wrote to the words of this one")
			}
		}
		if err := world.Sync(ctx); err != nil || me == 1 {
			return err
		}
		return next.Dissolve(ctx)
	})
}

// meddling is a context that acts once, when a wait looks at it.
type meddling struct {
	context.Context
	look func() error
}

func (m meddling) Err() error { return m.look() }

// The id of a group that failed is free only when no member writes its words any more. Here one
// member gives up in the middle of a Split that fails.
func TestFailedClaimIsHeld(t *testing.T) {
	nd := newNodeWith(t, 3, wait.PolicyFor(3, 1))
	const id = 3
	held, looked := make(chan struct{}), make(chan struct{})
	given := func(pe int) uint64 { return atomic.LoadUint64(&nd.m.Control(pe).Teams[id].Used) }
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		var once sync.Once
		switch me {
		case 0: // has claimed the id, waits for the others, and is slow to give up
			ctx = meddling{ctx, func() error {
				if given(0) == 0 {
					return nil
				}
				once.Do(func() { close(held); <-looked })
				return context.Canceled
			}}
		case 1: // loses the race for the id after its offer, and is late for the claims
			ctx = meddling{ctx, func() error {
				once.Do(func() { atomic.StoreUint64(&nd.m.Control(1).Teams[id].Used, 1<<40); <-held })
				return nil
			}}
		case 2: // is last to offer
			for given(1) == 0 {
				runtime.Gosched()
			}
			go func() {
				<-held
				for atomic.LoadUint64(&nd.m.Control(2).Teams[0].Seq) < 3 { // in the next try
					runtime.Gosched()
				}
				if given(2) == 0 {
					t.Error("PE 2 freed the id although PE 0 may still write its words")
				}
				close(looked)
			}()
		}
		_, err := coll.Split(ctx, world, firstPEs(3), false)
		if err == nil {
			return errors.New("Split succeeded although one member gave up")
		}
		return nil
	})
}

// A member that gives up a Split frees the id only when no other member can claim it any more.
// Otherwise a slow member would write to the words of another group.
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
	mustFinish(t, "Split", func() {
		nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
			var once sync.Once
			if me == 2 { // is last to offer
				<-waits
			}
			g, err := coll.Split(meddling{t.Context(), func() error {
				if me == 1 { // has made its offer, and is slow to read those of the others
					once.Do(func() { close(waits); <-others })
				} else if claimed(me) {
					return context.Canceled
				}
				return nil
			}}, world, firstPEs(3), false)
			if me == 1 {
				defer close(slow)
				if g != nil || !errors.Is(err, coll.ErrBroken) { // although both claimed the id
					return fmt.Errorf("the slow member: got %v, %w, want ErrBroken", g, err)
				}
				return nil
			}
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("the member that gives up: %w", err)
			}
			if err = pair[me].Sync(t.Context()); err == nil { // both members have released the group
				g, err = coll.Split(t.Context(), pair[me], firstPEs(2), false)
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
				return errors.New("a member of an earlier group wrote to the words of this one")
			}
			if err := pair[me].Sync(t.Context()); err != nil {
				return err
			}
			return errors.Join(g.Sync(t.Context()), g.Dissolve(t.Context()))
		})
	})
}

// A member that dies between the votes of Survivors is not in the group.
func TestSurvivorsDiesBetween(t *testing.T) {
	nd := newNode(t, 3)
	b := &ballot{n: 2, failed: []int{2}}
	var wg sync.WaitGroup
	for me := range 2 {
		world, first := nd.member(t, me, nd.failures), true
		wg.Go(func() {
			g, err := coll.Survivors(t.Context(), world, func(ctx context.Context, flags uint64) (uint64, []int, error) {
				all, failed, err := b.vote(ctx, flags)
				if first { // it took part in the first vote
					first, failed = false, nil
				}
				return all, failed, err
			}, false)
			if err != nil {
				t.Errorf("PE %d: %v", me, err)
				return
			}
			if pes := g.PEs(); !slices.Equal(pes, []layout.PE{0, 1}) {
				t.Errorf("PE %d: got a group of PEs %v, want 0 and 1, because 2 died meanwhile", me, pes)
				return
			}
			if err := errors.Join(nd.checkGroup(t.Context(), g, firstPEs(2), me, 5, 9), g.Dissolve(t.Context())); err != nil {
				t.Errorf("PE %d: %v", me, err)
			}
		})
	}
	mustFinish(t, "Survivors", wg.Wait)
}
