package mpi

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll/agree"
)

// # Agreements in messages
//
// The ranks of any communicator can agree by messages, whoever dies meanwhile: each rank drives a machine of package agree. The messages are those of a
// communicator with the same ranks (group.agreeing), which stays when the other one is revoked.
//
//   - There are five lines of agreements, each with a machine of its own: those of Agree, of Iagree, of Shrink, of uniform collectives, and of TryBlocks. The
//     ranks make the calls of a line in the same order; calls of different lines do not concern each other. A Shrink keeps its line until it is over, whatever number of votes it takes.
//   - A machine steps in all calls that make progress, as the messages that wake it end (process.finished).
//   - A rank that has its decision may be asked for it by others. So a rank that has freed the communicator without having met the others answers until
//     Finalize. It tells them how many agreements it has begun: in a later one it counts as dead.
//   - A rank that has finalized counts as dead, after all that it has sent.

// The lines of agreements. The tag of a message is its line.
const (
	lineAgree = iota
	lineIagree
	lineShrink
	lineUniform // uniform collectives
	lineBlock   // TryBlocks
	agreeLines
)

// agreement is this rank's part in the agreements of a communicator. The engine's lock guards it.
type agreement struct {
	g       *group // of the messages
	of      *group // whose ranks agree
	lines   [agreeLines]agreeLine
	gone    []bool               // by rank: the machines take it for dead; nil: there are no machines
	left    [][agreeLines]uint64 // by rank that has left: how many agreements of each line it has begun, plus 1; 0: it has not left
	since   time.Time            // since when a rank has left that has not said how many
	inbox   []byte               // of the message that is received
	message []byte               // room for a message
	actions []agree.Action
}

// agreeLine is a line of agreements.
type agreeLine struct {
	machine *agree.Machine
	calls   []*agreeCall // those that have not returned, in their order. The first one is under way
	begun   uint64       // votes that were cast
}

// agreeCall is a call that has not returned.
type agreeCall struct {
	r    *request
	vote agree.Vote
	// next is called with each decision. It completes r, or returns the call's next vote.
	next     func(d *agree.Decision) (vote agree.Vote, again bool)
	decision agree.Decision // of a call without next, once r is complete without an error
}

// newVote returns a vote. acked is how many deaths in the communicator this rank has acknowledged, proposal a number of which the greatest is chosen.
func newVote(flags uint64, acked int, proposal uint64) (v agree.Vote) {
	v.Flags = flags
	binary.LittleEndian.PutUint64(v.Payload[:], uint64(acked))
	binary.LittleEndian.PutUint64(v.Payload[8:], proposal)
	return v
}

// ackedOf returns the least number of deaths that a rank has acknowledged.
func ackedOf(v *agree.Vote) uint64 { return binary.LittleEndian.Uint64(v.Payload[:]) }

// proposalOf returns the greatest proposal.
func proposalOf(v *agree.Vote) uint64 { return binary.LittleEndian.Uint64(v.Payload[8:]) }

// numberBlock sets the number of the block that a vote is on. The decision has the greatest one as its proposal, and the least.
func numberBlock(v *agree.Vote, number uint64) {
	binary.LittleEndian.PutUint64(v.Payload[8:], number)
	binary.LittleEndian.PutUint64(v.Payload[16:], number)
}

// leastBlockOf returns the least number of a block that a rank has voted on.
func leastBlockOf(v *agree.Vote) uint64 { return binary.LittleEndian.Uint64(v.Payload[16:]) }

// combineVotes combines what votes have beside their flags.
func combineVotes(dst, src *agree.Payload) {
	le := binary.LittleEndian
	le.PutUint64(dst[:], min(le.Uint64(dst[:]), le.Uint64(src[:])))
	le.PutUint64(dst[8:], max(le.Uint64(dst[8:]), le.Uint64(src[8:])))
	le.PutUint64(dst[16:], min(le.Uint64(dst[16:]), le.Uint64(src[16:])))
}

// start begins a call of a line, as soon as those before have returned.
func (a *agreement) start(op string, line int, call *agreeCall) *request {
	e := a.g.e
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	call.r = a.g.newRequest(op, span{})
	if !e.closed.Load() {
		e.progress() // it may learn of what ends the call
	}
	a.startLocked(line, call)
	return call.r
}

// startLocked is start for a caller that has the engine's lock, and has made the call's request.
func (a *agreement) startLocked(line int, call *agreeCall) {
	e, r, op := a.g.e, call.r, call.r.op
	r.general, r.rare, r.agreement = true, true, a
	switch {
	case e.closed.Load() || a.of.freed.Load() || (line == lineUniform || line == lineBlock) && a.of.revoked.Load():
		e.complete(r, a.of.endedError(op))
		return
	case line == lineUniform && areBroken(a.of):
		e.complete(r, a.of.brokenError(op))
		return
	case a.gone == nil:
		if err := a.begin(); err != nil {
			e.complete(r, usage(op, ErrArgument, "%v", err))
			return
		}
	}
	x := &a.lines[line]
	if x.calls = append(x.calls, call); len(x.calls) == 1 {
		a.cast(line, call.vote)
	}
}

// started returns how many calls of a line have begun.
func (x *agreeLine) started() uint64 { return x.begun + uint64(max(len(x.calls)-1, 0)) }

// begin makes the machines, and receives the messages for them.
func (a *agreement) begin() error {
	g := a.g
	for i := range a.lines {
		how := agree.Config{Algorithm: agree.EarlyReturning} // a Shrink always decides
		if asked, given := agreements[a.of.info[infoAgreement]]; given && (i == lineAgree || i == lineIagree) {
			how = asked
		}
		how.N, how.Me, how.Rebalance, how.Combine, how.Unite = g.n, g.me, true, combineVotes, uniteFaults
		m, err := agree.New(how)
		if err != nil {
			return err
		}
		a.lines[i].machine = m
	}
	a.gone, a.inbox = make([]bool, g.n), make([]byte, agree.MostBytes(g.n, g.n*faultBytes))
	for rank, pe := range g.pes {
		if g.e.isDead(pe) {
			a.peerFailed(rank)
		}
	}
	a.listen()
	return nil
}

// cast casts a vote of the call that is under way.
func (a *agreement) cast(line int, vote agree.Vote) {
	a.lines[line].begun++
	a.step(line, &agree.Event{Kind: agree.Enter, Vote: vote})
}

// listen receives the next message. Whoever releases the engine's lock then takes it.
func (a *agreement) listen() {
	g := a.g
	r := g.newRequest("Agree", span{at: unsafe.Pointer(&a.inbox[0]), bytes: len(a.inbox), elem: 1})
	r.recv, r.anySource, r.detached, r.rare, r.agreement = true, true, true, true, a
	env := envelope{Src: AnySource, Tag: AnyTag}
	if k, found, ok := g.q.Take(env); ok {
		g.e.deliverKept(r, found, k)
		return
	}
	r.ref, r.posted = g.q.Post(env, r), true
}

// isOver reports whether this rank takes no part any more.
func (a *agreement) isOver() bool { return a.g.e.closed.Load() || a.g.e.groups[a.g.number] != a.g }

// take takes a message that has come.
func (a *agreement) take(r *request) {
	if a.isOver() {
		return
	}
	if line := r.status.Tag; r.err == nil && line < agreeLines { // otherwise its sender has died, or withdrawn it
		m, err := agree.ReadMsg(a.inbox[:r.status.Bytes])
		if err != nil { // cannot be: all ranks execute the same program
			a.fail(func(op string) error { return usage(op, ErrMismatch, "rank %d: %v", r.status.Source, err) })
		} else {
			a.step(line, &agree.Event{Kind: agree.Recv, From: agree.Node(r.status.Source), Msg: m})
		}
	}
	a.listen()
}

// peerFailed tells the machines that a rank has died, or counts as dead.
func (a *agreement) peerFailed(rank int) {
	if a.gone == nil || a.gone[rank] {
		return
	}
	a.gone[rank] = true
	for line := range a.lines {
		a.step(line, &agree.Event{Kind: agree.PeerFailed, From: agree.Node(rank), Inc: 1})
	}
}

// step steps the machine of a line, and does what it asks for.
func (a *agreement) step(line int, ev *agree.Event) {
	x := &a.lines[line]
	if x.machine == nil || a.g.e.closed.Load() {
		return
	}
	var decision agree.Decision
	a.actions = x.machine.Step(*ev, a.actions[:0])
	for i := range a.actions {
		switch act := &a.actions[i]; act.Kind {
		case agree.Send:
			a.send(line, int(act.To), &act.Msg)
		case agree.Deliver:
			decision = act.Decision
		case agree.Blocked, agree.Refuse: // no early-returning agreement does that, of calls one after the other
		}
	}
	if decision.Outcome != 0 && len(x.calls) > 0 && decision.Seq == x.begun {
		a.deliver(line, &decision)
	}
}

// deliver gives a decision to the call that is under way, and begins the next vote.
func (a *agreement) deliver(line int, d *agree.Decision) {
	x := &a.lines[line]
	call := x.calls[0]
	if call.next != nil {
		if vote, again := call.next(d); again {
			a.cast(line, vote)
			return
		}
	} else {
		call.decision = *d
		a.g.e.complete(call.r, nil)
	}
	if len(x.calls) == 0 { // next has ended the communicator
		return
	}
	x.calls[0], x.calls = nil, x.calls[1:]
	if len(x.calls) > 0 {
		a.cast(line, x.calls[0].vote)
	}
}

// send sends a message of a machine.
func (a *agreement) send(line, to int, m *agree.Msg) {
	a.message = agree.AppendMsg(a.message[:0], m)
	r, err := a.g.putSend("Agree", span{at: unsafe.Pointer(&a.message[0]), bytes: len(a.message), elem: 1}, to, line)
	switch {
	case err != nil || r == nil: // a rank that is dead needs no message
	case r.isDone():
		r.recycle()
	default:
		r.rare, r.detached = true, true
		a.message = nil // it belongs to the send
	}
}

// fail ends all calls.
func (a *agreement) fail(cause func(op string) error) {
	for line := range a.lines {
		a.failLine(line, cause)
	}
}

// failLine ends the calls of a line. A machine whose call was ended so is not used any more.
func (a *agreement) failLine(line int, cause func(op string) error) {
	calls := a.lines[line].calls
	a.lines[line].calls = nil
	for _, call := range calls {
		if !call.r.isDone() {
			a.g.e.complete(call.r, cause(call.r.op))
		}
	}
}

// close ends this rank's part in all agreements.
func (a *agreement) close() {
	a.g.e.endRequests(a.g, a.of.endedError)
	a.g.e.removeGroup(a.g)
}

// leave ends this rank's part in agreements that have not begun here, as it has freed the communicator. It goes on answering others.
func (a *agreement) leave() {
	var begun [agreeLines]uint64
	for i := range a.lines {
		begun[i] = a.lines[i].begun
	}
	for rank := range a.g.pes {
		a.g.tellOne(rank, noticeAgreed, parcel{to: begun[lineAgree], offset: begun[lineIagree], from: begun[lineShrink], size: begun[lineUniform], addr: begun[lineBlock]})
	}
	if a.gone == nil {
		a.close()
	}
}

// noteAgreed notes that a rank has left the communicator of agreements, and how many it had begun.
func noteAgreed(e *engine, comm uint32, rank int, p *parcel) {
	g := e.groups[comm]
	if g == nil || g.agreement == nil || rank >= g.n {
		return
	}
	if g.agreement.left == nil {
		g.agreement.left = make([][agreeLines]uint64, g.n)
	}
	g.agreement.left[rank] = [agreeLines]uint64{p.to + 1, p.offset + 1, p.from + 1, p.size + 1, p.addr + 1}
	wakeSleepers(g)
}

// look takes ranks for dead that will not vote: they have finalized, or have left the communicator before they have begun an agreement that is under way
// here. All that they have sent is processed first.
func (a *agreement) look() {
	if a.gone == nil || a.isOver() || len(a.lost()) == 0 {
		return
	}
	e := a.g.e
	e.receiveAll()
	if _, kept := a.g.q.Waiting(); len(e.finished) > 0 || kept > 0 {
		return // whoever releases the lock goes on with them; the next look finds the rest
	}
	for _, rank := range a.lost() {
		a.peerFailed(rank)
	}
}

// lost returns the ranks that will not vote any more, and are not known to have died.
func (a *agreement) lost() (ranks []int) {
	unsure := false
	for rank, pe := range a.g.pes {
		if pe == a.g.e.me || a.gone[rank] {
			continue
		}
		switch {
		case hasFinalized(a.g.e, pe):
			ranks = append(ranks, rank)
		case a.left != nil && a.left[rank][0] != 0:
			for i := range a.lines {
				if x := &a.lines[i]; len(x.calls) > 0 && a.left[rank][i] <= x.begun {
					ranks = append(ranks, rank)
					break
				}
			}
		case a.of.hasLeft(rank): // it says how many at once
			unsure = true
			if !a.since.IsZero() && time.Since(a.since) > deathGrace {
				ranks = append(ranks, rank)
			}
		}
	}
	if unsure && a.since.IsZero() {
		a.since = time.Now()
	}
	return ranks
}

// resultOf returns what a decision means at this rank: the flags, and the error of ranks that are dead and that not all have acknowledged. The caller has the
// engine's lock.
func (a *agreement) resultOf(op string, d *agree.Decision) (uint64, error) {
	if d.Outcome == agree.Undecided {
		return 0, undecidedError(op)
	}
	var dead []int
	for _, rank := range d.Failed {
		dead = append(dead, int(rank))
	}
	if len(dead) == 0 || ackedOf(&d.Vote) == uint64(len(dead)) {
		return d.Flags, nil
	}
	return d.Flags, goneError(a.of, op, dead)
}

// undecidedError returns the error of an agreement that ends without a result.
func undecidedError(op string) error {
	return fmt.Errorf("mpi.%s: %w: the first rank has died; hint: all ranks may call it again", op, ErrUndecided)
}

// goneError returns the error of an agreement that ranks which have died, or have left, are not in. The caller has the engine's lock.
func goneError(g *group, op string, ranks []int) error {
	left := slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return g.e.isDead(g.pe(rank)) || !hasLeftAgreement(g, rank) })
	if len(left) > 0 {
		return g.leftError(op, left...)
	}
	return g.deadError(op, ranks...)
}

// hasLeftAgreement reports whether a rank has left a communicator, or its agreements. The caller has the engine's lock.
func hasLeftAgreement(g *group, rank int) bool {
	a := g.agreeing.agreement
	return g.hasLeft(rank) || a.left != nil && a.left[rank][0] != 0
}
