package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Group is a set of processes, of one namespace or several, that has a name of its own.
type Group struct {
	ID           string
	Members      []wire.Proc
	ContextID    uint64 // valid if HasContextID
	HasContextID bool
}

// GroupOptions direct the making of a group. All members should give the same.
type GroupOptions struct {
	AssignContextID   bool // have the server give the group a number that no other has
	LocalOnly         bool // all members are on this node
	NotifyTermination bool // members learn of another's end by wire.StatusGroupMemberFailed
	// FTCollective lets operations of the group go on without members that have ended; otherwise they fail with
	// ErrProcFailed.
	FTCollective bool
	// Optional lets the group come about without processes that ended, or declined, before they joined.
	Optional bool
	Timeout  time.Duration // ends the operation for all with ErrTimeout; counted in whole seconds, rounded up
}

func (o *GroupOptions) infos() []wire.Info {
	out := switches(nil, map[string]bool{
		wire.KeyGroupAssignContextID: o.AssignContextID, wire.KeyGroupLocalOnly: o.LocalOnly,
		wire.KeyGroupNotifyTermination: o.NotifyTermination, wire.KeyGroupFTCollective: o.FTCollective,
		wire.KeyGroupOptional: o.Optional,
	})
	return appendTimeout(out, o.Timeout)
}

// switches appends the keys that are on, in the order of their names.
func switches(infos []wire.Info, keys map[string]bool) []wire.Info {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] {
			infos = append(infos, wire.Info{Key: key, Value: wire.BoolValue(true)})
		}
	}
	return infos
}

func checkGroupID(id string) error {
	if id == "" || len(id) > wire.MaxGroupIDLen || strings.IndexByte(id, 0) >= 0 {
		return fmt.Errorf("name %q, want 1 to %d bytes without NUL", id, wire.MaxGroupIDLen)
	}
	return nil
}

// GroupConstruct makes a group of procs, which must name the same set everywhere and include the caller.
//
//   - Collective: over procs.
//   - Errors: ErrProcFailed when a process ended before it joined; ErrTimeout; ErrExists when a member is in a group of that
//     name; the context's, whereupon the others still wait.
func (c *Client) GroupConstruct(ctx context.Context, id string, procs []wire.Proc, opts GroupOptions) (*Group, error) {
	op := "construct group " + id
	if err := checkGroupID(id); err != nil {
		return nil, fmt.Errorf("pmix %s: %w", op, err)
	}
	answer, err := c.call(ctx, op, &wire.GroupConstructRequest{ID: id, Procs: procs, Info: opts.infos()})
	if err != nil {
		return nil, err
	}
	r, err := wire.DecodeGroupReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, r.Status); err != nil {
		return nil, err
	}
	g := &Group{ID: id, Members: slices.Clone(procs)}
	if r.ContextID != wire.NoContextID {
		g.ContextID, g.HasContextID = r.ContextID, true
	}
	g.take(r.Info)
	return g, nil
}

// take adopts what a server or leader says about the group.
func (g *Group) take(infos []wire.Info) {
	if v, found := wire.Find(infos, wire.KeyGroupMembership); found {
		if members, ok := v.Procs(); ok {
			g.Members = members
		}
	}
	if v, found := wire.Find(infos, wire.KeyGroupContextID); found {
		g.ContextID, g.HasContextID = v.Uint64()
	}
}

// GroupDestruct ends a group.
//
//   - Collective: over its members.
//   - Errors: ErrNotFound when the caller is in no such group; ErrProcFailed when a member ended instead of joining, in which
//     case the group is gone all the same; ErrTimeout; the context's.
func (c *Client) GroupDestruct(ctx context.Context, id string, timeout time.Duration) error {
	return c.status(ctx, "destruct group "+id, &wire.GroupDestructRequest{ID: id, Info: appendTimeout(nil, timeout)})
}

// GroupLeave takes this process out of a group. The others learn of it by wire.StatusGroupLeft.
//
//   - Errors: ErrNotFound when the caller is in no such group.
func (c *Client) GroupLeave(ctx context.Context, id string) error {
	return c.status(ctx, "leave group "+id, &wire.GroupLeaveRequest{ID: id})
}
