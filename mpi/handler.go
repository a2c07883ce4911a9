package mpi

import (
	"cmp"
	"errors"
	"maps"

	"github.com/goshmem/goshmem/coll/agree"
)

// ErrorHandler is called with each error of communication on a communicator. The call returns what it returns: the error itself, or
// another one. If it returns nil, the call returns the error all the same.
type ErrorHandler func(c *Comm, err error) error

// Panic is an ErrorHandler that panics with the error.
//
//   - Source: MPI_ERRORS_ARE_FATAL, for one process.
func Panic(_ *Comm, err error) error { panic(err) }

// AbortJob is an ErrorHandler that ends the job with status 1.
//
//   - Source: MPI_ERRORS_ABORT.
func AbortJob(c *Comm, _ error) error {
	(&World{e: c.g.e}).Abort(1)
	return nil
}

// OnError sets the function that is called with each error of communication on this communicator: of ranks that have died or left, of
// revocation, broken collectives, messages that are too long, and ranks that call different things. Communicators that are made of this one
// have it, too. With nil calls return their errors and call nothing, as at first.
//
//   - It is called on the goroutine of the call that fails, which holds no lock: it may call anything, as Revoke. Errors of a call within it are
//     given to it as well.
//   - It is not called for a *UsageError of this process alone, nor when a context ends.
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_create_errhandler, MPI_Comm_set_errhandler.
func (c *Comm) OnError(f ErrorHandler) error {
	if err := usableIfRevoked(c, "Comm.OnError"); err != nil {
		return err
	}
	setHandler(c.g, f)
	return nil
}

// setHandler sets the handler of a communicator.
func setHandler(g *group, f ErrorHandler) {
	if f == nil {
		g.handler.Store(nil)
		return
	}
	g.handler.Store(&f)
}

// handled gives an error to the communicator's handler, and returns what the call is to return.
func handled(g *group, err error) error {
	if err == nil {
		return nil
	}
	if g.agreement != nil { // its requests are those of agreements
		g = g.agreement.of
	}
	if g.outer != nil {
		g = g.outer
	}
	f, revokes := g.handler.Load(), g.revokes.Load()
	if f == nil && !revokes || !isOfCommunication(err) {
		return err
	}
	if revokes && (errors.Is(err, ErrDied) || errors.Is(err, ErrRankFinalized)) {
		revokeOnError(g)
	}
	if f == nil {
		return err
	}
	if other := (*f)(&Comm{g: g}, err); other != nil {
		return other
	}
	return err
}

// handledOf is handled for a communicator that may be none.
func handledOf(c *Comm, err error) error {
	if c == nil || c.g == nil {
		return err
	}
	return handled(c.g, err)
}

// isOfCommunication reports whether an error is one that OnError is for.
func isOfCommunication(err error) bool {
	for _, cause := range [...]error{ErrDied, ErrRankFinalized, ErrRevoked, ErrCommBroken, ErrTruncated, ErrCanceled, ErrMismatch} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// revokeOnError revokes a communicator whose errors are for all of its ranks.
func revokeOnError(g *group) {
	g.e.mu.Lock()
	defer g.e.unlock()
	if !g.e.closed.Load() {
		g.revoke()
	}
}

// Info has hints for a communicator, by name. Unknown ones are kept, and do nothing.
//
//	mpi_error_range      "local", the default: an error of a rank that has died is that of the calls which need it.
//	                     "group": the first such error revokes the communicator, so that all calls of all its ranks end
//	goshmem_collectives  "strict", the default: a collective in which a rank dies may succeed at some ranks.
//	                     "uniform": after each collective that waits the ranks agree, so that it succeeds at all ranks that live, or at none
//	goshmem_agreement    how Agree and Iagree agree. "auto", the default: Agree in shared memory where the ranks have some; otherwise "early".
//	                     "early": early-returning. "durable": early-returning, but no rank returns before all that live hold the result.
//	                     "log", "linear": two-phase commit along a tree, or with all ranks below the first; ErrUndecided if the first one dies
//
// The last two are the same at all ranks of the communicator, and goshmem_agreement does not change once it has agreed in messages.
type Info map[string]string

const (
	infoErrorRange = "mpi_error_range"
	rangeLocal     = "local"
	rangeGroup     = "group"

	infoCollectives    = "goshmem_collectives"
	collectivesStrict  = "strict"
	collectivesUniform = "uniform"

	infoAgreement = "goshmem_agreement"
	agreementAuto = "auto"
)

// agreements are the ways to agree in messages, by the value of the hint.
var agreements = map[string]agree.Config{
	"early":   {Algorithm: agree.EarlyReturning},
	"durable": {Algorithm: agree.EarlyReturning, Durable: true},
	"log":     {Algorithm: agree.Log, Promote: true},
	"linear":  {Algorithm: agree.Linear, Promote: true},
}

// SetInfo gives the communicator hints, in addition to those that it has. Communicators that are made of it have them, too.
//
//   - Errors: ErrArgument for a value that a known hint cannot have; *UsageError for the communicator.
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_set_info.
func (c *Comm) SetInfo(hints Info) error {
	const op = "Comm.SetInfo"
	if err := usableIfRevoked(c, op); err != nil {
		return err
	}
	if v, given := hints[infoErrorRange]; given && v != rangeLocal && v != rangeGroup {
		return usage(op, ErrArgument, "%s is %q, want %q or %q", infoErrorRange, v, rangeLocal, rangeGroup)
	}
	if v, given := hints[infoCollectives]; given && v != collectivesStrict && v != collectivesUniform {
		return usage(op, ErrArgument, "%s is %q, want %q or %q", infoCollectives, v, collectivesStrict, collectivesUniform)
	}
	how, changes := hints[infoAgreement]
	if _, known := agreements[how]; changes && !known && how != agreementAuto {
		return usage(op, ErrArgument, "%s is %q, want %q, %q, %q, %q or %q", infoAgreement, how, agreementAuto, "early", "durable", "log", "linear")
	}
	e := c.g.e
	e.mu.Lock()
	defer e.unlock()
	if now := cmp.Or(c.g.info[infoAgreement], agreementAuto); changes && c.g.agreeing.agreement.gone != nil && how != now {
		return usage(op, ErrArgument, "%s is %q now, and an agreement has begun: want the same, or another communicator", infoAgreement, now)
	}
	next := Info{}
	maps.Copy(next, c.g.info)
	maps.Copy(next, hints)
	c.g.info = next
	c.g.revokes.Store(next[infoErrorRange] == rangeGroup)
	c.g.uniform.Store(next[infoCollectives] == collectivesUniform)
	c.g.agreesInMessages.Store(agreements[next[infoAgreement]].Algorithm != 0)
	return nil
}

// Info returns the hints of the communicator.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_get_info.
func (c *Comm) Info() Info {
	if c == nil || c.g == nil {
		return nil
	}
	c.g.e.mu.Lock()
	defer c.g.e.unlock()
	return maps.Clone(c.g.info)
}

// inherit gives a communicator that was made of another one what that has: the handler of errors and the hints.
func inherit(of, from *group) {
	of.handler.Store(from.handler.Load())
	of.revokes.Store(from.revokes.Load())
	of.uniform.Store(from.uniform.Load())
	of.agreesInMessages.Store(from.agreesInMessages.Load())
	of.info = from.info // never changed, but replaced
}
