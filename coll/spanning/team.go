package spanning

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Team is one PE's side of a team that spans nodes. As of a coll.Team, collectives on it are called by all members in the same
// order, by one goroutine at a time.
type Team struct {
	p        *Process
	part     *coll.Team  // the members on this node
	pes      []layout.PE // of the members
	me       int         // index of this member
	local    []int       // the index in the team of each member of the part, ascending
	first    []int       // the index in the team of the first member of each node; nodes are in the order of these
	node     int         // the place of this node in first
	members  [][]int     // by place of the node: the indices in the team of its members, in the order of the PEs, as agents number them
	id       int         // of the part
	ids      map[int]int // by place of the node: the id of the part there, as far as it is known
	name     [2]uint64
	start    uint64
	seq      [layout.UpperLines]uint64 // the latest step of each line
	tolerant bool

	busy      atomic.Bool
	broken    atomic.Bool
	why       error // the error that has broken the team; nil: it is not broken, or this member has left it
	disagreed bool  // an agreement has ended badly
	posted    bool  // this member has entered the step of its next collective, and says there who is dead
	shown     bool  // others may read Given
	released  atomic.Bool
}

// WorldID is the id of the team of all PEs.
const WorldID = layout.UpperWorld

// The conversion fails to compile if package coll has another id for it.
const _ = uint(WorldID-coll.ShmemWorld) + uint(coll.ShmemWorld-WorldID)

// New returns the team of all PEs of a job, whose part on this node is a team of package coll. pes are all members.
//
// It does not communicate, but for the news to the agent. In a further world of a process, no member may use the team before all
// have called New.
func New(p *Process, part *coll.Team, pes []layout.PE) (*Team, error) {
	return p.newTeam(part, pes, [2]uint64{p.First + p.worlds, 0}, layout.UpperOrigin{})
}

// Found returns a team that its members make by other means than a step of another team: see coll.Founding. part is that of the members on this
// node. No member uses it before all of them have called Found. The name is no other team's, and the same at all members.
func (t *Team) Found(part *coll.Team, pes []layout.PE, name [2]uint64) (*Team, error) {
	return t.p.newTeam(part, pes, name, layout.UpperOrigin{})
}

// Name returns the name of the team, which is the same at all members, and no other team's.
func (t *Team) Name() [2]uint64 { return t.name }

// makeTeam returns a team that the next step of a line makes, and describes it to the agent.
func makeTeam(t *Team, line int, part *coll.Team, pes []layout.PE) (*Team, error) {
	o := layout.UpperOrigin{Parent: t.name, Line: uint64(line), Step: t.seq[line] - t.start + 1}
	if line == layout.UpperSteps && t.posted {
		o.Step--
	}
	return t.p.newTeam(part, pes, hashName(&o, pes[0]), o)
}

// hashName returns the name of a team: how it is made, and its first PE.
func hashName(o *layout.UpperOrigin, first layout.PE) [2]uint64 {
	var b []byte
	for _, w := range []uint64{o.Parent[0], o.Parent[1], o.Line, o.Step, uint64(first)} {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	h := sha256.Sum256(b)
	return [2]uint64{binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])}
}

// newTeam returns a team, and describes it to the agent.
func (p *Process) newTeam(part *coll.Team, pes []layout.PE, name [2]uint64, o layout.UpperOrigin) (*Team, error) {
	t := &Team{p: p, part: part, pes: pes, id: part.ID(), name: name, me: -1, node: -1, tolerant: part.Tolerant()}
	near := part.PEs()
	place := map[int]int{} // of each node in first
	for i, pe := range pes {
		node, err := p.Node(pe)
		if err != nil {
			return nil, err
		}
		if _, known := place[node]; !known {
			place[node] = len(t.first)
			t.first, t.members = append(t.first, i), append(t.members, nil)
		}
		t.members[place[node]] = append(t.members[place[node]], i)
		if len(t.local) < len(near) && near[len(t.local)] == pe {
			if len(t.local) == part.Me() {
				t.me = i
			}
			t.local = append(t.local, i)
			t.node = place[node]
		}
	}
	if len(t.local) < len(near) {
		return nil, fmt.Errorf("members %v of the part on this node, want them among the %d members of the team, in its order", near, len(pes))
	}
	if n := len(t.first); n > layout.UpperNodes {
		return nil, fmt.Errorf("team on %d nodes, want at most %d", n, layout.UpperNodes)
	}
	for _, those := range t.members {
		slices.SortFunc(those, func(a, b int) int { return int(pes[a]) - int(pes[b]) })
	}
	t.start = p.begin()
	for line := range t.seq {
		t.seq[line] = t.start
	}
	t.describe(o)
	return t, nil
}

// describe describes the part to the agent.
func (t *Team) describe(o layout.UpperOrigin) {
	p := &t.p.Words.Parts[t.id]
	atomic.StoreUint64(&p.Start, 0) // the words are no team's
	for line := range t.seq {
		atomic.StoreUint64(&t.p.line(line, t.id).Cell.Word, t.start)
		atomic.StoreUint64(&t.p.line(line, t.id).Result.Seq, t.start)
	}
	plan := layout.UpperPlan{Nodes: uint32(len(t.first)), Me: uint32(t.node), Members: uint32(len(t.local)), Origin: o}
	for k, i := range t.first {
		node, _ := t.p.Node(t.pes[i])
		plan.Node[k] = uint16(node)
	}
	for _, i := range t.local {
		at := t.p.Local(t.pes[i])
		plan.Local[at/64] |= 1 << (at % 64)
	}
	for i, word := range plan.Words() {
		atomic.StoreUint64(&p.Words()[i], word)
	}
	atomic.StoreUint64(&p.Name[0], t.name[0])
	atomic.StoreUint64(&p.Name[1], t.name[1])
	atomic.StoreUint64(&p.Start, t.start)
	t.p.Port.Announce(t.id)
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.pes) }

// PEs returns the PEs of the members. The caller does not change them.
func (t *Team) PEs() []layout.PE { return t.pes }

// Tolerant reports whether collectives are those of the members that live. Otherwise they fail when a member has died.
func (t *Team) Tolerant() bool { return t.tolerant }

// Same is coll.Team.Same: it compares the words of all members that live. It is also a barrier.
func (t *Team) Same(ctx context.Context, w coll.Words) (Difference, error) {
	d, err := t.step(ctx, span.Record{First: w}, nil)
	return d.difference(), err
}

// DifferError reports two members that have not called the same. All members get the same one.
type DifferError struct{ First, Differs int } // Differs is the lowest member that called something else than First, the lowest one

// Error names both.
func (e *DifferError) Error() string {
	return fmt.Sprintf("member %d called another collective than member %d, or with other arguments", e.Differs, e.First)
}

// Difference says whether members have given the same words.
type Difference struct {
	First, Differs       int // the lowest member, and the lowest one that has given other words; Differs is -1 if there is none
	FirstWords, DifWords coll.Words
	Failed               []int // of a tolerant team: the members that died before they entered the collective, ascending
}

func (d *decision) difference() Difference {
	return Difference{First: int(d.Member), Differs: int(d.Differs), FirstWords: d.First, DifWords: d.Other, Failed: d.failed}
}

// Conclude is Same for the end of a collective. failed is why this member could not do its part, or nil.
//
//   - Errors: if a member has failed, all members get an error. Then the team is broken, unless it is tolerant and all that failed
//     did so because of a death: Conclude returns ErrAgain.
func (t *Team) Conclude(ctx context.Context, w coll.Words, failed error) (Difference, error) {
	d, err := t.step(ctx, span.Record{First: w}, failed)
	return d.difference(), err
}

// ErrAgain reports that a member of a tolerant team could not do its part of a collective because another one has died, and
// that the survivors have to do it again without that one. It is the cause of every *AgainError.
var ErrAgain = errors.New("a member died in a collective, which the others have to do again")

// AgainError has the members that died for that. All members that live get the same one.
type AgainError struct{ Dead []int } // ascending

// Error names the members.
func (e *AgainError) Error() string { return fmt.Sprintf("members %v: %v", e.Dead, ErrAgain) }

// Unwrap returns ErrAgain.
func (e *AgainError) Unwrap() error { return ErrAgain }

// step is a collective of one step. It returns the decision.
func (t *Team) step(ctx context.Context, mine span.Record, failed error) (decision, error) {
	if !t.busy.CompareAndSwap(false, true) { // the words are those of the collective that is under way
		return decision{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	return t.meet(ctx, mine, nil, failed)
}

// refusal returns why a broken or released team refuses a collective.
func (t *Team) refusal() error {
	switch {
	case t.released.Load():
		return coll.ErrReleased
	case !t.broken.Load():
		return nil
	}
	if e, is := errors.AsType[*coll.DeadError](t.why); is {
		return e // and not whom this member knows to be dead by now: others may know of others
	}
	return coll.ErrBroken
}

// giveUp breaks the team because of err, and returns err.
func (t *Team) giveUp(err error) error {
	if !t.broken.Swap(true) {
		t.why = err
		t.part.GiveUp() // members of this node may be further on, in a step of the part: in Split or in Dissolve
		t.mark(layout.UpperSteps, board.GaveUp)
	}
	return err
}

// mark leaves a mark in this member's word: it enters no further step of a line.
func (t *Team) mark(line int, m uint64) {
	atomic.OrUint64(&t.p.line(line, t.id).Cell.Word, m)
	t.p.Port.Announce(t.id)
}

// knownDead returns the members that are known to be dead.
func (t *Team) knownDead() (who []int) {
	if t.p.Failures.Epoch() == 0 {
		return nil
	}
	for i, pe := range t.pes {
		if t.p.Dead(pe) {
			who = append(who, i)
		}
	}
	return who
}

// teamError turns an error of the part, which names its members, into one that names members of the team.
func (t *Team) teamError(err error) error {
	if e, ok := errors.AsType[*coll.DeadError](err); ok {
		var all []int
		for _, i := range e.Members {
			all = append(all, t.local[i])
		}
		return &coll.DeadError{Members: all}
	}
	if e, ok := errors.AsType[*coll.LeftError](err); ok {
		return &coll.LeftError{Member: t.local[e.Member]}
	}
	if e, ok := errors.AsType[*coll.LateError](err); ok {
		return &coll.LateError{Member: t.local[e.Member], Err: e.Err}
	}
	if e, ok := errors.AsType[*coll.OtherError](err); ok {
		return &coll.OtherError{Member: t.local[e.Member]}
	}
	return err
}

// Leave says that this member enters no further collective. A member that waits for it gets a *coll.LeftError, or a
// *coll.DeadError if a member is dead. Agreements need this member no more either.
//
// A member that has given the team up has said so. One that has released it says nothing, because the words of the team
// may be another one's by now.
func (t *Team) Leave() {
	t.part.Leave()
	if t.released.Load() {
		return
	}
	if !t.broken.Swap(true) {
		t.mark(layout.UpperSteps, board.Left)
	}
	t.mark(layout.UpperVotes, board.Left)
}

// Dissolve is the last collective of a team that Split made: it meets the others and releases the team, however that
// ends. A team that another collective is under way on stays as it is, and so does one whose members call something else: all of
// them get the same *DifferError.
func (t *Team) Dissolve(ctx context.Context, w coll.Words) error {
	d, err := t.step(ctx, span.Record{First: w}, nil)
	switch {
	case errors.Is(err, coll.ErrConcurrent):
		return err
	case err == nil && d.Differs >= 0:
		return &DifferError{First: int(d.Member), Differs: int(d.Differs)}
	}
	if err == nil {
		atomic.StoreUint32(&t.p.Words.Parts[t.id].Ended, 1) // before another team has the words
		t.p.Port.Announce(t.id)
		err = t.teamError(t.part.Dissolve(ctx))
		if _, is := errors.AsType[*coll.DeadError](err); is {
			err = nil // all have met before: other nodes know nothing of a death after that
		}
	}
	t.Release()
	return err
}

// lateResults is more results than an agent writes for a member after that has given the team up: one of a step that others have
// entered, and one of a step that nobody enters. They must not look like results of the next team with these words.
const lateResults = 3

// Abandon releases a team that this member does not want, although others may have it: they find that it has given the team up.
func Abandon(t *Team) {
	t.broken.Store(true)
	t.mark(layout.UpperSteps, board.GaveUp)
	t.mark(layout.UpperVotes, board.GaveUp)
	t.part.Leave()
	t.Release()
}

// Release says that this PE does not use the team any more, without meeting the others.
func (t *Team) Release() {
	if !t.released.Swap(true) {
		t.p.reach(max(t.seq[layout.UpperSteps], t.seq[layout.UpperVotes]) + lateResults)
	}
	t.broken.Store(true)
	t.part.Release()
}
