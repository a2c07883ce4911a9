package alloc

import "fmt"

// The functions above the line only read. They check every index that they follow,
// because a stray store into the control region must lead to an error, not to a panic
// or an endless loop. The functions below the line change the lists, and rely on the
// checks of their callers.

func (a *Arena) valid(i uint32) bool { return uint64(i) < uint64(len(a.t)) }

func (a *Arena) isFree(i uint32) bool { return a.t[i].Gen&1 == 0 }

// hasValidLinks reports whether all links that a change of a block follows are valid:
// those to its neighbors, and the one beyond the block above, which may be merged.
func (a *Arena) hasValidLinks(i uint32) bool {
	ok := func(j uint32) bool { return j == none || a.valid(j) }
	e := &a.t[i]
	return ok(e.Prev) && ok(e.Next) && (e.Next == none || ok(a.t[e.Next].Next))
}

// checkLive checks that slot stands for a live block of generation gen.
func (a *Arena) checkLive(slot, gen uint32) error {
	if !a.valid(slot) || slot >= a.h.Fresh || a.t[slot].Gen == 0 {
		return fmt.Errorf("%w: slot %d", ErrBadSlot, slot)
	}
	e := &a.t[slot]
	if gen&1 == 0 || e.Gen != gen {
		return fmt.Errorf("%w: slot %d has generation %d, the handle %d", ErrFreed, slot, e.Gen, gen)
	}
	if !a.hasValidLinks(slot) {
		return corrupt("links of slot %d", slot)
	}
	return nil
}

func (a *Arena) block(slot uint32) Block {
	e := &a.t[slot]
	return Block{Slot: slot, Gen: e.Gen, Off: e.Off, Len: e.Len}
}

// bestFit returns the smallest free block that holds need bytes aligned to
// step, the lowest among equals, and the free block below it.
func (a *Arena) bestFit(need, step uint64) (prev, best uint32, err error) {
	prev, best = none, none
	below, n := none, 0
	for i := a.h.FirstFree; i != none; i = a.t[i].NextFree {
		if !a.valid(i) || n == len(a.t) {
			return none, none, corrupt("list of free blocks")
		}
		e := &a.t[i]
		start := alignUp(e.Off, step)
		fits := start >= e.Off && e.Len >= start-e.Off && e.Len-(start-e.Off) >= need
		if fits && (best == none || e.Len < a.t[best].Len) {
			prev, best = below, i
		}
		below = i
		n++
	}
	return prev, best, nil
}

// freeBelow returns the highest free block below the given one.
func (a *Arena) freeBelow(slot uint32) (uint32, error) {
	prev, n := none, 0
	for i := a.h.FirstFree; i != none; i = a.t[i].NextFree {
		if !a.valid(i) || n == len(a.t) {
			return none, corrupt("list of free blocks")
		}
		if a.t[i].Off > a.t[slot].Off {
			break
		}
		prev = i
		n++
	}
	return prev, nil
}

// hasUnused reports whether n entries are available.
func (a *Arena) hasUnused(n int) bool {
	i := a.h.FirstUnused
	for ; n > 0 && i != none; n-- {
		if !a.valid(i) {
			return false
		}
		i = a.t[i].NextFree
	}
	return uint64(a.h.Fresh)+uint64(n) <= uint64(len(a.t))
}

// ---------------------------------------------------------------------------

// takeEntry returns an entry without a block. Entries that were used before come first,
// so that no more pages of the table are touched than necessary.
func (a *Arena) takeEntry() uint32 {
	if i := a.h.FirstUnused; i != none {
		a.h.FirstUnused = a.t[i].NextFree
		return i
	}
	i := a.h.Fresh
	a.h.Fresh++
	a.t[i] = Entry{}
	return i
}

// freeEntry returns the entry of a block that is in no list to the unused ones.
func (a *Arena) freeEntry(i uint32) {
	a.t[i] = Entry{Gen: a.t[i].Gen, Prev: none, Next: none, NextFree: a.h.FirstUnused}
	a.h.FirstUnused = i
}

// countUse adds n bytes to those in use.
func (a *Arena) countUse(n uint64) {
	a.h.InUse += n
	a.h.HighWater = max(a.h.HighWater, a.h.InUse)
}

// split cuts a block after n bytes and returns the upper part, a block that is
// not live and not yet in the list of free ones.
func (a *Arena) split(i uint32, n uint64) uint32 {
	j := a.takeEntry()
	low, high := &a.t[i], &a.t[j]
	high.Off, high.Len = low.Off+n, low.Len-n
	high.Prev, high.Next, high.NextFree = i, low.Next, none
	if low.Next != none {
		a.t[low.Next].Prev = j
	}
	low.Len, low.Next = n, j
	return j
}

// absorb merges block j into i, the block directly below it. Both are free.
func (a *Arena) absorb(i, j uint32) {
	a.unlinkFree(i, j)
	a.extend(i, j)
}

// extend gives the bytes of block j to i, the block directly below it.
func (a *Arena) extend(i, j uint32) {
	low, high := &a.t[i], &a.t[j]
	low.Len += high.Len
	low.Next = high.Next
	if high.Next != none {
		a.t[high.Next].Prev = i
	}
	a.freeEntry(j)
}

// linkFree puts i into the list of free blocks, after prev.
func (a *Arena) linkFree(prev, i uint32) {
	if prev == none {
		a.t[i].NextFree, a.h.FirstFree = a.h.FirstFree, i
		return
	}
	a.t[i].NextFree, a.t[prev].NextFree = a.t[prev].NextFree, i
}

// unlinkFree removes i from the list of free blocks; prev is the block before it.
func (a *Arena) unlinkFree(prev, i uint32) {
	next := a.t[i].NextFree
	a.t[i].NextFree = none
	if prev == none {
		a.h.FirstFree = next
		return
	}
	a.t[prev].NextFree = next
}
