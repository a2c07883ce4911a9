package flat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Team is one PE's side of a strict team that spans nodes. As of a coll.Team, collectives on it are called by all
// members in the same order, by one goroutine at a time.
type Team struct {
	p       *Process
	part    *coll.Team  // the members on this node
	pes     []layout.PE // of the members
	me      int         // index of this member
	local   []int       // the index in the team of each member of the part, ascending
	leaders []int       // the index in the team of the leader of each node; nodes are in the order of these
	node    int         // the place of this node in leaders
	id      int         // upper id
	seq     uint64      // the latest step

	nodes    []int // the place in leaders of each member's node
	index    []int // the index of each member in the part of its node
	busy     atomic.Bool
	broken   atomic.Bool
	released atomic.Bool
}

// WorldID is the upper id of the team of all PEs.
const WorldID = 0

// New returns the team of all PEs of a job, whose part on this node is a team of package coll. pes are all members.
// It does not communicate.
func New(p *Process, part *coll.Team, pes []layout.PE) (*Team, error) {
	t, err := newTeam(p, part, pes, WorldID, p.start)
	if err != nil {
		return nil, err
	}
	if !p.claim(WorldID, p.start+1) {
		return nil, errors.New("upper id of the team of all PEs is taken, want one such team in a process")
	}
	return t, nil
}

// newTeam returns a team that begins behind step start.
func newTeam(p *Process, part *coll.Team, pes []layout.PE, id int, start uint64) (*Team, error) {
	t := &Team{p: p, part: part, pes: pes, id: id, seq: start, me: -1, node: -1}
	near := part.PEs()
	place := map[int]int{} // of each node in leaders
	counts := map[int]int{}
	for i, pe := range pes {
		node, err := p.Node(pe)
		if err != nil {
			return nil, err
		}
		if _, known := place[node]; !known {
			place[node] = len(t.leaders)
			t.leaders = append(t.leaders, i)
		}
		t.nodes = append(t.nodes, place[node])
		t.index = append(t.index, counts[node])
		counts[node]++
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
	if n := len(t.leaders); n > layout.UpperNodes {
		return nil, fmt.Errorf("team on %d nodes, want at most %d", n, layout.UpperNodes)
	}
	t.describe()
	return t, nil
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.pes) }

// Same is coll.Team.Same: it compares the words of all members. It is also a barrier.
func (t *Team) Same(ctx context.Context, w coll.Words) (differs int, first, other coll.Words, err error) {
	r, err := t.step(ctx, span.Record{First: w})
	if err != nil {
		return -1, w, w, err
	}
	return int(r.Differs), r.First, r.Other, nil
}

// Conclude is Same for the end of a collective. failed is why this member could not do its part, or nil. If a member has
// failed, all members get an error, and the team is broken.
func (t *Team) Conclude(ctx context.Context, w coll.Words, failed error) (differs int, first coll.Words, err error) {
	r := span.Record{First: w}
	if failed != nil {
		r.Fault, r.Who = faultOf(failed)
	}
	r, err = t.step(ctx, r)
	if err != nil {
		return -1, first, err
	}
	return int(r.Differs), r.First, nil
}

// Gather gives mine, at most layout.UpperValue bytes, to all members, and passes what some members give to take. w says
// what is called and with what, as in Same. If members differ, it returns what Same does, and takes nothing.
//
//   - Deaths: all survivors get a *coll.DeadError if a member dies before all have read.
func (t *Team) Gather(ctx context.Context, w coll.Words, mine []byte, from []int, take func(member int, data []byte)) (differs int, first coll.Words, err error) {
	if !t.busy.CompareAndSwap(false, true) { // the words of Mine are those of the collective that is under way
		return -1, first, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	copy(t.p.Words.Mine[t.id][:], mine)
	r, err := t.meet(ctx, span.Record{First: w})
	if err != nil {
		return -1, first, err
	}
	if r.Differs >= 0 {
		return int(r.Differs), r.First, nil
	}
	data := make([]byte, len(mine))
	var failed error
	for _, i := range from {
		if failed = t.read(ctx, i, data); failed != nil {
			break
		}
		take(i, data)
	}
	var end span.Record // also after a failure: the others wait for this member
	if failed != nil {
		end.Fault, end.Who = faultOf(failed)
	}
	_, err = t.meet(ctx, end)
	return -1, r.First, errors.Join(failed, err)
}

// read reads what a member gives.
func (t *Team) read(ctx context.Context, member int, data []byte) error {
	pe := t.pes[member]
	if near := t.p.Near(pe); near != nil {
		copy(data, near.Mine[t.id][:])
		return nil
	}
	if len(data) == 0 {
		return nil
	}
	return t.lateError(member, t.p.Port.Get(ctx, pe, t.p.Offset+mineAt+uint64(t.id)*layout.UpperValue, data))
}

// step is a collective of one step. It returns the decision.
func (t *Team) step(ctx context.Context, mine span.Record) (span.Record, error) {
	if !t.busy.CompareAndSwap(false, true) {
		return mine, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	return t.meet(ctx, mine)
}

// refusal returns why a broken or released team refuses a collective.
func (t *Team) refusal() error {
	switch {
	case t.released.Load():
		return coll.ErrReleased
	case !t.broken.Load():
		return nil
	}
	if who := t.knownDead(); who != nil {
		return &coll.DeadError{Members: who}
	}
	return coll.ErrBroken
}

// giveUp breaks the team because of err, and returns err.
func (t *Team) giveUp(err error) error {
	if !t.broken.Swap(true) {
		t.mark(board.GaveUp)
	}
	return err
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
		all := t.knownDead() // the part knows of its own members only
		for _, i := range e.Members {
			if who := t.local[i]; !slices.Contains(all, who) {
				all = append(all, who)
			}
		}
		slices.Sort(all)
		return &coll.DeadError{Members: all}
	}
	if e, ok := errors.AsType[*coll.LeftError](err); ok {
		return t.faultError(left, int32(t.local[e.Member]))
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
// *coll.DeadError if a member is dead. A leader says so to the other nodes. They learn of other members from the leader of
// this node, whose part fails.
//
// A member that has given the team up has said so. One that has released it says nothing, because the words of the team
// may be another one's by now.
func (t *Team) Leave() {
	t.part.Leave()
	if !t.released.Load() && !t.broken.Swap(true) {
		t.mark(board.Left)
	}
}

// Dissolve is the last collective of a team that Split made: it meets the others and releases the team, however that
// ends. A team that another collective is under way on stays as it is.
func (t *Team) Dissolve(ctx context.Context, w coll.Words) error {
	_, err := t.step(ctx, span.Record{First: w})
	if errors.Is(err, coll.ErrConcurrent) {
		return err
	}
	if err == nil {
		err = t.teamError(t.part.Dissolve(ctx))
	}
	if err == nil && !t.released.Swap(true) {
		t.p.free(t.id)
	}
	t.Release()
	return err
}

// Release says that this PE does not use the team any more, without meeting the others. Its upper id stays taken unless
// Dissolve has ended well.
func (t *Team) Release() {
	t.broken.Store(true)
	t.released.Store(true)
	t.part.Release()
}
