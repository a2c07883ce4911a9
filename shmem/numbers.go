package shmem

import (
	"slices"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// numbers says which PE of the world has which number in a team. Teams that a split makes of the world, and of such
// teams, are arithmetic: member i is PE first + i*stride. They take three words, however many members they have.
// Other teams have a list.
type numbers struct {
	first  layout.PE
	stride int // not 0; meaningless if there is a list
	n      int
	list   []layout.PE       // nil for an arithmetic team
	index  map[layout.PE]int // place of each PE in list
}

// numbersOf returns the numbers of a team with these members.
func numbersOf(pes []layout.PE) numbers {
	s := numbers{stride: 1, n: len(pes)}
	if s.n == 0 {
		return s
	}
	s.first = pes[0]
	if s.n > 1 {
		s.stride = int(pes[1] - pes[0])
	}
	for i, pe := range pes {
		if s.stride == 0 || pe != s.first+layout.PE(i*s.stride) {
			return listOf(pes)
		}
	}
	return s
}

// listOf returns the numbers of a team whose members are no arithmetic sequence.
func listOf(pes []layout.PE) numbers {
	s := numbers{n: len(pes), list: slices.Clone(pes), index: make(map[layout.PE]int, len(pes))}
	for i, pe := range pes {
		s.index[pe] = i
	}
	return s
}

// pe returns the PE of the world that has number i in the team. The caller has checked i.
func (s *numbers) pe(i int) layout.PE {
	if s.list != nil {
		return s.list[i]
	}
	return s.first + layout.PE(i*s.stride)
}

// of returns the number in the team of a PE of the world, or -1 if it is no member.
func (s *numbers) of(pe layout.PE) int {
	if s.list != nil {
		if i, is := s.index[pe]; is {
			return i
		}
		return -1
	}
	if s.n == 0 {
		return -1
	}
	d := int(pe - s.first)
	if i := d / s.stride; d%s.stride == 0 && i >= 0 && i < s.n {
		return i
	}
	return -1
}

// part returns numbers start, start+stride, ... of the team, n in all, as numbers of a team of their own.
func (s *numbers) part(start, stride, n int) numbers {
	if s.list == nil && n > 1 {
		return numbers{first: s.pe(start), stride: stride * s.stride, n: n}
	}
	pes := make([]layout.PE, n)
	for i := range pes {
		pes[i] = s.pe(start + i*stride)
	}
	return numbersOf(pes)
}

// all returns the PEs of the team.
func (s *numbers) all() []layout.PE {
	pes := make([]layout.PE, s.n)
	for i := range pes {
		pes[i] = s.pe(i)
	}
	return pes
}

// worldPEs returns the PEs in the world that have these numbers in the team.
func (s *numbers) worldPEs(of []int) []layout.PE {
	pes := make([]layout.PE, len(of))
	for i, n := range of {
		pes[i] = s.pe(n)
	}
	return pes
}

// window is the members of a team that the fast half of operations reaches: numbers first to first+near-1. Their
// segments are an arithmetic sequence, too. It begins at the segment with index base, and goes on by step segments.
type window struct {
	first, near int
	base        layout.Local
	step        int
}

// windowOf returns the window of a team. It is empty if no member is near. If the PEs of a node have consecutive numbers, it
// has all near members of an arithmetic team, and none of a team with a list. Otherwise it has some of the near members.
func (s *numbers) windowOf(place job.Place) window {
	if s.n == 0 || place.Near == 0 {
		return window{}
	}
	if place.HasGaps() {
		return s.longestRun(place)
	}
	if s.list != nil {
		return window{}
	}
	low, high := int(place.First-s.first), int(place.First-s.first)+place.Near-1 // of near PEs, from the first member on
	stride := s.stride
	if stride < 0 {
		low, high, stride = -high, -low, -stride
	}
	first, last := 0, s.n-1
	if low > 0 {
		first = (low + stride - 1) / stride
	}
	if high < 0 {
		return window{}
	}
	if last = min(last, high/stride); first > last {
		return window{}
	}
	return window{first: first, near: last - first + 1, base: place.NearLocal(s.pe(first)), step: s.stride}
}

// longestRun returns the longest window of near members, the first of several. It looks at all members, so the making of a
// context takes longer where PEs of a node do not have consecutive numbers.
func (s *numbers) longestRun(place job.Place) (best window) {
	for i := 0; i < s.n; {
		w := s.runAt(place, i)
		if w.near > best.near {
			best = w
		}
		i += max(1, w.near-1) // the last member of a run may begin the next one
	}
	return best
}

// runAt returns the longest window that begins at member i. It is empty if that member is far.
func (s *numbers) runAt(place job.Place, i int) window {
	base, near := place.Local(s.pe(i))
	if !near {
		return window{}
	}
	w := window{first: i, near: 1, base: base, step: 1}
	for k := i + 1; k < s.n; k++ {
		local, near := place.Local(s.pe(k))
		if near && k == i+1 {
			w.step = int(local - base)
		}
		if !near || int(local-base) != (k-i)*w.step {
			break
		}
		w.near++
	}
	return w
}
