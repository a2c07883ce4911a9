package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Groups constructs groups of processes and ends them.
type Groups struct {
	session *session
	events  *Events
	jobSize int // number of processes of this process's job
}

// Group is a set of processes, of one namespace or several, that has a name of its own.
type Group struct {
	ID           string
	Members      []codec.Proc
	ContextID    uint64 // valid if HasContextID
	HasContextID bool
}

// GroupOptions direct the construction of a group. All members should give the same.
type GroupOptions struct {
	AssignContextID   bool // the server gives the group a number that no other group has
	LocalOnly         bool // all members are on this node
	NotifyTermination bool // codec.StatusGroupMemberFailed tells members of another member's end
	// FTCollective lets operations of the group go on without members that have ended; otherwise they fail with
	// ErrProcFailed.
	FTCollective bool
	// Optional lets the group be constructed without processes that ended, or declined, before they joined.
	Optional bool
	Timeout  time.Duration // ends the operation for all members with ErrTimeout; counted in whole seconds, rounded up
}

func (o *GroupOptions) infos() []codec.Info {
	out := appendFlags(nil, map[string]bool{
		codec.KeyGroupAssignContextID: o.AssignContextID, codec.KeyGroupLocalOnly: o.LocalOnly,
		codec.KeyGroupNotifyTermination: o.NotifyTermination, codec.KeyGroupFTCollective: o.FTCollective,
		codec.KeyGroupOptional: o.Optional,
	})
	return appendTimeout(out, o.Timeout)
}

// appendFlags appends the keys that are set, in the order of their names.
func appendFlags(infos []codec.Info, keys map[string]bool) []codec.Info {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] {
			infos = append(infos, codec.Info{Key: key, Value: codec.BoolValue(true)})
		}
	}
	return infos
}

func checkGroupID(id string) error {
	if id == "" || len(id) > codec.MaxGroupIDLen || strings.IndexByte(id, 0) >= 0 {
		return fmt.Errorf("name %q, want 1 to %d bytes without NUL", id, codec.MaxGroupIDLen)
	}
	return nil
}

// Construct constructs a group of procs, which must name the same set everywhere and include the caller.
//
//   - Collective: over procs.
//   - Errors: ErrProcFailed when a process ended before it joined; ErrTimeout; ErrExists when a member is in a group of
//     that name; the context's, after which the others still wait.
func (gs *Groups) Construct(ctx context.Context, id string, procs []codec.Proc, opts GroupOptions) (*Group, error) {
	op := "construct group " + id
	if err := checkGroupID(id); err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	answer, err := gs.session.request(ctx, op, &codec.GroupConstructRequest{ID: id, Procs: procs, Info: opts.infos()})
	if err != nil {
		return nil, err
	}
	r, err := codec.DecodeGroupReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, r.Status); err != nil {
		return nil, err
	}
	g := &Group{ID: id, Members: slices.Clone(procs)}
	if r.ContextID != codec.NoContextID {
		g.ContextID, g.HasContextID = r.ContextID, true
	}
	g.adoptInfos(r.Info)
	return g, nil
}

// adoptInfos adopts the membership and the context identifier that a server or leader tells.
func (g *Group) adoptInfos(infos []codec.Info) {
	if v, found := codec.Find(infos, codec.KeyGroupMembership); found {
		if members, ok := v.Procs(); ok {
			g.Members = members
		}
	}
	if v, found := codec.Find(infos, codec.KeyGroupContextID); found {
		g.ContextID, g.HasContextID = v.Uint64()
	}
}

// Destruct ends a group.
//
//   - Collective: over its members.
//   - Errors: ErrNotFound when the caller is in no such group; ErrProcFailed when a member ended instead of joining,
//     after which the group is gone too; ErrTimeout; the context's.
func (gs *Groups) Destruct(ctx context.Context, id string, timeout time.Duration) error {
	return gs.session.requestStatus(ctx, "destruct group "+id, &codec.GroupDestructRequest{ID: id, Info: appendTimeout(nil, timeout)})
}

// Leave removes this process from a group. codec.StatusGroupLeft tells the other members.
//
//   - Errors: ErrNotFound when the caller is in no such group.
func (gs *Groups) Leave(ctx context.Context, id string) error {
	return gs.session.requestStatus(ctx, "leave group "+id, &codec.GroupLeaveRequest{ID: id})
}
