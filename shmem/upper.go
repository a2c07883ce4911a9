package shmem

import (
	"errors"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/spanjob"
	"github.com/goshmem/goshmem/symheap/layout"
)

// outcome is that of the latest collective of a team that spans nodes.
type outcome struct {
	root   int   // the only contributor; -1: all but failed
	failed []int // ascending
}

// note notes the outcome of a collective that has returned.
func (g *group) note(root int, failed []int) {
	if old := g.outcome.Load(); old != nil && old.root == root && slices.Equal(old.failed, failed) {
		return
	}
	g.outcome.Store(&outcome{root, failed})
}

// outcomeSpanning is Team.Outcome of a team that spans nodes.
func (g *group) outcomeSpanning() Outcome {
	o := g.outcome.Load()
	switch {
	case o == nil:
		return Outcome{}
	case o.root >= 0 && slices.Contains(o.failed, o.root):
		return Outcome{Failed: []int{o.root}}
	case o.root >= 0:
		return Outcome{Contributors: []int{o.root}}
	}
	all := slices.DeleteFunc(allBelow(g.n), func(i int) bool {
		_, is := slices.BinarySearch(o.failed, i)
		return is
	})
	return Outcome{Contributors: all, Failed: slices.Clone(o.failed)}
}

// wholeSpanning returns an error if members have died short of the latest collective.
func wholeSpanning(t *Team) error {
	if o := t.group.outcome.Load(); o != nil && len(o.failed) > 0 {
		return &coll.DeadError{Members: slices.Clone(o.failed)}
	}
	return nil
}

// concludeSpanning is a meeting of all members that live at the end of a collective. failed is why this PE could not do its
// part, or nil.
//
//   - Errors: if a PE has failed, all get an error: spanning.ErrAgain if they have to do the collective again.
func concludeSpanning(t *Team, failed error) (dead []int, err error) {
	w := coll.Words{3: callSync}
	d, err := t.upper.Conclude(t.ctx, w, failed)
	if err == nil {
		t.group.note(-1, d.Failed)
		err = mismatch(&d)
	}
	return d.Failed, err
}

// mismatch returns an error that names two members that have not called the same, if there are some.
func mismatch(d *spanning.Difference) error {
	if d.Differs < 0 {
		return nil
	}
	return &spanning.DifferError{First: d.First, Differs: d.Differs}
}

// madeMember returns the team that a call has made, or nil.
func madeMember(made spanning.Made, err error) (member, error) {
	switch {
	case made.Far != nil:
		return made.Far, err
	case made.Near != nil:
		return made.Near, err
	}
	return nil, err
}

// newWorldTeam returns this PE's side of the team of all PEs. part is the team of those on this node, and node the one of
// World.Shared. They may have been left by an earlier world of this process.
func newWorldTeam(j *job.Job, part, node *coll.Team) (all member, err error) {
	if j.Place.Nodes == 1 {
		return part, rejoin(j, func() error { return nil }, part, node)
	}
	pes := make([]layout.PE, j.NPEs)
	for i := range pes {
		pes[i] = layout.PE(i)
	}
	p := spanjob.NewProcess(j, layout.UpperFirstWorld)
	var t *spanning.Team
	again := func() (err error) { // between two barriers, so all know the team when it is used
		p.Clear()
		t, err = spanning.New(p, part, pes)
		return err
	}
	if err = rejoin(j, again, part, node); err == nil && t == nil { // the first world
		t, err = spanning.New(p, part, pes)
	}
	return t, err
}

// abandon gives up a team whose maker has failed with err. An error of arguments is that of all its PEs: they meet, since
// the id of a team on several nodes is free again only after a last meeting.
func abandon(t *Team, err error) {
	if _, alike := errors.AsType[*UsageError](err); alike && t.upper != nil {
		_ = t.dissolve() // if a PE has died, the id stays taken
	}
	t.made().Leave() // others may have got the team, and wait for this PE
	t.release()
}
