package mpi

// Ibarrier begins a Barrier. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Barrier, from Ibarrier or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ibarrier.
func (c *Comm) Ibarrier() (Request, error) {
	const name = "Ibarrier"
	return c.begin(describeBarrier(c, name))
}

// Ibcast begins a Bcast. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Bcast, from Ibcast or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ibcast.
func Ibcast[T any](c *Comm, buf []T, root int) (Request, error) {
	const name = "Ibcast"
	return c.begin(describeBcast(c, name, buf, root))
}

// Ireduce begins a Reduce. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Reduce, from Ireduce or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ireduce.
func Ireduce[T any](c *Comm, dst, src []T, op Op[T], root int) (Request, error) {
	const name = "Ireduce"
	return c.begin(describeReduce(c, name, dst, src, op, root))
}

// Iallreduce begins an Allreduce. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Allreduce, from Iallreduce or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iallreduce.
func Iallreduce[T any](c *Comm, dst, src []T, op Op[T]) (Request, error) {
	const name = "Iallreduce"
	return c.begin(describeAllreduce(c, name, dst, src, op))
}

// Igather begins a Gather. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Gather, from Igather or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Igather.
func Igather[T any](c *Comm, dst, src []T, root int) (Request, error) {
	const name = "Igather"
	counts, err := rootCounts(c, name, "destination", len(dst), root)
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	return c.begin(describeGather(c, name, dst, src, counts, root))
}

// Igatherv begins a Gatherv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Gatherv, from Igatherv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Igatherv.
func Igatherv[T any](c *Comm, dst, src []T, parts Counts, root int) (Request, error) {
	const name = "Igatherv"
	return c.begin(describeGather(c, name, dst, src, parts, root))
}

// Iscatter begins a Scatter. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Scatter, from Iscatter or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iscatter.
func Iscatter[T any](c *Comm, dst, src []T, root int) (Request, error) {
	const name = "Iscatter"
	counts, err := rootCounts(c, name, "source", len(src), root)
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	return c.begin(describeScatter(c, name, dst, src, counts, root))
}

// Iscatterv begins a Scatterv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Scatterv, from Iscatterv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iscatterv.
func Iscatterv[T any](c *Comm, dst, src []T, parts Counts, root int) (Request, error) {
	const name = "Iscatterv"
	return c.begin(describeScatter(c, name, dst, src, parts, root))
}

// Iallgather begins an Allgather. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Allgather, from Iallgather or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iallgather.
func Iallgather[T any](c *Comm, dst, src []T) (Request, error) {
	const name = "Iallgather"
	counts, err := splitCounts(c, name, "destination", len(dst))
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	return c.begin(describeAllgather(c, name, dst, src, counts))
}

// Iallgatherv begins an Allgatherv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Allgatherv, from Iallgatherv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iallgatherv.
func Iallgatherv[T any](c *Comm, dst, src []T, parts Counts) (Request, error) {
	const name = "Iallgatherv"
	return c.begin(describeAllgather(c, name, dst, src, parts))
}

// Ialltoall begins an Alltoall. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Alltoall, from Ialltoall or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ialltoall.
func Ialltoall[T any](c *Comm, dst, src []T) (Request, error) {
	const name = "Ialltoall"
	counts, err := splitCounts(c, name, "source", len(src))
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	return c.begin(describeAlltoall(c, name, dst, src, counts, counts))
}

// Ialltoallv begins an Alltoallv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Alltoallv, from Ialltoallv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ialltoallv.
func Ialltoallv[T any](c *Comm, dst, src []T, get, give Counts) (Request, error) {
	const name = "Ialltoallv"
	return c.begin(describeAlltoall(c, name, dst, src, get, give))
}

// IreduceScatter begins a ReduceScatter. The buffers belong to the collective until the request is complete.
//
//   - Errors: as ReduceScatter, from IreduceScatter or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ireduce_scatter.
func IreduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op[T]) (Request, error) {
	const name = "IreduceScatter"
	return c.begin(describeReduceScatter(c, name, dst, src, counts, op))
}

// IreduceScatterBlock begins a ReduceScatterBlock. The buffers belong to the collective until the request is complete.
//
//   - Errors: as ReduceScatterBlock, from IreduceScatterBlock or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ireduce_scatter_block.
func IreduceScatterBlock[T any](c *Comm, dst, src []T, op Op[T]) (Request, error) {
	const name = "IreduceScatterBlock"
	counts, err := splitCounts(c, name, "source", len(src))
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	return c.begin(describeReduceScatter(c, name, dst, src, counts.Counts, op))
}

// Iscan begins a Scan. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Scan, from Iscan or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iscan.
func Iscan[T any](c *Comm, dst, src []T, op Op[T]) (Request, error) {
	const name = "Iscan"
	return c.begin(describeScan(c, name, dst, src, op, false))
}

// Iexscan begins an Exscan. The buffers belong to the collective until the request is complete.
//
//   - Errors: as Exscan, from Iexscan or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Iexscan.
func Iexscan[T any](c *Comm, dst, src []T, op Op[T]) (Request, error) {
	const name = "Iexscan"
	return c.begin(describeScan(c, name, dst, src, op, true))
}
