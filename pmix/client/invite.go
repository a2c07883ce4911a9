package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/pmix/wire"
)

// DeclinedError says that a group did not come about because invited processes did not want it or could not answer.
type DeclinedError struct {
	Group    string
	Declined []wire.Proc
	Failed   []wire.Proc
}

// Error names the group and the processes.
func (e *DeclinedError) Error() string {
	return fmt.Sprintf("pmix invite to group %s: declined by %v, failed %v", e.Group, e.Declined, e.Failed)
}

// Is makes ErrProcFailed of a failure of those invited.
func (e *DeclinedError) Is(target error) bool { return target == ErrProcFailed && len(e.Failed) > 0 }

// ErrGroupAborted says that the leader of a group gave its construction up.
var ErrGroupAborted = errors.New("pmix: construction of the group was given up by its leader")

// invitation is the leader's view of a group in the making.
type invitation struct {
	id      string
	mu      sync.Mutex
	answers map[wire.Proc]wire.Status // StatusSuccess: none yet
	open    int
	done    chan struct{} // closed when nobody is left to answer
}

// GroupInvite makes a group of this process, its leader, and those of procs that accept: they get
// wire.StatusGroupInvited and answer by GroupJoin or GroupDecline. Several invitations with different names may be open.
// A context identifier is not assigned, and opts.Timeout is for the context to set.
//
//   - Errors: a *DeclinedError, unless opts.Optional lets the group do without those; the context's. After an error, those
//     who accepted learn that the group is given up.
func (c *Client) GroupInvite(ctx context.Context, id string, procs []wire.Proc, opts GroupOptions) (*Group, error) {
	op := "invite to group " + id
	if err := checkGroupID(id); err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	invited, err := c.invitees(procs)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	inv := &invitation{id: id, answers: map[wire.Proc]wire.Status{}, open: len(invited), done: make(chan struct{})}
	for _, p := range invited {
		inv.answers[p] = wire.StatusSuccess
	}
	if inv.open == 0 {
		close(inv.done)
	} else if err := c.invite(ctx, inv, invited, opts); err != nil {
		return nil, err
	}
	return c.settle(ctx, inv, invited, opts)
}

// invitees lists procs without this one, a wildcard of this namespace resolved.
func (c *Client) invitees(procs []wire.Proc) ([]wire.Proc, error) {
	seen := map[wire.Proc]bool{c.Proc(): true}
	var out []wire.Proc
	add := func(p wire.Proc) {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, p := range procs {
		switch {
		case p.Rank != wire.RankWildcard:
			add(p)
		case p.Nspace != c.Nspace():
			return nil, fmt.Errorf("%v, want processes of other namespaces named one by one", p)
		default:
			for r := range c.Size() {
				add(wire.Proc{Nspace: p.Nspace, Rank: wire.Rank(r)})
			}
		}
	}
	return out, nil
}

// invite sends the invitations out and waits for the answers. An error that it returns has been told to those invited.
func (c *Client) invite(ctx context.Context, inv *invitation, invited []wire.Proc, opts GroupOptions) error {
	codes := []wire.Status{
		wire.StatusGroupInviteAccepted, wire.StatusGroupInviteDeclined, wire.StatusGroupInviteFailed,
		wire.StatusGroupMemberFailed,
	}
	handler, err := c.RegisterHandler(ctx, codes, HandlerOptions{
		Name: "goshmem-group-invite", Order: OrderPrepend, Range: wire.RangeCustom, Sources: invited, Fresh: true,
	}, inv.answer)
	if err != nil {
		return err
	}
	defer func() { _ = c.DeregisterHandler(context.WithoutCancel(ctx), handler) }() // fails if the connection has
	if err := c.Notify(ctx, groupEvent(wire.StatusGroupInvited, inv.id, invited, opts.infos()...)); err != nil {
		return err
	}
	select {
	case <-inv.done:
		return nil
	case <-c.lost:
		return &StatusError{Op: "invite to group " + inv.id, Status: wire.StatusErrLostConnection}
	case <-ctx.Done():
		c.giveUp(ctx, inv.id, invited)
		return fmt.Errorf("pmix invite to group %s: %w", inv.id, ctx.Err())
	}
}

// groupEvent is an event for some processes only, and those of their handlers that name its code.
func groupEvent(status wire.Status, id string, to []wire.Proc, infos ...wire.Info) wire.Event {
	infos = append(infos, wire.Info{Key: wire.KeyGroupID, Value: wire.StringValue(id)})
	return wire.Event{Status: status, Range: wire.RangeCustom, Targets: to, NonDefault: true, Info: infos}
}

func (c *Client) giveUp(ctx context.Context, id string, to []wire.Proc) {
	if len(to) > 0 {
		_ = c.Notify(context.WithoutCancel(ctx), groupEvent(wire.StatusGroupConstructAbort, id, to)) // who is gone need not know
	}
}

// answer takes what somebody answered to an invitation. libpmix does not say to which.
func (inv *invitation) answer(ev *Event) Result {
	if v, named := ev.Has(wire.KeyGroupID); named {
		if id, _ := v.Str(); id != inv.id {
			return Result{Status: wire.StatusEventNoActionTaken}
		}
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	status, invited := inv.answers[ev.Source]
	// Who has accepted may still fail; everything else is final.
	fails := ev.Status == wire.StatusGroupMemberFailed && status == wire.StatusGroupInviteAccepted
	if !invited || status != wire.StatusSuccess && !fails {
		return Result{Status: wire.StatusEventNoActionTaken}
	}
	inv.answers[ev.Source] = ev.Status
	if status == wire.StatusSuccess {
		inv.open--
		if inv.open == 0 {
			close(inv.done)
		}
	}
	return Result{}
}

// settle makes the group known to those who accepted, or gives it up.
func (c *Client) settle(ctx context.Context, inv *invitation, invited []wire.Proc, opts GroupOptions) (*Group, error) {
	inv.mu.Lock()
	refused := &DeclinedError{Group: inv.id}
	members := []wire.Proc{c.Proc()}
	for _, p := range invited {
		switch inv.answers[p] {
		case wire.StatusGroupInviteAccepted:
			members = append(members, p)
		case wire.StatusGroupInviteFailed, wire.StatusGroupMemberFailed:
			refused.Failed = append(refused.Failed, p)
		default:
			refused.Declined = append(refused.Declined, p)
		}
	}
	inv.mu.Unlock()
	if len(members) <= len(invited) && !opts.Optional {
		c.giveUp(ctx, inv.id, invited)
		return nil, refused
	}
	membership := wire.Info{Key: wire.KeyGroupMembership, Value: wire.ProcsValue(members...)}
	ev := groupEvent(wire.StatusGroupConstructComplete, inv.id, members, append(opts.infos(), membership)...)
	if err := c.Notify(ctx, ev); err != nil {
		c.giveUp(ctx, inv.id, members[1:])
		return nil, err
	}
	return &Group{ID: inv.id, Members: members}, nil
}

// GroupJoin accepts an invitation and waits until the group is complete.
//
//   - Errors: ErrGroupAborted; ErrProcFailed when the leader ended first; the context's.
func (c *Client) GroupJoin(ctx context.Context, id string, leader wire.Proc) (*Group, error) {
	op := "join group " + id
	news := make(chan *Event, 1)
	codes := []wire.Status{wire.StatusGroupConstructComplete, wire.StatusGroupConstructAbort, wire.StatusGroupLeaderFailed}
	handler, err := c.RegisterHandler(ctx, codes, HandlerOptions{
		Name: "goshmem-group-join", Range: wire.RangeCustom, Sources: []wire.Proc{leader}, Fresh: true,
	}, func(ev *Event) Result {
		v, _ := ev.Has(wire.KeyGroupID)
		if of, _ := v.Str(); of != id {
			return Result{Status: wire.StatusEventNoActionTaken}
		}
		select {
		case news <- ev:
		default: // the first word counts
		}
		return Result{}
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.DeregisterHandler(context.WithoutCancel(ctx), handler) }() // fails if the connection has
	if err := c.reply(ctx, wire.StatusGroupInviteAccepted, id, leader); err != nil {
		return nil, err
	}
	select {
	case ev := <-news:
		return joined(op, id, ev)
	case <-c.lost:
		return nil, &StatusError{Op: op, Status: wire.StatusErrLostConnection}
	case <-ctx.Done():
		return nil, fmt.Errorf("pmix %s: %w", op, ctx.Err())
	}
}

func joined(op, id string, ev *Event) (*Group, error) {
	switch ev.Status {
	case wire.StatusGroupConstructComplete:
		g := &Group{ID: id, Members: ev.Targets}
		g.take(ev.Info)
		return g, nil
	case wire.StatusGroupConstructAbort:
		return nil, fmt.Errorf("pmix %s: %w", op, ErrGroupAborted)
	default:
		return nil, &StatusError{Op: op, Status: ev.Status}
	}
}

// GroupDecline answers an invitation with no.
func (c *Client) GroupDecline(ctx context.Context, id string, leader wire.Proc) error {
	return c.reply(ctx, wire.StatusGroupInviteDeclined, id, leader)
}

func (c *Client) reply(ctx context.Context, status wire.Status, id string, leader wire.Proc) error {
	ev := groupEvent(status, id, []wire.Proc{leader})
	ev.NoCache = true // a leader that does not wait for it has given up
	return c.Notify(ctx, ev)
}
