package graph500

import "math/bits"

// headLen is the number of neighbors of each row that are kept apart, so that bottom-up streams them instead of
// visiting the row. Nearly every vertex finds its parent among its two neighbors of highest degree.
const headLen = 2

// bottomUp lets every vertex not yet reached look for a neighbor in the frontier. It reads a private copy of
// the frontier and writes only this PE's words: no atomics.
func (b *bfs) bottomUp(number int) levelCounts {
	b.copyFrontier(number)
	var c levelCounts
	gr, me := b.gr, b.g.me
	seen, next := b.seen[me], b.frontier(number + 1)[me]
	seen = seen[:len(next)]
	for w := range next {
		missing := ^seen[w] & ranksBelow(gr.ranked, w)
		found := missing
		if missing != 0 {
			rest := b.probeHeads(w, b.unpack(missing))
			found &^= b.scanRows(w, rest)
		}
		next[w] = found
		seen[w] |= found
		c.found += uint64(bits.OnesCount64(found))
	}
	return c
}

// ranksBelow returns the bits of bitmap word w that stand for ranks below n.
func ranksBelow(n, w int) uint64 {
	switch left := n - w<<wordShift; {
	case left >= wordBits:
		return ^uint64(0)
	case left <= 0:
		return 0
	default:
		return 1<<uint(left) - 1
	}
}

// unpack lists the bits of a word. Bits are found here and not where they are used: the instruction waits for
// what its target register held before, which would chain the independent probes to each other.
func (b *bfs) unpack(word uint64) []uint8 {
	n := 0
	for ; word != 0; word &= word - 1 {
		b.todo[n&wordMask] = uint8(bits.TrailingZeros64(word))
		n++
	}
	return b.todo[:n]
}

// probeHeads looks up the first neighbors of ranks of word w, stores the parents found, and returns the ranks
// left over. Whether a neighbor is in the frontier is unpredictable, so there is no branch on it.
func (b *bfs) probeHeads(w int, todo []uint8) (rest []uint8) {
	base := w << wordShift
	heads := (*[wordBits][headLen]uint32)(b.gr.heads[base:])
	par := (*[wordBits]uint32)(b.par[b.g.me][base:])
	front, none := b.front, b.gr.noParent()
	n := 0
	for _, r := range todo {
		r &= wordMask
		head := &heads[r]
		parent := none
		if u := head[1]; front[u>>wordShift]&(1<<(u&wordMask)) != 0 {
			parent = u
		}
		if u := head[0]; front[u>>wordShift]&(1<<(u&wordMask)) != 0 {
			parent = u
		}
		par[r] = parent
		b.rest[n&wordMask] = r
		if parent == none {
			n++
		}
	}
	return b.rest[:n]
}

// scanRows looks through the rest of the rows of ranks of word w, stores the parents found, and returns the
// bits of those that found none.
func (b *bfs) scanRows(w int, rest []uint8) (failed uint64) {
	base := w << wordShift
	starts, par := b.gr.rowStart[base:], b.par[b.g.me][base:]
	front, col := b.front, b.gr.col
	if base < b.gr.long {
		// Touch all rows first, so that their cache misses overlap.
		var touched uint32
		for _, r := range rest {
			touched ^= col[starts[r]]
		}
		b.touched = touched
	}
	for _, r := range rest {
		at, end := starts[r]+headLen, starts[int(r)+1]
		for at < end && front[col[at]>>wordShift]&(1<<(col[at]&wordMask)) == 0 {
			at++
		}
		if at < end {
			par[r] = col[at]
		} else {
			failed |= 1 << r
		}
	}
	return failed
}

// copyFrontier makes one bitmap of all PEs' frontiers, indexed by flat number.
func (b *bfs) copyFrontier(number int) {
	stride := 1 << b.gr.shift / wordBits
	for pe, bits := range b.frontier(number) {
		copy(b.front[pe*stride:], bits)
	}
}
