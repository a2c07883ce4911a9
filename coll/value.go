package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// The collectives here are on single private values, which stay where the caller has them.

// scratch is where the result of a ReduceValue is made. It belongs to the collective that is under way.
// Without it, each call would allocate: the compiler does not know the operator, so what the operator
// gets cannot be on the stack.
type scratch struct{ words []uint64 }

// memory returns room for a value that fits into a slot.
func (s *scratch) memory() unsafe.Pointer {
	if s.words == nil {
		s.words = make([]uint64, layout.SlotSize/8)
	}
	return unsafe.Pointer(unsafe.SliceData(s.words))
}

// ReduceValue combines everybody's *v, in the order of the group, and leaves the result in everybody's
// *v. After an error, *v is as before.
//
// Values of up to MaxPrivate bytes go through slots. The others go by turns: see reduceByTurns, which
// says what the death of a member does.
//
//   - Errors: as Reduce; *OtherError when a member has called something else.
func ReduceValue[T any](ctx context.Context, t *Team, v *T, op Op[T]) (err error) {
	size := bytesOf[T](1)
	if size > MaxPrivate {
		return reduceByTurns(ctx, t, v, op)
	}
	h := headingOf(whatReduce, -1, size)
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	to, err := t.awaitPlace(ctx, seq, headingBytes+size)
	if err != nil {
		return err
	}
	copy(view[byte](h.writeTo(to, seq), size), view[byte](unsafe.Pointer(v), size))
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	acc := view[T](t.scratch.memory(), 1)
	if err := foldSlots(t, h, acc, seq, op); err != nil {
		return err
	}
	*v = acc[0]
	return nil
}

// reduceByTurns is ReduceValue for a value that no slot has room for: each member broadcasts its own in
// turn, and everybody folds them as they come.
//
// On a tolerant team, a member that dies before it has broadcast its whole value contributes nothing, on
// no survivor: a broadcast whose root is dead fails on all of them alike. One that dies later has
// contributed, although the outcome of the last step, a Sync, does not name it. So that Outcome is true of
// a result, this is a *DeadError on all survivors: all of them count the same broadcasts, and the same
// members in the last step.
//
// On a strict team, the last step makes all survivors fail or none, as at the end of a Reduce.
func reduceByTurns[T any](ctx context.Context, t *Team, v *T, op Op[T]) error {
	acc, in := make([]T, 1), make([]T, 1)
	counted := 0
	for i := range t.members {
		if i == t.me {
			in[0] = *v
		}
		if err := BroadcastPrivate(ctx, t, view[byte](unsafe.Pointer(&in[0]), bytesOf[T](1)), i); err != nil {
			if !t.survives(err) {
				return err
			}
			continue
		}
		if counted++; counted == 1 {
			acc, in = in, acc
		} else {
			foldBetween(t, acc, in, op)
		}
	}
	if err := t.Sync(ctx); err != nil {
		return err
	}
	if len(t.contributors(t.firstStep)) < counted {
		return t.Whole()
	}
	*v = acc[0]
	return nil
}

// foldBetween folds between two steps of a collective. If the operator panics, this member enters no
// further step, and the team is broken.
func foldBetween[T any](t *Team, acc, in []T, op Op[T]) {
	folded := false
	defer func() {
		if !folded {
			t.breakTeam()
		}
	}()
	op(acc, in)
	folded = true
}
