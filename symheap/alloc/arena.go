package alloc

import (
	"fmt"
	"math/bits"
)

// Granule is the unit of allocation in bytes: one cache line, so that two
// blocks never share one. Offsets and lengths are multiples of it.
const Granule = 64

// Version is the version of the layout of Header and Entry.
const Version = 1

const (
	magic = 0x4c414853 // "SHAL" in memory
	none  = ^uint32(0) // end of a list
)

// Entry is the record of one block: 32 bytes, no pointers.
//
//	offset  size  field
//	     0     8  Off       first byte of the block, from the start of the heap
//	     8     8  Len       bytes of the block; 0: the entry stands for no block
//	    16     4  Gen       generation, odd while the block is live
//	    20     4  Prev      slot of the block below, or 2^32-1
//	    24     4  Next      slot of the block above, or 2^32-1
//	    28     4  NextFree  next free block above, or next unused entry, or 2^32-1
//
// Only the owner of the Arena writes entries. Others may read Gen, with an
// atomic load, to tell whether a handle is still good.
type Entry struct {
	Off      uint64
	Len      uint64
	Gen      uint32
	Prev     uint32
	Next     uint32
	NextFree uint32
}

// Header is the state of the heap beside the table: 64 bytes, no pointers.
//
//	offset  size  field
//	     0     4  Magic        marks a formatted header
//	     4     4  Version      version of this layout
//	     8     8  Size         bytes of the heap, a multiple of Granule
//	    16     8  InUse        bytes in live blocks
//	    24     8  HighWater    largest InUse so far
//	    32     8  Ops          steps of change; odd while a call is under way
//	    40     4  Slots        length of the table
//	    44     4  Fresh        entries from here on were never used nor written
//	    48     4  FirstBlock   slot of the block at offset 0
//	    52     4  FirstFree    slot of the lowest free block, or 2^32-1
//	    56     4  FirstUnused  first entry below Fresh without a block, or 2^32-1
//	    60     4  Live         number of live blocks
type Header struct {
	Magic       uint32
	Version     uint32
	Size        uint64
	InUse       uint64
	HighWater   uint64
	Ops         uint64
	Slots       uint32
	Fresh       uint32
	FirstBlock  uint32
	FirstFree   uint32
	FirstUnused uint32
	Live        uint32
}

// Block is a live block: Len bytes, a multiple of Granule and at least what was
// asked for, from offset Off.
type Block struct {
	Slot, Gen uint32
	Off, Len  uint64
}

// Stats is the state of a heap in bytes, and its number of live blocks.
type Stats struct {
	Size        uint64
	InUse       uint64
	Free        uint64
	LargestFree uint64
	HighWater   uint64 // largest InUse so far
	Blocks      int
}

// Arena allocates from one heap. Its state is in the header and the table that it was
// given.
type Arena struct {
	h *Header
	t []Entry
}

// Format makes an empty heap of size bytes, rounded down to a multiple of
// Granule. It overwrites the header; entries of the table are written when they
// are first used, so that an untouched table costs no memory.
func Format(h *Header, table []Entry, size uint64) (*Arena, error) {
	size &^= Granule - 1
	if size == 0 {
		return nil, fmt.Errorf("format heap: %w: want at least %d bytes", ErrBadSize, Granule)
	}
	if len(table) == 0 || uint64(len(table)) >= uint64(none) {
		return nil, fmt.Errorf("format heap: table of %d entries, want 1 to %d", len(table), none-1)
	}
	*h = Header{
		Magic:       magic,
		Version:     Version,
		Size:        size,
		Slots:       uint32(len(table)),
		Fresh:       1,
		FirstUnused: none,
	}
	table[0] = Entry{Len: size, Prev: none, Next: none, NextFree: none}
	return &Arena{h: h, t: table}, nil
}

// Attach takes over a heap in the state in which its last user left it. State
// that fails Check is refused with an error that wraps ErrCorrupt.
func Attach(h *Header, table []Entry) (*Arena, error) {
	a := &Arena{h: h, t: table}
	if err := a.Check(); err != nil {
		return nil, fmt.Errorf("attach heap: %w", err)
	}
	return a, nil
}

// Alloc returns a block of at least size bytes whose offset is a multiple of
// align and of Granule. Align is a power of two, size is greater than zero. The
// error wraps ErrBadSize, ErrBadAlign, ErrTableFull or ErrCorrupt, or is an
// *ExhaustedError; the heap is unchanged then.
func (a *Arena) Alloc(size, align uint64) (Block, error) {
	need, step, err := round(size, align)
	if err != nil {
		return Block{}, fmt.Errorf("alloc: %w", err)
	}
	prev, best, err := a.bestFit(need, step)
	if err != nil {
		return Block{}, fmt.Errorf("alloc: %w", err)
	}
	if best == none {
		s := a.Stats()
		return Block{}, &ExhaustedError{Asked: size, Align: align, Free: s.Free, Largest: s.LargestFree, Size: s.Size}
	}
	e := &a.t[best]
	gap := alignUp(e.Off, step) - e.Off
	rest := e.Len - gap - need
	if !a.hasUnused(b2i(gap > 0) + b2i(rest > 0)) {
		return Block{}, fmt.Errorf("alloc: %w: %d entries", ErrTableFull, len(a.t))
	}
	if !a.hasValidLinks(best) {
		return Block{}, fmt.Errorf("alloc: %w", corrupt("links of slot %d", best))
	}

	a.h.Ops++
	slot := best
	if gap > 0 { // the block keeps the gap; the new block begins above it
		slot, prev = a.split(best, gap), best
	} else {
		a.unlinkFree(prev, best)
	}
	if rest > 0 {
		a.linkFree(prev, a.split(slot, need))
	}
	a.t[slot].Gen++
	a.countUse(need)
	a.h.Live++
	a.h.Ops++
	return a.block(slot), nil
}

// Free returns a block to the heap. The error wraps ErrFreed if gen is not the
// present generation of slot, ErrBadSlot if the slot was never used, or
// ErrCorrupt; the heap is unchanged then.
func (a *Arena) Free(slot, gen uint32) error {
	if err := a.checkLive(slot, gen); err != nil {
		return fmt.Errorf("free: %w", err)
	}
	prev, err := a.freeBelow(slot)
	if err != nil {
		return fmt.Errorf("free: %w", err)
	}
	e := &a.t[slot]

	a.h.Ops++
	e.Gen++
	a.h.InUse -= e.Len
	a.h.Live--
	a.linkFree(prev, slot)
	if e.Next != none && a.isFree(e.Next) {
		a.absorb(slot, e.Next)
	}
	if e.Prev != none && a.isFree(e.Prev) {
		a.absorb(e.Prev, slot)
	}
	a.h.Ops++
	return nil
}

// Stats returns the figures of the heap. It walks the free blocks.
func (a *Arena) Stats() Stats {
	s := Stats{
		Size:      a.h.Size,
		InUse:     a.h.InUse,
		Free:      a.h.Size - a.h.InUse,
		HighWater: a.h.HighWater,
		Blocks:    int(a.h.Live),
	}
	n := 0
	for i := a.h.FirstFree; a.valid(i) && n < len(a.t); i = a.t[i].NextFree {
		s.LargestFree = max(s.LargestFree, a.t[i].Len)
		n++
	}
	return s
}

// round checks a request and returns it in the units of the heap.
func round(size, align uint64) (need, step uint64, err error) {
	if bits.OnesCount64(align) != 1 {
		return 0, 0, fmt.Errorf("%w: %d", ErrBadAlign, align)
	}
	need = alignUp(size, Granule)
	if need == 0 { // zero, or wrapped around
		return 0, 0, fmt.Errorf("%w: %d bytes", ErrBadSize, size)
	}
	return need, max(align, Granule), nil
}

// alignUp returns 0 where the result does not fit.
func alignUp(x, step uint64) uint64 { return (x + step - 1) &^ (step - 1) }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
