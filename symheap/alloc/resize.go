package alloc

import "fmt"

// Resize changes a block to at least size bytes at a multiple of align.
//
// Where the block can stay, because it shrinks or because the free block above
// it has room, it keeps its offset and gets a new generation: handles made
// before may reach beyond its end. Otherwise a second block is allocated and
// moved is true: the caller copies the contents and then frees the old block,
// which stays live under its old generation. Errors are those of Alloc and
// Free; the heap is unchanged then.
func (a *Arena) Resize(slot, gen uint32, size, align uint64) (b Block, moved bool, err error) {
	need, step, err := round(size, align)
	if err != nil {
		return Block{}, false, fmt.Errorf("resize: %w", err)
	}
	if err := a.live(slot, gen); err != nil {
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

// shrink gives the end of a block back. Prev is the free block below it.
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
		return // no entry for the end: the block keeps it, which is always allowed
	}
	a.h.InUse -= cut
}

// grow takes what is missing from the free block above, which has enough.
func (a *Arena) grow(slot, prev uint32, need uint64) {
	e := &a.t[slot]
	more := need - e.Len
	a.use(more)
	above := &a.t[e.Next]
	if above.Len == more {
		a.unlinkFree(prev, e.Next)
		a.swallow(slot, e.Next)
		return
	}
	above.Off += more
	above.Len -= more
	e.Len = need
}
