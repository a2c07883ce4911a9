package mpi

import "math"

// Wildcards of a receive, and the rank of nobody. A send to ProcNull and a receive from it succeed at
// once and move nothing.
const (
	AnySource = -1
	AnyTag    = -1
	ProcNull  = -2
)

// MaxTag is the greatest tag of a message.
const MaxTag = math.MaxInt32

// Send sends a message and returns when buf may be used again.
//
//   - Shape: the receiver's buffer has at least as many bytes; its type is not compared.
//   - Completion: of a short message at once, unless the lane to dst is full; of a longer one when it is
//     received. Messages between two ranks are received in the order in which they were sent.
//   - Cost: a long message is copied once, by both sides (package documentation).
//   - Errors: *UsageError; *RankError when dst has died or finalized; the end of c's context. The end of the
//     context withdraws a message that was announced: its receive fails with ErrCanceled. If buf is in the
//     symmetric heap and 512 other long messages were under way, the receive may instead get what buf
//     has later.
//   - Concurrent calls: allowed.
//   - Source: MPI_Send.
func Send[T any](c *Comm, buf []T, dst, tag int) error {
	const op = "Send"
	if err := checkType[T](op); err != nil {
		return err
	}
	if isIntercepted() {
		return sendSpan(c, op, spanOf(buf), dst, tag)
	}
	return sendUnseen(c, op, spanOf(buf), dst, tag, true)
}

// Isend begins to send a message. buf must not be changed until the request is complete.
//
//   - Completion: as Send.
//   - Errors: as Send, from Isend or from Wait. If dst has died, from both.
//   - Concurrent calls: allowed.
//   - Source: MPI_Isend.
func Isend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	const op = "Isend"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	if isIntercepted() {
		return isendSpan(c, op, spanOf(buf), dst, tag)
	}
	return isendUnseen(c, op, spanOf(buf), dst, tag, true)
}

// Recv receives the earliest message that fits src and tag. src may be AnySource, tag may be AnyTag.
//
//   - Shape: buf has at least as many bytes as the message.
//   - Errors: *UsageError; the end of c's context; ErrTruncated when the message is longer than buf;
//     ErrCanceled when its sender has withdrawn it; *RankError when its sender has died before it was copied.
//     From one source also *RankError when src has died or finalized, and everything that it had sent was
//     received. From AnySource also *RankError when there is no message and a death is not acknowledged
//     (AckFailed), or no other rank is left.
//   - Concurrent calls: allowed.
//   - Source: MPI_Recv.
func Recv[T any](c *Comm, buf []T, src, tag int) (Status, error) {
	const op = "Recv"
	if err := checkType[T](op); err != nil {
		return emptyStatus, err
	}
	if isIntercepted() {
		var status Status
		err := intercept(Call{op, c, src, tag, spanOf(buf).bytes}, func() (err error) {
			status, err = recvSpan(c, op, spanOf(buf), src, tag)
			return err
		})
		return status, err
	}
	return recvSpan(c, op, spanOf(buf), src, tag)
}

// recvSpan is Recv without the type.
func recvSpan(c *Comm, op string, s span, src, tag int) (Status, error) {
	if isDebug && src != ProcNull && checkRecv(c, op, src, tag) == nil {
		poisonBuffer(s)
	}
	if status, ok := recvDirect(c, s, src, tag); ok {
		return status, nil
	}
	r, err := startRecv(c, op, s.exclusiveFor(c.ctx), src, tag)
	switch {
	case err != nil:
		return emptyStatus, handledOf(c, err)
	case r == nil:
		return procNullStatus, nil
	}
	status, err := r.finish(c.ctx)
	if err != nil {
		err = handled(c.g, err)
	}
	return status, err
}

// Irecv begins to receive a message. buf must not be used until the request is complete.
//
//   - Shape: as Recv.
//   - Errors: as Recv, from Irecv or from Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Irecv.
func Irecv[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	const op = "Irecv"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	if isIntercepted() {
		return irecv(c, op, spanOf(buf), src, tag)
	}
	return irecvUnseen(c, op, spanOf(buf), src, tag, true)
}
