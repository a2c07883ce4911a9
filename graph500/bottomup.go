package graph500

import "math/bits"

// headLen is how many neighbors of a row are kept apart, so that bottom-up streams them instead of visiting the
// row: nearly every vertex finds its parent among its two neighbors of highest degree.
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
		missing := ^seen[w] & below(gr.ranked, w)
		if missing == 0 {
			next[w] = 0
			continue
		}
		rest := b.probeHeads(w, missing)
		found := missing &^ rest
		if rest &= below(gr.long, w); rest != 0 {
			found |= b.scanRows(w, rest)
		}
		next[w] = found
		seen[w] |= found
		c.found += uint64(bits.OnesCount64(found))
	}
	return c
}

// below is the part of bitmap word w that stands for ranks below n.
func below(n, w int) uint64 {
	switch left := n - w<<wordShift; {
	case left >= wordBits:
		return ^uint64(0)
	case left <= 0:
		return 0
	default:
		return 1<<uint(left) - 1
	}
}

// probeHeads looks up the first neighbors of the ranks in missing, stores the parents found, and returns the
// ranks left over. Whether a neighbor is in the frontier is as good as random, so there is no branch on it.
func (b *bfs) probeHeads(w int, missing uint64) (rest uint64) {
	base := w << wordShift
	heads, par := b.gr.heads[base:], b.par[b.g.me][base:]
	front, none := b.front, b.gr.noParent()
	for ; missing != 0; missing &= missing - 1 {
		r := bits.TrailingZeros64(missing)
		head := &heads[r]
		parent := none
		if u := head[1]; front[u>>wordShift]&(1<<(u&wordMask)) != 0 {
			parent = u
		}
		if u := head[0]; front[u>>wordShift]&(1<<(u&wordMask)) != 0 {
			parent = u
		}
		par[r] = parent
		var failed uint64
		if parent == none {
			failed = 1
		}
		rest |= missing & -missing & -failed
	}
	return rest
}

// scanRows looks through the rest of the rows of the ranks in missing and returns those that found a parent.
func (b *bfs) scanRows(w int, missing uint64) (found uint64) {
	base := w << wordShift
	starts, par := b.gr.rowStart[base:], b.par[b.g.me][base:]
	front, col := b.front, b.gr.col
	// Touch all rows first, so that their cache misses overlap.
	var touched uint32
	for m := missing; m != 0; m &= m - 1 {
		touched ^= col[starts[bits.TrailingZeros64(m)]]
	}
	b.touched = touched
	for ; missing != 0; missing &= missing - 1 {
		r := bits.TrailingZeros64(missing)
		for _, u := range col[starts[r]:starts[r+1]] {
			if front[u>>wordShift]&(1<<(u&wordMask)) != 0 {
				par[r] = u
				found |= 1 << r
				break
			}
		}
	}
	return found
}

// copyFrontier makes one bitmap of all PEs' frontiers, indexed by flat number.
func (b *bfs) copyFrontier(number int) {
	stride := 1 << b.gr.shift / wordBits
	for pe, bits := range b.frontier(number) {
		copy(b.front[pe*stride:], bits)
	}
}
