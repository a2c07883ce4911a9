package graph500

import (
	"math/bits"
	"slices"
)

// The second half of kernel 1 sorts the rows, drops duplicates, and replaces keys by flat numbers.

const (
	radixRow  = 192 // rows from this length on are sorted by radix
	radixBits = 10
)

// finishRows sorts each row by rank, drops duplicates, and turns the keys into flat numbers, in place.
func (gr *graph) finishRows() {
	var sorter rowSorter
	sorter.init(uint64(gr.words*wordBits)*uint64(gr.g.pes), gr.longestRow())
	byRank := newOwners(0, gr.g.pes) // a key rank*P+owner splits as a vertex does
	var out uint32
	from := gr.rowStart[0]
	for r := range gr.ranked {
		to := gr.rowStart[r+1]
		row := gr.col[from:to]
		sorter.sort(row)
		gr.rowStart[r] = out
		last := ^row[0]
		for _, key := range row {
			if key == last {
				continue
			}
			last = key
			owner, rank := byRank.split(uint64(key))
			gr.col[out] = owner<<gr.shift | rank
			out++
		}
		from = to
	}
	gr.rowStart[gr.ranked] = out
	gr.col = gr.col[:out]
}

// copyHeads keeps the first neighbors of each row apart, for whole words of ranks.
func (gr *graph) copyHeads() {
	gr.heads = make([][headLen]uint32, gr.words*wordBits)
	for r := range gr.heads {
		head := &gr.heads[r]
		n := 0
		if r < gr.ranked {
			row := gr.col[gr.rowStart[r]:gr.rowStart[r+1]]
			n = copy(head[:], row)
			if len(row) > headLen {
				gr.long = r + 1
			}
		}
		for i := n; i < headLen; i++ {
			head[i] = gr.noParent()
		}
	}
}

// longestRow returns the length of the first row: ranks descend by degree.
func (gr *graph) longestRow() int {
	if gr.ranked == 0 {
		return 0
	}
	return int(gr.rowStart[1] - gr.rowStart[0])
}

// nameRanks builds the table from flat numbers to vertices from all PEs' parts.
func (gr *graph) nameRanks() error {
	mine, views, err := allocSymmetric[int32](gr.g, "vertices by rank", gr.words*wordBits)
	if err != nil {
		return err
	}
	names := views[gr.g.me]
	for v, r := range gr.rank[gr.g.me][:gr.own.nlocal] {
		if int(r) < gr.ranked {
			names[r] = int32(gr.own.vertex(gr.g.me, v))
		}
	}
	if err := gr.g.barrier("naming ranks"); err != nil {
		return err
	}
	gr.orig = make([]int32, gr.g.pes<<gr.shift+1)
	for pe, view := range views {
		copy(gr.orig[pe<<gr.shift:], view)
	}
	gr.orig[gr.noParent()] = noVertex
	return release(gr.g, "vertices by rank", mine)
}

// rowSorter sorts short slices of 32-bit keys: by comparison while they are short, by radix from radixRow on.
type rowSorter struct {
	passes int
	spare  []uint32
	counts [1 << radixBits]uint32
}

// init prepares for keys below a number and rows up to a length.
func (s *rowSorter) init(keys uint64, longest int) {
	s.passes = (bits.Len64(keys) + radixBits - 1) / radixBits
	s.spare = make([]uint32, longest)
}

// sort sorts a row.
func (s *rowSorter) sort(row []uint32) {
	if len(row) < radixRow {
		slices.Sort(row)
		return
	}
	src, dst := row, s.spare[:len(row)]
	for pass := range s.passes {
		s.scatter(dst, src, uint(pass)*radixBits)
		src, dst = dst, src
	}
	if s.passes&1 != 0 {
		copy(row, src)
	}
}

// scatter makes one stable pass by the digit that starts at bit shift.
func (s *rowSorter) scatter(dst, src []uint32, shift uint) {
	const mask = 1<<radixBits - 1
	clear(s.counts[:])
	for _, key := range src {
		s.counts[key>>shift&mask]++
	}
	var before uint32
	for digit, n := range s.counts {
		s.counts[digit] = before
		before += n
	}
	for _, key := range src {
		digit := key >> shift & mask
		dst[s.counts[digit]] = key
		s.counts[digit]++
	}
}
