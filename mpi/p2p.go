package mpi

import (
	"errors"
	"math"
)

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
	return c.send(op, spanOf(buf), dst, tag)
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
	return c.isend(op, spanOf(buf), dst, tag)
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
	s := spanOf(buf)
	if status, ok := c.recvDirect(s, src, tag); ok {
		return status, nil
	}
	r, err := c.startRecv(op, s.exclusiveFor(c.ctx), src, tag)
	switch {
	case err != nil:
		return emptyStatus, err
	case r == nil:
		return procNullStatus, nil
	}
	return r.finish(c.ctx)
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
	r, err := c.startRecv(op, spanOf(buf), src, tag)
	switch {
	case err != nil:
		return Request{}, err
	case r == nil:
		return procNullRequest.handle(c.ctx), nil
	}
	return r.handle(c.ctx), nil
}

// Sendrecv sends one message and receives another, in any order.
//
//   - Shape: as Send and Recv. send and recv do not overlap, which is not checked.
//   - Errors: as Send and Recv. If the send fails, the receive is taken back. If its message has come
//     before, recv and the status have it; otherwise the status is that of ProcNull.
//   - Concurrent calls: allowed.
//   - Source: MPI_Sendrecv.
func Sendrecv[S, R any](c *Comm, send []S, dst, sendTag int, recv []R, src, recvTag int) (Status, error) {
	const op = "Sendrecv"
	err := checkType[S](op)
	if err == nil {
		err = checkType[R](op)
	}
	if err == nil {
		err = c.checkSend(op, dst, sendTag)
	}
	if err != nil {
		return emptyStatus, err
	}
	into := spanOf(recv)
	into.exclusive = true // a send that fails takes the receive back
	r, err := c.startRecv(op, into, src, recvTag)
	if err != nil {
		return emptyStatus, err
	}
	if err := c.send(op, spanOf(send), dst, sendTag); err != nil {
		return takeBack(r, err)
	}
	if r == nil {
		return procNullStatus, nil
	}
	return r.finish(c.ctx)
}

// takeBack ends the receive of a Sendrecv whose send has failed with err. The receive may be nil.
func takeBack(r *request, err error) (Status, error) {
	if r == nil {
		return procNullStatus, err
	}
	if r.g.e.abandon(r, false, err) {
		r.recycle()
		return procNullStatus, err
	}
	for !r.isDone() { // its sender is writing to the buffer
		_ = r.await(nil) //nolint:staticcheck // no context
	}
	s, recvErr := r.takeOutcome()
	switch {
	case recvErr == nil, errors.Is(recvErr, ErrTruncated):
		return s, errors.Join(err, recvErr)
	case errors.Is(recvErr, err):
		return procNullStatus, err
	default:
		return procNullStatus, errors.Join(err, recvErr)
	}
}
