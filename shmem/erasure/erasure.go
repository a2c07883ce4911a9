// Package erasure has policies of shmem's checkpoints by which several PEs of a group may die. It is apart because its library looks
// at the processor when the program starts, which takes half a millisecond on virtual machines.
package erasure

import (
	"github.com/klauspost/reedsolomon"

	"github.com/goshmem/goshmem/shmem"
)

// ReedSolomon has groups of data+parities PEs keep parities of each other's objects by a Reed-Solomon code: any parities PEs of a
// group may die between two commits. What else it does is that of shmem.Coded.
func ReedSolomon(data, parities int) shmem.Policy { return shmem.Coded(data, parities, newCode) }

// code is the library's.
type code struct {
	reedsolomon.Encoder
	data int
}

// newCode returns the code of a group.
func newCode(data, parities int) (shmem.Code, error) {
	c, err := reedsolomon.New(data, parities, reedsolomon.WithMaxGoroutines(1))
	return code{c, data}, err
}

// Restore is shmem.Code's.
func (c code) Restore(parts [][]byte, stripe int) error {
	wanted := make([]bool, c.data)
	wanted[stripe] = true
	return c.ReconstructSome(parts, wanted)
}
