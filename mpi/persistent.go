package mpi

import "sync"

// Persistent is an operation that can be started again and again with the same arguments: a send, a receive or a collective. It is a value; copies
// are handles of one operation. Between a Start and its Wait it is active.
type Persistent struct {
	p *persistentOp
}

// persistentOp is what all copies of a Persistent share.
type persistentOp struct {
	seen  Call // what an interceptor sees of a Start
	comm  *Comm
	op    string
	start func() (Request, error)

	mu     sync.Mutex
	latest Request // of the latest Start
}

// SendInit makes a persistent request of Isend.
//
//   - Errors: *UsageError.
//   - Concurrent calls: allowed.
//   - Source: MPI_Send_init.
func SendInit[T any](c *Comm, buf []T, dst, tag int) (Persistent, error) {
	const op = "SendInit"
	if err := checkType[T](op); err != nil {
		return Persistent{}, err
	}
	if err := checkSend(c, op, dst, tag); err != nil {
		return Persistent{}, err
	}
	s := spanOf(buf)
	return newPersistent(Call{op, c, dst, tag, s.bytes}, keepActive(c.g, func() (Request, error) { return isendUnseen(c, "Start", s, dst, tag, false) })), nil
}

// SsendInit makes a persistent request of Issend.
//
//   - Errors: *UsageError.
//   - Concurrent calls: allowed.
//   - Source: MPI_Ssend_init.
func SsendInit[T any](c *Comm, buf []T, dst, tag int) (Persistent, error) {
	const op = "SsendInit"
	if err := checkType[T](op); err != nil {
		return Persistent{}, err
	}
	if err := checkSend(c, op, dst, tag); err != nil {
		return Persistent{}, err
	}
	s := spanOf(buf)
	s.marks |= spanSynced
	return newPersistent(Call{op, c, dst, tag, s.bytes}, keepActive(c.g, func() (Request, error) { return isendUnseen(c, "Start", s, dst, tag, false) })), nil
}

// RecvInit makes a persistent request of Irecv.
//
//   - Errors: *UsageError.
//   - Concurrent calls: allowed.
//   - Source: MPI_Recv_init.
func RecvInit[T any](c *Comm, buf []T, src, tag int) (Persistent, error) {
	const op = "RecvInit"
	if err := checkType[T](op); err != nil {
		return Persistent{}, err
	}
	if err := checkRecv(c, op, src, tag); err != nil {
		return Persistent{}, err
	}
	s := spanOf(buf)
	return newPersistent(Call{op, c, src, tag, s.bytes}, keepActive(c.g, func() (Request, error) { return irecvUnseen(c, "Start", s, src, tag, false) })), nil
}

// keepActive returns what starts a persistent message. If begin's request was complete at once, it returns one that stays active until a call returns it, as
// all copies of the operation share that.
func keepActive(g *group, begin func() (Request, error)) func() (Request, error) {
	return func() (Request, error) {
		q, err := begin()
		if err != nil || !q.endedAtOnce() {
			return q, err
		}
		s := emptyStatus
		if q.r != nil {
			s = q.r.status
		}
		g.e.mu.Lock()
		defer g.e.unlock()
		return g.directRequest(s).handle(nil), nil //nolint:staticcheck // it is complete
	}
}

// newPersistent makes an operation of what its Init was called with.
func newPersistent(init Call, start func() (Request, error)) Persistent {
	seen := init
	seen.Op = "Start of " + init.Op
	return Persistent{&persistentOp{seen: seen, op: init.Op, start: start, comm: init.Comm}}
}

// keep makes a persistent request of a collective that was described.
func (c *Comm) keep(x *call, err error) (Persistent, error) {
	if err != nil {
		return Persistent{}, handledOf(c, err)
	}
	g := c.g
	if x.in != nil {
		g = x.in
	}
	g.e.mu.Lock()
	number := g.collectives.takeNumber()
	g.e.unlock()
	var tmp []uint64
	return newPersistent(x.seen(c), func() (Request, error) {
		g.e.job.Waiter.Beat()
		g.e.mu.Lock()
		defer g.e.unlock()
		s := &schedule{tag: persistentTags | int32(number)<<labelBits, tmp: tmp}
		r, err := g.collectives.execute(x, s)
		tmp = s.tmp
		if err != nil {
			return failedRequest(err), g.reportDeath(err)
		}
		return r.handle(c.ctx), nil
	}), nil
}

// Start starts operations. Each of them is inactive before.
//
//   - Errors: those of the operations, of the first one that fails, and later ones are not started; ErrArgument for an operation that is active, and
//     for the zero Persistent.
//   - Concurrent calls: allowed, for different operations.
//   - Source: MPI_Start and MPI_Startall.
func Start(all ...Persistent) error {
	for i, x := range all {
		if err := x.startSeen(i); err != nil {
			return err
		}
	}
	return nil
}

// startSeen starts an operation, also for the interceptor and the communicator's handler.
func (x Persistent) startSeen(i int) error {
	switch {
	case x.p == nil:
		return x.startOne(i)
	case isIntercepted():
		return intercept(x.p.seen, func() error { return handledOf(x.p.comm, x.startOne(i)) })
	}
	if err := x.startOne(i); err != nil {
		return handledOf(x.p.comm, err)
	}
	return nil
}

func (x Persistent) startOne(i int) error {
	const op = "Start"
	if x.p == nil {
		return usage(op, ErrArgument, "operation %d is the zero Persistent, want one of SendInit, RecvInit, PsendInit, PrecvInit or a collective's Init", i)
	}
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if x.p.latest.active() {
		return usage(op, ErrArgument, "operation %d, of %s, is active, want one whose Wait or Test has returned that it is complete", i, x.p.op)
	}
	r, err := x.p.start()
	x.p.latest = r
	return err
}

// Request returns the request of the latest Start, for WaitAll and the like. Before the first Start it is complete.
func (x Persistent) Request() Request {
	if x.p == nil {
		return Request{}
	}
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	return x.p.latest
}

// Wait waits for the latest Start. It returns at once if the operation is inactive.
//
//   - Errors: as Request.Wait.
//   - Source: MPI_Wait.
func (x Persistent) Wait() (Status, error) { return x.Request().Wait() }

// Test reports whether the latest Start is complete.
//
//   - Errors: as Request.Test.
//   - Source: MPI_Test.
func (x Persistent) Test() (Status, bool, error) { return x.Request().Test() }
