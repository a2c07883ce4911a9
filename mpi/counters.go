package mpi

import "sync/atomic"

// Counters say what package mpi has done in this process, and what it keeps.
type Counters struct {
	CellsSent     uint64 // cells that were written for processes of this node: short messages, and what is said about long ones
	CellsReceived uint64 // cells that were read, from all nodes
	KeptBytes     int    // of short messages that have come and wait for their receives
	Held          int    // senders that were told to announce their messages, as much of theirs is kept
	Communicators int    // live ones
	Collectives   int    // under way, of those that go in messages
}

// Counters returns the counters of this process.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_T_pvar_read.
func (w *World) Counters() (n Counters) {
	if w == nil || w.e == nil {
		return n
	}
	e := w.e
	e.mu.Lock()
	defer e.unlock()
	if e.closed.Load() { // the lanes are those of another World
		return n
	}
	for _, l := range e.out {
		if l != nil {
			n.CellsSent += l.cells
		}
	}
	for _, l := range *e.active.Load() {
		n.CellsReceived += l.cells
	}
	n.KeptBytes = e.hoarded
	for i := range e.hoards {
		if e.hoards[i].held {
			n.Held++
		}
	}
	for _, g := range e.groups {
		if g.hidden != nil {
			n.Communicators++
			n.Collectives += len(g.collectives.schedules)
		}
	}
	return n
}

// Call is a call that an Interceptor sees.
type Call struct {
	Op    string // the function: "Send"
	Comm  *Comm
	Peer  int // destination, source or root; AnySource if there is none. Of Sendrecv the destination
	Tag   int // AnyTag if there is none
	Bytes int // of this rank's buffer; 0 in collectives whose parts may differ
}

// Interceptor is called before a call. What it returns is called after it, with its error; nil: nothing is.
type Interceptor func(Call) (end func(error))

// interceptor is what Intercept has set; nil: nothing.
var interceptor atomic.Pointer[Interceptor]

// Intercept has f called for each Send, Recv and Sendrecv, and for each collective of this process, from now on, whether they wait or not. nil ends it. For a call
// that does not wait, end is called when it returns, not when its request is complete. Of a persistent operation it sees each Start, with the arguments of
// its Init and the name "Start of SendInit" or the like.
//
//   - Cost: a load for each call while there is no interceptor.
//   - Concurrent calls: allowed. f may be called by several goroutines at a time.
//   - Source: MPI's profiling interface, PMPI.
func Intercept(f Interceptor) {
	if f == nil {
		interceptor.Store(nil)
		return
	}
	interceptor.Store(&f)
}

// interceptStart is intercept for a call that returns a request, without the communicator's handler.
func interceptStart(call Call, do func() (Request, error)) (q Request, err error) {
	err = intercept(call, func() error {
		q, err = do()
		return handledOf(call.Comm, err)
	})
	return q, err
}

// isIntercepted reports whether there is an interceptor.
func isIntercepted() bool { return interceptor.Load() != nil }

// intercept makes a call between the two calls of the interceptor.
func intercept(call Call, do func() error) error {
	f := interceptor.Load()
	if f == nil {
		return do()
	}
	end := (*f)(call)
	err := do()
	if end != nil {
		end(err)
	}
	return err
}
