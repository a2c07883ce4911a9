package pmi1

import (
	"slices"
	"strconv"
)

// nodeBlock is a part of a mapping: on each of some consecutive nodes, the same number of consecutive ranks.
type nodeBlock struct{ first, nodes, each int }

// mapping returns which ranks share a node, in PMI-1's notation: "(vector,(first node,nodes,ranks on each),...)".
// Clients go through the blocks again and again until all ranks have a node, so a cyclic mapping takes one round. The
// mapping of a job with an irregular placement may be too long for a value: ok is false then.
func (j *WorldSpec) mapping() (text string, ok bool) {
	out := []byte("(vector")
	for _, b := range blocksOf(round(j.Procs)) {
		out = append(out, ",("...)
		out = strconv.AppendInt(out, int64(b.first), 10)
		out = strconv.AppendInt(append(out, ','), int64(b.nodes), 10)
		out = strconv.AppendInt(append(out, ','), int64(b.each), 10)
		if out = append(out, ')'); len(out)+1 >= maxValue {
			return "", false
		}
	}
	return string(append(out, ')')), true
}

// round returns the shortest start of a list from which repetition makes the whole list, as far as nodes are concerned.
// A client repeats blocks, and a block that ends beyond the last rank is cut. So a round may be repeated in part.
func round(procs []Proc) []Proc {
	// The length of the longest start that is an end, too, of each start: the failure function of Knuth, Morris and Pratt.
	border := make([]int, len(procs))
	for i, b := 1, 0; i < len(procs); i++ {
		for b > 0 && procs[i].Node != procs[b].Node {
			b = border[b-1]
		}
		if procs[i].Node == procs[b].Node {
			b++
		}
		border[i] = b
	}
	n := len(procs) - border[len(procs)-1]
	if n == 1 { // all on one node: one block of all
		n = len(procs)
	}
	return procs[:n]
}

// blocksOf returns the blocks of some ranks.
func blocksOf(procs []Proc) (blocks []nodeBlock) {
	for len(procs) > 0 {
		node := procs[0].Node
		each := slices.IndexFunc(procs, func(p Proc) bool { return p.Node != node })
		if each < 0 {
			each = len(procs)
		}
		procs = procs[each:]
		if n := len(blocks); n > 0 && blocks[n-1].each == each && blocks[n-1].first+blocks[n-1].nodes == node {
			blocks[n-1].nodes++
			continue
		}
		blocks = append(blocks, nodeBlock{node, 1, each})
	}
	return blocks
}
