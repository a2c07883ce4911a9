package shmem

import (
	"reflect"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
)

// ReduceValue combines v of all PEs, in the order of PE numbers, and returns the result on all PEs:
// ReduceValue(w.Team(), v, shmem.Sum). It is Reduce without symmetric objects. All PEs get the same bytes.
//
//   - Shape: one value of any type without pointers; pass several numbers as an array or a struct.
//   - Completion: on return.
//   - Cost: as Reduce up to 8176 bytes, without an allocation. Each PE in turn broadcasts a larger value, which needs
//     memory for two more. On a team whose PEs are on several nodes, a predefined operator takes one meeting, in the
//     order that Reduce tells; for another operator, each PE gets the values of all.
//   - Errors: those of collectives, see the package documentation, with a result of zeros; ErrElementType for a type
//     with pointers, ErrArgument for an operator that is nil. With a larger value, also on a tolerant team, ErrPEDied
//     on all survivors when a PE that has contributed dies before the end.
//   - Collective: over the team, with the same type and operator.
func ReduceValue[T any](t *Team, v T, op Op[T]) (T, error) {
	const name = "ReduceValue"
	var none T
	if err := checkValue[T](t, name); err != nil {
		return none, err
	}
	if op == nil {
		return none, t.reportRefusal(name, usage(name, ErrArgument, "operator is nil, want Sum, Max or another one"))
	}
	if t.h.checks {
		which := coll.NameOperator(coll.Op[T](op))
		if err := t.compare(name, 0, 0, "ReduceValue(%s) of type %v", which, reflect.TypeFor[T]()); err != nil {
			return none, err
		}
	}
	if t.upper != nil {
		return reduceSpanning(t, v, op)
	}
	if err := coll.ReduceValue(t.ctx, t.coll, &v, coll.Op[T](op)); err != nil {
		return none, t.publicError(name, err)
	}
	return v, nil
}

// BroadcastValue returns the root's v on all PEs. It is Broadcast without symmetric objects. The root is a PE number
// of the team. The v of other PEs is ignored.
//
//   - Shape: one value of any type without pointers, of any size.
//   - Completion: on return.
//   - Cost: two copies, without an allocation; of more than 8176 bytes, in pieces of 16 KiB.
//   - Errors: as Broadcast, with a result of zeros; ErrElementType for a type with pointers.
//   - Collective: over the team, with the same type and root.
func BroadcastValue[T any](t *Team, v T, root int) (T, error) {
	const op = "BroadcastValue"
	var none T
	if err := checkValue[T](t, op); err != nil {
		return none, err
	}
	if root < 0 || root >= t.NPEs() {
		return none, t.reportRefusal(op, usage(op, ErrPERange, "root %d of a team of %d, want 0 to %d", root, t.NPEs(), t.NPEs()-1))
	}
	if t.h.checks {
		if err := t.compare(op, 0, 0, "BroadcastValue of type %v, root %d", reflect.TypeFor[T](), root); err != nil {
			return none, err
		}
	}
	if t.upper != nil {
		return broadcastSpanning(t, v, root)
	}
	if err := coll.BroadcastPrivate(t.ctx, t.coll, unsafe.Slice((*byte)(unsafe.Pointer(&v)), sizeOf[T]()), root); err != nil {
		return none, t.publicError(op, err)
	}
	return v, nil
}

// checkValue checks the team and the type of a collective on values.
func checkValue[T any](t *Team, op string) error {
	if err := t.checkMade(op); err != nil {
		return err
	}
	if err := checkType[T](op); err != nil {
		return t.reportRefusal(op, err)
	}
	return nil
}
