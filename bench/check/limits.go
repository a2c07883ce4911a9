package main

import (
	"context"

	"github.com/goshmem/goshmem/bench"
)

// The contestants.
const (
	goshmem = "goshmem"
	oshmem  = "OSHMEM"
	openMPI = "Open MPI"
	plainC  = "C"
	// Contestants within goshmem, measured in the same job.
	strict    = bench.Strict
	allreduce = bench.Allreduce
	barrier   = bench.Barrier
)

// limit is a limit on the median of a row. With all bounds 0, it is a comparison without a verdict.
type limit struct {
	row    string
	unit   string  // unit of the row's values; "": ns
	most   float64 // upper bound; 0: none
	least  float64 // lower bound; 0: none
	peer   string  // contestant that the row is compared with; "": none
	theirs string  // the peer's row; "": the row of the same name
	factor float64 // upper bound as a multiple of the peer's value; 0: none
}

// foreign says whether the peer is another project's program.
func (l *limit) foreign() bool {
	return l.peer != "" && l.peer != strict && l.peer != allreduce && l.peer != barrier
}

// group is a set of rows that one function measures, once in a round.
type group struct {
	limits []limit
	rounds int // most rounds; 0: as many as --rounds
	run    func(ctx context.Context, b *bed) error
}

// groups lists all groups in the order of the report.
var groups = []group{
	oneSided,
	copies,
	far(),
	spanning(2), spanning(4),
	together(2), together(4), together(8), together(16),
	tolerant(2), tolerant(4), tolerant(8),
	messages(),
	rounds(2), rounds(4), rounds(8),
	allocations,
	graph500,
	output,
	startup,
	mpichJobs,
}

// sameSpeed is the factor for rows in which both sides only move data at the speed of a cache. Two runs of one
// program differ by up to 5 %.
const sameSpeed = 1.05
