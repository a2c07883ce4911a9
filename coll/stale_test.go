package coll_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// What a member left in its slots, or said of its call, does not pass for its data in a step in
// which it calls another collective.
func TestStale(t *testing.T) {
	t.Run("Same", func(t *testing.T) {
		nd := newNode(t, 3)
		nd.each(t, 0, firstPEs(3), func(me int, tm *coll.Team) error {
			w := coll.Words{1, 2, 3, 4}
			for range 70 { // more than there are cells
				if differs, _, _, err := tm.Same(t.Context(), w); err != nil || differs >= 0 {
					return fmt.Errorf("the same words: Same returned %d, %w", differs, err)
				}
			}
			if me == 2 {
				return tm.Sync(t.Context())
			}
			if differs, first, other, err := tm.Same(t.Context(), w); err != nil || differs != 2 || first != w || other != (coll.Words{}) {
				return fmt.Errorf("member 2 is in another collective: Same returned %d, %v, %v, %w; want 2, %v and zeros", differs, first, other, err, w)
			}
			return nil
		})
	})
	t.Run("Collect", func(t *testing.T) {
		nd := newNode(t, 3)
		nd.each(t, 0, firstPEs(3), func(me int, tm *coll.Team) error {
			for range 4 {
				if err := coll.Collect[uint32](t.Context(), tm, small, 3*small.N); err != nil {
					return err
				}
			}
			if me == 2 {
				return tm.Sync(t.Context())
			}
			err := coll.Collect[uint32](t.Context(), tm, small, 3*small.N)
			if other, is := errors.AsType[*coll.OtherError](err); !is || other.Member != 2 {
				return fmt.Errorf("member 2 is in another collective: error %w, want an OtherError that names it", err)
			}
			return nil
		})
	})
	t.Run("Reduce large", func(t *testing.T) {
		nd := newNode(t, 3)
		nd.each(t, 0, firstPEs(3), func(me int, tm *coll.Team) error {
			if err := coll.Reduce[uint32](t.Context(), tm, large, sum); err != nil {
				return err
			}
			if me == 2 { // in another collective, of as many steps
				_ = tm.Sync(t.Context())
				_ = tm.Sync(t.Context())
				return nil
			}
			err := coll.Reduce[uint32](t.Context(), tm, large, sum)
			if other, is := errors.AsType[*coll.OtherError](err); !is || other.Member != 2 {
				return fmt.Errorf("member 2 is in another collective: error %w, want an OtherError that names it", err)
			}
			return nil
		})
	})
}

// A broadcast has only its root as contributor.
func TestOutcomeOfBroadcast(t *testing.T) {
	for _, b := range []coll.Buffers{small, large} {
		nd := newNode(t, 3)
		nd.each(t, 0, firstPEs(3), func(_ int, tm *coll.Team) error {
			if err := coll.Broadcast[uint32](t.Context(), tm, b, 1); err != nil {
				return err
			}
			if o := tm.Outcome(); !slices.Equal(o.Contributors, []int{1}) || o.Failed != nil {
				return fmt.Errorf("%d elements from member 1: outcome %+v", b.N, o)
			}
			return nil
		})
	}
}

// Gather and Split need all members, on a tolerant team as well.
func TestNeedsAll(t *testing.T) {
	for name, call := range map[string]func(tm *coll.Team) error{
		"Gather": func(tm *coll.Team) error { _, err := tm.Gather(t.Context(), coll.Words{}); return err },
		"Split":  func(tm *coll.Team) error { _, err := coll.Split(t.Context(), tm, firstPEs(3), false); return err },
	} {
		nd := newNode(t, 3)
		nd.kill(2)
		done := make(chan error, 2)
		for me := range 2 {
			tm := nd.tolerantTeam(t, me)
			go func() { done <- call(tm) }()
		}
		mustFinish(t, name, func() {
			for range 2 {
				wantDeadError(t, name, <-done, 2)
			}
		})
	}
}

// A member of a strict team that notices a death enters no further step.
func TestMarkStays(t *testing.T) {
	nd := newNode(t, 2)
	tm, done := nd.member(t, 0, nd.failures), make(chan error, 1)
	go func() { done <- coll.Broadcast[uint32](t.Context(), tm, large, 1) }()
	mustFinish(t, "Broadcast", func() {
		nd.waitForSleeper(0)
		nd.kill(1)
		wantDeadError(t, "a member that waits for the root", <-done, 1)
	})
	if word := nd.m.Control(0).Entries[0][0].Seq; word != 1<<62|1 {
		t.Errorf("the arrival word is %#x, want the mark and step 1", word)
	}
}

// A member that has given up an agreement takes part in no later one, and neither does a member
// that noticed it.
func TestAgreeGivenUp(t *testing.T) {
	nd := newNode(t, 2)
	first, second := nd.member(t, 0, nd.failures), nd.member(t, 1, nd.failures)
	mustFinish(t, "Agree", func() {
		ended := watchedCtx{t.Context(), func() error { return errors.New("ended") }}
		if _, err := coll.Agree(ended, first, 1); err == nil {
			t.Error("an agreement without the other member returned no error")
		}
		if a, err := coll.Agree(t.Context(), second, 3); err != nil || a.Flags != 1 {
			t.Errorf("the other member, in the same agreement: got %v, %v", a, err)
		}
		for _, x := range []struct {
			who string
			tm  *coll.Team
		}{{"the other member", second}, {"the member that gave up", first}, {"the other member", second}} {
			if _, err := coll.Agree(t.Context(), x.tm, 3); !errors.Is(err, coll.ErrBroken) {
				t.Errorf("%s, in a later agreement: error %v, want ErrBroken", x.who, err)
			}
		}
	})
}
