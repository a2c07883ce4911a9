// Package parity says how the members of a group keep each other's data by an erasure code: which stripe of whose data belongs
// to which row, and who keeps the parities of a row. It has the arithmetic of one parity, the exclusive or.
//
// Each of the Size members has Data() stripes of its own data, and keeps Parities parities. There are Size rows. Row r has the
// parities of members r to r+Parities-1, and one stripe of each of the others, all modulo Size. So each member gives a stripe
// to Data() rows and keeps a parity of each of the remaining ones. No row has two parts at one member, so all data is there as
// long as no more than Parities members are lost.
package parity

import (
	"crypto/subtle"
	"fmt"
	"slices"
)

// Code is the arithmetic of a group.
type Code interface {
	// Encode computes the parities of a row from its stripes. parts are all parts, of the same length.
	Encode(parts [][]byte) error
	// Restore computes one stripe of a row, whose entry in parts has no length, but room. Entries of other parts that are
	// missing have no length. As many parts are there as there are stripes.
	Restore(parts [][]byte, stripe int) error
}

// Group is the code of a group. Its methods may be called by several goroutines, if those of its Code may.
type Group struct {
	Size, Parities int
	Code
}

// New returns the code of a group, which has at least one parity, and more members than parities. newCode makes the arithmetic.
func New(size, parities int, newCode func(data, parities int) (Code, error)) (*Group, error) {
	if parities < 1 || size <= parities {
		return nil, fmt.Errorf("a group of %d members with %d parities, want 1 parity at least, and more members", size, parities)
	}
	code, err := newCode(size-parities, parities)
	if err != nil {
		return nil, err
	}
	return &Group{Size: size, Parities: parities, Code: code}, nil
}

// Data returns how many stripes the data of a member have.
func (g *Group) Data() int { return g.Size - g.Parities }

// Row returns the row of a stripe of a member.
func (g *Group) Row(member, stripe int) int { return g.mod(member - g.Parities - stripe) }

// ParityRow returns the row of a parity that a member keeps. It is the parity of the same index there.
func (g *Group) ParityRow(member, parity int) int { return g.mod(member - parity) }

// Holder returns the member that has a part of a row. Parts 0 to Data()-1 are stripes, and the others are parities. Part i
// is stripe i of its member, and part Data()+i is parity i.
func (g *Group) Holder(row, part int) (member int) {
	if part < g.Data() {
		return g.mod(row + g.Parities + part)
	}
	return g.mod(row + part - g.Data())
}

// mod returns i modulo the number of members. i is more than -2 times that.
func (g *Group) mod(i int) int { return (i + 2*g.Size) % g.Size }

// XOR returns the code with one parity.
func XOR(data, parities int) (Code, error) {
	if parities != 1 {
		return nil, fmt.Errorf("%d parities, want 1: others are no exclusive or", parities)
	}
	return xor(data), nil
}

// xor is the exclusive or of so many stripes.
type xor int

// Encode is Code's.
func (x xor) Encode(parts [][]byte) error {
	add(parts[x], parts[:x])
	return nil
}

// Restore is Code's.
func (x xor) Restore(parts [][]byte, stripe int) error {
	others := slices.Delete(slices.Clone(parts), stripe, stripe+1)
	parts[stripe] = parts[stripe][:len(others[0])]
	add(parts[stripe], others)
	return nil
}

// add sets sum to the exclusive or of parts.
func add(sum []byte, parts [][]byte) {
	copy(sum, parts[0])
	for _, p := range parts[1:] {
		subtle.XORBytes(sum, sum, p)
	}
}
