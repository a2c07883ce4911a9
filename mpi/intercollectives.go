package mpi

// Barrier returns when all ranks of both groups have called it.
//
//   - Errors: as Comm.Barrier. Ranks in an error are those of both groups, the one with the lowest PE first.
//   - Collective: over both groups.
//   - Source: MPI_Barrier.
func (x *Intercomm) Barrier() error {
	const name = "Intercomm.Barrier"
	return x.run(describeInterBarrier(x, name))
}

// InterBcast copies the buf of the root to the buf of all ranks of the other group.
//
//   - Shape: in the group of the root, root is Root at the root and ProcNull at the others. In the other group it is the rank of the root in its group. buf has as
//     many elements at all that use it.
//   - Cost: the root sends to all.
//   - Errors: *RankError when a rank has died, whose ranks are those of both groups, the one with the lowest PE first; ErrRevoked; ErrRankRange for the
//     root; ErrArgument for lengths and buffers; ErrMismatch where ranks call different collectives, or a rank has sent another length than this one expects.
//   - Collective: over both groups.
//   - Source: MPI_Bcast.
func InterBcast[T any](x *Intercomm, buf []T, root int) error {
	const name = "InterBcast"
	return x.run(describeInterBcast(x, name, buf, root))
}

// InterReduce combines the src of all ranks of a group, in the order of ranks, into the dst of the root, in the other group.
//
//   - Shape: root as in InterBcast. Only the root uses dst, and only the ranks of the other group use src. They have as many elements.
//   - Cost: the root gets the src of all, and combines them.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Reduce.
func InterReduce[T any](x *Intercomm, dst, src []T, op Op[T], root int) error {
	const name = "InterReduce"
	return x.run(describeInterReduce(x, name, dst, src, op, root))
}

// InterAllreduce gives each rank the combination of the src of all ranks of the other group, in the order of ranks.
//
//   - Shape: dst and src have as many elements, the same number at all ranks. They are the same slice or do not overlap.
//   - Cost: each rank gets the src of all ranks of the other group, and combines them.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Allreduce.
func InterAllreduce[T any](x *Intercomm, dst, src []T, op Op[T]) error {
	const name = "InterAllreduce"
	return x.run(describeInterAllreduce(x, name, dst, src, op))
}

// InterReduceScatter combines the src of all ranks of the other group, in the order of ranks, and gives each rank of this group its part of the result.
//
//   - Shape: src has as many elements at all ranks of both groups. counts are those of the ranks of this group, the same at all of them; their sum is that number. dst
//     has those of this rank. The two groups may have different counts.
//   - Cost: each rank gets a share of the src of all ranks of the other group, combines them, and gives the ranks of its group what they need of that.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Reduce_scatter.
func InterReduceScatter[T any](x *Intercomm, dst, src []T, counts []int, op Op[T]) error {
	const name = "InterReduceScatter"
	return x.run(describeInterReduceScatter(x, name, dst, src, counts, op))
}

// InterReduceScatterBlock is InterReduceScatter with parts of one length in each group.
//
//   - Shape: src has as many elements at all ranks of both groups, a multiple of the sizes of both. dst has that number divided by the size of this group.
//   - Cost: each rank gets a part of the src of all ranks of the other group, and combines them.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Reduce_scatter_block.
func InterReduceScatterBlock[T any](x *Intercomm, dst, src []T, op Op[T]) error {
	const name = "InterReduceScatterBlock"
	counts, err := localCounts(x, name, len(src))
	if err != nil {
		return x.refuse(err)
	}
	return x.run(describeInterReduceScatter(x, name, dst, src, counts, op))
}

// InterGather copies the src of all ranks of a group, in the order of ranks, to the dst of the root, in the other group.
//
//   - Shape: root as in InterBcast. src has as many elements at all ranks of its group, dst of the root as many as they have together.
//   - Cost: the root gets a message from each.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Gather.
func InterGather[T any](x *Intercomm, dst, src []T, root int) error {
	const name = "InterGather"
	counts, err := remoteRootCounts(x, name, "destination", len(dst), root)
	if err != nil {
		return x.refuse(err)
	}
	return x.run(describeInterGather(x, name, dst, src, counts, root))
}

// InterGatherv copies the src of each rank of a group to the rank's part of the dst of the root, in the other group.
//
//   - Shape: root as in InterBcast. src of rank i has parts.Counts[i] elements. Only the root uses dst and parts.
//   - Cost: as InterGather.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Gatherv.
func InterGatherv[T any](x *Intercomm, dst, src []T, parts Counts, root int) error {
	const name = "InterGatherv"
	return x.run(describeInterGather(x, name, dst, src, parts, root))
}

// InterScatter copies part i of the src of the root to the dst of rank i of the other group.
//
//   - Shape: root as in InterBcast. dst has as many elements at all ranks of its group, src of the root as many as they have together.
//   - Cost: the root sends a message to each.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Scatter.
func InterScatter[T any](x *Intercomm, dst, src []T, root int) error {
	const name = "InterScatter"
	counts, err := remoteRootCounts(x, name, "source", len(src), root)
	if err != nil {
		return x.refuse(err)
	}
	return x.run(describeInterScatter(x, name, dst, src, counts, root))
}

// InterScatterv copies each rank's part of the src of the root to the dst of the rank, in the other group.
//
//   - Shape: root as in InterBcast. dst of rank i has parts.Counts[i] elements. Only the root uses src and parts.
//   - Cost: as InterScatter.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Scatterv.
func InterScatterv[T any](x *Intercomm, dst, src []T, parts Counts, root int) error {
	const name = "InterScatterv"
	return x.run(describeInterScatter(x, name, dst, src, parts, root))
}

// InterAllgather gives each rank the src of all ranks of the other group, in the order of ranks.
//
//   - Shape: src has as many elements at all ranks of a group, dst as many as the ranks of the other group together. The groups may differ.
//   - Cost: each rank sends to all ranks of the other group.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Allgather.
func InterAllgather[T any](x *Intercomm, dst, src []T) error {
	const name = "InterAllgather"
	counts, err := remoteCounts(x, name, "destination", len(dst))
	if err != nil {
		return x.refuse(err)
	}
	return x.run(describeInterAllgather(x, name, dst, src, counts))
}

// InterAllgatherv copies the src of each rank of the other group to the rank's part of dst.
//
//   - Shape: src of rank i of the other group has parts.Counts[i] elements. All ranks of this group have the same counts.
//   - Cost: as InterAllgather.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Allgatherv.
func InterAllgatherv[T any](x *Intercomm, dst, src []T, parts Counts) error {
	const name = "InterAllgatherv"
	return x.run(describeInterAllgather(x, name, dst, src, parts))
}

// InterAlltoall sends part i of src to rank i of the other group, and receives its part for this rank into part i of dst.
//
//   - Shape: src and dst are divided into as many equal parts as the other group has ranks.
//   - Cost: as InterAllgather.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Alltoall.
func InterAlltoall[T any](x *Intercomm, dst, src []T) error {
	const name = "InterAlltoall"
	get, give, err := exchangeCounts(x, name, len(dst), len(src))
	if err != nil {
		return x.refuse(err)
	}
	return x.run(describeInterAlltoall(x, name, dst, src, get, give))
}

// InterAlltoallv sends part give.Counts[i] of src to rank i of the other group, and receives its part for this rank into part i of get in dst.
//
//   - Shape: give.Counts[j] of rank i is get.Counts[i] of rank j of the other group.
//   - Cost: as InterAllgather.
//   - Errors: as InterBcast.
//   - Collective: over both groups.
//   - Source: MPI_Alltoallv.
func InterAlltoallv[T any](x *Intercomm, dst, src []T, get, give Counts) error {
	const name = "InterAlltoallv"
	return x.run(describeInterAlltoall(x, name, dst, src, get, give))
}
