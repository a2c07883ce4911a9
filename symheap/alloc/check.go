package alloc

// Check verifies every invariant of the header and the table. If one does not hold, it
// returns an error that wraps ErrCorrupt. It checks every index and length before it
// follows it, so the state may hold any bytes.
//
//   - Cost: a walk over all blocks.
func (a *Arena) Check() error {
	if err := a.checkHeader(); err != nil {
		return err
	}
	blocks, err := a.checkBlocks()
	if err != nil {
		return err
	}
	return a.checkUnused(a.h.Fresh - blocks)
}

func (a *Arena) checkHeader() error {
	h := a.h
	switch {
	case h.Magic != magic:
		return corrupt("magic %#x, want %#x", h.Magic, uint32(magic))
	case h.Version != Version:
		return corrupt("version %d, want %d", h.Version, Version)
	case uint64(h.Slots) != uint64(len(a.t)):
		return corrupt("%d entries, the table has %d", h.Slots, len(a.t))
	case h.Fresh == 0 || h.Fresh > h.Slots:
		return corrupt("%d used entries of %d", h.Fresh, h.Slots)
	case h.Size == 0 || h.Size%Granule != 0:
		return corrupt("size %d, want a multiple of %d", h.Size, Granule)
	case h.HighWater > h.Size:
		return corrupt("high-water mark %d above the size %d", h.HighWater, h.Size)
	case h.InUse > h.HighWater:
		return corrupt("%d bytes in use above the high-water mark %d", h.InUse, h.HighWater)
	case h.Ops&1 != 0:
		return corrupt("a call was interrupted")
	}
	return nil
}

// checkBlocks walks all blocks in address order, with the list of free ones in
// step, and returns their number.
func (a *Arena) checkBlocks() (blocks uint32, err error) {
	var off, inUse uint64
	var live uint32
	below, nextFree := none, a.h.FirstFree
	for i := a.h.FirstBlock; i != none; i = a.t[i].Next {
		if i >= a.h.Fresh {
			return 0, corrupt("block list reaches slot %d of %d", i, a.h.Fresh)
		}
		e := &a.t[i]
		switch {
		case e.Prev != below:
			return 0, corrupt("slot %d: block below is %d, want %d", i, e.Prev, below)
		case e.Off != off:
			return 0, corrupt("slot %d: offset %d, want %d", i, e.Off, off)
		case e.Len == 0 || e.Len%Granule != 0 || e.Len > a.h.Size-off:
			return 0, corrupt("slot %d: length %d at offset %d", i, e.Len, off)
		case a.isFree(i) && below != none && a.isFree(below):
			return 0, corrupt("slots %d and %d: adjacent free blocks", below, i)
		case a.isFree(i) && i != nextFree:
			return 0, corrupt("slot %d: free block out of order, want slot %d", i, nextFree)
		case !a.isFree(i) && e.NextFree != none:
			return 0, corrupt("slot %d: live block in a list of free ones", i)
		}
		if a.isFree(i) {
			nextFree = e.NextFree
		} else {
			live++
			inUse += e.Len
		}
		blocks++
		off += e.Len // grows in each round and is bounded by the size, so the walk ends
		below = i
	}
	switch {
	case off != a.h.Size:
		return 0, corrupt("blocks end at %d, the heap at %d", off, a.h.Size)
	case nextFree != none:
		return 0, corrupt("list of free blocks ends in slot %d", nextFree)
	case live != a.h.Live || inUse != a.h.InUse:
		return 0, corrupt("%d live blocks of %d bytes, header says %d of %d", live, inUse, a.h.Live, a.h.InUse)
	case blocks > a.h.Fresh:
		return 0, corrupt("%d blocks in %d used entries", blocks, a.h.Fresh)
	}
	return blocks, nil
}

// checkUnused walks the list of entries without a block, which must have want entries.
func (a *Arena) checkUnused(want uint32) error {
	n := uint32(0)
	for i := a.h.FirstUnused; i != none; i = a.t[i].NextFree {
		switch {
		case i >= a.h.Fresh || n == want:
			return corrupt("list of unused entries reaches slot %d", i)
		case a.t[i].Len != 0 || !a.isFree(i):
			return corrupt("slot %d: unused entry with a block", i)
		}
		n++
	}
	if n != want {
		return corrupt("%d unused entries, want %d", n, want)
	}
	return nil
}
