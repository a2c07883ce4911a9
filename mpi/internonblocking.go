package mpi

// Ibarrier begins a Barrier of both groups.
//
//   - Errors: as Barrier, from Ibarrier or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ibarrier.
func (x *Intercomm) Ibarrier() (Request, error) {
	const name = "Intercomm.Ibarrier"
	return x.begin(describeInterBarrier(x, name))
}

// IinterBcast begins an InterBcast. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterBcast, from IinterBcast or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ibcast.
func IinterBcast[T any](x *Intercomm, buf []T, root int) (Request, error) {
	const name = "IinterBcast"
	return x.begin(describeInterBcast(x, name, buf, root))
}

// IinterReduce begins an InterReduce. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterReduce, from IinterReduce or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ireduce.
func IinterReduce[T any](x *Intercomm, dst, src []T, op Op[T], root int) (Request, error) {
	const name = "IinterReduce"
	return x.begin(describeInterReduce(x, name, dst, src, op, root))
}

// IinterAllreduce begins an InterAllreduce. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterAllreduce, from IinterAllreduce or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Iallreduce.
func IinterAllreduce[T any](x *Intercomm, dst, src []T, op Op[T]) (Request, error) {
	const name = "IinterAllreduce"
	return x.begin(describeInterAllreduce(x, name, dst, src, op))
}

// IinterReduceScatter begins an InterReduceScatter. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterReduceScatter, from IinterReduceScatter or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ireduce_scatter.
func IinterReduceScatter[T any](x *Intercomm, dst, src []T, counts []int, op Op[T]) (Request, error) {
	const name = "IinterReduceScatter"
	return x.begin(describeInterReduceScatter(x, name, dst, src, counts, op))
}

// IinterReduceScatterBlock begins an InterReduceScatterBlock. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterReduceScatterBlock, from IinterReduceScatterBlock or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ireduce_scatter_block.
func IinterReduceScatterBlock[T any](x *Intercomm, dst, src []T, op Op[T]) (Request, error) {
	const name = "IinterReduceScatterBlock"
	counts, err := localCounts(x, name, len(src))
	if err != nil {
		return Request{}, x.refuse(err)
	}
	return x.begin(describeInterReduceScatter(x, name, dst, src, counts, op))
}

// IinterGather begins an InterGather. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterGather, from IinterGather or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Igather.
func IinterGather[T any](x *Intercomm, dst, src []T, root int) (Request, error) {
	const name = "IinterGather"
	counts, err := remoteRootCounts(x, name, "destination", len(dst), root)
	if err != nil {
		return Request{}, x.refuse(err)
	}
	return x.begin(describeInterGather(x, name, dst, src, counts, root))
}

// IinterGatherv begins an InterGatherv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterGatherv, from IinterGatherv or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Igatherv.
func IinterGatherv[T any](x *Intercomm, dst, src []T, parts Counts, root int) (Request, error) {
	const name = "IinterGatherv"
	return x.begin(describeInterGather(x, name, dst, src, parts, root))
}

// IinterScatter begins an InterScatter. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterScatter, from IinterScatter or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Iscatter.
func IinterScatter[T any](x *Intercomm, dst, src []T, root int) (Request, error) {
	const name = "IinterScatter"
	counts, err := remoteRootCounts(x, name, "source", len(src), root)
	if err != nil {
		return Request{}, x.refuse(err)
	}
	return x.begin(describeInterScatter(x, name, dst, src, counts, root))
}

// IinterScatterv begins an InterScatterv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterScatterv, from IinterScatterv or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Iscatterv.
func IinterScatterv[T any](x *Intercomm, dst, src []T, parts Counts, root int) (Request, error) {
	const name = "IinterScatterv"
	return x.begin(describeInterScatter(x, name, dst, src, parts, root))
}

// IinterAllgather begins an InterAllgather. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterAllgather, from IinterAllgather or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Iallgather.
func IinterAllgather[T any](x *Intercomm, dst, src []T) (Request, error) {
	const name = "IinterAllgather"
	counts, err := remoteCounts(x, name, "destination", len(dst))
	if err != nil {
		return Request{}, x.refuse(err)
	}
	return x.begin(describeInterAllgather(x, name, dst, src, counts))
}

// IinterAllgatherv begins an InterAllgatherv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterAllgatherv, from IinterAllgatherv or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Iallgatherv.
func IinterAllgatherv[T any](x *Intercomm, dst, src []T, parts Counts) (Request, error) {
	const name = "IinterAllgatherv"
	return x.begin(describeInterAllgather(x, name, dst, src, parts))
}

// IinterAlltoall begins an InterAlltoall. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterAlltoall, from IinterAlltoall or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ialltoall.
func IinterAlltoall[T any](x *Intercomm, dst, src []T) (Request, error) {
	const name = "IinterAlltoall"
	get, give, err := exchangeCounts(x, name, len(dst), len(src))
	if err != nil {
		return Request{}, x.refuse(err)
	}
	return x.begin(describeInterAlltoall(x, name, dst, src, get, give))
}

// IinterAlltoallv begins an InterAlltoallv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as InterAlltoallv, from IinterAlltoallv or from Wait.
//   - Collective: over both groups. All ranks begin the collectives of an Intercomm in the same order.
//   - Source: MPI_Ialltoallv.
func IinterAlltoallv[T any](x *Intercomm, dst, src []T, get, give Counts) (Request, error) {
	const name = "IinterAlltoallv"
	return x.begin(describeInterAlltoall(x, name, dst, src, get, give))
}
