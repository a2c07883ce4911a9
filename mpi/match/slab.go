package match

// Slab is a growing collection of elements that do not move. An element is known by a number of 32 bits, so that a
// collection of elements without pointers is nothing that the garbage collector has to look at. The zero Slab is empty.
//
//   - Number 0 is never given out: it can stand for none.
//   - There is no way to give an element back: the caller keeps those that it does not use.
//   - Concurrent calls: not allowed.
type Slab[T any] struct {
	chunks []*[slabChunk]T
	next   uint32 // number of the next element
}

// The number of an element is that of its chunk, and below slabBits its place there.
const (
	slabBits  = 6
	slabChunk = 1 << slabBits // elements of a chunk
)

// At returns an element whose number Add has returned.
func (s *Slab[T]) At(i uint32) *T { return &s.chunks[i>>slabBits][i%slabChunk] }

// Add returns the number of a new element, which is zero.
//
//   - Cost: an allocation of 64 elements, each time that so many were added.
//   - Errors: it panics if it has added 2^32 elements.
func (s *Slab[T]) Add() uint32 {
	if s.next%slabChunk == 0 {
		s.grow()
	}
	s.next++
	return s.next - 1
}

// grow adds a chunk.
func (s *Slab[T]) grow() {
	if s.next == 0 && len(s.chunks) > 0 {
		panic("match: more than 2^32 messages wait for receives, want fewer")
	}
	s.chunks = append(s.chunks, new([slabChunk]T))
	if s.next == 0 {
		s.next = 1
	}
}
