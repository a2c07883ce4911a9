package ulfmbench

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

// Allreduce names the yardstick: an Allreduce of 8 bytes among the survivors.
const Allreduce = "allreduce"

// runBatch makes calls one after the other, behind a barrier of the survivors. It returns the sum of their times.
func (p *pe) runBatch(name string, calls int) (sum time.Duration, err error) {
	if err := p.rest.Barrier(); err != nil {
		return 0, err
	}
	for i := range calls {
		took, err := p.call(name)
		if err != nil {
			return 0, fmt.Errorf("call %d of %d: %w", i+1, calls, err)
		}
		sum += took
	}
	return sum, nil
}

// call makes one call, checks its result and returns how long it took, also with an error. The time does not include the
// Free of a communicator that the call has made.
func (p *pe) call(name string) (took time.Duration, err error) {
	switch name {
	case Agree, Iagree:
		return p.agree(name == Iagree)
	case Shrink, Ishrink:
		return p.shrink(name == Ishrink)
	}
	const value = 3
	src, dst := []uint64{value}, []uint64{0}
	began := time.Now()
	err = mpi.Allreduce(p.rest, dst, src, mpi.Sum)
	took = time.Since(began)
	if want := uint64(value * p.rest.Size()); err == nil && dst[0] != want {
		p.countWrong("allreduce returns %d, want %d", dst[0], want)
	}
	return took, err
}

// voteOf returns the flags that a rank gives to an agreement: all but one bit.
func voteOf(rank int) uint64 { return ^(uint64(1) << (rank % 64)) }

// agreed returns the AND of the votes of the ranks that take part in the current phase.
func (p *pe) agreed() uint64 {
	flags := ^uint64(0)
	for rank := range p.c.Size() {
		if p.takesPart(rank) {
			flags &= voteOf(rank)
		}
	}
	return flags
}

// takesPart says whether a rank takes part in the current phase: from the first call on, only the survivors do.
func (p *pe) takesPart(rank int) bool {
	return p.phase == Steady && p.rest == p.c || !slices.Contains(p.Dead, rank)
}

// agree makes an agreement among the ranks that live.
func (p *pe) agree(isImmediate bool) (took time.Duration, err error) {
	want := p.agreed()
	flags := voteOf(p.c.Rank())
	began := time.Now()
	if isImmediate {
		var q mpi.Request
		if q, err = p.c.Iagree(&flags); err == nil {
			_, err = q.Wait()
		}
	} else {
		flags, err = p.c.Agree(flags)
	}
	took = time.Since(began)
	if (err == nil || p.phase == First) && flags != want {
		p.countWrong("flags %#x, want %#x", flags, want)
	}
	return took, err
}

// shrink makes a communicator of the ranks that live, and frees it.
func (p *pe) shrink(isImmediate bool) (took time.Duration, err error) {
	var d *mpi.Comm
	began := time.Now()
	if isImmediate {
		var q mpi.Request
		if d, q, err = p.c.Ishrink(); err == nil {
			_, err = q.Wait()
		}
	} else {
		d, err = p.c.Shrink()
	}
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	want := 0
	for rank := range p.c.Size() {
		if p.takesPart(rank) {
			want++
		}
	}
	if d.Size() != want {
		p.countWrong("communicator of %d ranks, want %d", d.Size(), want)
	}
	return took, d.Free()
}
