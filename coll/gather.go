package coll

import (
	"context"
	"math/bits"
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
// anything before all had entered. So no member waits in the first step: of two members, the one that
// enters later finds the other, and both blocks between them can be moved. Turns.go says who moves
// them.

// How an exchange is made. Members announce it as a part of their call: if they differed in it,
// blocks would be missing.
const (
	eachForItself uint64 = iota
	byTurns
)

// blocks is an exchange of large data by turns, as one member makes it.
//
//   - Writes: blocks in all members' destinations.
//   - Reads: all members' sources.
type blocks[T any] struct {
	turn
	b      Buffers
	stride int // elements between the blocks of a source for two members
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
		x := blocks[T]{turn: turn{Team: t, seq: seq, said: said}, b: b, stride: stride}
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

// exchangeByTurns moves blocks between members that have entered, then waits for the others.
func (x *blocks[T]) exchangeByTurns(ctx context.Context) error {
	x.begin()
	atomic.SwapUint64(x.word(x.me), x.seq) // of two, one finds the other; it rings nobody, see awaitFirstStep
	if err := x.moveFirst(); err != nil {
		return err
	}
	x.enterStep(x.seq+1, false)
	err := x.awaitFirstStep(ctx)
	if err == nil {
		err = x.awaitAll(ctx, x.seq+1)
	}
	x.measure()
	if err := x.endLastStep(x.seq+1, err); err != nil || x.dead == nil {
		return err
	}
	return x.rescueBlocks(ctx)
}

// moveFirst moves what this member has to move in the first step.
func (x *blocks[T]) moveFirst() error {
	if err := x.look(); err != nil {
		return err
	}
	if !x.lingers() {
		x.moveMates()
		x.takeOthers()
		return nil
	}
	rma.StoreRelease(x.stillOf(x.me), x.seq)
	x.moveMates()
	x.takeOthers()
	for n := 0; n < lingerLooks && x.missing() != 0; n++ {
		if !x.someCame() {
			continue
		}
		if err := x.look(); err != nil {
			return err
		}
		x.moveMates()
	}
	if x.missing() == 0 {
		return nil // nobody looks at the word any more
	}
	atomic.SwapUint64(x.stillOf(x.me), 0)
	if err := x.look(); err != nil {
		return err
	}
	x.moveMates()
	return nil
}

// moveMates moves the blocks of this member's mates that were found, and its own, to all members that were
// found.
func (x *blocks[T]) moveMates() {
	var left [mostTurns]uint64
	for w := x.mates & x.found; w != 0; w &= w - 1 {
		j := bits.TrailingZeros64(w)
		left[j] = x.leftOf(j)
	}
	rma.StoreRelease(x.progressOf(x.me), x.found) // after the looks at those of others
	for w := x.mates & x.found; w != 0; w &= w - 1 {
		j := bits.TrailingZeros64(w)
		for to := left[j]; to != 0; to &= to - 1 {
			x.move(j, bits.TrailingZeros64(to))
		}
	}
}

// takeOthers moves the blocks of members with other homes for this member, of those that were found.
func (x *blocks[T]) takeOthers() {
	for w := x.found &^ x.mates; w != 0; w &= w - 1 {
		if j := bits.TrailingZeros64(w); !x.canLeave(j) {
			x.move(j, x.me)
		}
	}
}

// move moves the block of one member for another. It does not if the other has given up, and may use its
// destination for something else. A member that gives up after the look at its mark gets the block all
// the same; its caller is told so.
func (x *blocks[T]) move(from, to int) {
	if to != x.me && atomic.LoadUint64(x.word(to))&marks != 0 {
		return
	}
	dst := elements[T](x.Team, to, x.b.Dst, x.b.N*len(x.members))
	rma.MoveOut(dst[from*x.b.N:(from+1)*x.b.N], x.address(from, x.b.Src+uint64(bytesOf[T](to*x.stride))))
}

// awaitFirstStep returns when all members have entered the first step, or with an error if one
// calls anything else there: that member may never enter the second step. A member that sleeps
// here is rung when all have entered the second step, for which it has to wait in any case.
func (x *blocks[T]) awaitFirstStep(ctx context.Context) error {
	for w := x.missing(); w != 0; w &= w - 1 {
		i := bits.TrailingZeros64(w)
		v, err := x.awaitMember(ctx, i, x.seq)
		if err != nil {
			return err
		}
		if v == 0 {
			continue // dead short of it
		}
		if err := x.checkCallOf(i, x.said); err != nil {
			return err
		}
	}
	return nil
}

// rescueBlocks takes the blocks of all contributors if a member has not entered the second step: it may
// have moved none of those that it was to move. All survivors find the same, so all enter the further
// step, before which no source changes. Nobody but this member writes to its destination by now.
func (x *blocks[T]) rescueBlocks(ctx context.Context) error {
	whole := true
	for i := range x.members {
		whole = whole && x.hasEntered(i, x.seq+1)
	}
	if whole {
		return nil
	}
	for _, i := range x.contributors(x.seq) {
		x.move(i, x.me)
	}
	x.state.Seq++
	return x.meetLast(ctx, x.state.Seq)
}
