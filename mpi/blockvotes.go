package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/internal/bridge"
)

// The votes on TryBlocks: tryblock.go says how they meet.

// voteInOrder votes on the blocks whose requests are complete, up to the first one that has others.
func voteInOrder(g *group) {
	for _, b := range slices.Clone(g.blocks.ending) {
		switch {
		case b.mode == bridge.BlockLocal || b.voting || b.outcome != nil:
		case !b.complete:
			return
		default:
			b.conclusion()
		}
	}
}

// conclusion votes on the block, accepts it without a vote, or takes the result of an answer.
func (b *block) conclusion() {
	x := &b.g.blocks
	switch {
	case x.verdict != nil:
		v := x.verdict
		x.verdict = nil
		b.decide(v.faults, &v.d)
		return
	case x.answers && x.heir == nil:
		b.voting, x.heir = true, b
		return
	case b.mode == bridge.BlockGlobal:
	case b.codes() == 0 && !isNoticed(b.g) && !b.g.unackedDeath.Load():
		b.decide(nil, nil)
		return
	default:
		tellVote(b.g, b.g.agreeing.agreement.lines[lineBlock].started()+1)
	}
	b.vote()
}

// isNoticed reports whether another rank casts a vote that this one has not cast.
func isNoticed(g *group) bool {
	return g.blocks.noticed > g.agreeing.agreement.lines[lineBlock].started()
}

// tellVote tells the other ranks that there is a vote, unless they were told before.
func tellVote(g *group, vote uint64) {
	if vote <= g.blocks.noticed {
		return
	}
	g.blocks.noticed = vote
	for rank := range g.pes {
		g.tellOne(rank, noticeBlock, parcel{to: vote})
	}
}

// allSucceeded is the flag of the vote of a rank whose requests have all succeeded.
const allSucceeded = 1

// vote votes on the block.
func (b *block) vote() {
	b.voting = true
	v := newVote(0, ackedCount(b.g), 0)
	numberBlock(&v, b.number)
	if b.codes() == 0 && !isNoticed(b.g) {
		v.Flags = allSucceeded
	}
	v.Body = string(appendFaults(nil, b.faults()))
	call := &agreeCall{vote: v}
	call.next = func(d *agree.Decision) (_ agree.Vote, again bool) {
		if d.Outcome == agree.Undecided {
			return v, true
		}
		b.g.blocks.meet(d, b.number)
		b.decide(faultsIn(d.Body), d)
		b.g.e.complete(call.r, nil)
		lookForNotice(b.g)
		return v, false
	}
	call.r = b.g.agreeing.newRequest(opFinish, span{})
	call.r.rare, call.r.detached = true, true
	call.r.after = func(r *request) { // whoever releases the lock next
		if b.outcome == nil {
			b.end(r.err)
		}
	}
	b.g.agreeing.agreement.startLocked(lineBlock, call)
}

// meet notes what the ranks have agreed upon. This one has voted on the block of a number.
func (x *blocks) meet(d *agree.Decision, number uint64) {
	x.begun += proposalOf(&d.Vote) - number // others may have voted in a later block: from here on all count alike
}

// answer votes for a rank that is at the end of no block, on its next one.
func (x *blocks) answer(g *group) {
	number := x.begun
	if x.open == 0 {
		number++
	}
	v := newVote(0, ackedCount(g), 0)
	numberBlock(&v, number)
	v.Body = string(appendFaults(nil, []bridge.Fault{{Rank: g.me, Codes: 1 << bridge.Broken, Block: number}}))
	call := &agreeCall{vote: v}
	call.next = func(d *agree.Decision) (_ agree.Vote, again bool) {
		if d.Outcome == agree.Undecided {
			return v, true
		}
		x.meet(d, number)
		x.answers, x.verdict = false, &verdict{faultsIn(d.Body), *d}
		if b := x.heir; b != nil {
			x.heir, x.verdict = nil, nil
			b.decide(faultsIn(d.Body), d)
		}
		g.e.complete(call.r, nil)
		lookForNotice(g)
		return v, false
	}
	call.r = g.agreeing.newRequest(opFinish, span{})
	call.r.rare, call.r.detached = true, true
	call.r.after = func(r *request) {
		if r.err == nil {
			return // next has decided, and another answer may be under way
		}
		x.answers = false
		if b := x.heir; b != nil && b.outcome == nil { // the vote has failed
			x.heir = nil
			b.end(r.err)
		}
	}
	x.answers = true
	g.collectives.breakOff(becauseGivenUp) // others may begin ones that would meet those of another block here
	g.agreeing.agreement.startLocked(lineBlock, call)
}

// noteBlock notes that a rank votes on a block with a collective for the given time.
func noteBlock(e *engine, comm uint32, vote uint64) {
	g := e.groups[comm]
	switch {
	case g == nil && e.isComing(comm):
		e.failedBlocks = append(e.failedBlocks, earlyBlock{comm, vote})
	case g != nil && g.hidden != nil:
		tellVote(g, vote)
		lookForNotice(g)
	}
}

// lookForNotice votes if another rank waits for that: at the end of the blocks that end here, or else at once.
func lookForNotice(g *group) {
	if !isNoticed(g) || g.ended.Load() {
		return
	}
	ends := false
	for _, b := range slices.Clone(g.blocks.ending) {
		if b.mode != bridge.BlockLocal && !b.voting {
			ends = true
			b.giveUp(errElsewhere, bridge.Elsewhere)
		}
	}
	if !ends && !g.blocks.answers && g.blocks.verdict == nil {
		g.blocks.answer(g)
	}
}

// lookForDeserted looks, now and then, for requests in blocks whose peers have left, and for votes that wait for this rank. No goroutine waits for such a
// request, but for the block.
func lookForDeserted(e *engine) {
	for _, g := range e.groups {
		for _, b := range slices.Clone(g.blocks.ending) {
			if !b.voting {
				b.look()
			}
		}
		if g.hidden != nil {
			lookForNotice(g)
		}
	}
}

// earlyBlock is a vote on a block in a communicator that this process has not made.
type earlyBlock struct {
	comm uint32
	vote uint64
}

// noteBlocksEarly notes the votes in a communicator before this process has made it. The next Finish, or lookForDeserted, acts on them.
func noteBlocksEarly(e *engine, g *group) {
	for _, x := range e.failedBlocks {
		if x.comm == g.number {
			g.blocks.noticed = max(g.blocks.noticed, x.vote)
		}
	}
	e.failedBlocks = slices.DeleteFunc(e.failedBlocks, func(x earlyBlock) bool { return !e.isComing(x.comm) })
}
