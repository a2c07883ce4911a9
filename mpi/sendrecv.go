package mpi

import (
	"errors"
	"slices"
)

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
	if err != nil {
		return emptyStatus, err
	}
	status, err := exchange(c, op, spanOf(send), dst, sendTag, spanOf(recv), src, recvTag)
	return status, handledOf(c, err)
}

// exchange is Sendrecv without the types.
func exchange(c *Comm, op string, send span, dst, sendTag int, into span, src, recvTag int) (Status, error) {
	if err := checkSend(c, op, dst, sendTag); err != nil {
		return emptyStatus, err
	}
	into.marks |= spanExclusive // a send that fails takes the receive back
	r, err := startRecv(c, op, into, src, recvTag)
	if err != nil {
		return emptyStatus, err
	}
	if isIntercepted() {
		err = intercept(Call{op, c, dst, sendTag, send.bytes}, func() error { return sendUnseen(c, op, send, dst, sendTag, false) })
	} else {
		err = sendUnseen(c, op, send, dst, sendTag, false)
	}
	if err != nil {
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

// SendrecvReplace sends buf and receives another message into it.
//
//   - Shape: as Send and Recv.
//   - Cost: as Sendrecv, and a copy of buf.
//   - Errors: as Sendrecv.
//   - Concurrent calls: allowed.
//   - Source: MPI_Sendrecv_replace.
func SendrecvReplace[T any](c *Comm, buf []T, dst, sendTag, src, recvTag int) (Status, error) {
	return Sendrecv(c, slices.Clone(buf), dst, sendTag, buf, src, recvTag)
}

// Isendrecv begins to send one message and to receive another, in any order. The messages have the places of an Isend and an Irecv among others.
//
//   - Shape: as Sendrecv. Neither buffer may be used until the request is complete.
//   - Completion: both messages are complete. The status is that of the receive.
//   - Cost: as Isend and Irecv; a goroutine while the send is under way.
//   - Errors: as Sendrecv, from Isendrecv or from Wait. A death that ends a receive from AnySource ends the request.
//   - Concurrent calls: allowed.
//   - Source: MPI_Isendrecv.
func Isendrecv[S, R any](c *Comm, send []S, dst, sendTag int, recv []R, src, recvTag int) (Request, error) {
	const op = "Isendrecv"
	err := checkType[S](op)
	if err == nil {
		err = checkType[R](op)
	}
	if err != nil {
		return Request{}, err
	}
	return isendrecv(c, op, spanOf(send), dst, sendTag, spanOf(recv), src, recvTag)
}

// IsendrecvReplace begins to send buf and to receive another message into it. The message that is sent is a copy of buf, which is taken now.
//
//   - Shape: as Isendrecv. buf may not be used until the request is complete.
//   - Completion: as Isendrecv.
//   - Cost: as Isendrecv, and a copy of buf.
//   - Errors: as Isendrecv.
//   - Concurrent calls: allowed.
//   - Source: MPI_Isendrecv_replace.
func IsendrecvReplace[T any](c *Comm, buf []T, dst, sendTag, src, recvTag int) (Request, error) {
	const op = "IsendrecvReplace"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	return isendrecv(c, op, spanOf(slices.Clone(buf)), dst, sendTag, spanOf(buf), src, recvTag)
}

// isendrecv is Isendrecv without the types.
func isendrecv(c *Comm, op string, send span, dst, sendTag int, into span, src, recvTag int) (Request, error) {
	if isIntercepted() {
		return interceptStart(Call{op, c, dst, sendTag, send.bytes}, func() (Request, error) { return isendrecvUnseen(c, op, send, dst, sendTag, into, src, recvTag) })
	}
	q, err := isendrecvUnseen(c, op, send, dst, sendTag, into, src, recvTag)
	return q, handledOf(c, err)
}

// isendrecvUnseen is isendrecv without a look at the interceptor, and without the communicator's handler.
func isendrecvUnseen(c *Comm, op string, send span, dst, sendTag int, into span, src, recvTag int) (Request, error) {
	if err := checkSend(c, op, dst, sendTag); err != nil {
		return Request{}, err
	}
	in, err := startRecv(c, op, into, src, recvTag)
	if err != nil {
		return Request{}, err
	}
	var out *request
	if dst != ProcNull {
		if out, err = c.g.startSend(op, send, dst, sendTag); err != nil {
			_, err = takeBack(in, c.g.reportDeath(err))
			return failedRequest(err), err
		}
	}
	switch {
	case out == nil && in == nil:
		return procNullHandle, nil
	case out == nil:
		return in.handle(c.ctx), nil
	}
	both := startReceiving(c.g, op, func() (Status, error) {
		if _, err := out.finish(nil); err != nil { //nolint:staticcheck // no context: the end of c's does not end the request
			return takeBack(in, err)
		}
		if in == nil {
			return procNullStatus, nil
		}
		return in.finish(nil) //nolint:staticcheck // likewise
	})
	return both.handle(c.ctx), nil
}
