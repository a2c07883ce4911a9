package ftco

import (
	"math/bits"
	"slices"
)

// nodeSet is a set of members. While they are few it is a list, and else a bit
// for each member, so that a machine in a large group does not hold what the group
// is large: with a bit for each other, 64K machines are half a gigabyte.
type nodeSet struct {
	few  []Node // ascending
	bits []uint64
}

// add adds p, one of n, which is not in it.
func (s *nodeSet) add(p Node, n int) {
	if s.bits == nil {
		if len(s.few) < n/32 { // then a list is smaller
			i, _ := slices.BinarySearch(s.few, p)
			s.few = slices.Insert(s.few, i, p)
			return
		}
		s.bits = make([]uint64, (n+63)/64)
		for _, q := range s.few {
			s.set(q)
		}
		s.few = nil
	}
	s.set(p)
}

func (s *nodeSet) set(p Node) { s.bits[p/64] |= 1 << (p % 64) }

func (s *nodeSet) has(p Node) bool {
	if s.bits == nil {
		_, ok := slices.BinarySearch(s.few, p)
		return ok
	}
	return s.bits[p/64]&(1<<(p%64)) != 0
}

// all yields each, ascending, however they are held.
func (s *nodeSet) all(yield func(Node) bool) {
	for _, p := range s.few {
		if !yield(p) {
			return
		}
	}
	for i, word := range s.bits {
		for ; word != 0; word &= word - 1 {
			if !yield(Node(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

func (s *nodeSet) clear() {
	s.few = s.few[:0]
	clear(s.bits)
}

func (s *nodeSet) clone() nodeSet {
	return nodeSet{slices.Clone(s.few), slices.Clone(s.bits)}
}
