package win

import (
	"fmt"
	"math"
	"reflect"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// Op is the operator of an update of a window: what an element becomes, of what it is and an operand.
type Op uint8

// The operators. And, Or and Xor are for integers. Min and Max give NaN if either side is NaN.
//
//   - Source: MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP.
const (
	Sum     Op = iota
	Prod       // the product
	Min        // the smaller one
	Max        // the larger one
	And        // bitwise
	Or         // bitwise
	Xor        // bitwise
	Replace    // the operand
	NoOp       // what it is: GetAccumulate and FetchAndOp then fetch atomically
)

var opNames = [...]string{"Sum", "Prod", "Min", "Max", "And", "Or", "Xor", "Replace", "NoOp"}

// String returns the name of the operator.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Accumulate combines each element of src with one of a rank's memory, from a displacement on. Each element is changed
// atomically, but not all of them at once.
//
//   - Completion: at the target after Flush, Unlock, Complete or Fence. src may be used again on return.
//   - Cost: one atomic operation of shmem for each element, or a loop around a compare-and-swap: see Operations in the
//     package documentation.
//   - Errors: as Put; mpi.ErrArgument for NoOp and an unknown operator; mpi.ErrElementType for And, Or and Xor of
//     floating-point numbers.
//   - Concurrent calls: allowed.
//   - Source: MPI_Accumulate.
func Accumulate[T shmem.AMOExt](w *Win[T], src []T, rank, displacement int, o Op) error {
	const op = "Accumulate"
	h := w.handle()
	do, err := h.checkRange(op, rank, displacement, len(src))
	if err == nil && o == NoOp {
		err = usage(op, mpi.ErrArgument, "operator NoOp, which changes nothing; hint: GetAccumulate fetches elements")
	}
	if err == nil {
		err = checkOp[T](op, o)
	}
	if err != nil || !do {
		return err
	}
	for i, v := range src {
		if _, err := update(h.ops, w.x.At(displacement+i), o, v, h.pes[rank], false); err != nil {
			return h.fail(op, err)
		}
	}
	return nil
}

// GetAccumulate is Accumulate that also returns, in dst, what each element was before.
//
//   - Shape: dst and src have the same length. With NoOp, src may be nil.
//   - Completion: on return.
//   - Cost: as Accumulate, and a round trip for each element on another node.
//   - Errors: as Accumulate, but NoOp is allowed; mpi.ErrArgument for different lengths.
//   - Concurrent calls: allowed.
//   - Source: MPI_Get_accumulate.
func GetAccumulate[T shmem.AMOExt](w *Win[T], dst, src []T, rank, displacement int, o Op) error {
	const op = "GetAccumulate"
	h := w.handle()
	do, err := h.checkRange(op, rank, displacement, len(dst))
	if err == nil && len(src) != len(dst) && (o != NoOp || src != nil) {
		err = usage(op, mpi.ErrArgument, "%d elements in dst and %d in src, want the same number", len(dst), len(src))
	}
	if err == nil {
		err = checkOp[T](op, o)
	}
	if err != nil || !do {
		return err
	}
	for i := range dst {
		var v T
		if src != nil {
			v = src[i]
		}
		if dst[i], err = update(h.ops, w.x.At(displacement+i), o, v, h.pes[rank], true); err != nil {
			return h.fail(op, err)
		}
	}
	return nil
}

// FetchAndOp is GetAccumulate of one element. It returns what the element was before.
//
//   - Completion: on return.
//   - Errors: as GetAccumulate.
//   - Concurrent calls: allowed.
//   - Source: MPI_Fetch_and_op.
func FetchAndOp[T shmem.AMOExt](w *Win[T], v T, rank, displacement int, o Op) (old T, err error) {
	const op = "FetchAndOp"
	h := w.handle()
	do, err := h.checkRange(op, rank, displacement, 1)
	if err == nil {
		err = checkOp[T](op, o)
	}
	if err != nil || !do {
		return old, err
	}
	old, err = update(h.ops, w.x.At(displacement), o, v, h.pes[rank], true)
	return old, h.fail(op, err)
}

// CompareAndSwap makes an element v if it is cond, and returns what it was before. Floating-point numbers are compared by
// their bits: 0 and -0 differ, and equal NaNs of the same bits do not.
//
//   - Completion: on return.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: MPI_Compare_and_swap.
func CompareAndSwap[T shmem.AMOExt](w *Win[T], cond, v T, rank, displacement int) (old T, err error) {
	const op = "CompareAndSwap"
	h := w.handle()
	if do, err := h.checkRange(op, rank, displacement, 1); !do {
		return old, err
	}
	x, pe, kind := w.x.At(displacement), h.pes[rank], kindOf[T]()
	if kind.size == 4 {
		got, err := shmem.AtomicCompareSwap(h.ops, shmem.Bits32(x), bits32(kind, cond), bits32(kind, v), pe)
		return of32[T](kind, got), h.fail(op, err)
	}
	got, err := shmem.AtomicCompareSwap(h.ops, shmem.Bits64(x), bits64(kind, cond), bits64(kind, v), pe)
	return of64[T](kind, got), h.fail(op, err)
}

// kind says how elements of a type are kept.
type kind struct {
	size  uintptr // 4 or 8
	float bool
}

func kindOf[T shmem.AMOExt]() kind {
	t := reflect.TypeFor[T]()
	return kind{size: t.Size(), float: t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64}
}

// checkOp checks an operator for elements of type T.
func checkOp[T shmem.AMOExt](op string, o Op) error {
	switch {
	case o > NoOp:
		return usage(op, mpi.ErrArgument, "operator %d, want Sum to NoOp", uint8(o))
	case (o == And || o == Or || o == Xor) && kindOf[T]().float:
		return usage(op, mpi.ErrElementType, "operator %v of elements of type %v, want integers", o, reflect.TypeFor[T]())
	}
	return nil
}

// The bits of an element, and the element of its bits.

func bits64[T shmem.AMOExt](k kind, v T) uint64 {
	if k.float {
		return math.Float64bits(float64(v))
	}
	return uint64(v)
}

func of64[T shmem.AMOExt](k kind, b uint64) T {
	if k.float {
		return T(math.Float64frombits(b))
	}
	return T(b)
}

func bits32[T shmem.AMOExt](k kind, v T) uint32 {
	if k.float {
		return math.Float32bits(float32(v))
	}
	return uint32(v)
}

func of32[T shmem.AMOExt](k kind, b uint32) T {
	if k.float {
		return T(math.Float32frombits(b))
	}
	return T(b)
}

// update changes the element x of a PE. It returns what the element was if fetch is set.
func update[T shmem.AMOExt](c *shmem.Ctx, x shmem.Sym[T], o Op, v T, pe int, fetch bool) (T, error) {
	switch {
	case o == NoOp:
		return shmem.AtomicFetch(c, x, pe)
	case o == Replace && fetch:
		return shmem.AtomicSwap(c, x, v, pe)
	case o == Replace:
		return v, shmem.AtomicSet(c, x, v, pe)
	}
	k := kindOf[T]()
	native := !k.float && (o == Sum || o >= And)
	switch {
	case k.size == 4 && native:
		old, err := updateWord(c, shmem.Bits32(x), o, bits32(k, v), pe, fetch)
		return of32[T](k, old), err
	case k.size == 4:
		return updateLoop(c, shmem.Bits32(x), o, v, pe, k, bits32[T], of32[T])
	case native:
		old, err := updateWord(c, shmem.Bits64(x), o, bits64(k, v), pe, fetch)
		return of64[T](k, old), err
	default:
		return updateLoop(c, shmem.Bits64(x), o, v, pe, k, bits64[T], of64[T])
	}
}

// updateWord is update by the one atomic operation that shmem has for it: Sum, And, Or, Xor.
func updateWord[U uint32 | uint64](c *shmem.Ctx, x shmem.Sym[U], o Op, v U, pe int, fetch bool) (old U, err error) {
	switch {
	case o == Sum && fetch:
		return shmem.AtomicFetchAdd(c, x, v, pe)
	case o == Sum:
		return 0, shmem.AtomicAdd(c, x, v, pe)
	case o == And && fetch:
		return shmem.AtomicFetchAnd(c, x, v, pe)
	case o == And:
		return 0, shmem.AtomicAnd(c, x, v, pe)
	case o == Or && fetch:
		return shmem.AtomicFetchOr(c, x, v, pe)
	case o == Or:
		return 0, shmem.AtomicOr(c, x, v, pe)
	case fetch:
		return shmem.AtomicFetchXor(c, x, v, pe)
	default:
		return 0, shmem.AtomicXor(c, x, v, pe)
	}
}

// updateLoop is update by compare-and-swap of the element's bits. An update that changes nothing ends with the look at
// the element.
func updateLoop[T shmem.AMOExt, U uint32 | uint64](c *shmem.Ctx, x shmem.Sym[U], o Op, v T, pe int, k kind, bits func(kind, T) U, of func(kind, U) T) (T, error) {
	old, err := shmem.AtomicFetch(c, x, pe)
	for err == nil {
		next := bits(k, combine(o, of(k, old), v))
		if next == old {
			break
		}
		var got U
		if got, err = shmem.AtomicCompareSwap(c, x, old, next, pe); got == old {
			break
		}
		old = got
	}
	return of(k, old), err
}

// combine returns what an element becomes.
func combine[T shmem.AMOExt](o Op, a, b T) T {
	switch o {
	case Prod:
		return a * b
	case Min:
		return min(a, b)
	case Max:
		return max(a, b)
	default:
		return a + b
	}
}
