package mpi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Transactions
//
// A TryBlock (package mpi/ft) ends with a request of its own, that of Finish. It goes on in all calls that make progress:
//
//   - The block claims the requests that Finish gets. When one of them is complete, whoever releases the engine's lock next counts it
//     (advanceSchedules). So nobody polls them.
//   - When all are, the rank has its faults. In a local block that is all. Otherwise it votes, on a line of agreements of its own (lineBlock). The votes
//     carry the lists of faults; deaths come with the votes in any case. Blocks vote in the order of their Finish, which is the same at all ranks.
//   - At the end of its time, a block cancels the requests that are not complete. That is a fault.
//   - A death cancels receives from any source, as their wait would end, too.
//   - A revocation ends the votes: the ranks may be in other calls by then. The block is rejected by each rank that has not accepted it.
//
// A block with a collective votes only if something has failed at this rank, since a collective that has succeeded says that all ranks were there. A rank
// that is to vote tells the others (noticeBlock), and so does each that learns of it first, whoever dies meanwhile. One that is at the end of a block gives up
// what is not complete, and votes there. One that is not has accepted the block, or is in the midst of it. It breaks off collectives, and votes at once, so
// that nobody waits for it (answer): all reject what they have voted on, and its next block takes that result (verdict).
//
// The votes of a communicator meet in their order, whichever blocks they are of. Each fault says in which block it was.

// block is a TryBlock. The engine's lock guards it once Finish was called.
type block struct {
	g      *group
	mode   uint8
	number uint64
	r      *request // of Finish; nil: it was not called
	handle Request  // of r

	requests []Request
	states   []blockState
	waiting  int // requests that are not complete
	timer    *time.Timer
	complete bool // all requests are complete
	voting   bool
	outcome  *bridge.Outcome // nil: the block goes on
}

// blockState is the state of a request in a block.
type blockState struct {
	claimed bool // by the block
	err     error
	codes   uint64
}

// blocks are the blocks of a communicator. The engine's lock guards them.
type blocks struct {
	begun   uint64   // that are not local
	open    int      // of these, that have not ended
	ending  []*block // whose Finish was called, in that order
	noticed uint64   // the latest vote that another rank casts because a block with a collective has failed
	answers bool     // this rank has voted without a block, and has no result
	heir    *block   // that takes the result; nil: there is none
	verdict *verdict // a result that the next block takes; nil: there is none
}

// verdict is what the ranks have agreed upon about a block.
type verdict struct {
	faults []bridge.Fault
	d      agree.Decision
}

// Causes of the errors of requests that a block gives up.
var (
	// ErrTimeout reports a request that was not complete when the time of its block was over (package mpi/ft).
	ErrTimeout = errors.New("was not complete in time")

	errElsewhere = errors.New("the block has failed at another rank")
)

func init() {
	bridge.StartBlock = startBlock
	bridge.FaultyComms = faultyComms
}

// startBlock is ft.Try.
func startBlock(comm any, mode uint8) (bridge.Block, error) {
	const op = "ft.Try"
	c, _ := comm.(*Comm) // usable reports nil and other types
	if err := usableIfRevoked(c, op); err != nil {
		return nil, err
	}
	b := &block{g: c.g, mode: mode}
	b.handle.ctx = c.ctx
	if mode != bridge.BlockLocal {
		e := c.g.e
		e.mu.Lock()
		if c.g.blocks.open > 0 { // the votes of the other block need all ranks
			b.mode = bridge.BlockGlobal
		}
		c.g.blocks.begun++
		c.g.blocks.open++
		b.number = c.g.blocks.begun
		e.mu.Unlock()
	}
	return b, nil
}

// Number is bridge.Block.Number.
func (b *block) Number() uint64 { return b.number }

// Outcome is bridge.Block.Outcome.
func (b *block) Outcome() *bridge.Outcome {
	b.g.e.mu.Lock()
	defer b.g.e.mu.Unlock()
	return b.outcome
}

// Finish is bridge.Block.Finish.
func (b *block) Finish(requests any, timeout time.Duration) any {
	all, _ := requests.([]Request)
	e := b.g.e
	e.job.Waiter.Beat()
	if b.r != nil {
		return b.handle
	}
	if err := b.claim(all); err != nil {
		return failedRequest(err)
	}
	e.mu.Lock()
	defer e.unlock()
	b.r = b.g.newRequest(opFinish, span{})
	b.r.general, b.r.rare, b.r.block, b.r.after = true, true, b, func(*request) { b.conclude() }
	b.handle = b.r.handle(b.handle.ctx)
	if e.closed.Load() {
		b.release()
		b.end(b.g.endedError(opFinish))
		return b.handle
	}
	e.progress() // before the looks: it may learn of what ends the requests
	if b.g.unackedDeath.Load() {
		e.receiveAll() // a message that is there comes before a death
	}
	b.g.blocks.ending = append(b.g.blocks.ending, b)
	b.waiting = 1 // this call
	for i := range b.requests {
		switch r, s := b.requests[i].r, &b.states[i]; {
		case !s.claimed:
		case r.isDone():
			b.note(i)
		default:
			r.rare, r.inBlock, r.step = true, b, int32(i)
			b.waiting++
		}
	}
	switch x := &b.g.blocks; {
	case b.mode == bridge.BlockLocal:
	case b.g.revoked.Load():
		b.giveUp(ErrRevoked, bridge.Broken)
	case isNoticed(b.g) || x.answers || x.verdict != nil:
		b.giveUp(errElsewhere, bridge.Elsewhere)
	}
	b.lookForDeaths()
	if b.waiting > 1 && timeout > 0 {
		b.timer = time.AfterFunc(timeout, b.expire)
	}
	b.count()
	return b.handle
}

// opFinish is the name of the call whose request a block has.
const opFinish = "ft.Block.Finish"

// claim claims the requests that go on, and notes the errors of the others.
func (b *block) claim(all []Request) error {
	states := make([]blockState, len(all))
	requests := slices.Clone(all)
	for i := range requests {
		over, _, err := requests[i].claim(opFinish)
		if err == nil && !over && isDebug && requests[i].r.stop == nil && !isSubset(requests[i].r.g, b.g) {
			requests[i].unclaim()
			err = usage(opFinish, ErrArgument, "its communicator has ranks that the block's has not, want a subset")
			over = false
		}
		if err != nil && !over {
			for k := range i {
				if states[k].claimed {
					requests[k].unclaim()
				}
			}
			return fmt.Errorf("request %d: %w", i, err)
		}
		states[i] = blockState{claimed: !over, err: err, codes: codesOf(err)}
	}
	b.requests, b.states = requests, states
	return nil
}

// isSubset reports whether all ranks of a communicator are ranks of another one.
func isSubset(g, of *group) bool {
	return g == of || !slices.ContainsFunc(g.pes, func(pe layout.PE) bool { return of.rank(pe) < 0 })
}

// note notes the outcome of a claimed request that is done.
func (b *block) note(i int) {
	r, s := b.requests[i].r, &b.states[i]
	s.err = r.err
	if s.err == nil && r.raised != nil {
		s.err = r.raised
	}
	s.codes = codesOf(s.err)
	if s.err != nil && r.schedule != nil && s.codes&(1<<bridge.TimedOut|1<<bridge.Elsewhere) != 0 {
		s.codes |= 1 << bridge.Broken // no collective may follow one that was given up
	}
}

// noteDone notes that a request is complete.
func (b *block) noteDone(r *request) {
	r.inBlock = nil
	b.note(int(r.step))
	b.count()
}

// count counts a request that is complete. After the last one, the rank has its faults.
func (b *block) count() {
	if b.waiting--; b.waiting > 0 || b.complete || b.outcome != nil {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.complete = true
	if b.mode == bridge.BlockLocal {
		b.decide(b.faults(), nil)
		return
	}
	voteInOrder(b.g)
}

// codes returns the set of the codes of all requests.
func (b *block) codes() (set uint64) {
	for i := range b.states {
		set |= b.states[i].codes
	}
	return set
}

// faults returns the list of this rank's faults. What was given up because of another rank is none.
func (b *block) faults() []bridge.Fault {
	codes := b.codes() &^ (1 << bridge.Elsewhere)
	if codes == 0 {
		return nil
	}
	return []bridge.Fault{{Rank: b.g.me, Codes: codes, Block: b.number}}
}

// decide ends the block with the faults of the ranks. d is what they have agreed upon, or nil.
func (b *block) decide(faults []bridge.Fault, d *agree.Decision) {
	o := &bridge.Outcome{Decision: bridge.Accept, Faults: faults}
	if d != nil && len(d.Failed) > 0 && ackedOf(&d.Vote) != uint64(len(d.Failed)) {
		for _, rank := range d.Failed {
			f := bridge.Fault{Rank: int(rank), Codes: 1 << bridge.SoftFault, Block: leastBlockOf(&d.Vote)}
			if !b.g.e.isDead(b.g.pe(f.Rank)) && hasLeftAgreement(b.g, f.Rank) {
				f.Codes = 1 << bridge.RankLeft
			}
			o.Faults = append(o.Faults, f)
		}
		o.Decision = bridge.Reject
	}
	slices.SortStableFunc(o.Faults, func(a, b bridge.Fault) int { return a.Rank - b.Rank })
	var all uint64
	for i := range o.Faults {
		all |= o.Faults[i].Codes
	}
	switch {
	case o.Decision == bridge.Reject:
	case all == 0 && (d == nil || d.Flags == allSucceeded):
	case all&(1<<bridge.Broken|1<<bridge.RankLeft|1<<bridge.PeerFailed) != 0:
		o.Decision = bridge.Reject
	default:
		o.Decision = bridge.Partial
	}
	var err error
	if o.Decision != bridge.Accept {
		err = &bridge.FaultError{Outcome: o}
	}
	b.close(o)
	b.g.e.complete(b.r, err)
}

// end ends the block without an agreement. If the communicator is revoked, it is rejected.
func (b *block) end(cause error) {
	o := &bridge.Outcome{Decision: bridge.Undecided}
	if errors.Is(cause, ErrRevoked) {
		o.Decision, o.Faults = bridge.Reject, []bridge.Fault{{Rank: b.g.me, Codes: b.codes() | 1<<bridge.Broken, Block: b.number}}
		cause = &bridge.FaultError{Outcome: o, Cause: []error{cause}}
	}
	b.close(o)
	b.g.e.complete(b.r, cause)
}

// close sets the outcome, and what became of the requests.
func (b *block) close(o *bridge.Outcome) {
	for i := range b.states {
		o.Requests, o.Errors = append(o.Requests, b.states[i].codes), append(o.Errors, b.states[i].err)
	}
	b.outcome = o
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.mode != bridge.BlockLocal {
		b.g.blocks.open--
	}
	all := &b.g.blocks.ending
	*all = slices.DeleteFunc(*all, func(other *block) bool { return other == b })
	voteInOrder(b.g)
}

// conclude ends the claims. The waiter of Finish calls it once the block has ended, without the lock.
func (b *block) conclude() {
	var cause []error
	statuses := make([]Status, len(b.requests))
	for i := range b.requests {
		if q, s := b.requests[i], &b.states[i]; s.claimed {
			s.claimed = false
			statuses[i], _ = q.concludeBy(unhandled)
		} else {
			statuses[i] = emptyStatus
		}
		if err := b.states[i].err; err != nil {
			cause = append(cause, err)
		}
	}
	b.outcome.Statuses = statuses
	fault, ok := errors.AsType[*bridge.FaultError](b.r.err)
	if !ok {
		return
	}
	fault.Cause = append(fault.Cause, cause...)
	var dead []int
	for i := range fault.Outcome.Faults {
		if f := &fault.Outcome.Faults[i]; f.Codes == 1<<bridge.SoftFault {
			dead = append(dead, f.Rank)
		}
	}
	awaitNews(b.g, dead)
	for i := range fault.Outcome.Faults {
		if f := &fault.Outcome.Faults[i]; f.Codes&(1<<bridge.SoftFault) != 0 && isLostWithNode(b.g, f.Rank) {
			f.Codes = f.Codes&^(1<<bridge.SoftFault) | 1<<bridge.NodeLost
		}
	}
	if len(dead) > 0 {
		fault.Cause = append(fault.Cause, b.g.deadError(opFinish, dead...))
	}
}

// isLostWithNode reports whether a rank was lost with its node.
func isLostWithNode(g *group, rank int) bool {
	f, known := g.e.failureOf(g.pe(rank))
	return known && f.Cause.Kind() == failure.NodeLost
}

// unhandled returns the error of a request in a block, which calls no handler: the request of the block does.
func unhandled(_ *group, err error) error { return err }

// release ends the claims of a block that cannot begin to end.
func (b *block) release() {
	for i := range b.requests {
		if b.states[i].claimed {
			b.states[i].claimed = false
			b.requests[i].unclaim()
		}
	}
}

// expire ends the requests that are not complete when the block's time is over.
func (b *block) expire() {
	e := b.g.e
	e.mu.Lock()
	defer e.unlock()
	if b.outcome == nil && !b.voting {
		b.giveUp(ErrTimeout, bridge.TimedOut)
	}
}

// giveUp cancels the requests that are not complete. Those that only their own goroutine can end go on without the block.
func (b *block) giveUp(cause error, code int) {
	e := b.g.e
	for i := range b.requests {
		r, s := b.requests[i].r, &b.states[i]
		if !s.claimed || r.isDone() || s.err != nil {
			continue
		}
		err := fmt.Errorf("mpi.%s: %w", r.op, cause)
		s.err, s.codes = err, 1<<code
		switch {
		case r.schedule != nil:
			s := r.schedule
			e.failSchedule(s, err)
			e.goOn(s)
			s.giveUp()
		case r.general:
			if r.stop != nil {
				r.stop(err)
			}
			r.inBlock, s.claimed = nil, false
			b.requests[i].unclaim()
			b.count()
		case e.cancel(r, err):
			e.complete(r, err)
		}
	}
}

// lookForDeaths cancels receives from any source that a death ends.
func (b *block) lookForDeaths() {
	for i := range b.requests {
		r, s := b.requests[i].r, &b.states[i]
		if !s.claimed || r.isDone() || s.err != nil || !r.anySource || !r.posted || !r.g.unackedDeath.Load() {
			continue
		}
		if dead := failedUnacked(r.g); dead != nil {
			if err := r.g.deadError(r.op, dead...); r.g.e.cancel(r, err) {
				r.g.e.complete(r, err)
			}
		}
	}
}

// look looks for peers that have left. The caller has the engine's lock.
func (b *block) look() {
	if b.voting {
		b.g.agreeing.agreement.look()
		return
	}
	for i := range b.requests {
		if r := b.requests[i].r; b.states[i].claimed && !r.isDone() {
			endIfLeft(b.g.e, r)
		}
	}
}

// describeAwaited says in words what the block waits for.
func (b *block) describeAwaited() string {
	if b.voting {
		return "the votes of the other ranks on a block"
	}
	return fmt.Sprintf("%d of the %d requests of a block", b.waiting, len(b.requests))
}

// lookInBlocks looks for what a death has ended in blocks.
func lookInBlocks(e *engine) {
	for _, g := range e.groups {
		for _, b := range g.blocks.ending {
			b.lookForDeaths()
		}
	}
}

// faultyComms is bridge.FaultyComms.
func faultyComms(comm any, ranks []int) any {
	of := comm.(*Comm).g //nolint:errcheck,forcetypeassert // the caller has it from this package
	var found []*Comm
	of.e.mu.Lock()
	defer of.e.mu.Unlock()
	for _, g := range slices.Concat(slices.Collect(maps.Values(of.e.groups)), of.e.ended) {
		if g.hidden == nil || g.freed.Load() || g.outer != nil || g.remote {
			continue
		}
		if slices.ContainsFunc(ranks, func(rank int) bool { return g.rank(of.pe(rank)) >= 0 }) {
			found = append(found, &Comm{g: g})
		}
	}
	slices.SortFunc(found, func(a, b *Comm) int { return int(a.g.number) - int(b.g.number) })
	return slices.CompactFunc(found, func(a, b *Comm) bool { return a.g == b.g })
}
