package mpi

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// # Partitioned messages
//
// The messages of partitioned operations are those of a communicator with the same ranks (group.partitioned), so they meet no message of the program.
//
//   - PsendInit takes tags from a range that no program has, one for each of its partitions, and tells the receiver by an introduction. That has the tag
//     of the operation. PrecvInit receives it: so operations match in the order of their Init calls, as messages do.
//   - A partition is a message with its own tag. A receiver that has its introduction posts a receive for each of them when it starts a round. Messages
//     with the same tag keep their order, so the partition of a round meets the receive of the same round, however far the sender is ahead.
//   - Nobody waits for these messages. Whoever releases the engine's lock after they have ended goes on with the operation (process.finished,
//     request.after). The program waits for the request of the round.
//   - If the two sides differ in bytes, the receiver fails each of its rounds, and receives the partitions into nothing: the sender goes on.

// partitions are the operations of a communicator. The engine's lock guards them.
type partitions struct {
	all  []*partition
	tags map[int]*partTags // by destination
}

// partTags are the tags of messages to a rank.
type partTags struct {
	next    int  // the first one that the next operation takes
	wrapped bool // all were taken once: operations that live may have some of those from next on
}

// introduction is what a sender tells the receiver. It fits a cell, so it never waits for its receive.
type introduction struct{ firstTag, parts, bytes uint64 }

// Tags of partitions are below all wildcards: partTagLeast + 0 to partTagLeast + partTagsMost - 1.
const (
	partTagLeast = math.MinInt32
	partTagsMost = math.MaxInt32
)

// partition is one side of a partitioned message. The engine's lock guards all but the fields that never change.
type partition struct {
	g     *group // of the program
	sends bool
	peer  int // rank, or ProcNull
	tag   int
	parts int  // of this side
	buf   span // of all partitions; without its address after free

	sent     introduction // by the sender
	met      bool         // sent is valid
	introErr error        // why the introduction has not come

	r        *request   // of the round that is under way, until it is complete
	request  Request    // of the latest round
	round    uint64     // rounds so far
	err      error      // what has ended the latest round
	marked   []bool     // by partition of the sender: it is ready, or has arrived
	messages []*request // by partition of the sender: its message, while that is under way
	open     int        // messages that are under way
	left     int        // messages that have not ended
	polls    uint32     // calls of Arrived in vain
	freed    bool
}

// newPartition makes an operation.
func newPartition(c *Comm, op string, buf span, parts, peer, tag int) (*partition, error) {
	g, e := c.g, c.g.e
	x := &partition{g: g, sends: op == opPsendInit, peer: peer, tag: tag, parts: parts, buf: buf}
	if peer == ProcNull {
		return x, nil
	}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if !g.ended.Load() {
		e.progress()
	}
	if g.ended.Load() { // after progress, which may learn that the communicator is revoked
		return nil, g.endedError(op)
	}
	introduce := x.awaitIntroduction
	if x.sends {
		introduce = x.introduce
	}
	if err := introduce(op); err != nil {
		return nil, g.reportDeath(err)
	}
	p := g.partitioned.partitions
	p.all = append(p.all, x)
	return x, nil
}

// introduce tells the receiver of a send.
func (x *partition) introduce(op string) error {
	p := x.g.partitioned
	first, ok := p.partitions.takeTags(x.peer, x.parts)
	if !ok {
		return usage(op, ErrTooMany, "partitioned sends to rank %d have all %d tags in use, want fewer partitions; hint: Free of some of them", x.peer, partTagsMost)
	}
	x.sent, x.met = introduction{uint64(first), uint64(x.parts), uint64(x.buf.bytes)}, true
	s := x.sent // the message has its own copy
	r, err := p.putSend(op, spanOf(unsafe.Slice(&s, 1)), x.peer, x.tag)
	switch {
	case err != nil || r == nil:
	case r.isDone():
		err = r.err
		r.recycle()
	default:
		r.rare, r.detached = true, true
	}
	return err
}

// takeTags returns the first of n tags that no live operation with a destination has.
func (p *partitions) takeTags(dst, n int) (first int, ok bool) {
	t := p.tags[dst]
	if t == nil {
		if p.tags == nil {
			p.tags = map[int]*partTags{}
		}
		t = &partTags{}
		p.tags[dst] = t
	}
	for range 2*len(p.all) + 2 {
		if t.next+n > partTagsMost {
			t.next, t.wrapped = 0, true
		}
		first = t.next
		t.next += n
		if !t.wrapped {
			return first, true
		}
		i := slices.IndexFunc(p.all, func(x *partition) bool {
			at := int(x.sent.firstTag)
			return x.sends && x.peer == dst && first < at+x.parts && at < first+n
		})
		if i < 0 {
			return first, true
		}
		t.next = int(p.all[i].sent.firstTag) + p.all[i].parts
	}
	return 0, false
}

// awaitIntroduction receives the introduction of a receive.
func (x *partition) awaitIntroduction(op string) error {
	r := x.g.partitioned.postRecv(op, spanOf(unsafe.Slice(&x.sent, 1)), x.peer, x.tag)
	if !r.isDone() {
		r.rare, r.detached, r.after = true, true, x.meet
		return nil
	}
	err := r.err
	r.recycle()
	x.met = err == nil
	return err
}

// meet goes on with a receive whose introduction has come, or does not come any more.
func (x *partition) meet(r *request) {
	x.met, x.introErr = r.err == nil, r.err
	switch {
	case x.freed || x.r == nil:
	case x.met:
		x.receive()
	default:
		x.fail(x.peerError(opPartStart, r.err))
	}
}

// peerError returns the error of a call for which the peer is needed: that of its death, otherwise err.
func (x *partition) peerError(op string, err error) error {
	if x.g.e.isDead(x.g.pe(x.peer)) {
		return x.g.deadError(op, x.peer)
	}
	return err
}

// start begins a round.
func (x *partition) start(ctx context.Context) (Request, error) {
	const op = opPartStart
	g, e := x.g, x.g.e
	if x.peer == ProcNull {
		return x.startNull()
	}
	e.job.Waiter.Beat()
	if !g.ended.Load() {
		e.serve() // the introduction may be there
	}
	e.mu.Lock()
	defer e.unlock()
	var err error
	switch {
	case x.freed:
		err = x.freedError(op)
	case g.ended.Load():
		err = g.endedError(op)
	case x.sends:
		err = x.peerError(op, nil)
	case x.introErr != nil:
		err = x.peerError(op, x.introErr)
	}
	if err != nil {
		return failedRequest(err), g.reportDeath(err)
	}
	r := g.newRequest(op, span{})
	r.general, r.rare, r.partition, r.pe = true, true, x, g.pe(x.peer)
	if !x.sends && r.pe != e.me {
		r.awaitedPE = int32(r.pe) + 1
	}
	x.r, x.request, x.err = r, r.handle(ctx), nil
	x.round++
	switch {
	case x.sends:
		x.expect()
	case x.met:
		x.receive()
	default:
		x.marked, x.messages, x.left = nil, nil, 0
	}
	return x.request, nil
}

// startNull begins a round with ProcNull, which ends at once.
func (x *partition) startNull() (Request, error) {
	e := x.g.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case x.freed:
		err := x.freedError(opPartStart)
		return failedRequest(err), err
	case x.g.ended.Load():
		err := x.g.endedError(opPartStart)
		return failedRequest(err), err
	}
	x.round++
	s := procNullStatus
	if x.sends {
		s = emptyStatus
	}
	return x.g.directRequest(s).handle(nil), nil //nolint:staticcheck // it is complete
}

// expect prepares a round for the messages of all partitions.
func (x *partition) expect() {
	n := int(x.sent.parts)
	if len(x.marked) == n {
		clear(x.marked)
	} else {
		x.marked = make([]bool, n)
	}
	if x.open > 0 || len(x.messages) != n { // messages of a round that has failed may be under way
		x.messages = make([]*request, n)
	}
	x.open, x.left = 0, n
}

// freedError returns the error of a call after Free.
func (x *partition) freedError(op string) error {
	return usage(op, ErrArgument, "the operation was freed before this call, want a live one")
}

// part returns the buffer of partition i, of n.
func (x *partition) part(i, n int) span {
	s := span{bytes: x.buf.bytes / n, elem: 1}
	if s.bytes > 0 {
		s.at = unsafe.Add(x.buf.at, i*s.bytes)
	}
	return s
}

// receive begins to receive the partitions of a round.
func (x *partition) receive() {
	p, round, n := x.g.partitioned, x.round, int(x.sent.parts)
	first := partTagLeast + int(x.sent.firstTag)
	if x.sent.bytes != uint64(x.buf.bytes) {
		x.fail(usage(opPartStart, ErrMismatch, "rank %d sends %d bytes in %d partitions, want the %d bytes of this rank's buffer",
			x.peer, x.sent.bytes, n, x.buf.bytes))
		for i := range n {
			if r := p.postRecv(opPartStart, span{elem: 1}, x.peer, first+i); r.isDone() {
				r.recycle()
			} else {
				r.rare, r.detached = true, true
			}
		}
		return
	}
	if isDebug {
		poisonBuffer(x.buf)
	}
	x.expect()
	for i := range n {
		x.open++
		r := p.postRecv(opPartStart, x.part(i, n), x.peer, first+i) // it may have released the lock meanwhile
		if x.follow(r, i, round); x.round != round || x.r == nil || x.err != nil {
			return
		}
	}
}

// follow goes on with a round when the message of partition i has ended, now or later.
func (x *partition) follow(r *request, i int, round uint64) {
	if r.isDone() {
		x.endMessage(r.err, i, round)
		r.recycle()
		return
	}
	if x.round == round {
		x.messages[i] = r
	}
	r.rare, r.detached, r.after = true, true, func(r *request) { x.endMessage(r.err, i, round) }
}

// endMessage notes that the message of partition i has ended.
func (x *partition) endMessage(err error, i int, round uint64) {
	if x.round != round {
		return
	}
	x.messages[i] = nil
	x.open--
	x.left--
	if err != nil {
		x.fail(err)
		return
	}
	if !x.sends {
		x.marked[i] = true
	}
	x.endRound()
}

// fail ends the round for cause. A receive ends when nothing writes to its buffer any more.
func (x *partition) fail(cause error) {
	if x.err == nil && x.r != nil {
		x.err = cause
	}
	x.endRound()
}

// endRound ends the round if it is over.
func (x *partition) endRound() {
	r := x.r
	switch {
	case r == nil, x.err == nil && x.left > 0, x.err != nil && !x.sends && x.open > 0:
		return
	case x.err == nil && !x.sends:
		r.status = statusOf(envelope{Src: int32(x.peer), Tag: int32(x.tag)}, x.buf.bytes, x.buf.elem)
	}
	x.r = nil
	x.g.e.complete(r, x.err)
}

// markReady sends partitions low to high.
func (x *partition) markReady(op string, low, high int) error {
	g, e := x.g, x.g.e
	if err := x.checkIndices(op, low, high); err != nil {
		return err
	}
	if x.peer == ProcNull {
		return x.checkNull(op)
	}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if err := x.canMark(op); err != nil {
		return err
	}
	if i := slices.Index(x.marked[low:high+1], true); i >= 0 {
		return x.readyError(op, low+i)
	}
	for i := low; i <= high; i++ {
		x.marked[i] = true
	}
	round := x.round
	for i := low; i <= high; i++ {
		if err := x.send(i, round); err != nil {
			return g.reportDeath(err)
		}
	}
	return nil
}

// checkIndices checks the partitions low to high of a call of Ready.
func (x *partition) checkIndices(op string, low, high int) error {
	switch {
	case !x.sends:
		return usage(op, ErrArgument, "the operation is a receive, want one of PsendInit")
	case low > high:
		return usage(op, ErrArgument, "partitions %d to %d, want the lower index first", low, high)
	case low < 0:
		return usage(op, ErrArgument, "partition %d, want 0 to %d", low, x.parts-1)
	case high >= x.parts:
		return usage(op, ErrArgument, "partition %d, want 0 to %d", high, x.parts-1)
	}
	return nil
}

// canMark makes progress and returns why no partition can be made ready, or nil. The caller has the engine's lock.
func (x *partition) canMark(op string) error {
	g, e := x.g, x.g.e
	pe := g.pe(x.peer)
	if !g.ended.Load() && (e.job.Failures.Epoch() != e.deathEpoch.Load() || e.far != nil && e.mustLook(pe, x.buf.bytes/x.parts)) {
		e.progress()
	}
	switch {
	case x.freed:
		return x.freedError(op)
	case g.ended.Load():
		return g.endedError(op)
	case e.isDead(pe):
		return g.reportDeath(g.deadError(op, x.peer))
	case x.r == nil && x.err != nil:
		return x.err
	case x.r == nil && !x.request.active():
		return x.idleError(op)
	}
	return nil
}

// readyError returns the error of a call that makes a partition ready twice.
func (x *partition) readyError(op string, i int) error {
	return usage(op, ErrArgument, "partition %d is ready already, want one call for each partition of a round", i)
}

// checkNull is what Ready and Arrived do with ProcNull.
func (x *partition) checkNull(op string) error {
	x.g.e.mu.Lock()
	defer x.g.e.unlock()
	switch {
	case x.freed:
		return x.freedError(op)
	case x.g.ended.Load():
		return x.g.endedError(op)
	case x.round == 0:
		return x.idleError(op)
	}
	return nil
}

// idleError returns the error of a call outside of a round.
func (x *partition) idleError(op string) error {
	return usage(op, ErrArgument, "the operation is not active, want a call of Start before")
}

// send sends partition i of a round.
func (x *partition) send(i int, round uint64) (err error) {
	p, e := x.g.partitioned, x.g.e
	s, tag := x.part(i, x.parts), partTagLeast+int(x.sent.firstTag)+i
	var r *request
	x.open++
	if p.pe(x.peer) == e.me && s.bytes > lockedMost {
		e.mu.Unlock()
		err = sendLongToSelf(p, opPartStart, s, tag)
		e.mu.Lock()
		if err != nil {
			err = x.g.endedError(opPartStart)
		}
	} else {
		r, err = p.putSend(opPartStart, s, x.peer, tag)
	}
	if r == nil {
		x.endMessage(err, i, round)
	} else {
		x.follow(r, i, round)
	}
	return err
}

// hasArrived makes progress and reports whether partition i is in the buffer.
func (x *partition) hasArrived(op string, i int) (bool, error) {
	e := x.g.e
	switch {
	case x.sends:
		return false, usage(op, ErrArgument, "the operation is a send, want one of PrecvInit")
	case i < 0 || i >= x.parts:
		return false, usage(op, ErrArgument, "partition %d, want 0 to %d", i, x.parts-1)
	}
	if x.peer == ProcNull {
		err := x.checkNull(op)
		return err == nil, err
	}
	e.job.Waiter.Beat()
	if !x.g.ended.Load() { // the lanes may be those of another World
		e.serve()
	}
	e.mu.Lock()
	defer e.unlock()
	switch {
	case x.freed:
		return false, x.freedError(op)
	case x.round == 0:
		return false, x.idleError(op)
	case x.isThere(i):
		return true, nil
	case x.err != nil:
		return false, x.g.reportDeath(x.err)
	case x.r == nil: // it has ended well
		return true, nil
	}
	if x.polls++; x.polls%leftEvery == 0 {
		x.lookForLeft()
	}
	return false, nil
}

// isThere reports whether all messages with bytes of partition i have arrived.
func (x *partition) isThere(i int) bool {
	if len(x.marked) == 0 {
		return false
	}
	first, last := 0, len(x.marked)-1
	if theirs, ours := x.buf.bytes/len(x.marked), x.buf.bytes/x.parts; theirs > 0 {
		first, last = i*ours/theirs, ((i+1)*ours-1)/theirs
	}
	return !slices.Contains(x.marked[first:last+1], false)
}

// lookForLeft ends the round if the peer has left the communicator. All that it had sent is received first. The caller has the engine's lock.
func (x *partition) lookForLeft() {
	g, e := x.g, x.g.e
	if x.r == nil || g.pe(x.peer) == e.me || !g.hasLeft(x.peer) {
		return
	}
	if e.receiveAll(); len(e.finished) > 0 || x.r == nil {
		return // whoever releases the lock goes on with them; the next look finds the rest
	}
	cause := g.leftError(opPartStart, x.peer)
	for _, m := range x.messages {
		if m != nil && e.cancel(m, cause) {
			e.complete(m, cause)
		}
	}
	x.fail(cause)
}

// describeAwaited says in words what a round waits for. The caller has the engine's lock.
func (x *partition) describeAwaited() string {
	switch {
	case x.sends:
		missing := 0
		for _, is := range x.marked {
			if !is {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("calls of Ready for %d of %d partitions", missing, x.parts)
		}
		return fmt.Sprintf("rank %d to receive %d of %d partitions", x.peer, x.left, x.parts)
	case !x.met:
		return fmt.Sprintf("PsendInit of rank %d with tag %d", x.peer, x.tag)
	}
	return fmt.Sprintf("%d of %d partitions from rank %d with tag %d", x.left, x.sent.parts, x.peer, x.tag)
}

// endPartitions ends the rounds of a communicator that ends. Their messages have ended before.
func endPartitions(g *group, cause func(op string) error) {
	for _, x := range g.partitioned.partitions.all {
		x.fail(cause(opPartStart))
	}
}

// failSendsTo ends the rounds of sends to a rank that has died. Those of receives end with their messages.
func (p *partitions) failSendsTo(rank int) {
	for _, x := range p.all {
		if x.sends && x.peer == rank && x.r != nil {
			x.fail(x.g.deadError(opPartStart, rank))
		}
	}
}

// free ends the operation. A receive without introduction goes on to wait for it, so that the next one does not get it.
func (x *partition) free(op string) error {
	e := x.g.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case x.freed:
		return x.freedError(op)
	case x.request.active():
		return usage(op, ErrArgument, "the operation is active, want one whose Wait or Test has returned that it is complete")
	}
	x.freed, x.buf.at, x.request, x.marked, x.messages = true, nil, Request{}, nil, nil
	if p := x.g.partitioned.partitions; x.peer != ProcNull {
		p.all = slices.DeleteFunc(p.all, func(y *partition) bool { return y == x })
	}
	return nil
}
