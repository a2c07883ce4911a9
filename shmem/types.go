package shmem

import "github.com/goshmem/goshmem/internal/wait"

// AMO lists the element types of atomic memory operations.
type AMO interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr
}

// AMOExt lists the element types of atomic fetch, set and swap.
type AMOExt interface{ AMO | ~float32 | ~float64 }

// AMOBits lists the element types of bitwise atomic operations.
type AMOBits interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64
}

// Waiter lists the element types that a PE can wait on.
type Waiter interface{ AMO | ~int16 | ~uint16 }

// Ordered lists the element types of the min and max reductions.
type Ordered interface {
	Waiter | ~int8 | ~uint8 | ~float32 | ~float64
}

// Number lists the element types of the sum and prod reductions.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

// Bits lists the element types of the reductions with And, Or and Xor.
type Bits interface {
	AMOBits | ~uint8 | ~uint16 | ~int8 | ~int16 | ~uintptr | ~bool
}

// Cmp is a comparison of a symmetric element with a value.
type Cmp uint8

// The comparisons: the element is equal to, not equal to, greater than,
// greater than or equal to, less than, less than or equal to the value.
//
//   - Source: SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE.
const (
	EQ = Cmp(wait.EQ)
	NE = Cmp(wait.NE)
	GT = Cmp(wait.GT)
	GE = Cmp(wait.GE)
	LT = Cmp(wait.LT)
	LE = Cmp(wait.LE)
)

// String returns the Go operator of the comparison.
func (c Cmp) String() string {
	if int(c) < len(cmpNames) {
		return cmpNames[c]
	}
	return "an unknown comparison"
}

var cmpNames = [...]string{EQ: "==", NE: "!=", GT: ">", GE: ">=", LT: "<", LE: "<="}

// SignalOp says how PutSignal updates the signal.
type SignalOp uint8

// The signal operations.
//
//   - Source: SHMEM_SIGNAL_SET, SHMEM_SIGNAL_ADD.
const (
	SignalSet SignalOp = iota
	SignalAdd
)
