package flat

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// meetNodes is the leader's part of a step. mine is what the part on this node contributes. The record that it returns
// is the decision. With an error, the record has the fault that the part must learn of.
func (t *Team) meetNodes(ctx context.Context, mine record) (record, error) {
	var err error
	if who := t.knownDead(); who != nil {
		err = &coll.DeadError{Members: who}
	} else if t.node == 0 {
		mine, err = t.decide(ctx, mine)
	} else {
		mine, err = t.askRoot(ctx, mine)
	}
	if err != nil {
		mine.fault, mine.who = faultOf(err)
	}
	return mine, err
}

// decide is the root's part: it collects what the nodes contribute, and sends the decision to all leaders.
func (t *Team) decide(ctx context.Context, all record) (record, error) {
	for k := 1; k < len(t.leaders); k++ {
		line := &t.p.Words.In[t.id][k]
		if err := t.awaitLine(ctx, line, t.leaders[k]); err != nil {
			return all, err
		}
		all.fold((*record)(unsafe.Pointer(&line.Data)))
	}
	for k := 1; k < len(t.leaders); k++ {
		if err := t.send(ctx, t.leaders[k], t.p.outOffset(t.id), &all); err != nil {
			return all, err
		}
	}
	t.sent.Store(t.seq)
	return all, nil
}

// askRoot is the part of the other leaders: it sends what this node contributes, and waits for the decision.
func (t *Team) askRoot(ctx context.Context, mine record) (record, error) {
	if err := t.send(ctx, t.leaders[0], t.p.inOffset(t.id, t.node), &mine); err != nil {
		return mine, err
	}
	t.sent.Store(t.seq)
	line := &t.p.Words.Out[t.id]
	if err := t.awaitLine(ctx, line, t.leaders[0]); err != nil {
		return mine, err
	}
	return *(*record)(unsafe.Pointer(&line.Data)), nil
}

// send sends a record of this step to a member.
func (t *Team) send(ctx context.Context, member int, off uint64, r *record) error {
	return t.lateError(member, t.p.Port.Send(ctx, t.pes[member], off, r.bytes(), t.seq))
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

// awaitLine waits until a member has written a line for this step. Of deaths, only that member's ends the wait: its line
// is written before, or never. Other members that die are missed by those that wait for them.
func (t *Team) awaitLine(ctx context.Context, line *layout.UpperLine, member int) error {
	pe := t.pes[member]
	for seen := uint64(0); ; {
		c := wait.Cond{Addr: unsafe.Pointer(&line.Seq), Val: t.seq, Width: 8, Cmp: wait.GE, Seen: seen, Peer: int32(pe) + 1}
		word, err := t.p.Waiter.Wait(&c, ctx)
		if errors.Is(err, wait.ErrFailure) {
			seen = t.p.Failures.Epoch()
			if !t.p.Dead(pe) {
				continue
			}
			if word = atomic.LoadUint64(&line.Seq); word < t.seq {
				return &coll.DeadError{Members: t.knownDead()}
			}
			err = nil
		}
		switch {
		case err != nil:
			return t.lateError(member, err)
		case word%layout.UpperWho >= t.seq:
			return nil
		}
		return t.faultError(faultIn(word))
	}
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

// mark returns what the word of a member says that gives the team up because of a fault.
func (f fault) mark(who int32) uint64 {
	switch f {
	case dead:
		return layout.UpperGaveUp | layout.UpperDied | uint64(who)*layout.UpperWho
	case left:
		return layout.UpperGaveUp | layout.UpperLeft | uint64(who)*layout.UpperWho
	default:
		return layout.UpperGaveUp
	}
}

// faultIn returns the fault that the word of a member says who has given the team up.
func faultIn(word uint64) (f fault, who int32) {
	who = int32(word % layout.UpperLeft / layout.UpperWho)
	switch {
	case word&layout.UpperDied != 0:
		return dead, who
	case word&layout.UpperLeft != 0:
		return left, who
	}
	return broken, -1
}

// faultError returns the error of a step in which another PE has found a fault. who is -1 if that is about no member.
//
// News of a death reaches the nodes at different times, and a death is reported rather than what follows from it.
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

// gaveUpPatience bounds how long a leader tries to tell other nodes that it has given the team up. They learn of it
// after that by the end of their own waits.
const gaveUpPatience = time.Second

// leavePatience is gaveUpPatience for a member that leaves the team while all is well. The program may begin a further
// world then, to which the word must not come. Only agents have to answer, and a node without one is lost before.
const leavePatience = time.Minute

// sendGaveUp tells the root that this leader enters no further step because of err, or, as the root, tells all leaders.
// The word keeps the latest step that this leader has sent.
func (t *Team) sendGaveUp(err error, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f, who := faultOf(err)
	word := t.sent.Load() | f.mark(who)
	if t.node != 0 {
		_ = t.p.Port.Send(ctx, t.pes[t.leaders[0]], t.p.inOffset(t.id, t.node), nil, word) // the root is dead, or it waits until it hears of this PE's end
	} else {
		for _, leader := range t.leaders[1:] {
			_ = t.p.Port.Send(ctx, t.pes[leader], t.p.outOffset(t.id), nil, word) // as above
		}
	}
	_ = t.p.Port.Complete(ctx) // nothing of this team comes into the words of a later world
}
