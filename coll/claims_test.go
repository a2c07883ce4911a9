package coll_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// alone returns a team of one PE.
func (nd *node) alone(t *testing.T, pe, id int) *coll.Team {
	t.Helper()
	tm, err := coll.New(coll.Config{Map: nd.m.Map, Waiter: nd.waiters[pe], Members: near(pe), ID: id, Failures: nd.failures})
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// An id is used again at once, however many steps its last group had.
func TestIDAgain(t *testing.T) {
	nd := newNode(t, 1)
	world, id := nd.alone(t, 0, 0), 0
	for round := range 5 {
		g, err := coll.Split(t.Context(), world, upTo(1), false)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			id = g.ID()
		} else if g.ID() != id {
			t.Fatalf("round %d: id %d, want %d again", round, g.ID(), id)
		}
		for range 20 {
			err = errors.Join(err, g.Sync(t.Context()))
		}
		if err = errors.Join(err, g.Dissolve(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a rival the first try is the last: the id that is chosen is free with all members,
// whoever of them uses others.
func TestFirstTry(t *testing.T) {
	const want = 4 // as one of them uses 3
	for user := range 3 {
		nd := newNode(t, 3)
		nd.each(t, 0, upTo(3), func(me int, world *coll.Team) error {
			if alone := nd.alone(t, me, 1); me == user {
				if _, err := coll.Split(t.Context(), alone, upTo(1), false); err != nil {
					return err
				}
			}
			g, err := coll.Split(t.Context(), world, upTo(3), false)
			if err != nil {
				return err
			}
			if steps := nd.m.Control(me).Teams[0].Seq; g.ID() != want || steps != 2 {
				return fmt.Errorf("id %d after %d steps, want %d after 2: PE %d uses id 3", g.ID(), steps, want, user)
			}
			return g.Sync(t.Context())
		})
	}
}

// rival takes an id for PE 0 alone while a Split, or Survivors, of both PEs is under way there,
// behind its offer. The other PE has had greater numbers, so that these do not tell.
type rival struct {
	nd    *node
	alone *coll.Team
	held  *coll.Team
	err   error
}

func newRival(t *testing.T) *rival {
	t.Helper()
	r := &rival{nd: newNode(t, 2)}
	r.alone = r.nd.alone(t, 0, 1)
	other := r.nd.alone(t, 1, 1)
	for range 100 {
		if err := other.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rival) claim() { r.held, r.err = coll.Split(context.Background(), r.alone, upTo(1), false) }

// good checks that both groups of PE 0 work.
func (r *rival) good(t *testing.T, groups []*coll.Team) {
	t.Helper()
	if r.err != nil || groups[0] == nil || groups[1] == nil {
		t.Fatalf("groups %v, and the rival's %v", groups, r.err)
	}
	if groups[0].ID() == r.held.ID() || groups[0].ID() != groups[1].ID() {
		t.Fatalf("ids %d and %d, and the rival's is %d", groups[0].ID(), groups[1].ID(), r.held.ID())
	}
	var wg sync.WaitGroup
	for me, g := range groups {
		wg.Go(func() {
			if err := errors.Join(g.Sync(t.Context()), g.Dissolve(t.Context())); err != nil {
				t.Errorf("member %d: %v", me, err)
			}
		})
	}
	within(t, "Sync", wg.Wait)
	if err := errors.Join(r.held.Sync(t.Context()), r.held.Dissolve(t.Context())); err != nil {
		t.Error(err)
	}
}

// An id that a rival has claimed since it was offered is nobody else's.
func TestClaimedSinceOffer(t *testing.T) {
	r, groups := newRival(t), make([]*coll.Team, 2)
	waits, once := make(chan struct{}), sync.Once{}
	within(t, "Split", func() {
		r.nd.each(t, 0, upTo(2), func(me int, world *coll.Team) (err error) {
			ctx := t.Context()
			if me == 0 {
				ctx = meddling{ctx, func() error { once.Do(func() { r.claim(); close(waits) }); return nil }}
			} else {
				<-waits
			}
			groups[me], err = coll.Split(ctx, world, upTo(2), false)
			return err
		})
	})
	r.good(t, groups)
}

// Survivors choose once more if one of them could not claim the id.
func TestSurvivorsClaimAgain(t *testing.T) {
	r, groups := newRival(t), make([]*coll.Team, 2)
	b, once := &ballot{n: 2}, sync.Once{}
	within(t, "Survivors", func() {
		r.nd.each(t, 0, upTo(2), func(me int, world *coll.Team) (err error) {
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
	r.good(t, groups)
}
