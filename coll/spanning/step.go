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
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

const noFault = span.NoFault

// decision is the result of a step. All members that get it get the same.
type decision struct {
	span.Record
	failed  []int  // members that died before they entered the step, ascending
	left    int    // the lowest member that left before it entered the step, or -1
	gaveUp  bool   // a member has given the team up before it entered the step
	gave    []byte // what members gave besides: pieces in a collective, bits in an agreement
	tooMuch bool   // that does not fit into a result
}

// meet is step for a caller that has set busy. failed is why this member cannot do its part, or nil.
//
// A member of a strict team that knows another one to be dead takes part with that fault. So it learns what all others do, as the nodes
// of others may know of other deaths, or of none.
func (t *Team) meet(ctx context.Context, mine span.Record, give []byte, failed error) (decision, error) {
	if err := t.refusal(); err != nil {
		return decision{}, err
	}
	if give = t.setFault(&mine, give, failed); !t.posted {
		t.post(layout.UpperSteps, mine, give)
	}
	t.posted = false
	d, err := t.await(ctx, layout.UpperSteps)
	if err == nil {
		err = t.failureOf(&d)
	}
	if err != nil && !errors.Is(err, ErrAgain) {
		err = t.giveUp(err)
	}
	return d, err
}

// setFault sets the fault of this member, if it has one, and returns what it gives then: which members it knows to be dead. A member
// of a tolerant team has one only if it could not do its part.
func (t *Team) setFault(mine *span.Record, give []byte, failed error) []byte {
	var who []int
	if !t.tolerant {
		who = t.knownDead()
	}
	if e, is := errors.AsType[*coll.DeadError](failed); is {
		who = unite(who, e.Members)
	}
	e, isLeft := errors.AsType[*coll.LeftError](failed)
	if len(who) == 0 && failed == nil {
		return give
	}
	mine.Op, mine.Elem = fold.KindUser, fold.NoElem
	switch {
	case len(who) > 0:
		mine.Fault, mine.Who = span.Dead, int32(who[0])
		if t.tolerant {
			mine.Fault = span.Again
		}
		bits := bitsOf(who, len(t.pes))
		if t.shown { // others may still read Given
			bits = bits[:min(len(bits), layout.UpperData-span.RecordBytes)]
		}
		return bits[:min(len(bits), layout.UpperGiven)] // Who is among those that are named in any case
	case isLeft:
		mine.Fault, mine.Who = span.Left, int32(e.Member)
	default:
		mine.Fault, mine.Who = span.Broken, -1
	}
	return nil
}

// postRefusal enters the next collective of a strict team if this member knows another one to be dead. It is for a member that agrees on
// what to do about that. Others may be in that collective, and wait for this member.
//
// If this member calls the collective later, it finds the result. There is none of a later step: that one waits for this member.
func (t *Team) postRefusal() {
	if t.tolerant || t.posted || t.broken.Load() || t.knownDead() == nil {
		return
	}
	var mine span.Record
	give := t.setFault(&mine, nil, nil)
	seq := t.post(layout.UpperSteps, mine, give)
	t.posted = true
	if t.allHaveEntered(layout.UpperSteps, seq) {
		t.p.Port.Announce(t.id)
	}
}

// bitsOf returns some of n members as bits.
func bitsOf(who []int, n int) []byte {
	bits := make([]byte, (n+7)/8)
	for _, i := range who {
		bits[i/8] |= 1 << (i % 8)
	}
	return bits
}

// membersIn returns those of n members whose bits are set, ascending.
func membersIn(bits []byte, n int) (who []int) {
	for i := range min(n, 8*len(bits)) {
		if bits[i/8]>>(i%8)&1 != 0 {
			who = append(who, i)
		}
	}
	return who
}

// unite returns the members of both lists, ascending.
func unite(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// failureOf returns the error of a step, by its result alone: so it is the same at all members, with the same list. A death comes before a
// member that left, and that before one that gave up.
func (t *Team) failureOf(d *decision) error {
	var died []int // as members say that could not do their part
	n := len(t.pes)
	isMember := d.Who >= 0 && int(d.Who) < n
	if d.Fault == span.Dead || d.Fault == span.Again {
		if died = membersIn(span.DeadOf(d.gave), n); isMember {
			died = unite(died, []int{int(d.Who)})
		}
	}
	isAgain := d.Fault == span.Again
	if all := unite(died, d.failed); !t.tolerant && len(all) > 0 {
		return &coll.DeadError{Members: all}
	}
	if d.Fault == span.Left && isMember && (d.left < 0 || int(d.Who) < d.left) {
		d.left = int(d.Who)
	}
	switch {
	case d.left >= 0:
		return &coll.LeftError{Member: d.left}
	case d.gaveUp || d.tooMuch && d.Fault == noFault || d.Fault != noFault && !isAgain: // members that give as much as each other never give too much
		return coll.ErrBroken
	case isAgain:
		return &AgainError{Dead: unite(died, d.failed)}
	}
	return nil
}

// await waits for the result of a line's step that this member has entered, and returns it.
func (t *Team) await(ctx context.Context, line int) (d decision, err error) {
	words, seq := t.p.line(line, t.id), t.seq[line]
	seen := t.p.Failures.Epoch() // before the look at the members
	if t.allHaveEntered(line, seq) {
		t.p.Port.Announce(t.id)
	}
	for {
		c := wait.Cond{Addr: unsafe.Pointer(&words.Result.Seq), Val: seq, Width: 8, Cmp: wait.GE, Seen: seen, Agent: true}
		if _, err = t.p.Waiter.Wait(&c, ctx); err == nil {
			break
		}
		if !errors.Is(err, wait.ErrFailure) {
			return d, &coll.LateError{Member: t.missing(line, seq), Err: err}
		}
		// The agent hears of a death before this PE does, and may have looked before this PE entered.
		if seen = t.p.Failures.Epoch(); t.allHaveEntered(line, seq) {
			t.p.Port.Announce(t.id)
		}
	}
	copy(d.Bytes(), words.Result.Data[:])
	d.left = -1
	if words.Result.Lacks > 0 {
		readLacks(t, &words.Result, &d)
	}
	d.tooMuch = words.Result.Gave == layout.UpperTooMuch
	at := min(int(words.Result.Lacks)*layout.UpperLackBytes, layout.UpperBody)
	if n := min(int(words.Result.Gave), layout.UpperBody-at); n > 0 {
		d.gave = words.Result.Body[at : at+n : at+n] // until this member enters its next step
	}
	return d, nil
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

// readLacks reads which members have not contributed, and why.
func readLacks(t *Team, r *layout.UpperResult, d *decision) {
	n := min(int(r.Lacks), layout.UpperBody/layout.UpperLackBytes)
	for _, l := range unsafe.Slice((*layout.UpperLack)(unsafe.Pointer(&r.Body[0])), n) {
		if int(l.Node) >= len(t.members) {
			continue
		}
		those := t.members[l.Node]
		if l.Member != layout.UpperAll {
			those = those[min(int(l.Member), len(those)):min(int(l.Member)+1, len(those))]
		}
		switch why := board.Verdict(l.Why); {
		case why == board.Died:
			d.failed = append(d.failed, those...)
		case why != board.HasLeft:
			d.gaveUp = true
		case len(those) > 0 && (d.left < 0 || those[0] < d.left):
			d.left = those[0]
		}
	}
	slices.Sort(d.failed)
}

// lateError returns the error of a wait for a member that has ended with err, or of a send to it.
func (t *Team) lateError(member int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDead), t.p.Failures.Epoch() != 0 && t.p.Dead(t.pes[member]):
		return &coll.DeadError{Members: unite(t.knownDead(), []int{member})}
	}
	return &coll.LateError{Member: member, Err: err}
}
