package mpi

// NeighborAllgather copies src to all destinations, and the src of source i to part i of dst.
//
//   - Shape: src has as many elements on all ranks, dst as many for each source. The part of ProcNull does not change.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a neighbor has sent another length than this rank expects.
//   - Collective: over the communicator.
//   - Source: MPI_Neighbor_allgather.
func NeighborAllgather[T any](n *Neighbors, dst, src []T) error {
	const name = "NeighborAllgather"
	if err := n.checkNeighbors(name); err != nil {
		return handledOf(commOf(n), err)
	}
	counts, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return handledOf(commOf(n), err)
	}
	x, err := describeNeighborAllgather(n, name, dst, src, counts)
	if err != nil {
		return handledOf(commOf(n), err)
	}
	return n.comm.run(x, nil)
}

// IneighborAllgather begins a NeighborAllgather. The buffers belong to the collective until the request is complete.
//
//   - Errors: as NeighborAllgather, from IneighborAllgather or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ineighbor_allgather.
func IneighborAllgather[T any](n *Neighbors, dst, src []T) (Request, error) {
	const name = "IneighborAllgather"
	if err := n.checkNeighbors(name); err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	counts, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	x, err := describeNeighborAllgather(n, name, dst, src, counts)
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	return n.comm.begin(x, nil)
}

// NeighborAllgatherInit makes a persistent request of NeighborAllgather, which each Start executes with the same arguments.
//
//   - Errors: as NeighborAllgather, from NeighborAllgatherInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Neighbor_allgather_init.
func NeighborAllgatherInit[T any](n *Neighbors, dst, src []T) (Persistent, error) {
	const name = "NeighborAllgatherInit"
	if err := n.checkNeighbors(name); err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	counts, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	x, err := describeNeighborAllgather(n, name, dst, src, counts)
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	return n.comm.keep(x, nil)
}

// NeighborAllgatherv copies src to all destinations, and the src of source i to its part of dst.
//
//   - Shape: parts has a count for each source.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a neighbor has sent another length than this rank expects.
//   - Collective: over the communicator.
//   - Source: MPI_Neighbor_allgatherv.
func NeighborAllgatherv[T any](n *Neighbors, dst, src []T, parts Counts) error {
	const name = "NeighborAllgatherv"
	x, err := describeNeighborAllgather(n, name, dst, src, parts)
	if err != nil {
		return handledOf(commOf(n), err)
	}
	return n.comm.run(x, nil)
}

// IneighborAllgatherv begins a NeighborAllgatherv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as NeighborAllgatherv, from IneighborAllgatherv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ineighbor_allgatherv.
func IneighborAllgatherv[T any](n *Neighbors, dst, src []T, parts Counts) (Request, error) {
	const name = "IneighborAllgatherv"
	x, err := describeNeighborAllgather(n, name, dst, src, parts)
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	return n.comm.begin(x, nil)
}

// NeighborAllgathervInit makes a persistent request of NeighborAllgatherv, which each Start executes with the same arguments.
//
//   - Errors: as NeighborAllgatherv, from NeighborAllgathervInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Neighbor_allgatherv_init.
func NeighborAllgathervInit[T any](n *Neighbors, dst, src []T, parts Counts) (Persistent, error) {
	const name = "NeighborAllgathervInit"
	x, err := describeNeighborAllgather(n, name, dst, src, parts)
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	return n.comm.keep(x, nil)
}

// NeighborAlltoall copies part i of src to destination i, and a part of source i to part i of dst.
//
//   - Shape: all parts have as many elements.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a neighbor has sent another length than this rank expects.
//   - Collective: over the communicator.
//   - Source: MPI_Neighbor_alltoall.
func NeighborAlltoall[T any](n *Neighbors, dst, src []T) error {
	const name = "NeighborAlltoall"
	if err := n.checkNeighbors(name); err != nil {
		return handledOf(commOf(n), err)
	}
	get, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return handledOf(commOf(n), err)
	}
	give, err := divide(name, "source", len(src), len(n.dsts))
	if err != nil {
		return handledOf(commOf(n), err)
	}
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return handledOf(commOf(n), err)
	}
	return n.comm.run(x, nil)
}

// IneighborAlltoall begins a NeighborAlltoall. The buffers belong to the collective until the request is complete.
//
//   - Errors: as NeighborAlltoall, from IneighborAlltoall or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ineighbor_alltoall.
func IneighborAlltoall[T any](n *Neighbors, dst, src []T) (Request, error) {
	const name = "IneighborAlltoall"
	if err := n.checkNeighbors(name); err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	get, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	give, err := divide(name, "source", len(src), len(n.dsts))
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	return n.comm.begin(x, nil)
}

// NeighborAlltoallInit makes a persistent request of NeighborAlltoall, which each Start executes with the same arguments.
//
//   - Errors: as NeighborAlltoall, from NeighborAlltoallInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Neighbor_alltoall_init.
func NeighborAlltoallInit[T any](n *Neighbors, dst, src []T) (Persistent, error) {
	const name = "NeighborAlltoallInit"
	if err := n.checkNeighbors(name); err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	get, err := divide(name, "destination", len(dst), len(n.srcs))
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	give, err := divide(name, "source", len(src), len(n.dsts))
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	return n.comm.keep(x, nil)
}

// NeighborAlltoallv copies part i of src to destination i, and a part of source i to part i of dst.
//
//   - Shape: give has a count for each destination, get one for each source.
//   - Errors: as Barrier; ErrArgument for lengths and buffers; ErrMismatch where a neighbor has sent another length than this rank expects.
//   - Collective: over the communicator.
//   - Source: MPI_Neighbor_alltoallv.
func NeighborAlltoallv[T any](n *Neighbors, dst, src []T, get, give Counts) error {
	const name = "NeighborAlltoallv"
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return handledOf(commOf(n), err)
	}
	return n.comm.run(x, nil)
}

// IneighborAlltoallv begins a NeighborAlltoallv. The buffers belong to the collective until the request is complete.
//
//   - Errors: as NeighborAlltoallv, from IneighborAlltoallv or from Wait.
//   - Collective: over the communicator. All ranks begin its collectives in the same order.
//   - Source: MPI_Ineighbor_alltoallv.
func IneighborAlltoallv[T any](n *Neighbors, dst, src []T, get, give Counts) (Request, error) {
	const name = "IneighborAlltoallv"
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return Request{}, handledOf(commOf(n), err)
	}
	return n.comm.begin(x, nil)
}

// NeighborAlltoallvInit makes a persistent request of NeighborAlltoallv, which each Start executes with the same arguments.
//
//   - Errors: as NeighborAlltoallv, from NeighborAlltoallvInit, Start or Wait.
//   - Collective: over the communicator. All ranks make its persistent collectives in the same order, and start each as often.
//   - Source: MPI_Neighbor_alltoallv_init.
func NeighborAlltoallvInit[T any](n *Neighbors, dst, src []T, get, give Counts) (Persistent, error) {
	const name = "NeighborAlltoallvInit"
	x, err := describeNeighborAlltoall(n, name, dst, src, get, give)
	if err != nil {
		return Persistent{}, handledOf(commOf(n), err)
	}
	return n.comm.keep(x, nil)
}

// commOf returns the communicator of neighbors, or nil.
func commOf(n *Neighbors) *Comm {
	if n == nil {
		return nil
	}
	return n.comm
}
