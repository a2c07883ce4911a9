package shmem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/flat"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// upper is the collectives of a team whose PEs are on several nodes, as one PE calls them. Such a team is strict. The
// errors are those of package coll, with numbers of the team.
type upper interface {
	member
	// Conclude is a meeting at the end of a collective. failed is why this PE could not do its part, or nil. If a PE has
	// failed, all get an error, and the team is broken.
	Conclude(ctx context.Context, failed error) error
	Same(ctx context.Context, w coll.Words) (differs int, first, other coll.Words, err error)
	// Gather gives mine, at most layout.UpperValue bytes and as many on all members, to all, and passes what the members
	// in from give to take. differs is the lowest member whose w differs from first, that of the first member, or -1.
	Gather(ctx context.Context, w coll.Words, mine []byte, from []int, take func(member int, data []byte)) (differs int, first coll.Words, err error)
	// Split makes teams of members, which all members of the new team list. A member that lists none gets nil.
	Split(ctx context.Context, members []int, tolerant bool) (member, error)
	Dissolve(ctx context.Context) error
}

// flatTeam is an upper by package flat.
type flatTeam struct{ *flat.Team }

// Conclude returns when all members have called it.
func (t flatTeam) Conclude(ctx context.Context, failed error) error {
	w := coll.Words{3: callSync}
	differs, first, err := t.Team.Conclude(ctx, w, failed)
	if err != nil {
		return err
	}
	return mismatch(w, first, differs)
}

// mismatch returns an error that names the lowest member that has called something else than this one, which has called w.
// differs is the lowest member that has called something else than the first one, or -1.
func mismatch(w, first coll.Words, differs int) error {
	switch {
	case differs < 0:
		return nil
	case w != first:
		return &coll.OtherError{Member: 0}
	}
	return &coll.OtherError{Member: differs}
}

// Split makes teams of members.
func (t flatTeam) Split(ctx context.Context, members []int, tolerant bool) (member, error) {
	made, err := t.Team.Split(ctx, callSplitStrided, members, tolerant)
	switch {
	case made.Far != nil:
		return flatTeam{made.Far}, err
	case made.Near != nil:
		return made.Near, err
	}
	return nil, err
}

// Dissolve is the last collective of the team.
func (t flatTeam) Dissolve(ctx context.Context) error {
	return t.Team.Dissolve(ctx, coll.Words{3: callDestroy})
}

// lines is the agent and the data of other nodes for package flat.
type lines struct {
	far     *far.Port
	touched *far.Touched
}

// Announce tells the agent that the words of a team have changed.
func (l lines) Announce(id int) { l.far.AnnounceTeam(id) }

// Get copies from an offset of a PE's segment.
func (l lines) Get(ctx context.Context, pe layout.PE, off uint64, data []byte) error {
	return l.far.Get(ctx, l.touched, pe, off, unsafe.Pointer(unsafe.SliceData(data)), len(data))
}

// newFlatProcess returns the state of all teams of this PE that span nodes.
func newFlatProcess(j *job.Job) *flat.Process {
	words := j.Map.Wire(j.Local).Upper()
	return flat.NewProcess(flat.Config{
		Port:     lines{j.Far, new(far.Touched)},
		Words:    words,
		Offset:   uint64(uintptr(unsafe.Pointer(words)) - uintptr(j.Map.Segment(j.Local))),
		Waiter:   j.Waiter,
		Failures: j.Failures,
		Dead:     j.IsDead,
		Near: func(pe layout.PE) *layout.Upper {
			if i, near := j.Place.Local(pe); near {
				return j.Map.Wire(i).Upper()
			}
			return nil
		},
		Local: func(pe layout.PE) layout.Local {
			i, _ := j.Place.Local(pe)
			return i
		},
		Node: func(pe layout.PE) (int, error) {
			if pe < 0 || int(pe) >= j.NPEs {
				return 0, fmt.Errorf("PE %d, want 0 to %d", pe, j.NPEs-1)
			}
			node, _ := j.Home(pe)
			return node, nil
		},
	})
}

// newWorldTeam returns this PE's side of the team of all PEs. part is the team of those on this node.
func newWorldTeam(j *job.Job, p *flat.Process, part *coll.Team) (member, error) {
	if p == nil {
		return part, nil
	}
	pes := make([]layout.PE, j.NPEs)
	for i := range pes {
		pes[i] = layout.PE(i)
	}
	t, err := flat.New(p, part, pes)
	if err != nil {
		return nil, err
	}
	return flatTeam{t}, nil
}

// checkNodes checks that a world of a mode is possible in job j.
func checkNodes(j *job.Job, mode Mode) error {
	switch {
	case j.Place.Nodes == 1:
		return nil
	case j.Far == nil || j.Home == nil || j.Map.Wire(j.Local) == nil:
		return fmt.Errorf("the job has %d nodes, and this node has no agent: %s: an agent carries operations to PEs on other nodes, want one on each node, or all PEs on one", j.Place.Nodes, cmp.Or(j.NoAgent, "oshrun has started none"))
	case mode == ModeTolerant:
		return errors.New("ModeTolerant in a job of several nodes, which is not possible yet, want WorldMode(ModeStrict)")
	}
	return nil
}

// spans reports whether PEs of the world are on several nodes.
func (h *heap) spans(s *numbers) bool {
	if h.far == nil || s.n == 0 {
		return false
	}
	first, _ := h.job.Home(s.pe(0))
	for i := range s.n {
		if node, _ := h.job.Home(s.pe(i)); node != first {
			return true
		}
	}
	return false
}

// abandon gives up a team whose maker has failed with err. An error of arguments is that of all its PEs: they meet, since
// the id of a team on several nodes is free again only after a last meeting.
func abandon(t *Team, err error) {
	if _, alike := errors.AsType[*UsageError](err); alike && t.upper != nil {
		_ = t.dissolve() // if a PE has died, the id stays taken
	}
	t.release()
}

// checkNear returns an error for calls that a team whose PEs are on several nodes does not have yet.
func (t *Team) checkNear(op string) error {
	if t.upper == nil {
		return nil
	}
	return usage(op, ErrArgument, "the team has PEs on several nodes, where %s is missing yet: want a team of PEs of one node, such as World.Shared, or one-sided operations with Team.Sync", op)
}
