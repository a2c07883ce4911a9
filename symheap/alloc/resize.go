package alloc

import "fmt"

// Resize changes a block to at least size bytes at a multiple of align.
//
// The block stays if it shrinks, or if the free block above it has room. It then
// keeps its offset and gets a new generation, because older handles may reach beyond
// its end. Otherwise Resize allocates a second block, and moved is true: the caller
// copies the contents and then frees the old block, which stays live under its old
// generation. Errors are those of Alloc and Free; they leave the heap unchanged.
func (a *Arena) Resize(slot, gen uint32, size, align uint64) (b Block, moved bool, err error) {
	need, step, err := round(size, align)
	if err != nil {
		return Block{}, false, fmt.Errorf("resize: %w", err)
	}
	if err := a.checkLive(slot, gen); err != nil {
		return Block{}, false, fmt.Errorf("resize: %w", err)
	}
	prev, err := a.freeBelow(slot)
	if err != nil {
		return Block{}, false, fmt.Errorf("resize: %w", err)
	}
	e := &a.t[slot]
	if e.Off%step != 0 || need > a.roomAt(slot) {
		b, err := a.Alloc(size, align)
		return b, err == nil, err
	}

	a.h.Ops++
	if need < e.Len {
		a.shrink(slot, prev, need)
	} else if need > e.Len {
		a.grow(slot, prev, need)
	}
	e.Gen += 2
	a.h.Ops++
	return a.block(slot), false, nil
}

// roomAt returns the length that a live block can have without moving.
func (a *Arena) roomAt(slot uint32) uint64 {
	e := &a.t[slot]
	if e.Next == none || !a.isFree(e.Next) {
		return e.Len
	}
	return e.Len + a.t[e.Next].Len
}

// shrink frees the end of a block. Prev is the free block below it.
func (a *Arena) shrink(slot, prev uint32, need uint64) {
	e := &a.t[slot]
	cut := e.Len - need
	switch {
	case e.Next != none && a.isFree(e.Next):
		above := &a.t[e.Next]
		above.Off -= cut
		above.Len += cut
		e.Len = need
	case a.hasUnused(1):
		a.linkFree(prev, a.split(slot, need))
	default:
		return // the table has no entry for the end, so the block keeps it, which is allowed
	}
	a.h.InUse -= cut
}

// grow extends a block into the free block above it, which has enough room.
func (a *Arena) grow(slot, prev uint32, need uint64) {
	e := &a.t[slot]
	more := need - e.Len
	a.countUse(more)
	above := &a.t[e.Next]
	if above.Len == more {
		a.unlinkFree(prev, e.Next)
		a.extend(slot, e.Next)
		return
	}
	above.Off += more
	above.Len -= more
	e.Len = need
}
