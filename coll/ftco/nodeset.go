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

// add adds p, one of n, and says whether it was not there.
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
	if len(s.few) < n/32 { // then a list is smaller
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

// search is where p is in the list, or would be. It is asked at every step after
// a death, for which slices.BinarySearch is slow.
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

func (s *nodeSet) set(p Node) { s.bits[p/64] |= 1 << (p % 64) }

func (s *nodeSet) has(p Node) bool {
	if s.bits == nil {
		i := s.search(p)
		return i < len(s.few) && s.few[i] == p
	}
	return s.bits[p/64]&(1<<(p%64)) != 0
}

// each calls f with each, ascending, however they are held.
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

func (s *nodeSet) clear() {
	s.few = s.few[:0]
	clear(s.bits)
}

func (s *nodeSet) clone() nodeSet {
	return nodeSet{slices.Clone(s.few), slices.Clone(s.bits)}
}
