package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

func procs(ranks ...codec.Rank) []codec.Proc {
	var out []codec.Proc
	for _, r := range ranks {
		out = append(out, codec.Proc{Nspace: "job-1", Rank: r})
	}
	return out
}

// construct makes the given processes construct a group, and returns each one's view of it.
func (w *world) construct(t *testing.T, id string, ranks []codec.Rank, opts client.GroupOptions) []*client.Group {
	t.Helper()
	out := make([]*client.Group, len(ranks))
	var g errgroup.Group
	for i, r := range ranks {
		g.Go(func() (err error) {
			out[i], err = w.clients[r].Groups.Construct(w.ctx, id, procs(ranks...), opts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGroups(t *testing.T) {
	w := start(t, 4)
	members := []codec.Rank{0, 2, 3}
	for i, g := range w.construct(t, "g", members, client.GroupOptions{AssignContextID: true}) {
		want := &client.Group{ID: "g", Members: procs(members...), ContextID: 1, HasContextID: true}
		if diff := cmp.Diff(want, g); diff != "" {
			t.Errorf("member %d (-want +got):\n%s", i, diff)
		}
	}
	second := w.construct(t, "h", members, client.GroupOptions{AssignContextID: true})
	if second[0].ContextID == 1 {
		t.Error("two groups have the same context")
	}
	if g := w.construct(t, "plain", []codec.Rank{1}, client.GroupOptions{})[0]; g.HasContextID {
		t.Errorf("context %d without a request for one", g.ContextID)
	}
	var e errgroup.Group
	for _, r := range members {
		e.Go(func() error { return w.clients[r].Groups.Destruct(w.ctx, "g", 0) })
	}
	if err := e.Wait(); err != nil {
		t.Error(err)
	}
	if err := w.clients[1].Groups.Destruct(w.ctx, "h", 0); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("destruct of a group of others: %v, want ErrNotFound", err)
	}
	for _, id := range []string{"", "a\x00b"} {
		if _, err := w.clients[1].Groups.Construct(w.ctx, id, procs(1), client.GroupOptions{}); err == nil {
			t.Errorf("group %q was accepted", id)
		}
	}
}

func TestGroupLeaveAndDeath(t *testing.T) {
	w := start(t, 4)
	r := newRecorder()
	w.register(t, 0, r, client.HandlerOptions{Name: "h"}, codec.StatusGroupLeft, codec.StatusGroupMemberFailed)
	w.construct(t, "g", []codec.Rank{0, 1, 2, 3}, client.GroupOptions{NotifyTermination: true, FTCollective: true})
	if err := w.clients[1].Groups.Leave(w.ctx, "g"); err != nil {
		t.Fatal(err)
	}
	w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 2}, server.Exit{Signal: 9})
	r.expect(w.ctx, t, "h: -160 from job-1.1 about job-1.1", "h: -170 from job-1.2 about job-1.2")
	var e errgroup.Group
	for _, rank := range []int{0, 3} {
		e.Go(func() error { return w.clients[rank].Groups.Destruct(w.ctx, "g", 0) })
	}
	if err := e.Wait(); err != nil {
		t.Error(err)
	}
}

func TestGroupDeathBeforeItIsMade(t *testing.T) {
	for _, tolerant := range []bool{false, true} {
		w := start(t, 3)
		opts := client.GroupOptions{FTCollective: tolerant}
		var e errgroup.Group
		for _, r := range []int{0, 1} {
			e.Go(func() error {
				g, err := w.clients[r].Groups.Construct(w.ctx, "g", procs(0, 1, 2), opts)
				if tolerant && err == nil {
					if diff := cmp.Diff(procs(0, 1), g.Members); diff != "" {
						return fmt.Errorf("members (-want +got):\n%s", diff)
					}
				}
				if !tolerant && !errors.Is(err, client.ErrProcFailed) {
					return fmt.Errorf("%w, want ErrProcFailed", err)
				}
				if tolerant {
					return err
				}
				return nil
			})
		}
		w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 2}, server.Exit{Signal: 9})
		if err := e.Wait(); err != nil {
			t.Errorf("tolerant %v: %v", tolerant, err)
		}
	}
}

// answerInvitations makes processes answer every invitation as respond says.
func (w *world) answerInvitations(t *testing.T, ranks []int, respond func(c *client.Client, id string, leader codec.Proc) error) *errgroup.Group {
	t.Helper()
	g := new(errgroup.Group)
	for _, r := range ranks {
		c := w.clients[r]
		invitations := make(chan func() error, 1)
		_, err := c.Events.Register(w.ctx, []codec.Status{codec.StatusGroupInvited}, client.HandlerOptions{Name: "invited"},
			func(ev *client.Event) client.Result {
				v, _ := ev.Has(codec.KeyGroupID)
				id, _ := v.Str()
				leader := ev.Source
				invitations <- func() error { return respond(c, id, leader) }
				return client.Result{}
			})
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			select {
			case do := <-invitations:
				return do()
			case <-w.ctx.Done():
				return w.ctx.Err()
			}
		})
	}
	return g
}

func TestInvitation(t *testing.T) {
	w := start(t, 3)
	for round := range 2 { // events of the first round must not count in the second
		g := w.answerInvitations(t, []int{1, 2}, func(c *client.Client, id string, leader codec.Proc) error {
			got, err := c.Groups.Join(w.ctx, id, leader)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(&client.Group{ID: "g", Members: procs(0, 1, 2)}, got); diff != "" {
				return fmt.Errorf("joined (-want +got):\n%s", diff)
			}
			return c.Groups.Destruct(w.ctx, id, 0)
		})
		got, err := w.clients[0].Groups.Invite(w.ctx, "g", procs(codec.RankWildcard), client.GroupOptions{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if diff := cmp.Diff(&client.Group{ID: "g", Members: procs(0, 1, 2)}, got); diff != "" {
			t.Errorf("made (-want +got):\n%s", diff)
		}
		if err := w.clients[0].Groups.Destruct(w.ctx, "g", 0); err != nil {
			t.Error(err)
		}
		if err := g.Wait(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		w.clients[1], w.clients[2] = w.again(t, 1), w.again(t, 2)
	}
	if g, err := w.clients[0].Groups.Invite(w.ctx, "alone", procs(0), client.GroupOptions{}); err != nil || len(g.Members) != 1 {
		t.Errorf("group of one member: %+v, %v", g, err)
	}
}

// again finalizes a client and connects it anew, without its handlers.
func (w *world) again(t *testing.T, rank codec.Rank) *client.Client {
	t.Helper()
	if err := w.clients[rank].Finalize(w.ctx); err != nil {
		t.Fatal(err)
	}
	return w.dial(t, rank)
}

func TestDeclinedInvitation(t *testing.T) {
	for _, optional := range []bool{false, true} {
		w := start(t, 4)
		g := w.answerInvitations(t, []int{1, 2}, func(c *client.Client, id string, leader codec.Proc) error {
			if c.Rank() == 2 {
				return c.Groups.Decline(w.ctx, id, leader)
			}
			_, err := c.Groups.Join(w.ctx, id, leader)
			if optional {
				return err
			}
			if !errors.Is(err, client.ErrGroupAborted) {
				return fmt.Errorf("%w, want ErrGroupAborted", err)
			}
			return nil
		})
		w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 3}, server.Exit{Code: 1})
		got, err := w.clients[0].Groups.Invite(w.ctx, "g", procs(1, 2, 3), client.GroupOptions{Optional: optional})
		if optional {
			if err != nil || len(got.Members) != 2 {
				t.Errorf("optional: %+v, %v", got, err)
			}
		} else {
			var refused *client.DeclinedError
			if !errors.As(err, &refused) || !errors.Is(err, client.ErrProcFailed) {
				t.Fatalf("%v, want a DeclinedError", err)
			}
			if diff := cmp.Diff(&client.DeclinedError{Group: "g", Declined: procs(2), Failed: procs(3)}, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestLeaderDies(t *testing.T) {
	w := start(t, 3)
	g := w.answerInvitations(t, []int{1}, func(c *client.Client, id string, leader codec.Proc) error {
		w.srv.ProcExited(leader, server.Exit{Signal: 9})
		_, err := c.Groups.Join(w.ctx, id, leader)
		var status *client.StatusError
		if !errors.As(err, &status) || status.Status != codec.StatusGroupLeaderFailed {
			return fmt.Errorf("%w, want PMIX_GROUP_LEADER_FAILED", err)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(w.ctx)
	var leader errgroup.Group
	leader.Go(func() error {
		_, err := w.clients[0].Groups.Invite(ctx, "g", procs(1, 2), client.GroupOptions{}) // rank 2 does not answer
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w, want context.Canceled", err)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := leader.Wait(); err != nil {
		t.Error(err)
	}
}
