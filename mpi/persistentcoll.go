package mpi

// BarrierInit makes a persistent request of Barrier, which each Start executes with the same arguments.
//
//   - Errors: as Barrier, from BarrierInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Barrier_init.
func (c *Comm) BarrierInit() (Persistent, error) {
	const name = "BarrierInit"
	return c.keep(describeBarrier(c, name))
}

// BcastInit makes a persistent request of Bcast, which each Start executes with the same arguments.
//
//   - Errors: as Bcast, from BcastInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Bcast_init.
func BcastInit[T any](c *Comm, buf []T, root int) (Persistent, error) {
	const name = "BcastInit"
	return c.keep(describeBcast(c, name, buf, root))
}

// ReduceInit makes a persistent request of Reduce, which each Start executes with the same arguments.
//
//   - Errors: as Reduce, from ReduceInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Reduce_init.
func ReduceInit[T any](c *Comm, dst, src []T, op Op[T], root int) (Persistent, error) {
	const name = "ReduceInit"
	return c.keep(describeReduce(c, name, dst, src, op, root))
}

// AllreduceInit makes a persistent request of Allreduce, which each Start executes with the same arguments.
//
//   - Errors: as Allreduce, from AllreduceInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Allreduce_init.
func AllreduceInit[T any](c *Comm, dst, src []T, op Op[T]) (Persistent, error) {
	const name = "AllreduceInit"
	return c.keep(describeAllreduce(c, name, dst, src, op))
}

// GatherInit makes a persistent request of Gather, which each Start executes with the same arguments.
//
//   - Errors: as Gather, from GatherInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Gather_init.
func GatherInit[T any](c *Comm, dst, src []T, root int) (Persistent, error) {
	const name = "GatherInit"
	counts, err := rootCounts(c, name, "destination", len(dst), root)
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	return c.keep(describeGather(c, name, dst, src, counts, root))
}

// GathervInit makes a persistent request of Gatherv, which each Start executes with the same arguments.
//
//   - Errors: as Gatherv, from GathervInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Gatherv_init.
func GathervInit[T any](c *Comm, dst, src []T, parts Counts, root int) (Persistent, error) {
	const name = "GathervInit"
	return c.keep(describeGather(c, name, dst, src, parts, root))
}

// ScatterInit makes a persistent request of Scatter, which each Start executes with the same arguments.
//
//   - Errors: as Scatter, from ScatterInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Scatter_init.
func ScatterInit[T any](c *Comm, dst, src []T, root int) (Persistent, error) {
	const name = "ScatterInit"
	counts, err := rootCounts(c, name, "source", len(src), root)
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	return c.keep(describeScatter(c, name, dst, src, counts, root))
}

// ScattervInit makes a persistent request of Scatterv, which each Start executes with the same arguments.
//
//   - Errors: as Scatterv, from ScattervInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Scatterv_init.
func ScattervInit[T any](c *Comm, dst, src []T, parts Counts, root int) (Persistent, error) {
	const name = "ScattervInit"
	return c.keep(describeScatter(c, name, dst, src, parts, root))
}

// AllgatherInit makes a persistent request of Allgather, which each Start executes with the same arguments.
//
//   - Errors: as Allgather, from AllgatherInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Allgather_init.
func AllgatherInit[T any](c *Comm, dst, src []T) (Persistent, error) {
	const name = "AllgatherInit"
	counts, err := splitCounts(c, name, "destination", len(dst))
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	return c.keep(describeAllgather(c, name, dst, src, counts))
}

// AllgathervInit makes a persistent request of Allgatherv, which each Start executes with the same arguments.
//
//   - Errors: as Allgatherv, from AllgathervInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Allgatherv_init.
func AllgathervInit[T any](c *Comm, dst, src []T, parts Counts) (Persistent, error) {
	const name = "AllgathervInit"
	return c.keep(describeAllgather(c, name, dst, src, parts))
}

// AlltoallInit makes a persistent request of Alltoall, which each Start executes with the same arguments.
//
//   - Errors: as Alltoall, from AlltoallInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Alltoall_init.
func AlltoallInit[T any](c *Comm, dst, src []T) (Persistent, error) {
	const name = "AlltoallInit"
	counts, err := splitCounts(c, name, "source", len(src))
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	return c.keep(describeAlltoall(c, name, dst, src, counts, counts))
}

// AlltoallvInit makes a persistent request of Alltoallv, which each Start executes with the same arguments.
//
//   - Errors: as Alltoallv, from AlltoallvInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Alltoallv_init.
func AlltoallvInit[T any](c *Comm, dst, src []T, get, give Counts) (Persistent, error) {
	const name = "AlltoallvInit"
	return c.keep(describeAlltoall(c, name, dst, src, get, give))
}

// ReduceScatterInit makes a persistent request of ReduceScatter, which each Start executes with the same arguments.
//
//   - Errors: as ReduceScatter, from ReduceScatterInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Reduce_scatter_init.
func ReduceScatterInit[T any](c *Comm, dst, src []T, counts []int, op Op[T]) (Persistent, error) {
	const name = "ReduceScatterInit"
	return c.keep(describeReduceScatter(c, name, dst, src, counts, op))
}

// ReduceScatterBlockInit makes a persistent request of ReduceScatterBlock, which each Start executes with the same arguments.
//
//   - Errors: as ReduceScatterBlock, from ReduceScatterBlockInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Reduce_scatter_block_init.
func ReduceScatterBlockInit[T any](c *Comm, dst, src []T, op Op[T]) (Persistent, error) {
	const name = "ReduceScatterBlockInit"
	counts, err := splitCounts(c, name, "source", len(src))
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	return c.keep(describeReduceScatter(c, name, dst, src, counts.Counts, op))
}

// ScanInit makes a persistent request of Scan, which each Start executes with the same arguments.
//
//   - Errors: as Scan, from ScanInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Scan_init.
func ScanInit[T any](c *Comm, dst, src []T, op Op[T]) (Persistent, error) {
	const name = "ScanInit"
	return c.keep(describeScan(c, name, dst, src, op, false))
}

// ExscanInit makes a persistent request of Exscan, which each Start executes with the same arguments.
//
//   - Errors: as Exscan, from ExscanInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Exscan_init.
func ExscanInit[T any](c *Comm, dst, src []T, op Op[T]) (Persistent, error) {
	const name = "ExscanInit"
	return c.keep(describeScan(c, name, dst, src, op, true))
}
