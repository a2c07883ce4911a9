package coll_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// secondNode returns the teams of PEs 3 to 5 of 6, which are on the second of two nodes.
func secondNode(t *testing.T, incarnation func(layout.PE) uint32) (teams []*coll.Team, nd *node) {
	t.Helper()
	const first, npes = 3, 6
	page, err := failure.Create([16]byte{}, npes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = page.Close() })
	nd = &node{page: page}
	if nd.failures, err = failure.Attach(int(page.File().Fd()), [16]byte{}, npes); err != nil {
		t.Fatal(err)
	}
	var members []coll.Member
	for i := range layout.Local(npes - first) {
		pe := first + layout.PE(i)
		f, err := symheap.Create(symheap.Identity{PE: uint32(pe), NPEs: npes, Incarnation: 1}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if nd.m.Map == nil {
			st, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if nd.m.Map, err = symheap.NewMap([16]byte{}, npes-first, uint64(st.Size())); err != nil {
				t.Fatal(err)
			}
		}
		if err := nd.m.Attach(i, pe, int(f.Fd())); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		members = append(members, coll.Member{Local: i, PE: pe})
	}
	for me, m := range members {
		w := wait.NewWaiter(&nd.m.Map.Control(m.Local).Bell, wait.Policy{})
		w.Watch(nd.failures)
		tm, err := coll.New(coll.Config{
			Map: nd.m.Map, Waiter: w, Members: members, Me: me, ID: coll.ShmemShared, Failures: nd.failures, Incarnation: incarnation,
		})
		if err != nil {
			t.Fatal(err)
		}
		teams = append(teams, tm)
	}
	return teams, nd
}

// onEach calls body for some members of a team in parallel and returns their errors.
func onEach(teams []*coll.Team, body func(tm *coll.Team) error) []error {
	done := make([]chan error, len(teams))
	for i, tm := range teams {
		done[i] = make(chan error, 1)
		go func() { done[i] <- body(tm) }()
	}
	errs := make([]error, len(teams))
	for i := range done {
		errs[i] = <-done[i]
	}
	return errs
}

// A team finds its members by their indices on the node, and their deaths by their numbers in the
// job.
func TestSecondNode(t *testing.T) {
	teams, nd := secondNode(t, nil)
	sync := func(tm *coll.Team) error { return tm.Sync(context.Background()) }
	mustFinish(t, "a step and a split on the second node", func() {
		for pe := range 3 { // these numbers are indices of members here
			nd.page.Publish(pe, 1, failure.ByExit(1), 0)
		}
		if err := errors.Join(onEach(teams, sync)...); err != nil {
			t.Errorf("deaths on the other node: %v", err)
		}
		errs := onEach(teams, func(tm *coll.Team) error {
			var order []int
			if tm.Me() != 1 {
				order = []int{2, 0}
			}
			g, err := coll.Split(context.Background(), tm, order, false)
			if err != nil || g == nil {
				return err
			}
			if pes := g.PEs(); !slices.Equal(pes, []layout.PE{5, 3}) {
				t.Errorf("split of PEs %v, want 5 and 3", pes)
			}
			return g.Dissolve(context.Background())
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	mustFinish(t, "a step after a death", func() {
		nd.kill(4)
		for _, err := range onEach([]*coll.Team{teams[0], teams[2]}, sync) {
			wantDeadError(t, "a survivor's error", err, 1)
		}
		for _, tm := range []*coll.Team{teams[0], teams[2]} {
			if tm.Deserted() != true {
				t.Errorf("the death of PE 4 is not known to member %d", tm.Me())
			}
		}
	})
}

// The job says which incarnation of a member died. The death of an earlier incarnation is not the
// member's.
func TestMembersIncarnation(t *testing.T) {
	teams, nd := secondNode(t, func(pe layout.PE) uint32 {
		if pe == 4 {
			return 2
		}
		return 1
	})
	agree := func(tm *coll.Team) error {
		a, err := coll.Agree(context.Background(), tm, 1)
		if err == nil && len(a.Failed) > 0 {
			return &coll.DeadError{Members: a.Failed}
		}
		return err
	}
	mustFinish(t, "agreements", func() {
		nd.page.Publish(4, 1, failure.ByExit(1), 0)
		if err := errors.Join(onEach(teams, agree)...); err != nil {
			t.Errorf("the death of an earlier incarnation: %v, want no error", err)
		}
		nd.page.Publish(4, 2, failure.ByExit(1), 0)
		for _, err := range onEach([]*coll.Team{teams[0], teams[2]}, agree) {
			wantDeadError(t, "a survivor's error", err, 1)
		}
	})
}

func TestMembersFrom(t *testing.T) {
	pes := func(yield func(layout.Local, layout.PE) bool) { _ = yield(0, 3) && yield(1, 4) }
	if got := coll.MembersFrom(pes); !slices.Equal(got, []coll.Member{{Local: 0, PE: 3}, {Local: 1, PE: 4}}) {
		t.Errorf("got %+v", got)
	}
}
