package flat

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// fault says why a step has failed. Of several faults, the greatest is reported.
type fault = span.Fault

const (
	noFault = span.NoFault
	broken  = span.Broken // a member has given the team up
	left    = span.Left   // a member has left the team
	dead    = span.Dead   // a member has died
)

// status says why a node has no part of a team that is being made.
const (
	statusOK      uint32 = iota
	statusNoID           // the part has found no free id
	statusMembers        // the lists of the part's members are no groups
)

// meet is step for a caller that has set busy.
func (t *Team) meet(ctx context.Context, mine span.Record) (span.Record, error) {
	if err := t.refusal(); err != nil {
		return mine, err
	}
	if who := t.knownDead(); who != nil {
		return mine, t.giveUp(&coll.DeadError{Members: who})
	}
	mine.Member, mine.Differs = int32(t.me), -1
	if mine.Status == statusOK && mine.Fault == noFault {
		mine.Who = -1
	}
	t.seq++
	cell := &t.p.Words.Cells[t.id]
	copy(cell.Data[:], mine.Bytes())
	atomic.SwapUint64(&cell.Word, t.seq)
	seen := t.p.Failures.Epoch() // before the look at the members
	if t.allHaveArrived() {
		t.p.Port.Announce(t.id)
	}
	result := &t.p.Words.Results[t.id]
	for {
		c := wait.Cond{Addr: unsafe.Pointer(&result.Seq), Val: t.seq, Width: 8, Cmp: wait.GE, Seen: seen}
		_, err := t.p.Waiter.Wait(&c, ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, wait.ErrFailure) {
			return mine, t.giveUp(&coll.LateError{Member: t.missing(), Err: err})
		}
		// The agent hears of a death before this PE does, and may have looked before this PE arrived.
		if seen = t.p.Failures.Epoch(); t.allHaveArrived() {
			t.p.Port.Announce(t.id)
		}
	}
	copy(mine.Bytes(), result.Data[:])
	if err := t.lackError(result); err != nil {
		return mine, t.giveUp(err)
	}
	if mine.Fault != noFault {
		return mine, t.giveUp(t.faultError(mine.Fault, mine.Who))
	}
	t.p.reach(t.id, t.seq)
	return mine, nil
}

// allHaveArrived says whether no member of the part is missing in the step.
func (t *Team) allHaveArrived() bool {
	for _, i := range t.local {
		pe := t.pes[i]
		if atomic.LoadUint64(&t.p.Near(pe).Cells[t.id].Word) < t.seq && (t.p.Failures.Epoch() == 0 || !t.p.Dead(pe)) {
			return false
		}
	}
	return true
}

// missing returns a member of the part that is missing, or the first member of another node.
func (t *Team) missing() int {
	for _, i := range t.local {
		if atomic.LoadUint64(&t.p.Near(t.pes[i]).Cells[t.id].Word) < t.seq {
			return i
		}
	}
	for k, i := range t.leaders {
		if k != t.node {
			return i
		}
	}
	return t.me
}

// lackError returns the error of a result that lacks members.
func (t *Team) lackError(r *layout.UpperResult) error {
	if r.Lacks == 0 {
		return nil
	}
	var died []int
	worst, who := noFault, -1
	for _, l := range r.Lack[:min(int(r.Lacks), layout.UpperLacks)] {
		for i, pe := range t.pes {
			if t.nodes[i] != int(l.Node) || l.Member != layout.UpperAll && t.index[i] != int(l.Member) {
				continue
			}
			f := broken
			switch board.Verdict(l.Why) {
			case board.Died:
				f = dead
				died = append(died, i)
			case board.HasLeft:
				f = left
			}
			if f > worst {
				worst, who = f, i
			}
			_ = pe
		}
	}
	for _, i := range t.knownDead() { // a member has given up for that
		if worst = dead; !slices.Contains(died, i) {
			died = append(died, i)
		}
	}
	slices.Sort(died)
	switch worst {
	case dead:
		return &coll.DeadError{Members: died}
	case left:
		return &coll.LeftError{Member: who}
	}
	return coll.ErrBroken
}

// faultError returns the error of a step in which another PE has found a fault. who is -1 if that is about no member.
func (t *Team) faultError(f fault, who int32) error {
	all := t.knownDead()
	if all == nil && f == left && who >= 0 && int(who) < len(t.pes) {
		return &coll.LeftError{Member: int(who)}
	}
	if f == dead && who >= 0 && int(who) < len(t.pes) && !slices.Contains(all, int(who)) {
		all = append(all, int(who))
		slices.Sort(all)
	}
	if all == nil {
		return coll.ErrBroken
	}
	return &coll.DeadError{Members: all}
}

// faultOf returns the fault that an error of a step is for other members, and the member that it is about.
func faultOf(err error) (f fault, who int32) {
	if e, is := errors.AsType[*coll.DeadError](err); is {
		return dead, int32(e.Members[0])
	}
	if e, is := errors.AsType[*coll.LeftError](err); is {
		return left, int32(e.Member)
	}
	return broken, -1
}

// lateError returns the error of a wait for a member that has ended with err, or of a send to it.
func (t *Team) lateError(member int, err error) error {
	switch {
	case err == nil:
		return nil
	case t.p.Failures.Epoch() != 0 && t.p.Dead(t.pes[member]):
		return &coll.DeadError{Members: t.knownDead()}
	}
	return &coll.LateError{Member: member, Err: err}
}

// mark leaves a mark in this member's word: it enters no further step.
func (t *Team) mark(m uint64) {
	atomic.OrUint64(&t.p.Words.Cells[t.id].Word, m)
	if t.allHaveArrivedOrMarked() {
		t.p.Port.Announce(t.id)
	}
}

// allHaveArrivedOrMarked is true always: a mark may be what the agent waits for.
func (t *Team) allHaveArrivedOrMarked() bool { return true }

// describe describes the part to the agent.
func (t *Team) describe() {
	p := &t.p.Words.Parts[t.id]
	*p = layout.UpperPart{Start: t.seq, Nodes: uint32(len(t.leaders)), Me: uint32(t.node), Members: uint32(len(t.local)), First: uint32(t.pes[0])}
	for k, i := range t.leaders {
		node, _ := t.p.Node(t.pes[i])
		p.Node[k] = uint16(node)
	}
	for _, i := range t.local {
		at := t.p.Local(t.pes[i])
		p.Local[at/64] |= 1 << (at % 64)
	}
	atomic.StoreUint64(&t.p.Words.Cells[t.id].Word, t.seq)
	t.p.Port.Announce(t.id)
}
