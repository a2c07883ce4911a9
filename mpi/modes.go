package mpi

import (
	"slices"
	"unsafe"
)

// The modes of sends.

// Ssend is Send that returns when the message is being received: a receive has met it.
//
//   - Shape: as Send.
//   - Completion: as Send of a longer message.
//   - Errors: as Send. To itself it returns only when another goroutine receives.
//   - Concurrent calls: allowed.
//   - Source: MPI_Ssend.
func Ssend[T any](c *Comm, buf []T, dst, tag int) error {
	const op = "Ssend"
	if err := checkType[T](op); err != nil {
		return err
	}
	s := spanOf(buf)
	s.marks |= spanSynced
	return sendSpan(c, op, s, dst, tag)
}

// Issend begins to send as Ssend does.
//
//   - Completion: as Ssend.
//   - Errors: as Isend.
//   - Concurrent calls: allowed.
//   - Source: MPI_Issend.
func Issend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	const op = "Issend"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	s := spanOf(buf)
	s.marks |= spanSynced
	return isendSpan(c, op, s, dst, tag)
}

// Rsend is Send: it gains nothing if the receive waits already.
//
//   - Errors: as Send.
//   - Concurrent calls: allowed.
//   - Source: MPI_Rsend.
func Rsend[T any](c *Comm, buf []T, dst, tag int) error {
	const op = "Rsend"
	if err := checkType[T](op); err != nil {
		return err
	}
	return sendSpan(c, op, spanOf(buf), dst, tag)
}

// Bsend sends a copy of buf, and never waits for the receiver. The copy is kept in Go memory until it is sent; no buffer is attached.
//
//   - Completion: buf may be used again. Finalize drops what was not received.
//   - Cost: as Send, and a copy of a message that is not sent at once.
//   - Errors: as Send, as far as they are known when it returns.
//   - Concurrent calls: allowed.
//   - Source: MPI_Bsend.
func Bsend[T any](c *Comm, buf []T, dst, tag int) error {
	const op = "Bsend"
	if err := checkType[T](op); err != nil {
		return err
	}
	if isIntercepted() {
		return intercept(Call{op, c, dst, tag, spanOf(buf).bytes}, func() error { return handledOf(c, bsendSpan(c, op, spanOf(buf), dst, tag)) })
	}
	return handledOf(c, bsendSpan(c, op, spanOf(buf), dst, tag))
}

// bsendSpan is Bsend without the type and the communicator's handler.
func bsendSpan(c *Comm, op string, s span, dst, tag int) error {
	if err := checkSend(c, op, dst, tag); err != nil || dst == ProcNull {
		return err
	}
	if s.bytes > 0 {
		copied := slices.Clone(unsafe.Slice((*byte)(s.at), s.bytes))
		s.at = unsafe.Pointer(&copied[0])
	}
	r, err := c.g.startSend(op, s, dst, tag)
	if r == nil || err != nil {
		return c.g.reportDeath(err)
	}
	e := c.g.e
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() {
		err := r.err
		r.recycle()
		return c.g.reportDeath(err)
	}
	r.rare, r.detached = true, true
	return nil
}

// keepForSelf keeps a synchronous message of this process to itself, for which no receive waits. The caller has the engine's lock.
func keepForSelf(g *group, op string, s span, env envelope) *request {
	r := g.newRequest(op, s)
	r.pe = g.e.me
	m := &message{env: env, size: s.bytes, waits: r}
	if s.bytes > 0 {
		m.data = slices.Clone(unsafe.Slice((*byte)(s.at), s.bytes))
	}
	g.q.Keep(env, g.e.kept.addRecord(m))
	g.e.wakeProbes(&g.q, env)
	return r
}
