package coll

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Exchanges of large data
//
// They have two steps. Where every PE has a processor, each member copies its blocks from the others
// when these have entered the first step.
//
// Where PEs take turns on the processors, that would be two rounds of turns: no member could do
// anything before all had entered. So no member waits in the first step (blocks):
//
//   - Of two members, the one that enters later finds the other, and moves both blocks between them.
//   - Both may find each other, and move the same bytes twice. To make this rare, each publishes whose
//     blocks it has.
//   - What a member that died in between has left undone, the others do for themselves after the
//     second step.

// mostTurns is how many members have a bit in the word of what they have.
const mostTurns = 64

// How an exchange is made. Members announce it as a part of their call: if they differed in it,
// blocks would be missing.
const (
	eachForItself uint64 = iota
	byTurns
)

// blocks is an exchange of large data by turns, as one member makes it.
//
//   - Writes: whose blocks it has in its own word Part; blocks in its own destination, and its own
//     block in those of others.
//   - Reads: all members' sources and words Part.
type blocks[T any] struct {
	t      *Team
	b      Buffers
	seq    uint64 // the first step
	said   uint64 // what all members have to announce for it
	dst    []T
	stride int    // elements between the blocks of a source for two members
	has    uint64 // a bit for each member whose block this member has
}

// FCollect puts the N elements of every member's source one after the other,
// in the order of the group, into everybody's destination. The blocks of members that did not
// contribute (Outcome) stay as they are.
func FCollect[T any](ctx context.Context, t *Team, b Buffers) error {
	return gatherBlocks[T](ctx, t, b, callFCollect, b.N, 0)
}

// Alltoall puts the i-th block of N elements of member j's source into the
// j-th block of member i's destination. The blocks of members that did not contribute (Outcome)
// stay as they are.
func Alltoall[T any](ctx context.Context, t *Team, b Buffers) error {
	return gatherBlocks[T](ctx, t, b, callAlltoall, b.N*len(t.members), b.N)
}

// gatherBlocks copies N elements from each member's source of n elements into this member's
// destination. Member i reads from element i*stride on.
func gatherBlocks[T any](ctx context.Context, t *Team, b Buffers, kind uint64, n, stride int) (err error) {
	if size := bytesOf[T](n); size <= t.slotBytes {
		return gatherSmall[T](ctx, t, b, size, stride)
	}
	dst := elements[T](t, t.me, b.Dst, b.N*len(t.members))
	seq, err := t.beginCollective(2)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	how := eachForItself
	if t.crowded && len(t.members) <= mostTurns {
		how = byTurns
	}
	said := t.announceCall(seq, call{kindOf[T](kind, how), uint64(b.N), b.Src, b.Dst})
	if how == byTurns {
		x := blocks[T]{t: t, b: b, seq: seq, said: said, dst: dst, stride: stride}
		return x.exchangeByTurns(ctx)
	}
	t.enterStep(seq, false)
	for k := range t.members {
		i := (t.me + k) % len(t.members) // not everybody at the same source at once
		v, err := t.awaitMember(ctx, i, seq)
		if err != nil {
			return err
		}
		if v == 0 {
			continue // dead short of it
		}
		if err := t.checkCallOf(i, said); err != nil {
			return err
		}
		rma.MoveOut(dst[i*b.N:(i+1)*b.N], t.address(i, b.Src+uint64(bytesOf[T](t.me*stride))))
	}
	return t.meetLast(ctx, seq+1)
}

// gatherSmall is gatherBlocks through slots, for sources of size bytes.
func gatherSmall[T any](ctx context.Context, t *Team, b Buffers, size, stride int) error {
	dst := elements[T](t, t.me, b.Dst, b.N*len(t.members))
	seq, err := t.exchange(ctx, elements[byte](t, t.me, b.Src, size))
	if err != nil {
		return err
	}
	block := bytesOf[T](t.me * stride)
	if size <= t.lineBytes && t.dead == nil { // the usual case: no call for each member
		from := unsafe.Add(t.contributionOf(0, seq, size), block)
		for i := range t.members {
			rma.CopyOut(dst[i*b.N:(i+1)*b.N], from)
			from = unsafe.Add(from, t.wordStride)
		}
		return nil
	}
	for _, i := range t.contributors(seq) {
		rma.CopyOut(dst[i*b.N:(i+1)*b.N], unsafe.Add(t.contributionOf(i, seq, size), block))
	}
	return nil
}

// blockOf returns the part of a destination that member i's block goes to.
func (x *blocks[T]) blockOf(dst []T, i int) []T { return dst[i*x.b.N : (i+1)*x.b.N] }

// sourceOf returns where in the source of member i the block for a reader is.
func (x *blocks[T]) sourceOf(i, reader int) unsafe.Pointer {
	return x.t.address(i, x.b.Src+uint64(bytesOf[T](reader*x.stride)))
}

// takeBlock copies member i's block to this member's destination.
func (x *blocks[T]) takeBlock(i int) { rma.MoveOut(x.blockOf(x.dst, i), x.sourceOf(i, x.t.me)) }

// exchangeByTurns moves the blocks between this member and all that have entered.
func (x *blocks[T]) exchangeByTurns(ctx context.Context) error {
	t := x.t
	rma.StoreRelease(t.progressOf(t.me), 0) // before others can see this member here
	atomic.SwapUint64(t.word(t.me), x.seq)  // of two, one sees the other's; it rings nobody, see awaitFirstStep
	for k := range t.members {
		i := (t.me + 1 + k) % len(t.members) // itself last
		if atomic.LoadUint64(t.word(i))&^marks < x.seq {
			continue // it will find this member
		}
		if err := t.checkCallOf(i, x.said); err != nil {
			return err
		}
		x.takeBlock(i)
		x.has |= 1 << i
		rma.StoreRelease(t.progressOf(t.me), x.has)
	}
	for i := range t.members {
		if x.has&(1<<i) != 0 {
			x.giveBlock(i)
		}
	}
	t.enterStep(x.seq+1, false)
	err := x.awaitFirstStep(ctx)
	if err == nil {
		err = t.awaitAll(ctx, x.seq+1)
	}
	if err := t.endLastStep(x.seq+1, err); err != nil || t.dead == nil {
		return err
	}
	for i := range t.members {
		if x.has&(1<<i) == 0 && !t.hasEntered(i, x.seq+1) && t.hasEntered(i, x.seq) {
			x.takeBlock(i)
		}
	}
	return nil
}

// awaitFirstStep returns when all members have entered the first step, or with an error if one
// calls anything else there: that member may never enter the second step. A member that sleeps
// here is rung when all have entered the second step, for which it has to wait in any case.
func (x *blocks[T]) awaitFirstStep(ctx context.Context) error {
	for i := range x.t.members {
		if x.has&(1<<i) != 0 {
			continue
		}
		v, err := x.t.awaitMember(ctx, i, x.seq)
		if err != nil {
			return err
		}
		if v == 0 {
			continue // dead short of it
		}
		if err := x.t.checkCallOf(i, x.said); err != nil {
			return err
		}
	}
	return nil
}

// giveBlock puts this member's block into the destination of member i. It does not if member i
// has the block, or has given up and may use its destination for something else. A member that gives
// up after the look at its mark gets the block all the same; its caller is told so.
func (x *blocks[T]) giveBlock(i int) {
	t := x.t
	if atomic.LoadUint64(t.progressOf(i))&(1<<t.me) != 0 || atomic.LoadUint64(t.word(i))&marks != 0 {
		return
	}
	dst := elements[T](t, i, x.b.Dst, x.b.N*len(t.members))
	rma.MoveOut(x.blockOf(dst, t.me), x.sourceOf(t.me, i))
}
