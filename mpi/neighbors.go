package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/mpi/sched"
)

// Neighbors is a communicator in which each rank has neighbors: those from which it gets data, and those to which it gives some.
type Neighbors struct {
	comm       *Comm
	srcs, dsts []int
	grid       bool // of a Cart: neighbors 2i and 2i+1 are the two of dimension i
}

// Graph makes a communicator with the neighbors of this rank: it gets data from srcs, and gives data to dsts. A rank may be there several times, and
// ProcNull as well: its part is left out.
//
//   - Shape: rank j is as often in the dsts of rank i as rank i is in the srcs of rank j.
//   - Errors: as Split; ErrRankRange.
//   - Cost: as Split.
//   - Collective: over the communicator.
//   - Source: MPI_Dist_graph_create_adjacent.
func (c *Comm) Graph(srcs, dsts []int) (*Neighbors, error) {
	const op = "Comm.Graph"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	for _, rank := range slices.Concat(srcs, dsts) {
		if rank != ProcNull && (rank < 0 || rank >= c.g.n) {
			return nil, usage(op, ErrRankRange, "neighbor %d in a communicator of %d ranks, want 0 to %d or ProcNull", rank, c.g.n, c.g.n-1)
		}
	}
	living := livingOf(c)
	from, to := slices.Clone(srcs), slices.Clone(dsts)
	for _, ranks := range [][]int{from, to} {
		for i, rank := range ranks {
			if rank == ProcNull || living == c {
				continue
			}
			if ranks[i] = living.g.rank(c.g.pe(rank)); ranks[i] < 0 {
				return nil, handled(c.g, c.g.reportDeath(c.g.deadError(op, rank)))
			}
		}
	}
	of, err := living.Split(0, living.Rank())
	if err != nil {
		return nil, err
	}
	return &Neighbors{of, from, to, false}, nil
}

// Edge is an edge of a graph of ranks: From gives data to To.
type Edge struct{ From, To int }

// NewGraph makes a communicator with the neighbors of this rank, as Comm.Graph. Here the ranks give edges of the graph, which may be those of any ranks. Edges that
// several ranks give, or one several times, count as often. A rank finds its neighbors in the order of the ranks that have given the edges, and of the edges
// of each.
//
//   - Errors: as Split; ErrRankRange for an edge, and ErrMismatch then at the other ranks.
//   - Cost: two Alltoalls, and as Split.
//   - Collective: over the communicator.
//   - Source: MPI_Dist_graph_create.
func NewGraph(c *Comm, edges []Edge) (*Neighbors, error) {
	const op = "NewGraph"
	if err := c.usable(op); err != nil {
		return nil, handledOf(c, err)
	}
	n := c.g.n
	give, counts, failed := make([][]int, n), make([]int, n), error(nil)
	for _, e := range edges {
		for _, rank := range [...]int{e.From, e.To} {
			switch {
			case rank < 0 || rank >= n:
				failed = usage(op, ErrRankRange, "edge from %d to %d in a communicator of %d ranks, want 0 to %d", e.From, e.To, n, n-1)
			case isRecognized(c.g, rank):
				failed = c.g.reportDeath(c.g.deadError(op, rank))
			}
		}
		if failed == nil { // each end learns of the other one
			give[e.From] = append(give[e.From], isSource, e.To)
			give[e.To] = append(give[e.To], isDestination, e.From)
		}
	}
	for rank := range counts {
		if counts[rank] = len(give[rank]); failed != nil { // the others wait for this rank
			counts[rank] = -1
		}
	}
	got := make([]int, n)
	if err := alltoallBlocks(c, op, got, counts); err != nil || failed != nil {
		if failed != nil {
			err = handled(c.g, failed)
		}
		return nil, err
	}
	if rank := slices.Index(got, -1); rank >= 0 {
		return nil, handled(c.g, usage(op, ErrMismatch, "rank %d gave an edge that is not one of the communicator, want ranks of it: its error says more", rank))
	}
	all := slices.Concat(give...)
	sum := 0
	for _, count := range got {
		sum += count
	}
	ends := make([]int, sum)
	x, err := describeAlltoall(c, op, ends, all, Counts{Counts: got}, Counts{Counts: counts})
	if err := runNow(c, x, err); err != nil {
		return nil, err
	}
	var srcs, dsts []int
	for i := 0; i < len(ends); i += 2 {
		if ends[i] == isSource {
			dsts = append(dsts, ends[i+1])
		} else {
			srcs = append(srcs, ends[i+1])
		}
	}
	return c.Graph(srcs, dsts)
}

// What a rank is in an edge of which it learns.
const (
	isSource = iota
	isDestination
)

// Comm returns the communicator, or nil for a nil Neighbors.
func (n *Neighbors) Comm() *Comm {
	if n == nil {
		return nil
	}
	return n.comm
}

// Free is Free of the communicator.
//
//   - Errors: as Comm.Free.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_free.
func (n *Neighbors) Free() error { return n.Comm().Free() }

// Dup makes a communicator with the same ranks and neighbors.
//
//   - Errors: as Comm.Dup.
//   - Cost: as Split.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_dup of a communicator with a graph.
func (n *Neighbors) Dup() (*Neighbors, error) {
	of, err := n.Comm().Dup()
	if err != nil {
		return nil, err
	}
	return &Neighbors{of, n.srcs, n.dsts, n.grid}, nil
}

// Sources returns the neighbors from which this rank gets data.
//
//   - Source: MPI_Dist_graph_neighbors.
func (n *Neighbors) Sources() []int {
	if n == nil {
		return nil
	}
	return slices.Clone(n.srcs)
}

// Destinations returns the neighbors to which this rank gives data.
//
//   - Source: MPI_Dist_graph_neighbors.
func (n *Neighbors) Destinations() []int {
	if n == nil {
		return nil
	}
	return slices.Clone(n.dsts)
}

// exchange describes a collective of neighbors, which gives part to[i] of src to destination i, and gets part from[i] of dst from source i.
//
// In a grid, what goes to the neighbor before a rank comes from the neighbor behind another one. If both are the same rank, its messages have one order:
// so each rank receives from the neighbor behind it first.
func (n *Neighbors) exchange(kind kindOf, form string, dst, src span, from, to []sched.Part) *call {
	var give, get []sched.Link
	for i, rank := range n.dsts {
		if rank != ProcNull {
			give = append(give, sched.Link{Rank: rank, Part: to[i]})
		}
	}
	for i := range n.srcs {
		if n.grid {
			i ^= 1
		}
		if rank := n.srcs[i]; rank != ProcNull {
			get = append(get, sched.Link{Rank: rank, Part: from[i]})
		}
	}
	return &call{op: form, kind: kind, plan: sched.Neighbors(give, get), src: src.at, dst: dst.at}
}

func describeNeighborAllgather[T any](n *Neighbors, op string, dst, src []T, parts Counts) (*call, error) {
	if err := n.checkNeighbors(op); err != nil {
		return nil, err
	}
	if err := checkApart(n.comm, op, dst, src); err != nil {
		return nil, err
	}
	from, err := parts.partsOf(op, "destination", len(n.srcs), len(dst), elemSize[T]())
	if err != nil {
		return nil, err
	}
	to := make([]sched.Part, len(n.dsts))
	for i := range to {
		to[i] = sched.Part{N: spanOf(src).bytes}
	}
	return n.exchange(ofNeighborAllgather, op, spanOf(dst), spanOf(src), from, to), nil
}

func describeNeighborAlltoall[T any](n *Neighbors, op string, dst, src []T, get, give Counts) (*call, error) {
	if err := n.checkNeighbors(op); err != nil {
		return nil, err
	}
	if err := checkApart(n.comm, op, dst, src); err != nil {
		return nil, err
	}
	from, err := get.partsOf(op, "destination", len(n.srcs), len(dst), elemSize[T]())
	if err != nil {
		return nil, err
	}
	to, err := give.partsOf(op, "source", len(n.dsts), len(src), elemSize[T]())
	if err != nil {
		return nil, err
	}
	return n.exchange(ofNeighborAlltoall, op, spanOf(dst), spanOf(src), from, to), nil
}

// checkNeighbors returns an error for the zero Neighbors.
func (n *Neighbors) checkNeighbors(op string) error {
	if n == nil {
		return usage(op, ErrArgument, "no neighbors, want what Comm.Graph or Cart.Neighbors has returned")
	}
	return nil
}

// checkApart checks the type, the communicator, and that the buffers do not overlap.
func checkApart[T any](c *Comm, op string, dst, src []T) error {
	if err := checkBuffers(c, op, dst, src); err != nil {
		return err
	}
	if len(src) > 0 && len(dst) > 0 && data(src) == data(dst) {
		return usage(op, ErrArgument, "source and destination are the same memory, want disjoint slices")
	}
	return nil
}

// divide returns equal counts of a buffer that is divided among some neighbors.
func divide(op, what string, have, among int) (Counts, error) {
	if among == 0 && have == 0 {
		return Counts{Counts: []int{}}, nil
	}
	if among == 0 || have%among != 0 {
		return Counts{}, usage(op, ErrArgument, "%s has %d elements, want a multiple of the number of neighbors, %d", what, have, among)
	}
	return Counts{Counts: sameCounts(among, have/among)}, nil
}
