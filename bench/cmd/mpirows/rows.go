package main

import (
	"fmt"

	"github.com/goshmem/goshmem/mpi"
)

// inWindow is the number of messages in a window.
const inWindow = 64

// operation returns the operation of a row. m elements are what a rank gives to, or gets from, each other rank.
func (x *meter) operation(name string, m int) (op func() error, ok bool) {
	c, all := x.c, m*x.n
	switch name {
	case "latency":
		return func() error { return x.pingPong(m) }, true
	case "bw":
		return func() error { return x.bandwidth(m, x.n == 2) }, true
	case "bibw":
		return func() error { return x.bothWays(m) }, true
	case "rate":
		return func() error { return x.bandwidth(m, true) }, true
	case "barrier":
		return c.Barrier, true
	case "bcast":
		buf := x.dst[:m]
		if x.me == 0 {
			buf = x.src[:m]
		}
		return func() error { return mpi.Bcast(c, buf, 0) }, true
	case "reduce":
		return func() error { return mpi.Reduce(c, x.dst[:m], x.src[:m], mpi.Sum, 0) }, true
	case "allreduce":
		return func() error { return mpi.Allreduce(c, x.dst[:m], x.src[:m], mpi.Sum) }, true
	case "reduce_scatter_block":
		return func() error { return mpi.ReduceScatterBlock(c, x.dst[:m], x.src[:all], mpi.Sum) }, true
	case "gather":
		return func() error { return mpi.Gather(c, x.dst[:all], x.src[:m], 0) }, true
	case "allgather":
		return func() error { return mpi.Allgather(c, x.dst[:all], x.src[:m]) }, true
	case "scatter":
		return func() error { return mpi.Scatter(c, x.dst[:m], x.src[:all], 0) }, true
	case "alltoall":
		return func() error { return mpi.Alltoall(c, x.dst[:all], x.src[:all]) }, true
	case "scan":
		return func() error { return mpi.Scan(c, x.dst[:m], x.src[:m], mpi.Sum) }, true
	case "exscan":
		return func() error { return mpi.Exscan(c, x.dst[:m], x.src[:m], mpi.Sum) }, true
	}
	return x.vectorOperation(name, m)
}

// vectorOperation returns the operation of a row with counts, which are all the same.
func (x *meter) vectorOperation(name string, m int) (op func() error, ok bool) {
	c, all := x.c, m*x.n
	parts := mpi.Counts{Counts: make([]int, x.n), Displs: make([]int, x.n)}
	for i := range x.n {
		parts.Counts[i], parts.Displs[i] = m, i*m
	}
	switch name {
	case "gatherv":
		return func() error { return mpi.Gatherv(c, x.dst[:all], x.src[:m], parts, 0) }, true
	case "allgatherv":
		return func() error { return mpi.Allgatherv(c, x.dst[:all], x.src[:m], parts) }, true
	case "scatterv":
		return func() error { return mpi.Scatterv(c, x.dst[:m], x.src[:all], parts, 0) }, true
	case "alltoallv":
		return func() error { return mpi.Alltoallv(c, x.dst[:all], x.src[:all], parts, parts) }, true
	case "reduce_scatter":
		return func() error { return mpi.ReduceScatter(c, x.dst[:m], x.src[:all], parts.Counts, mpi.Sum) }, true
	}
	return nil, false
}

// pingPong sends a message to the other rank and back. Ranks beyond the first two do nothing.
func (x *meter) pingPong(m int) error {
	if x.me > 1 {
		return nil
	}
	if x.me == 0 {
		if err := mpi.Send(x.c, x.src[:m], 1, 0); err != nil {
			return err
		}
	}
	if _, err := mpi.Recv(x.c, x.dst[:m], 1-x.me, 0); err != nil {
		return err
	}
	if x.me == 1 {
		return mpi.Send(x.c, x.src[:m], 0, 0)
	}
	return nil
}

// bandwidth sends a window of messages from each rank of the first half to one of the second, which answers it with an
// empty message.
func (x *meter) bandwidth(m int, takesPart bool) (err error) {
	half := x.n / 2
	if !takesPart || x.me >= 2*half {
		return nil
	}
	all := x.window[:inWindow]
	for i := range all {
		if x.me < half {
			all[i], err = mpi.Isend(x.c, x.src[:m], x.me+half, 0)
		} else {
			all[i], err = mpi.Irecv(x.c, x.dst[:m], x.me-half, 0)
		}
		if err != nil {
			return err
		}
	}
	if err := mpi.WaitAll(all, nil); err != nil {
		return err
	}
	if x.me >= half {
		return mpi.Send(x.c, x.src[:0], x.me-half, 1)
	}
	_, err = mpi.Recv(x.c, x.dst[:0], x.me+half, 1)
	return err
}

// bothWays sends a window of messages from each of the first two ranks to the other at a time.
func (x *meter) bothWays(m int) (err error) {
	if x.me > 1 {
		return nil
	}
	for i := range inWindow {
		if x.window[i], err = mpi.Irecv(x.c, x.dst[:m], 1-x.me, 0); err != nil {
			return err
		}
	}
	for i := range inWindow {
		if x.window[inWindow+i], err = mpi.Isend(x.c, x.src[:m], 1-x.me, 0); err != nil {
			return err
		}
	}
	return mpi.WaitAll(x.window[:], nil)
}

// checked makes one operation and checks its result.
func (x *meter) checked(r row, op func() error) error {
	for k := range x.dst[:r.bytes/8*x.n] {
		x.dst[k] = -1
	}
	if err := x.c.Barrier(); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	length, want := x.expected(r.name, r.bytes/8)
	for k, got := range x.dst[:length] {
		if w := want(k); got != w {
			return fmt.Errorf("rank %d has %d in element %d of %d, want %d", x.me, got, k, length, w)
		}
	}
	return nil
}

// expected returns what is in the destination after a row's operation, and how much of it.
func (x *meter) expected(name string, m int) (length int, want func(k int) int64) {
	n, me := x.n, x.me
	from := func(rank int) func(k int) int64 { return func(k int) int64 { return int64(rank*ofRank + k) } }
	sum := func(ranks, at int) func(k int) int64 { // of the first ranks, from an element on
		return func(k int) int64 { return int64(ranks*(ranks-1)/2*ofRank + ranks*(at+k)) }
	}
	switch name {
	case "latency", "bibw":
		if me < 2 {
			return m, from(1 - me)
		}
	case "bw", "rate":
		if half := n / 2; me >= half && me < 2*half && (name == "rate" || n == 2) {
			return m, from(me - half)
		}
	case "bcast":
		if me != 0 {
			return m, from(0)
		}
	case "reduce":
		if me == 0 {
			return m, sum(n, 0)
		}
	case "allreduce":
		return m, sum(n, 0)
	case "reduce_scatter_block", "reduce_scatter":
		return m, sum(n, me*m)
	case "gather", "gatherv":
		if me == 0 {
			return m * n, func(k int) int64 { return from(k / m)(k % m) }
		}
	case "allgather", "allgatherv":
		return m * n, func(k int) int64 { return from(k / m)(k % m) }
	case "scatter", "scatterv":
		return m, func(k int) int64 { return from(0)(me*m + k) }
	case "alltoall", "alltoallv":
		return m * n, func(k int) int64 { return from(k / m)(me*m + k%m) }
	case "scan":
		return m, sum(me+1, 0)
	case "exscan":
		if me > 0 {
			return m, sum(me, 0)
		}
	}
	return 0, nil
}
