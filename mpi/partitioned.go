package mpi

// Partitioned is one side of a partitioned message: its buffer has partitions of equal size. The sender says of each partition when it is ready, and
// each is sent for itself. It is a value; copies are handles of one operation. Its Persistent has Wait, Test and Request, and may be given to the
// function Start together with others.
//
//   - A round begins with Start and ends with Wait, or with a Test that reports true, at both sides.
//   - Sender and receiver may divide the buffer into different numbers of partitions.
//   - Operations of two ranks with the same tag match in the order of their PsendInit and PrecvInit. They meet no other messages, receives or probes.
type Partitioned struct {
	Persistent
	x *partition
}

// partitionsMost is the greatest number of partitions of an operation.
const partitionsMost = 1 << 20

// Functions that errors name.
const (
	opPsendInit = "PsendInit"
	opPrecvInit = "PrecvInit"
	opPartStart = "Partitioned.Start"
)

// PsendInit makes a partitioned send of buf to dst. It does not wait for the receiver.
//
//   - Shape: len(buf) is a multiple of parts. The receiver's buffer has as many bytes; its number of partitions may differ.
//   - Completion: a round is complete when all partitions are ready, and sent as Send does it.
//   - Cost: a short message for the operation, and one for each partition of a round.
//   - Errors: *UsageError; *RankError when dst has died.
//   - Concurrent calls: allowed.
//   - Source: MPI_Psend_init.
func PsendInit[T any](c *Comm, buf []T, parts, dst, tag int) (Partitioned, error) {
	const op = opPsendInit
	err := checkType[T](op)
	if err == nil {
		err = checkSend(c, op, dst, tag)
	}
	if err == nil {
		err = checkParts(op, len(buf), parts)
	}
	if err != nil {
		return Partitioned{}, err
	}
	x, err := newPartition(c, op, spanOf(buf), parts, dst, tag)
	return x.handle(c, op), handledOf(c, err)
}

// PrecvInit makes a partitioned receive into buf from src. It does not wait for the sender.
//
//   - Shape: len(buf) is a multiple of parts. The sender's buffer has as many bytes; otherwise each round of the receiver fails with ErrMismatch.
//     src and tag are no wildcards.
//   - Completion: a round is complete when all partitions have arrived.
//   - Errors: *UsageError; *RankError when src died before it called PsendInit.
//   - Concurrent calls: allowed.
//   - Source: MPI_Precv_init.
func PrecvInit[T any](c *Comm, buf []T, parts, src, tag int) (Partitioned, error) {
	const op = opPrecvInit
	err := checkType[T](op)
	if err == nil {
		err = checkRecv(c, op, src, tag)
	}
	switch {
	case err != nil:
	case src == AnySource:
		err = usage(op, ErrRankRange, "source is AnySource, want 0 to %d or ProcNull: partitioned receives have no wildcards", c.g.n-1)
	case tag == AnyTag:
		err = usage(op, ErrTag, "tag is AnyTag, want 0 to %d: partitioned receives have no wildcards", MaxTag)
	default:
		err = checkParts(op, len(buf), parts)
	}
	if err != nil {
		return Partitioned{}, err
	}
	x, err := newPartition(c, op, spanOf(buf), parts, src, tag)
	return x.handle(c, op), handledOf(c, err)
}

// checkParts checks the number of partitions of a buffer with n elements.
func checkParts(op string, n, parts int) error {
	if parts < 1 || parts > partitionsMost {
		return usage(op, ErrArgument, "%d partitions, want 1 to %d", parts, partitionsMost)
	}
	if n%parts != 0 {
		return usage(op, ErrArgument, "buffer has %d elements, want a multiple of the %d partitions", n, parts)
	}
	return nil
}

// handle returns the caller's Partitioned. x may be nil.
func (x *partition) handle(c *Comm, op string) Partitioned {
	if x == nil {
		return Partitioned{}
	}
	return Partitioned{newPersistent(Call{op, c, x.peer, x.tag, x.buf.bytes}, func() (Request, error) { return x.start(c.ctx) }), x}
}

// Start begins a round. At the sender no partition is ready then. It does not wait for the other side.
//
//   - Errors: ErrArgument for an operation that is active or was freed, and for the zero Partitioned; *RankError; ErrRevoked, ErrFreed.
//   - Concurrent calls: allowed, for different operations.
//   - Source: MPI_Start.
func (x Partitioned) Start() error {
	if x.x == nil {
		return x.zeroError(opPartStart)
	}
	return Start(x.Persistent)
}

// zeroError returns the error of a call on the zero Partitioned.
func (x Partitioned) zeroError(op string) error {
	return usage(op, ErrArgument, "this is the zero Partitioned, want one that PsendInit or PrecvInit has returned")
}

// Ready says that partition i of a send may be sent. It must not be changed until the round is complete.
//
//   - Errors: *UsageError for a receive, outside of a round, for an index out of range, and for a partition that is ready already; *RankError when the
//     receiver has died.
//   - Concurrent calls: allowed.
//   - Source: MPI_Pready.
func (x Partitioned) Ready(i int) error {
	const op = "Partitioned.Ready"
	if x.x == nil {
		return x.zeroError(op)
	}
	return handled(x.x.g, x.x.markReady(op, i, i))
}

// ReadyRange is Ready for partitions low to high, both included. If it returns a *UsageError, none of them was made ready.
//
//   - Errors: as Ready; *UsageError if low is greater than high.
//   - Concurrent calls: allowed.
//   - Source: MPI_Pready_range.
func (x Partitioned) ReadyRange(low, high int) error {
	const op = "Partitioned.ReadyRange"
	if x.x == nil {
		return x.zeroError(op)
	}
	return handled(x.x.g, x.x.markReady(op, low, high))
}

// ReadyList is Ready for some partitions, in any order. If it returns a *UsageError, none of them was made ready.
//
//   - Errors: as Ready; *UsageError for a partition that is in the list twice.
//   - Concurrent calls: allowed.
//   - Source: MPI_Pready_list.
func (x Partitioned) ReadyList(list ...int) error {
	const op = "Partitioned.ReadyList"
	if x.x == nil {
		return x.zeroError(op)
	}
	return handled(x.x.g, x.x.markListReady(op, list))
}

// markListReady sends some partitions.
func (x *partition) markListReady(op string, list []int) error {
	for _, i := range list {
		if err := x.checkIndices(op, i, i); err != nil {
			return err
		}
	}
	if x.peer == ProcNull {
		return x.checkNull(op)
	}
	e := x.g.e
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if err := x.canMark(op); err != nil {
		return err
	}
	for n, i := range list {
		if x.marked[i] {
			for _, before := range list[:n] {
				x.marked[before] = false
			}
			return x.readyError(op, i)
		}
		x.marked[i] = true
	}
	round := x.round
	for _, i := range list {
		if err := x.send(i, round); err != nil {
			return x.g.reportDeath(err)
		}
	}
	return nil
}

// Arrived makes progress and reports whether partition i of a receive is in its buffer. The partition may be read then, before the round is complete.
// Between two rounds it reports on the round before.
//
//   - Errors: *UsageError for a send, before the first Start, and for an index out of range; what has ended the round, if the partition did not arrive
//     before.
//   - Concurrent calls: allowed.
//   - Source: MPI_Parrived.
func (x Partitioned) Arrived(i int) (bool, error) {
	const op = "Partitioned.Arrived"
	if x.x == nil {
		return false, x.zeroError(op)
	}
	arrived, err := x.x.hasArrived(op, i)
	return arrived, handled(x.x.g, err)
}

// Free ends the operation. The other side is not concerned.
//
//   - Errors: *UsageError for an operation that is active or was freed, and for the zero Partitioned.
//   - Concurrent calls: allowed, for different operations.
//   - Source: MPI_Request_free.
func (x Partitioned) Free() error {
	const op = "Partitioned.Free"
	if x.x == nil {
		return x.zeroError(op)
	}
	return x.x.free(op)
}
