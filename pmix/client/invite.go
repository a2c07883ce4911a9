package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/pmix/codec"
)

// DeclinedError reports that a group was not constructed because invited processes declined or failed.
type DeclinedError struct {
	Group    string
	Declined []codec.Proc
	Failed   []codec.Proc // processes that ended before the group was complete
}

// Error names the group and the processes.
func (e *DeclinedError) Error() string {
	return fmt.Sprintf("pmix invite to group %s: declined by %v, failed %v", e.Group, e.Declined, e.Failed)
}

// Is reports whether target is ErrProcFailed and an invited process failed.
func (e *DeclinedError) Is(target error) bool { return target == ErrProcFailed && len(e.Failed) > 0 }

// ErrGroupAborted says that the leader of a group aborted its construction.
var ErrGroupAborted = errors.New("pmix: the group's leader aborted its construction")

// invitation is the leader's record of a group under construction.
type invitation struct {
	id      string
	mu      sync.Mutex
	answers map[codec.Proc]codec.Status // the answers of all invited processes; StatusSuccess: none yet
	open    int                         // number of processes that have not answered
	done    chan struct{}               // closed when open becomes 0
}

// Invite constructs a group of this process, which is its leader, and those of procs that accept. Invited processes get
// codec.StatusGroupInvited and answer by Join or Decline. Several invitations with different names may be open.
// A context identifier is not assigned. The context bounds the wait, not opts.Timeout.
//
//   - Errors: a *DeclinedError, unless opts.Optional lets the group do without the processes that declined or failed;
//     the context's. After an error, processes that have accepted are told that the construction is aborted.
func (gs *Groups) Invite(ctx context.Context, id string, procs []codec.Proc, opts GroupOptions) (*Group, error) {
	op := "invite to group " + id
	if err := checkGroupID(id); err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	invited, err := gs.resolveInvited(procs)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	inv := &invitation{id: id, answers: map[codec.Proc]codec.Status{}, open: len(invited), done: make(chan struct{})}
	for _, p := range invited {
		inv.answers[p] = codec.StatusSuccess
	}
	if inv.open == 0 {
		close(inv.done)
	} else if err := gs.collectAnswers(ctx, inv, invited, opts); err != nil {
		return nil, err
	}
	return gs.complete(ctx, inv, invited, opts)
}

// resolveInvited returns procs without this process. A wildcard rank of this namespace becomes its processes.
func (gs *Groups) resolveInvited(procs []codec.Proc) ([]codec.Proc, error) {
	seen := map[codec.Proc]bool{gs.session.proc(): true}
	var out []codec.Proc
	add := func(p codec.Proc) {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, p := range procs {
		switch {
		case p.Rank != codec.RankWildcard:
			add(p)
		case p.Nspace != gs.session.opts.Nspace:
			return nil, fmt.Errorf("%v is a whole namespace, want its processes one by one: only those of this namespace are known", p)
		default:
			for r := range gs.jobSize {
				add(codec.Proc{Nspace: p.Nspace, Rank: codec.Rank(r)})
			}
		}
	}
	return out, nil
}

// collectAnswers sends the invitations and waits for the answers. After an error, the invited processes need no further
// news.
func (gs *Groups) collectAnswers(ctx context.Context, inv *invitation, invited []codec.Proc, opts GroupOptions) error {
	codes := []codec.Status{
		codec.StatusGroupInviteAccepted, codec.StatusGroupInviteDeclined, codec.StatusGroupInviteFailed,
		codec.StatusGroupMemberFailed,
	}
	handler, err := gs.events.Register(ctx, codes, HandlerOptions{
		Name: "goshmem-group-invite", Order: OrderPrepend, Range: codec.RangeCustom, Sources: invited, Fresh: true,
	}, inv.handleAnswer)
	if err != nil {
		return err
	}
	defer func() { _ = gs.events.Deregister(context.WithoutCancel(ctx), handler) }() // fails only with the connection
	if err := gs.events.Notify(ctx, groupEvent(codec.StatusGroupInvited, inv.id, invited, opts.infos()...)); err != nil {
		return err
	}
	select {
	case <-inv.done:
		return nil
	case <-gs.session.lost:
		return &StatusError{Op: "invite to group " + inv.id, Status: codec.StatusErrLostConnection}
	case <-ctx.Done():
		gs.notifyAbort(ctx, inv.id, invited)
		return fmt.Errorf("pmix invite to group %s: %w", inv.id, ctx.Err())
	}
}

// groupEvent returns an event about a group for the processes of to. Default handlers do not get it.
func groupEvent(status codec.Status, id string, to []codec.Proc, infos ...codec.Info) codec.Event {
	infos = append(infos, codec.Info{Key: codec.KeyGroupID, Value: codec.StringValue(id)})
	return codec.Event{Status: status, Range: codec.RangeCustom, Targets: to, NonDefault: true, Info: infos}
}

// notifyAbort tells processes that the construction of a group is aborted.
func (gs *Groups) notifyAbort(ctx context.Context, id string, to []codec.Proc) {
	if len(to) > 0 {
		abort := groupEvent(codec.StatusGroupConstructAbort, id, to)
		_ = gs.events.Notify(context.WithoutCancel(ctx), abort) // a process that has ended needs no news
	}
}

// handleAnswer records the answer to an invitation. libpmix sends answers without the name of the group.
func (inv *invitation) handleAnswer(ev *Event) Result {
	if v, named := ev.Has(codec.KeyGroupID); named {
		if id, _ := v.Str(); id != inv.id {
			return Result{Status: codec.StatusEventNoActionTaken}
		}
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	status, invited := inv.answers[ev.Source]
	// A process that has accepted may still fail; every other answer is final.
	fails := ev.Status == codec.StatusGroupMemberFailed && status == codec.StatusGroupInviteAccepted
	if !invited || status != codec.StatusSuccess && !fails {
		return Result{Status: codec.StatusEventNoActionTaken}
	}
	inv.answers[ev.Source] = ev.Status
	if status == codec.StatusSuccess {
		inv.open--
		if inv.open == 0 {
			close(inv.done)
		}
	}
	return Result{}
}

// complete tells the processes that accepted that the group is complete, or that its construction is aborted.
func (gs *Groups) complete(ctx context.Context, inv *invitation, invited []codec.Proc, opts GroupOptions) (*Group, error) {
	inv.mu.Lock()
	refused := &DeclinedError{Group: inv.id}
	members := []codec.Proc{gs.session.proc()}
	for _, p := range invited {
		switch inv.answers[p] {
		case codec.StatusGroupInviteAccepted:
			members = append(members, p)
		case codec.StatusGroupInviteFailed, codec.StatusGroupMemberFailed:
			refused.Failed = append(refused.Failed, p)
		default:
			refused.Declined = append(refused.Declined, p)
		}
	}
	inv.mu.Unlock()
	if len(members) <= len(invited) && !opts.Optional {
		gs.notifyAbort(ctx, inv.id, invited)
		return nil, refused
	}
	membership := codec.Info{Key: codec.KeyGroupMembership, Value: codec.ProcsValue(members...)}
	ev := groupEvent(codec.StatusGroupConstructComplete, inv.id, members, append(opts.infos(), membership)...)
	if err := gs.events.Notify(ctx, ev); err != nil {
		gs.notifyAbort(ctx, inv.id, members[1:])
		return nil, err
	}
	return &Group{ID: inv.id, Members: members}, nil
}

// Join accepts an invitation and waits until the group is complete.
//
//   - Errors: ErrGroupAborted; ErrProcFailed when the leader ended first; the context's.
func (gs *Groups) Join(ctx context.Context, id string, leader codec.Proc) (*Group, error) {
	op := "join group " + id
	news := make(chan *Event, 1)
	codes := []codec.Status{codec.StatusGroupConstructComplete, codec.StatusGroupConstructAbort, codec.StatusGroupLeaderFailed}
	handler, err := gs.events.Register(ctx, codes, HandlerOptions{
		Name: "goshmem-group-join", Range: codec.RangeCustom, Sources: []codec.Proc{leader}, Fresh: true,
	}, func(ev *Event) Result {
		v, _ := ev.Has(codec.KeyGroupID)
		if of, _ := v.Str(); of != id {
			return Result{Status: codec.StatusEventNoActionTaken}
		}
		select {
		case news <- ev:
		default: // only the first event counts
		}
		return Result{}
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = gs.events.Deregister(context.WithoutCancel(ctx), handler) }() // fails only with the connection
	if err := gs.answerInvitation(ctx, codec.StatusGroupInviteAccepted, id, leader); err != nil {
		return nil, err
	}
	select {
	case ev := <-news:
		return joinedGroup(op, id, ev)
	case <-gs.session.lost:
		return nil, &StatusError{Op: op, Status: codec.StatusErrLostConnection}
	case <-ctx.Done():
		return nil, fmt.Errorf("pmix %s: %w", op, ctx.Err())
	}
}

// joinedGroup returns the group that the leader's event completes.
func joinedGroup(op, id string, ev *Event) (*Group, error) {
	switch ev.Status {
	case codec.StatusGroupConstructComplete:
		g := &Group{ID: id, Members: ev.Targets}
		g.adoptInfos(ev.Info)
		return g, nil
	case codec.StatusGroupConstructAbort:
		return nil, fmt.Errorf("pmix %s: %w", op, ErrGroupAborted)
	default:
		return nil, &StatusError{Op: op, Status: ev.Status}
	}
}

// Decline declines an invitation.
func (gs *Groups) Decline(ctx context.Context, id string, leader codec.Proc) error {
	return gs.answerInvitation(ctx, codec.StatusGroupInviteDeclined, id, leader)
}

// answerInvitation sends an answer to the leader.
func (gs *Groups) answerInvitation(ctx context.Context, status codec.Status, id string, leader codec.Proc) error {
	ev := groupEvent(status, id, []codec.Proc{leader})
	ev.NoCache = true // a leader that no longer waits has aborted the construction
	return gs.events.Notify(ctx, ev)
}
