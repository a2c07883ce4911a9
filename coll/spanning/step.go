package spanning

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

// decision is the result of a step.
type decision struct {
	span.Record
	failed []int  // members that died before they entered the step, ascending
	gave   []byte // what members gave besides: pieces in a collective, bits in an agreement
}

// meet is step for a caller that has set busy.
func (t *Team) meet(ctx context.Context, mine span.Record, give []byte) (decision, error) {
	if err := t.refusal(); err != nil {
		return decision{}, err
	}
	if !t.tolerant {
		if who := t.knownDead(); who != nil { // the others learn it from this member's record: their nodes may not know it yet
			mine.Fault, mine.Who = dead, int32(who[0])
			t.post(layout.UpperSteps, mine, nil)
			return decision{}, t.giveUp(&coll.DeadError{Members: who})
		}
	}
	d, worst, who, err := t.enter(ctx, layout.UpperSteps, mine, give)
	switch {
	case err != nil:
		return d, t.giveUp(err)
	case worst == dead && t.tolerant: // it is no fault there
	case worst != noFault:
		return d, t.giveUp(t.lackError(worst, who, d.failed))
	}
	if d.Fault == dead && t.tolerant {
		return d, ErrAgain
	}
	if d.Fault != noFault {
		return d, t.giveUp(t.faultError(d.Fault, d.Who))
	}
	return d, nil
}

// enter enters the next step of a line, and returns its decision. worst is why some member has not contributed, and who is a member
// of which that is so.
func (t *Team) enter(ctx context.Context, line int, mine span.Record, give []byte) (d decision, worst fault, who int, err error) {
	words, seq := t.p.line(line, t.id), t.post(line, mine, give)
	seen := t.p.Failures.Epoch() // before the look at the members
	if t.allHaveEntered(line, seq) {
		t.p.Port.Announce(t.id)
	}
	for {
		c := wait.Cond{Addr: unsafe.Pointer(&words.Result.Seq), Val: seq, Width: 8, Cmp: wait.GE, Seen: seen}
		if _, err = t.p.Waiter.Wait(&c, ctx); err == nil {
			break
		}
		if !errors.Is(err, wait.ErrFailure) {
			return d, noFault, -1, &coll.LateError{Member: t.missing(line, seq), Err: err}
		}
		// The agent hears of a death before this PE does, and may have looked before this PE entered.
		if seen = t.p.Failures.Epoch(); t.allHaveEntered(line, seq) {
			t.p.Port.Announce(t.id)
		}
	}
	copy(d.Bytes(), words.Result.Data[:])
	if words.Result.Lacks > 0 {
		d.failed, worst, who = t.readLacks(&words.Result)
	}
	if words.Result.Gave == layout.UpperTooMuch {
		return d, worst, who, coll.ErrBroken // members that give as much as each other never do that
	}
	at := int(words.Result.Lacks) * layout.UpperLackBytes
	if n := int(words.Result.Gave); n > 0 {
		d.gave = words.Result.Body[at : at+n : at+n] // until this member enters its next step
	}
	return d, worst, who, nil
}

// post enters the next step of a line, and returns its number.
func (t *Team) post(line int, mine span.Record, give []byte) (seq uint64) {
	mine.Member, mine.Differs, mine.Give = int32(t.me), -1, uint16(len(give))
	if mine.Status == statusOK && mine.Fault == noFault {
		mine.Who = -1
	}
	words := t.p.line(line, t.id)
	t.seq[line]++
	seq = t.seq[line]
	copy(words.Cell.Data[:], mine.Bytes())
	if len(give) <= layout.UpperData-span.RecordBytes {
		copy(words.Cell.Data[span.RecordBytes:], give)
	} else {
		copy(words.Given[:], give)
	}
	atomic.SwapUint64(&words.Cell.Word, seq)
	return seq
}

// allHaveEntered says whether no member of the part is missing in the step.
func (t *Team) allHaveEntered(line int, seq uint64) bool {
	return !slices.ContainsFunc(t.local, func(i int) bool { return isMissing(t, line, i, seq) })
}

// isMissing says whether a member of the part lives and has not entered the step. Each member counts from a number of its own.
func isMissing(t *Team, line, i int, seq uint64) bool {
	pe := t.pes[i]
	near := t.p.Near(pe)
	start := atomic.LoadUint64(&near.Parts[t.id].Start)
	return atomic.LoadUint64(&near.Lines[line][t.id].Cell.Word)-start < seq-t.start && (t.p.Failures.Epoch() == 0 || !t.p.Dead(pe))
}

// missing returns a member of the part that is missing, or the first member of another node.
func (t *Team) missing(line int, seq uint64) int {
	for _, i := range t.local {
		if isMissing(t, line, i, seq) {
			return i
		}
	}
	for k, i := range t.first {
		if k != t.node {
			return i
		}
	}
	return t.me
}

// readLacks returns the members that have not contributed: those that have died, and the worst reason with a member that has it.
func (t *Team) readLacks(r *layout.UpperResult) (died []int, worst fault, who int) {
	who = -1
	n := min(int(r.Lacks), layout.UpperBody/layout.UpperLackBytes)
	for _, l := range unsafe.Slice((*layout.UpperLack)(unsafe.Pointer(&r.Body[0])), n) {
		if int(l.Node) >= len(t.members) {
			continue
		}
		those := t.members[l.Node]
		if l.Member != layout.UpperAll {
			those = those[min(int(l.Member), len(those)):min(int(l.Member)+1, len(those))]
		}
		f := broken
		switch board.Verdict(l.Why) {
		case board.Died:
			f = dead
			died = append(died, those...)
		case board.HasLeft:
			f = left
		}
		if len(those) > 0 && rank(f, t.tolerant) > rank(worst, t.tolerant) {
			worst, who = f, those[0]
		}
	}
	slices.Sort(died)
	return died, worst, who
}

// rank orders faults. On a tolerant team a death is the least one.
func rank(f fault, tolerant bool) int {
	if f == dead && tolerant {
		return 1
	}
	return 2 * int(f)
}

// lackError returns the error of a step in which members have not contributed.
func (t *Team) lackError(worst fault, who int, died []int) error {
	all := t.knownDead() // a member has given up for that
	if t.tolerant {
		all = nil
	}
	if worst == dead || all != nil {
		for _, i := range died {
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
		slices.Sort(all)
		return &coll.DeadError{Members: all}
	}
	if worst == left {
		return &coll.LeftError{Member: who}
	}
	return coll.ErrBroken
}

// faultError returns the error of a step in which another PE has found a fault. who is -1 if that is about no member.
func (t *Team) faultError(f fault, who int32) error {
	all := t.knownDead()
	if t.tolerant && f != dead {
		all = nil
	}
	is := who >= 0 && int(who) < len(t.pes)
	if all == nil && f == left && is {
		return &coll.LeftError{Member: int(who)}
	}
	if f == dead && is && !slices.Contains(all, int(who)) {
		all = append(all, int(who))
		slices.Sort(all)
	}
	if all == nil {
		return coll.ErrBroken
	}
	return &coll.DeadError{Members: all}
}

// faultOf returns the fault that an error of a step is for other members, and the member that it is about.
func (t *Team) faultOf(err error) (f fault, who int32) {
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
