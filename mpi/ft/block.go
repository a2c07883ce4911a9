package ft

import (
	"errors"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/mpi"
)

// Mode says whether the ranks agree at the end of a block.
type Mode uint8

// The modes.
const (
	Local          = Mode(bridge.BlockLocal)
	Global         = Mode(bridge.BlockGlobal)
	WithCollective = Mode(bridge.BlockWithCollective)
)

// Decision is what the ranks do about a block.
type Decision uint8

// The decisions. Undecided is that of a block that goes on, or could not end.
const (
	Undecided = Decision(bridge.Undecided)
	Accept    = Decision(bridge.Accept)
	Partial   = Decision(bridge.Partial)
	Reject    = Decision(bridge.Reject)
)

// String returns the decision in a word.
func (d Decision) String() string {
	return [...]string{"undecided", "accept", "partial", "reject"}[d&3]
}

// Fault has the faults of a rank.
type Fault struct {
	Rank  int // of the block's communicator
	Codes Set
	Block uint64 // in which block they were (Block.Number)
}

// FaultError is the error of the request of a block that was not accepted. errors.Is finds the causes at this rank, such as mpi.ErrDied.
type FaultError = bridge.FaultError

// Block is a TryBlock: what is tried until Finish, and what has become of it. It is not for several goroutines at a time.
type Block struct {
	c     *mpi.Comm
	b     bridge.Block // nil: err
	err   error
	added []mpi.Request
}

// Try starts a block on a communicator. All ranks that live call it, unless it is Local; nothing is sent. Requests in the block should be of
// communicators whose ranks are all in this one; others make the agreement incomplete, and in a program that is built with -tags mpidebug Finish
// refuses them.
//
//   - Errors: those of the communicator, from the request of Finish.
//   - Source: MPI_TryBlock_start of FA-MPI.
func Try(c *mpi.Comm, mode Mode) *Block {
	b := &Block{c: c}
	if mode > WithCollective {
		b.err = &mpi.UsageError{Op: "ft.Try", Msg: "unknown mode, want Local, Global or WithCollective", Err: mpi.ErrArgument}
		return b
	}
	b.b, b.err = bridge.StartBlock(c, uint8(mode))
	return b
}

// Add adds a request to the block, as the call that has begun it returns it: b.Add(mpi.Isend(...)). If the call has failed, the block has a request that
// has failed. Add returns err.
func (b *Block) Add(q mpi.Request, err error) error {
	if err != nil {
		q = mpi.Request{}
		_ = q.RaiseError(err)
	}
	b.added = append(b.added, q)
	return err
}

// Raise adds a request that has failed with err: the program has found a fault which is of no request.
func (b *Block) Raise(err error) { _ = b.Add(mpi.Request{}, err) }

// Finish begins to end the block. Its request is complete when the requests of Add, and then these, are complete, have failed, or have not ended in time,
// and the ranks have agreed on that. A timeout of 0 is none.
//
//   - Completion: of Wait on the request. Messages and collectives of the block are over then, and their buffers may be used again. What has not ended in
//     time of mpi.Go, of other blocks, of Iagree, Idup and Ishrink, and of partitioned messages goes on without the block.
//   - Timeout: at its end the block cancels what is not complete. A collective that is canceled breaks its communicator.
//   - The wait may end before the block, by the context of the request's With: then the block goes on, and a further Wait, or Finish, goes on with
//     the same request.
//   - Errors: *FaultError unless the block is accepted; *UsageError, and then the block goes on, for a request that another goroutine waits for.
//   - Cost: Global: one agreement. WithCollective: none if nothing has failed.
//   - Collective: unless Local, over the ranks of the communicator that live. They call Finish in the same order.
//   - Source: MPI_TryBlock_finish of FA-MPI.
func (b *Block) Finish(requests []mpi.Request, timeout time.Duration) mpi.Request {
	if b.err == nil && timeout < 0 {
		return failed(&mpi.UsageError{Op: "ft.Block.Finish", Msg: "timeout " + timeout.String() + ", want 0 or more", Err: mpi.ErrArgument})
	}
	if b.err != nil {
		return failed(b.err)
	}
	return b.b.Finish(slices.Concat(b.added, requests), timeout).(mpi.Request) //nolint:errcheck,forcetypeassert // bridge returns no other type
}

// failed returns a request that has failed.
func failed(err error) (q mpi.Request) {
	_ = q.RaiseError(err)
	return q
}

// Number counts the blocks of the communicator that are not Local, from 1 on. It is the same at all ranks.
func (b *Block) Number() uint64 {
	if b.b == nil {
		return 0
	}
	return b.b.Number()
}

// outcome returns what has become of the block; nothing while it goes on.
func (b *Block) outcome() bridge.Outcome {
	if b.b != nil {
		if o := b.b.Outcome(); o != nil {
			return *o
		}
	}
	return bridge.Outcome{}
}

// Decision returns the decision: Undecided until the request of Finish is complete.
func (b *Block) Decision() Decision { return Decision(b.outcome().Decision) }

// Faults returns the faults of all ranks, in the order of ranks, and the same at all of them; of a Local block, those of this rank.
func (b *Block) Faults() (all []Fault) {
	for _, f := range b.outcome().Faults {
		all = append(all, Fault{f.Rank, Set(f.Codes), f.Block})
	}
	return all
}

// Failed returns the indexes of this rank's requests that have failed with one of the codes, or with any if there are none. Requests of Add come
// before those of Finish.
//
//   - Source: MPI_Get_failed_requests of FA-MPI.
func (b *Block) Failed(codes ...Code) (indexes []int) {
	for i, set := range b.outcome().Requests {
		if Set(set).Has(codes...) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// Err returns the error of a request of this rank, by its index.
func (b *Block) Err(i int) error {
	if all := b.outcome().Errors; i >= 0 && i < len(all) {
		return all[i]
	}
	return nil
}

// Status returns the status of a request of this rank, by its index, once the wait for the block has returned.
func (b *Block) Status(i int) mpi.Status {
	if all, _ := b.outcome().Statuses.([]mpi.Status); i >= 0 && i < len(all) {
		return all[i]
	}
	return mpi.Status{Source: mpi.AnySource, Tag: mpi.AnyTag}
}

// FailedRanks returns the ranks of the block's communicator with one of the codes, or with any if there are none, ascending. It is the same at all ranks.
func (b *Block) FailedRanks(codes ...Code) (ranks []int) {
	for _, f := range b.outcome().Faults {
		if Set(f.Codes).Has(codes...) && !slices.Contains(ranks, f.Rank) {
			ranks = append(ranks, f.Rank)
		}
	}
	return ranks
}

// FailedGroup returns the same as FailedRanks as a group: those that are ranks of c.
//
//   - Source: MPI_Get_failed_group of FA-MPI.
func (b *Block) FailedGroup(c *mpi.Comm, codes ...Code) (mpi.Group, error) {
	if c == nil || b.c == nil {
		return mpi.Group{}, &mpi.UsageError{Op: "ft.Block.FailedGroup", Msg: "the communicator is nil", Err: mpi.ErrArgument}
	}
	failed, err := b.c.Group().Incl(b.FailedRanks(codes...)...)
	if err != nil {
		return mpi.Group{}, err
	}
	return c.Group().Intersection(failed), nil
}

// FailedComms returns the communicators of this process that have a rank of FailedRanks among theirs: also those of libraries, which the caller has no
// handles of.
//
//   - Source: MPI_Get_failed_communicators of FA-MPI.
func (b *Block) FailedComms(codes ...Code) []*mpi.Comm {
	ranks := b.FailedRanks(codes...)
	if len(ranks) == 0 {
		return nil
	}
	return bridge.FaultyComms(b.c, ranks).([]*mpi.Comm) //nolint:errcheck,forcetypeassert // bridge returns no other type
}

// IsFault reports whether an error is that of a block that was not accepted, and returns the decision.
func IsFault(err error) (Decision, bool) {
	f, is := errors.AsType[*FaultError](err)
	if !is {
		return Undecided, false
	}
	return Decision(f.Outcome.Decision), true
}
