package graph500

import (
	"math/bits"
	"sync/atomic"
)

// topDown expands this PE's part of the frontier. It claims each neighbor in its owner's bitmap by an atomic or.
// The PE that sets the bit stores the parent and the frontier bit there. A load comes first, so that atomics
// are spent on new vertices only.
func (b *bfs) topDown(number int) levelCounts {
	var c levelCounts
	gr, seen := b.gr, b.seen
	shift, mask := gr.shift&31, uint32(1)<<gr.shift-1
	self := uint32(b.g.me) << shift
	next := b.frontier(number + 1)
	for w, word := range b.frontier(number)[b.g.me] {
		for ; word != 0; word &= word - 1 {
			r := w<<wordShift | bits.TrailingZeros64(word)
			for _, u := range gr.col[gr.rowStart[r]:gr.rowStart[r+1]] {
				owner, rank := u>>shift, u&mask
				cell, bit := &seen[owner][rank>>wordShift], uint64(1)<<(rank&wordMask)
				if atomic.LoadUint64(cell)&bit != 0 || atomic.OrUint64(cell, bit)&bit != 0 {
					continue
				}
				b.par[owner][rank] = self | uint32(r)
				atomic.OrUint64(&next[owner][rank>>wordShift], bit)
				c.found++
				c.edges += uint64(gr.byRank[owner][rank])
			}
		}
	}
	return c
}
