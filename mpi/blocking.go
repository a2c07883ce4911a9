package mpi

// Gather copies the src of all ranks to the root's dst, in the order of ranks.
//
//   - Shape: src has as many elements on all ranks, dst of the root n times as many. The dst of other ranks is not used.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Gather.
func Gather[T any](c *Comm, dst, src []T, root int) error {
	const name = "Gather"
	if isWatched(c) {
		return watched(Call{name, c, root, AnyTag, 0}, func() error { return gatherBlocks(c, name, dst, src, root) })
	}
	return gatherBlocks(c, name, dst, src, root)
}

// Gatherv copies the src of each rank to the rank's part of the root's dst.
//
//   - Shape: src of rank i has parts.Counts[i] elements. Only the root uses dst and parts.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Gatherv.
func Gatherv[T any](c *Comm, dst, src []T, parts Counts, root int) error {
	const name = "Gatherv"
	return c.run(describeGather(c, name, dst, src, parts, root))
}

// Scatter copies part i of the root's src to the dst of rank i.
//
//   - Shape: dst has as many elements on all ranks, src of the root n times as many. The src of other ranks is not used.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Scatter.
func Scatter[T any](c *Comm, dst, src []T, root int) error {
	const name = "Scatter"
	if isWatched(c) {
		return watched(Call{name, c, root, AnyTag, 0}, func() error { return scatterBlocks(c, name, dst, src, root) })
	}
	return scatterBlocks(c, name, dst, src, root)
}

// Scatterv copies each rank's part of the root's src to the dst of the rank.
//
//   - Shape: dst of rank i has parts.Counts[i] elements. Only the root uses src and parts.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Scatterv.
func Scatterv[T any](c *Comm, dst, src []T, parts Counts, root int) error {
	const name = "Scatterv"
	return c.run(describeScatter(c, name, dst, src, parts, root))
}

// Allgather copies the src of all ranks to the dst of all ranks, in the order of ranks.
//
//   - Shape: src has as many elements on all ranks, dst n times as many. In place, src is this rank's part of dst.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Allgather.
func Allgather[T any](c *Comm, dst, src []T) error {
	const name = "Allgather"
	if isWatched(c) {
		return watched(Call{name, c, AnySource, AnyTag, spanOf(dst).bytes}, func() error { return allgatherBlocks(c, name, dst, src) })
	}
	return allgatherBlocks(c, name, dst, src)
}

// Allgatherv copies the src of each rank to the rank's part of dst on all ranks.
//
//   - Shape: src of rank i has parts.Counts[i] elements. parts.Counts are the same on all ranks. In place, src is this rank's part of dst.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Allgatherv.
func Allgatherv[T any](c *Comm, dst, src []T, parts Counts) error {
	const name = "Allgatherv"
	return c.run(describeAllgather(c, name, dst, src, parts))
}

// Alltoall copies part i of src to rank i, where it becomes the part of this rank in dst.
//
//   - Shape: src and dst have as many elements, the same multiple of n on all ranks. In place, dst is src.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Alltoall.
func Alltoall[T any](c *Comm, dst, src []T) error {
	const name = "Alltoall"
	if isWatched(c) {
		return watched(Call{name, c, AnySource, AnyTag, 0}, func() error { return alltoallBlocks(c, name, dst, src) })
	}
	return alltoallBlocks(c, name, dst, src)
}

// Alltoallv copies the part give.Counts[i] of src to rank i, whose dst gets it as the part of this rank in get.
//
//   - Shape: give.Counts[j] of rank i is get.Counts[i] of rank j. In place, dst is src, and get is give.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Alltoallv.
func Alltoallv[T any](c *Comm, dst, src []T, get, give Counts) error {
	const name = "Alltoallv"
	return c.run(describeAlltoall(c, name, dst, src, get, give))
}

// ReduceScatter combines the src of all ranks, in the order of ranks, and gives each rank its part of the result.
//
//   - Shape: src has as many elements on all ranks, dst of rank i counts[i] of them, one part after the other. In place, dst is src, and the part comes first in it.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Reduce_scatter.
func ReduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op[T]) error {
	const name = "ReduceScatter"
	return c.run(describeReduceScatter(c, name, dst, src, counts, op))
}

// ReduceScatterBlock is ReduceScatter with parts of one length.
//
//   - Shape: src has n times as many elements as dst. In place, dst is src, and the part comes first in it.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Reduce_scatter_block.
func ReduceScatterBlock[T any](c *Comm, dst, src []T, op Op[T]) error {
	const name = "ReduceScatterBlock"
	if isWatched(c) {
		return watched(Call{name, c, AnySource, AnyTag, spanOf(src).bytes}, func() error { return reduceScatterBlock(c, name, dst, src, op) })
	}
	return reduceScatterBlock(c, name, dst, src, op)
}

// Scan combines the src of ranks 0 to this one, in their order, into dst.
//
//   - Shape: dst and src have as many elements, the same number on all ranks. They are the same slice or do not overlap.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Scan.
func Scan[T any](c *Comm, dst, src []T, op Op[T]) error {
	const name = "Scan"
	if isWatched(c) {
		return watched(Call{name, c, AnySource, AnyTag, spanOf(src).bytes}, func() error { return scanThroughTeam(c, name, dst, src, op, false) })
	}
	return scanThroughTeam(c, name, dst, src, op, false)
}

// Exscan combines the src of the ranks before this one, in their order, into dst. The dst of rank 0 is not used.
//
//   - Shape: dst and src have as many elements, the same number on all ranks. They are the same slice or do not overlap.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a rank has sent another length than this one expects.
//   - Collective: over the communicator, with arguments that agree.
//   - Source: MPI_Exscan.
func Exscan[T any](c *Comm, dst, src []T, op Op[T]) error {
	const name = "Exscan"
	if isWatched(c) {
		return watched(Call{name, c, AnySource, AnyTag, spanOf(src).bytes}, func() error { return scanThroughTeam(c, name, dst, src, op, true) })
	}
	return scanThroughTeam(c, name, dst, src, op, true)
}
