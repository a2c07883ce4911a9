package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/coll"
)

// Barrier returns when all ranks have called it.
//
//   - Completion: it completes neither requests nor operations of package shmem.
//   - Errors: *RankError when a rank has died. All survivors get one, from this collective or from the next, and
//     from then on at once.
//   - Collective: over the communicator.
//   - Source: MPI_Barrier.
func (c *Comm) Barrier() error {
	if isWatched(c) {
		return watched(Call{"Barrier", c, AnySource, AnyTag, 0}, func() error { return barrier(c) })
	}
	return barrier(c)
}

// barrier is Barrier without a look at the interceptor.
func barrier(c *Comm) error {
	const op = "Barrier"
	if err := c.usable(op); err != nil {
		return handledOf(c, err)
	}
	if collectivesInMessages(c.g) {
		x, err := describeBarrier(c, op)
		return runNow(c, x, err)
	}
	if c.g.checks {
		if err := c.compare(op, "%s", op); err != nil {
			return handled(c.g, err)
		}
	}
	return handled(c.g, c.g.fail(op, c.g.sync(c.ctx)))
}

// Bcast copies the root's buf to the buf of all other ranks.
//
//   - Shape: buf has as many elements on all ranks.
//   - Cost: two copies. More than 8 KiB go in pieces of 16 KiB; the root may be 64 pieces ahead of the slowest
//     rank. Of two ranks, from 32 KiB on, each copies a half directly if that is faster, and neither returns before both
//     have. They try it where they could copy a long message, and where the context of neither can end.
//   - Errors: as Barrier; ErrMismatch where the root has called something else, and where another rank has if they copy
//     directly. After a death, some ranks may have got the data and no error.
//   - Collective: over the communicator, with the same root.
//   - Source: MPI_Bcast.
func Bcast[T any](c *Comm, buf []T, root int) error {
	if isWatched(c) {
		return watched(Call{"Bcast", c, root, AnyTag, spanOf(buf).bytes}, func() error { return bcast(c, buf, root) })
	}
	return bcast(c, buf, root)
}

// bcast is Bcast without a look at the interceptor.
func bcast[T any](c *Comm, buf []T, root int) error {
	const op = "Bcast"
	if err := checkType[T](op); err != nil {
		return refuse(c, op, err)
	}
	if err := c.checkRoot(op, root); err != nil {
		return handledOf(c, refuse(c, op, err))
	}
	if c.g.checks {
		if err := c.compare(op, "Bcast of %s, root %d", coll.NameElements[T](len(buf)), root); err != nil {
			return handled(c.g, err)
		}
	}
	if collectivesInMessages(c.g) {
		x, err := describeBcast(c, op, buf, root)
		return runNow(c, x, err)
	}
	s := spanOf(buf)
	if c.g.upper != nil {
		return handled(c.g, c.g.fail(op, c.g.bcastSpanning(c.ctx, unsafe.Slice((*byte)(s.at), s.bytes), root)))
	}
	return endThroughTeam(c, op, coll.BroadcastDirect(revocableUnlessPair(c.ctx, c.g), c.g.t, unsafe.Slice((*byte)(s.at), s.bytes), root))
}

// Reduce combines the src of all ranks, in the order of ranks, into the root's dst:
// Reduce(c, dst, src, mpi.Sum, 0). The dst of other ranks is not used.
//
//   - Shape: dst has as many elements as src, and src as many on all ranks. dst and src are the same slice or
//     do not overlap.
//   - Cost: up to 32 KiB the root folds alone, in pieces of 8 KiB, and the others wait for nobody. So it is of up to four
//     ranks that take turns on the processors, whatever the length. Otherwise as Allreduce; of two ranks each folds a half
//     that it reads directly, under the conditions of Bcast, and if dst is not src.
//   - Errors: as Barrier; ErrArgument for lengths, buffers that overlap and a nil operator;
//     ErrElementType for elements of about 8 KiB and more; ErrMismatch where a rank has
//     called something else, at the root if it folds alone.
//   - Collective: over the communicator, with the same arguments.
//   - Source: MPI_Reduce.
func Reduce[T any](c *Comm, dst, src []T, op Op[T], root int) error {
	if isWatched(c) {
		return watched(Call{"Reduce", c, root, AnyTag, spanOf(src).bytes}, func() error { return reduce(c, dst, src, op, root) })
	}
	return reduce(c, dst, src, op, root)
}

// reduce is Reduce without a look at the interceptor.
func reduce[T any](c *Comm, dst, src []T, op Op[T], root int) error {
	const name = "Reduce"
	if err := c.checkRoot(name, root); err != nil {
		return handledOf(c, refuse(c, name, err))
	}
	if err := checkReduce(name, dst, src, op, root == c.g.me); err != nil {
		return refuse(c, name, err)
	}
	if c.g.checks {
		which, what := coll.NameOperator(coll.Op[T](op)), coll.NameElements[T](len(src))
		if err := c.compare(name, "Reduce(%s) of %s, root %d", which, what, root); err != nil {
			return handled(c.g, err)
		}
	}
	if collectivesInMessages(c.g) {
		x, err := describeReduce(c, name, dst, src, op, root)
		return runNow(c, x, err)
	}
	if c.g.upper != nil {
		return handled(c.g, c.g.fail(name, reduceSpanning(c.ctx, c.g, dst, src, op, root)))
	}
	ctx, returned := revocableUnlessPair(c.ctx, c.g), false
	if c.g.n == 2 && c.g.t.FoldsAtRoot(spanOf(src).bytes, elemSize[T]()) {
		ctx = revocableOf(c.ctx, c.g)
	}
	defer c.g.breakOnPanic(&returned)
	err := coll.ReducePrivate(ctx, c.g.t, dst, src, coll.Op[T](op), root)
	returned = true
	return endThroughTeam(c, name, err)
}

// Allreduce combines the src of all ranks, in the order of ranks, into the dst of all ranks:
// Allreduce(c, dst, src, mpi.Sum). All ranks get the same bytes.
//
//   - Shape: as Reduce.
//   - Cost: up to 8 KiB each rank folds everything. Of more it folds its share, in pieces of 64 KiB.
//   - Errors: as Reduce.
//   - Collective: over the communicator, with the same arguments.
//   - Source: MPI_Allreduce.
func Allreduce[T any](c *Comm, dst, src []T, op Op[T]) error {
	if isWatched(c) {
		return watched(Call{"Allreduce", c, AnySource, AnyTag, spanOf(src).bytes}, func() error { return allreduce(c, dst, src, op) })
	}
	return allreduce(c, dst, src, op)
}

// allreduce is Allreduce without a look at the interceptor.
func allreduce[T any](c *Comm, dst, src []T, op Op[T]) error {
	const name = "Allreduce"
	if err := c.usable(name); err != nil {
		return handledOf(c, err)
	}
	if err := checkReduce(name, dst, src, op, true); err != nil {
		return refuse(c, name, err)
	}
	if c.g.checks {
		which, what := coll.NameOperator(coll.Op[T](op)), coll.NameElements[T](len(src))
		if err := c.compare(name, "Allreduce(%s) of %s", which, what); err != nil {
			return handled(c.g, err)
		}
	}
	if collectivesInMessages(c.g) {
		x, err := describeAllreduce(c, name, dst, src, op)
		return runNow(c, x, err)
	}
	if c.g.upper != nil {
		return handled(c.g, c.g.fail(name, reduceSpanning(c.ctx, c.g, dst, src, op, -1)))
	}
	returned := false
	defer c.g.breakOnPanic(&returned)
	err := coll.ReducePrivate(revocableOf(c.ctx, c.g), c.g.t, dst, src, coll.Op[T](op), -1)
	returned = true
	return endThroughTeam(c, name, err)
}

// checkRoot checks the communicator and root of a collective.
func (c *Comm) checkRoot(op string, root int) error {
	if err := c.usable(op); err != nil {
		return err
	}
	if root < 0 || root >= c.g.n {
		return usage(op, ErrRankRange, "root %d in a communicator of %d ranks, want 0 to %d", root, c.g.n, c.g.n-1)
	}
	return nil
}

// checkReduce checks the buffers and the operator of a reduction.
func checkReduce[T any](name string, dst, src []T, op Op[T], result bool) error {
	if err := checkType[T](name); err != nil {
		return err
	}
	if size := int(unsafe.Sizeof(*new(T))); size > coll.MaxPrivate {
		return usage(name, ErrElementType, "element of %d bytes, want at most %d", size, coll.MaxPrivate)
	}
	if op == nil {
		return usage(name, ErrArgument, "operator is nil, want Sum, Max or another one")
	}
	if result && len(dst) != len(src) {
		return usage(name, ErrArgument, "destination has %d elements, want as many as the source, %d", len(dst), len(src))
	}
	if d, s := spanOf(dst), spanOf(src); result && d.at != s.at && d.overlaps(s) {
		return usage(name, ErrArgument, "source and destination overlap, want the same slice or disjoint ones")
	}
	return nil
}
