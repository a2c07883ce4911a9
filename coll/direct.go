package coll

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/internal/reach"
)

// # Large collectives of private memory between two members
//
// Two members that may access each other's memory (package reach) copy large data once, without an area or a
// slot. Each member makes one half. There are two steps:
//
//   - In the first step, the members tell each other where their data are.
//   - Then each member reads the other's source. What it makes for the other one, it writes to the other's
//     destination.
//   - In the second step, the members tell each other whether the kernel has permitted that. Each one looks for the
//     other's death first: by then, another process may have had the number of a dead one.
//
// If anything was refused, neither member uses this way again on the team, and the same data go through areas
// or slots. If a member has died, they go there as well: what comes of a death is decided there. For that
// each member keeps its source until the second step. A class of collectives that is faster through areas does not
// begin with direct copies either: see choice.go.
//
// Neither member returns before the other one is done with its memory. So a member passes if its context can end,
// and data that it reduces in place would be lost if anything was refused. A member whose operator panics waits for
// the other one. Only a root lends its destination in a reduction, so two members do not wait for each other.

// From these numbers of bytes on, two steps and the kernel's work for each page cost less than a second copy. A
// broadcast through an area has no step that its root waits for; a reduction has more steps than two.
const (
	directBroadcast = 32 << 10
	directReduce    = 16 << 10
)

const (
	directPart  = 1 << 20   // bytes that are copied by one system call: it cannot be interrupted, and takes 0.1 ms
	directBlock = 128 << 10 // bytes of a reduction that are folded at once: as much as a system call costs little beside
	directAlone = 128 << 10 // up to so many bytes the root folds alone: less than what the other one would write costs more than that saves
	directPage  = 4096
)

// peer is what a member of a team of two members knows of the other one's process.
//
//   - Owns: the process, and what this member lends.
//   - Writes: the destination in the private memory of the other member, between two steps.
//   - Reads: the source there.
type peer struct {
	// others has a bit for each class of collectives that is never made by direct copies. It is the same on both members
	// between two collectives.
	others  atomic.Uint32
	trials  [directOperations * directSizes]trial
	found   bool          // process is the other member's
	process reach.Process // of the other member
	lent    loan          // what the other member accesses, so that it is kept
	blocks  []uint64      // for what is folded: directBlock bytes of either member
}

// offered is where a member's data are in its process.
type offered struct {
	src, dst uint64 // dst is 0 if nothing is to be written there
	passes   uint64 // 1: not this time
	times    times  // of the trials of this class
}

const offeredBytes = headingBytes + int(unsafe.Sizeof(offered{}))

// pairing is a collective of two members by direct copies, as one member makes it.
type pairing struct {
	t        *Team
	heading  heading
	class    int    // of collective: see choice.go
	bytes    int    // of its data
	root     int    // the only member with data, or -1
	receives bool   // this member gets the result
	lends    loan   // of this member
	seq      uint64 // the first step
	with     int    // the other member
	given    offered
	lap      lap // of a trial that this member measures
}

// mayPair reports whether an operation on so many bytes begins with direct copies. It is the same on both members.
func (t *Team) mayPair(operation, bytes, least int) bool {
	return bytes >= least && len(t.members) == 2 && !t.crowded && t.peer.others.Load()>>classOf(operation, bytes, least)&1 == 0
}

// loan is what a member lends to the other one in a collective. It may not be on a stack, which could move.
type loan struct {
	src, dst unsafe.Pointer // dst is nil if nothing is to be written there
	passes   bool           // not this time
}

// run makes a collective of two steps, with the direct copies of this member between them. It reports whether it has
// done all; if not, and without an error, the caller makes the collective in another way, which ends the lap.
func (p *pairing) run(ctx context.Context, copies func(p *pairing) bool) (done bool, err error) {
	t := p.t
	p.seq, err = t.beginCollective(2)
	if err != nil {
		return false, err
	}
	defer t.endCollective(&err)
	t.onlyContributor, t.peer.lent, p.with = p.root, p.lends, 1-t.me
	direct, err := p.exchange(ctx)
	if err != nil {
		return false, err
	}
	if !direct {
		t.state.Seq = p.seq // no member enters the second step
		return false, nil
	}
	good := p.find() && p.copyAll(copies)
	if done, err = p.conclude(ctx, good); err == nil {
		t.peer.lent = loan{}
	}
	if done {
		p.lap.end(directly)
	}
	return done, err
}

// exchange is the first step. It reports whether the members make direct copies.
func (p *pairing) exchange(ctx context.Context) (direct bool, err error) {
	t, trial := p.t, &p.t.peer.trials[p.class]
	to, err := t.awaitPlace(ctx, p.seq, offeredBytes)
	if err != nil {
		return false, err
	}
	o := offered{src: uint64(uintptr(p.lends.src)), dst: uint64(uintptr(p.lends.dst)), times: trial.measured()}
	if p.lends.passes || ctx != nil && ctx.Done() != nil {
		o.passes = 1
	}
	*(*offered)(p.heading.writeTo(to, p.seq)) = o
	if err := t.meet(ctx, p.seq); err != nil {
		return false, err
	}
	if len(t.contributors(p.seq)) < 2 {
		return false, nil
	}
	data, ok := p.heading.match(t.contributionOf(p.with, p.seq, offeredBytes), p.seq)
	if !ok {
		return false, t.breakOnMismatch(p.with)
	}
	p.given = *(*offered)(data)
	if o.passes|p.given.passes != 0 {
		return false, nil
	}
	way, measures, last := trial.count(trialsOf(p.class), o.times, p.given.times)
	if last {
		t.peer.others.Or(1 << p.class)
	}
	if measures && p.receives {
		p.lap = lap{trial, clock(), p.bytes}
	}
	return way == directly, nil
}

// find reports whether this member may access the other one's memory. The other member has entered a step, so its
// process has published itself if it ever does.
func (p *pairing) find() bool {
	of := &p.t.peer
	if !of.found {
		of.process, of.found = reach.Find(p.t.members[p.with])
	}
	return of.found
}

// copyAll makes this member's copies. If an operator panics, it waits until the other member writes to nothing of this
// one any more.
func (p *pairing) copyAll(copies func(p *pairing) bool) bool {
	copied := false
	defer func() {
		if !copied && p.lends.dst != nil {
			_, _ = p.t.awaitMember(context.Background(), p.with, p.seq+1)
		}
	}()
	good := copies(p)
	copied = true
	return good
}

// conclude is the second step. It reports whether both members have made all their copies.
func (p *pairing) conclude(ctx context.Context, good bool) (done bool, err error) {
	t, last := p.t, p.seq+1
	const size = 8
	to, err := t.awaitPlace(ctx, last, size)
	if err != nil {
		return false, err
	}
	said := uint64(0)
	if good && !p.otherDied() {
		said = 1
	}
	*(*uint64)(to) = said
	if err := t.meet(ctx, last); err != nil {
		return false, err
	}
	if len(t.contributors(last)) < 2 {
		return false, nil
	}
	done = said&*(*uint64)(t.contributionOf(p.with, last, size)) != 0
	if !done {
		t.peer.others.Store(1<<len(t.peer.trials) - 1)
	}
	return done, nil
}

// otherDied reports whether the death of the other member was published after this one had entered the first step. A
// member whose death was known before does not enter the second step. The death is not noted here: the waits of a
// strict team would not end by it any more.
func (p *pairing) otherDied() bool {
	t := p.t
	return t.failures.Epoch() > t.deadEpoch && t.knownDead(p.with)
}

// read copies n bytes from an address of the other member's process. It reports whether it has done so.
func (p *pairing) read(dst unsafe.Pointer, src uint64, n int) bool {
	for at := 0; at < n; at += directPart {
		if p.t.peer.process.Read(unsafe.Add(dst, at), src+uint64(at), min(directPart, n-at)) != nil {
			return false
		}
	}
	return true
}

// write copies n bytes to an address of the other member's process. It reports whether it has done so.
func (p *pairing) write(dst uint64, src unsafe.Pointer, n int) bool {
	for at := 0; at < n; at += directPart {
		if p.t.peer.process.Write(dst+uint64(at), unsafe.Add(src, at), min(directPart, n-at)) != nil {
			return false
		}
	}
	return true
}

// BroadcastDirect is BroadcastPrivate for a buf that need not stay on the caller's stack. Of two members, each one copies
// a half of large data to the other's buf, or from there.
func BroadcastDirect(ctx context.Context, t *Team, buf []byte, root int) error {
	if !t.mayPair(pairBroadcast, len(buf), directBroadcast) {
		return BroadcastPrivate(ctx, t, buf, root)
	}
	l, done, err := broadcastPaired(ctx, t, buf, root)
	if done || err != nil {
		return err
	}
	if err = BroadcastPrivate(ctx, t, buf, root); err == nil {
		l.end(throughAreas)
	}
	return err
}

// broadcastPaired is BroadcastDirect by direct copies. The root writes the second half, the other member reads the
// first one. So a buf that is used again stays in the caches of both processors. If it is not done, its caller ends the
// lap.
func broadcastPaired(ctx context.Context, t *Team, buf []byte, root int) (l lap, done bool, err error) {
	at := unsafe.Pointer(unsafe.SliceData(buf))
	half := (len(buf)/2 + directPage - 1) &^ (directPage - 1)
	p := pairing{
		t: t, heading: headingOf(whatDirect, root, len(buf)), class: classOf(pairBroadcast, len(buf), directBroadcast), bytes: len(buf),
		root: root, receives: t.me != root, lends: loan{src: at, dst: at},
	}
	done, err = p.run(ctx, func(p *pairing) bool {
		if t.me == root {
			return p.write(p.given.dst+uint64(half), unsafe.Add(at, half), len(buf)-half)
		}
		return p.read(at, p.given.src, half)
	})
	return p.lap, done, err
}

// reducePaired is ReducePrivate by direct copies, where one member is the root. If it is not done, its caller ends the
// lap.
func reducePaired[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], root int) (l lap, done bool, err error) {
	from, to, bytes := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst)), bytesOf[T](len(src))
	p := pairing{
		t: t, heading: headingOf(whatReduceDirect, root, bytes), class: classOf(pairReduce, bytes, directReduce), bytes: bytes,
		root: -1, receives: t.me == root, lends: loan{src: from, dst: to, passes: from == to},
	}
	done, err = p.run(ctx, func(p *pairing) bool {
		return foldHalf(p, dst, src, op)
	})
	return p.lap, done, err
}

// foldHalf folds this member's half for the root, or all of a little as the root.
func foldHalf[T any](p *pairing, dst, src []T, op Op[T]) bool {
	of := &p.t.peer
	if of.blocks == nil {
		of.blocks = make([]uint64, 2*directBlock/8)
	}
	size, most := bytesOf[T](1), directBlock/bytesOf[T](1)
	others := view[T](unsafe.Pointer(&of.blocks[0]), most)
	own := view[T](unsafe.Pointer(&of.blocks[directBlock/8]), most)
	lo, hi := board.Share(len(src), 2, p.t.me)
	if len(src)*size <= directAlone {
		lo, hi = 0, len(src)
		if dst == nil {
			hi = 0
		}
	}
	for at := lo; at < hi; at += most {
		end := min(at+most, hi)
		n, off := end-at, uint64(at*size)
		theirs, acc := others[:n], own[:n]
		if dst != nil { // the root folds where the result goes: its source is elsewhere
			acc = dst[at:end]
		}
		if p.t.me == 1 { // the other member's elements are the first ones of the operator
			theirs = acc
		}
		if !p.read(unsafe.Pointer(&theirs[0]), p.given.src+off, n*size) {
			return false
		}
		if p.t.me == 1 {
			op(acc, src[at:end])
		} else {
			copy(acc, src[at:end])
			op(acc, theirs)
		}
		if dst == nil && !p.write(p.given.dst+off, unsafe.Pointer(&acc[0]), n*size) {
			return false
		}
	}
	return true
}
