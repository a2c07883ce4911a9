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
	// Ours as well: what a row is compared with in the same job.
	strict    = bench.Strict
	allreduce = bench.Allreduce
)

// limit is one promise, or with all bounds zero one comparison that is only
// shown. Bounds are on the median.
type limit struct {
	row    string
	unit   string  // of the row's values; "" is ns
	most   float64 // at most this much
	least  float64 // at least this much
	peer   string  // whom it is compared with
	theirs string  // the peer's row; "" is the one of the same name
	factor float64 // at most so many times the peer's
}

// foreign says whether the peer is a program of somebody else.
func (l *limit) foreign() bool { return l.peer != "" && l.peer != strict && l.peer != allreduce }

// group is a set of rows that one function measures, once in a round.
type group struct {
	limits []limit
	rounds int // at most so many; 0: all
	run    func(ctx context.Context, b *bed) error
}

// groups are all that is measured, in the order of the report.
var groups = []group{
	oneSided,
	copies,
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

// sameSpeed is the factor for rows in which both do nothing but move data at the
// speed of a cache: a twentieth is what two runs of one program differ by.
const sameSpeed = 1.05
