package ftco

import (
	"math/bits"
	"slices"
)

// nodeSet is a set of members. A small set is a list; a large one has a bit for each member of the
// group. The list saves memory in large groups: with bits alone, 64K machines take half a gigabyte.
type nodeSet struct {
	few  []Node   // ascending; empty if bits is set
	bits []uint64 // nil: the set is the list
}

// add adds member p of a group of n, and reports whether it was not in the set.
func (s *nodeSet) add(p Node, n int) bool {
	if s.bits != nil {
		added := !s.has(p)
		s.set(p)
		return added
	}
	i := s.search(p)
	if i < len(s.few) && s.few[i] == p {
		return false
	}
	if len(s.few) < n/32 { // a list is smaller
		s.few = slices.Insert(s.few, i, p)
		return true
	}
	s.bits = make([]uint64, (n+63)/64)
	for _, q := range s.few {
		s.set(q)
	}
	s.few = nil
	s.set(p)
	return true
}

// search returns the index of p in the list, or where p would be. Every step after a death calls it,
// and slices.BinarySearch is slower.
func (s *nodeSet) search(p Node) int {
	low, high := 0, len(s.few)
	for low < high {
		if mid := int(uint(low+high) / 2); s.few[mid] < p {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// set sets the bit of p.
func (s *nodeSet) set(p Node) { s.bits[p/64] |= 1 << (p % 64) }

// has reports whether p is in the set.
func (s *nodeSet) has(p Node) bool {
	if s.bits == nil {
		i := s.search(p)
		return i < len(s.few) && s.few[i] == p
	}
	return s.bits[p/64]&(1<<(p%64)) != 0
}

// each calls f with each member, ascending.
func (s *nodeSet) each(f func(Node)) {
	for _, p := range s.few {
		f(p)
	}
	for i, word := range s.bits {
		for ; word != 0; word &= word - 1 {
			f(Node(i*64 + bits.TrailingZeros64(word)))
		}
	}
}

// clear empties the set. Its memory stays.
func (s *nodeSet) clear() {
	s.few = s.few[:0]
	clear(s.bits)
}

// clone returns a copy that shares nothing.
func (s *nodeSet) clone() nodeSet {
	return nodeSet{slices.Clone(s.few), slices.Clone(s.bits)}
}
