package mpi

import (
	"context"
	"errors"
	"fmt"
)

// Go calls do in a goroutine of its own, and returns a request that is complete when do has returned. So computation, input and output, and one-sided
// operations can be waited for with messages, and can be in a transaction (package mpi/ft).
//
//   - The context of do ends at Request.Cancel, with the cause ErrRequestCanceled, and at Finalize, with the cause ErrFinalized. Finalize does not wait
//     for do.
//   - Errors: what do returns is the error of Wait; *UsageError, from Wait, before Init and after Finalize.
//   - Concurrent calls: allowed.
//   - Source: MPI_Grequest_start, MPI_Grequest_complete.
func Go(do func(ctx context.Context) error) Request {
	const op = "Go"
	if do == nil {
		return failedRequest(usage(op, ErrArgument, "the function is nil, want one to call"))
	}
	initMu.Lock()
	w := current
	initMu.Unlock()
	if w == nil {
		return failedRequest(usage(op, ErrFinalized, "mpi is not initialized, call mpi.Init first"))
	}
	e := w.e
	ctx, stop := context.WithCancelCause(context.Background())
	e.mu.Lock()
	defer e.unlock()
	if e.closed.Load() {
		stop(ErrFinalized)
		return failedRequest(usage(op, ErrFinalized, finalizedMeanwhile))
	}
	r := w.comm.g.newRequest(op, span{})
	r.general, r.rare, r.stop = true, true, stop
	if e.generals == nil {
		e.generals = map[*request]struct{}{}
	}
	e.generals[r] = struct{}{}
	go func() {
		err := errGoexit
		defer func() {
			e.mu.Lock()
			defer e.unlock()
			stop(nil)
			if _, goesOn := e.generals[r]; goesOn {
				delete(e.generals, r)
				e.complete(r, err)
			}
		}()
		err = do(ctx)
	}()
	return r.handle(nil) //nolint:staticcheck // no context
}

// errGoexit is the error of a function of Go that has ended its goroutine.
var errGoexit = errors.New("mpi.Go: the function has ended its goroutine, by runtime.Goexit or a panic")

// endGenerals ends the requests of Go. The caller has the engine's lock.
func endGenerals(e *engine) {
	for r := range e.generals {
		r.stop(ErrFinalized)
		e.complete(r, usage(r.op, ErrFinalized, finalizedMeanwhile))
	}
	e.generals = nil
}

// RaiseError makes a request one that has failed with err: the program has found what it has received to be wrong, for example. A request that goes on
// has the error once it is complete; one that is complete has it at once, in this handle. So a transaction (package mpi/ft) takes it for a fault. The
// first error of a request stays.
//
//   - Errors: *UsageError for an err that is nil, and while another goroutine waits for the request.
//   - Concurrent calls: allowed, on different requests.
func (q *Request) RaiseError(err error) error {
	const op = "RaiseError"
	if err == nil {
		return usage(op, ErrArgument, "the error is nil, want one")
	}
	raised := &raisedError{err}
	over, _, before := q.claim(op)
	switch {
	case over && before != nil:
		return nil //nolint:nilerr // the first error stays
	case over:
		ctx := q.ctx
		*q = failedRequest(raised)
		q.ctx = ctx
		return nil
	case before != nil:
		return before
	}
	r := q.r
	r.lock.Lock()
	if r.raised == nil {
		r.rare, r.raised = true, raised
	}
	r.lock.Unlock()
	q.unclaim()
	return nil
}

// takeRaised makes the error that was raised for a request its own. The request is done.
func (r *request) takeRaised() {
	if r.rare && r.raised != nil && r.err == nil {
		r.err = r.raised
	}
}

// raisedError is an error of RaiseError.
type raisedError struct{ err error }

// Error says what was raised.
func (e *raisedError) Error() string {
	return fmt.Sprintf("mpi.Request: an error was raised: %v", e.err)
}

// Unwrap returns what was raised.
func (e *raisedError) Unwrap() error { return e.err }
