package coll_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// teamOfOne returns a team whose only member is pe.
func (nd *node) teamOfOne(t *testing.T, pe, id int) *coll.Team {
	t.Helper()
	return newTeam(t, nd.config(id, 0, []int{pe}))
}

// An id is free again at once, however many steps its last group made.
func TestIDAgain(t *testing.T) {
	nd := newNode(t, 1)
	world, id := nd.teamOfOne(t, 0, 0), 0
	for round := range 5 {
		g, err := coll.Split(t.Context(), world, firstPEs(1), false)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			id = g.ID()
		} else if g.ID() != id {
			t.Fatalf("round %d: got id %d, want %d again", round, g.ID(), id)
		}
		for range 20 {
			err = errors.Join(err, g.Sync(t.Context()))
		}
		if err = errors.Join(err, g.Dissolve(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a rival the first try succeeds: the chosen id is free on all members, whichever of them
// use other ids.
func TestFirstTry(t *testing.T) {
	const want = 4 // because one member uses 3
	for user := range 3 {
		nd := newNode(t, 3)
		nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
			if alone := nd.teamOfOne(t, me, 1); me == user {
				if _, err := coll.Split(t.Context(), alone, firstPEs(1), false); err != nil {
					return err
				}
			}
			g, err := coll.Split(t.Context(), world, firstPEs(3), false)
			if err != nil {
				return err
			}
			if steps := nd.m.Control(me).Teams[0].Seq; g.ID() != want || steps != 2 {
				return fmt.Errorf("got id %d after %d steps, want %d after 2: PE %d uses id 3", g.ID(), steps, want, user)
			}
			return g.Sync(t.Context())
		})
	}
}

// rival claims an id for PE 0 alone while a Split or Survivors of both PEs is under way, after PE
// 0's offer. The other PE has had greater numbers, so the numbers do not show it.
type rival struct {
	nd    *node
	alone *coll.Team
	held  *coll.Team
	err   error
}

func newRival(t *testing.T) *rival {
	t.Helper()
	r := &rival{nd: newNode(t, 2)}
	r.alone = r.nd.teamOfOne(t, 0, 1)
	other := r.nd.teamOfOne(t, 1, 1)
	for range 100 {
		if err := other.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rival) claim() {
	r.held, r.err = coll.Split(context.Background(), r.alone, firstPEs(1), false)
}

// checkBoth checks that both groups of PE 0 work.
func (r *rival) checkBoth(t *testing.T, groups []*coll.Team) {
	t.Helper()
	if r.err != nil || groups[0] == nil || groups[1] == nil {
		t.Fatalf("got groups %v and the rival's error %v", groups, r.err)
	}
	if groups[0].ID() == r.held.ID() || groups[0].ID() != groups[1].ID() {
		t.Fatalf("ids %d and %d, the rival has %d: want equal ids that differ from the rival's", groups[0].ID(), groups[1].ID(), r.held.ID())
	}
	var wg sync.WaitGroup
	for me, g := range groups {
		wg.Go(func() {
			if err := errors.Join(g.Sync(t.Context()), g.Dissolve(t.Context())); err != nil {
				t.Errorf("member %d: %v", me, err)
			}
		})
	}
	mustFinish(t, "Sync", wg.Wait)
	if err := errors.Join(r.held.Sync(t.Context()), r.held.Dissolve(t.Context())); err != nil {
		t.Error(err)
	}
}

// If a rival has claimed an id since it was offered, no other group gets it.
func TestClaimedSinceOffer(t *testing.T) {
	r, groups := newRival(t), make([]*coll.Team, 2)
	waits, once := make(chan struct{}), sync.Once{}
	mustFinish(t, "Split", func() {
		r.nd.each(t, 0, firstPEs(2), func(me int, world *coll.Team) (err error) {
			ctx := t.Context()
			if me == 0 {
				ctx = meddling{ctx, func() error { once.Do(func() { r.claim(); close(waits) }); return nil }}
			} else {
				<-waits
			}
			groups[me], err = coll.Split(ctx, world, firstPEs(2), false)
			return err
		})
	})
	r.checkBoth(t, groups)
}

// Survivors chooses again if one member could not claim the id.
func TestSurvivorsClaimAgain(t *testing.T) {
	r, groups := newRival(t), make([]*coll.Team, 2)
	b, once := &ballot{n: 2}, sync.Once{}
	mustFinish(t, "Survivors", func() {
		r.nd.each(t, 0, firstPEs(2), func(me int, world *coll.Team) (err error) {
			groups[me], err = coll.Survivors(t.Context(), world, func(ctx context.Context, flags uint64) (uint64, []int, error) {
				all, failed, err := b.vote(ctx, flags)
				if me == 0 {
					once.Do(r.claim)
				}
				return all, failed, err
			}, false)
			return err
		})
	})
	r.checkBoth(t, groups)
}
