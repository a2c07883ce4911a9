//go:build explore

package coll_test

import (
	"context"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
)

// The collectives of blocks of private memory, in slots, in pieces through areas, through the end of the root's area, as a
// chain, and with lent memory.

func TestExploreHeaded(t *testing.T) { exploreAll(t, headedScenarios) }

// blocksCall is a collective of blocks of n elements. src has as many elements as a member gives.
type blocksCall struct {
	give func(members, n int) int // elements that a member gives
	room func(members, n int) int // elements of its destination
	call func(ctx context.Context, tm *coll.Team, dst, src []uint64) (done bool, err error)
	// want is element j of the destination of a member.
	want func(members, me, k, n, j int) uint64
	on   func(me int) bool // the members with a result; nil: all
}

func once(int, int) int        { return 1 }
func ofAll(members, _ int) int { return members }
func raw(s []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 8*len(s))
}
func only(i int) func(int) bool     { return func(me int) bool { return me == i } }
func from(first int) func(int) bool { return func(me int) bool { return me >= first } }

// hash64 is an operator for which the order matters.
func hash64(acc, in []uint64) {
	for j := range acc {
		acc[j] = 3*acc[j] + in[j]
	}
}

// hashOf is what hash64 makes of element j of the members from 0 to before end.
func hashOf(end, k, j int) (h uint64) {
	for i := range end {
		if h = 3*h + gives(i, k, j); i == 0 {
			h = gives(i, k, j)
		}
	}
	return h
}

var (
	allgathers = blocksCall{give: once, room: ofAll, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.AllgatherPrivate(ctx, tm, raw(dst), raw(src))
	}, want: func(_, _, k, n, j int) uint64 { return gives(j/n, k, j%n) }}
	alltoalls = blocksCall{give: ofAll, room: ofAll, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.AlltoallPrivate(ctx, tm, raw(dst), raw(src))
	}, want: func(_, me, k, n, j int) uint64 { return gives(j/n, k, me*n+j%n) }}
	alltoallsInPlace = blocksCall{give: ofAll, room: ofAll, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		copy(dst, src)
		return coll.AlltoallPrivate(ctx, tm, raw(dst), raw(dst))
	}, want: alltoalls.want}
	gatherings = blocksCall{give: once, room: ofAll, on: only(0), call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.GatherPrivate(ctx, tm, raw(dst), raw(src), 0)
	}, want: func(_, _, k, n, j int) uint64 { return gives(j/n, k, j%n) }}
	scatters = blocksCall{give: ofAll, room: once, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.ScatterPrivate(ctx, tm, raw(dst), raw(src), 1)
	}, want: func(_, me, k, n, j int) uint64 { return gives(1, k, me*n+j) }}
	reduceScatters = blocksCall{give: ofAll, room: once, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.ReduceScatterPrivate(ctx, tm, dst, src, hash64)
	}, want: func(members, me, k, n, j int) uint64 { return hashOf(members, k, me*n+j) }}
	rootedInPlace = blocksCall{give: once, room: once, on: only(1), call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		copy(dst, src)
		return true, coll.ReducePrivate(ctx, tm, dst, dst, hash64, 1)
	}, want: func(members, _, k, _, j int) uint64 { return hashOf(members, k, j) }}
	chains = blocksCall{give: once, room: once, call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.ScanPrivate(ctx, tm, dst, src, hash64, false)
	}, want: func(_, me, k, _, j int) uint64 { return hashOf(me+1, k, j) }}
	chainsBefore = blocksCall{give: once, room: once, on: from(1), call: func(ctx context.Context, tm *coll.Team, dst, src []uint64) (bool, error) {
		return coll.ScanPrivate(ctx, tm, dst, src, hash64, true)
	}, want: func(_, me, k, _, j int) uint64 { return hashOf(me, k, j) }}
)

// of returns an act: the collective with blocks of n elements, in the heap or in memory that is private and changes as
// soon as the act has returned.
func (b blocksCall) of(n int, heap bool) act {
	return func(r *run, tm *coll.Team, me, k int) error {
		src, dst := make([]uint64, n*b.give(r.n, n)), make([]uint64, n*b.room(r.n, n))
		if heap {
			src, dst = r.prepare(me, k, len(src), len(dst))
		}
		for j := range src {
			src[j] = gives(me, k, j)
		}
		done, err := b.call(r.ctx(me), tm, dst, src)
		if err == nil && done && (b.on == nil || b.on(me)) {
			err = expect(k, 0, dst, func(j int) uint64 { return b.want(r.n, me, k, n, j) })
		}
		for j := range src {
			src[j] = scribble
		}
		if !heap {
			r.alien.giveBack(dst)
		}
		return err
	}
}

func (b blocksCall) loosely(n int, heap bool) act { return loose(b.of(n, heap)) }

const (
	inSlots = 40       // elements of a block that go in slots
	inAreas = 8200 / 8 // in pieces
	inLoans = 12 << 7  // read where they lie
)

// headedActs are all collectives of a size, with reductions between them, which use the same areas.
func headedActs(n int, heap bool) []act {
	return []act{
		allgathers.of(n, heap), rootedInPlace.loosely(1100, heap), loose(privateReduces(3, 0)), chains.loosely(n, heap), alltoalls.of(n, heap), gatherings.loosely(n, heap), scatters.loosely(n, heap), privateReduces(1700, -1),
		reduceScatters.of(n, heap), chainsBefore.loosely(n, heap), alltoallsInPlace.of(n, heap), scatters.loosely(n, heap), allgathers.of(n, heap), gatherings.loosely(n, heap),
	}
}

var headedScenarios = []scenario{
	{name: "headedSlots", n: 3, draws: 1000, most: most, play: playing(false, headedActs(inSlots, false)...)},
	{name: "pieces2", n: 2, budgets: []budget{one}, draws: 500, most: most, play: playing(false, headedActs(inAreas, false)...)},
	{name: "pieces3", n: 3, draws: 1500, most: most, play: playing(false, headedActs(inAreas, false)...)},
	{name: "piecesStrict", n: 3, draws: 1500, most: kill2, play: playing(false, headedActs(inAreas, false)...)},
	{name: "piecesCanceled", n: 3, draws: 1500, most: quits, play: playing(false, headedActs(inAreas, false)...)},
	{name: "lent2", n: 2, budgets: []budget{one}, draws: 500, most: most, play: playingDirect(false, 0, headedActs(inLoans, false)...)},
	{name: "lentStrict", n: 2, draws: 1500, most: kills, play: playingDirect(false, 0, headedActs(inLoans, false)...)},
	{name: "lentCanceled", n: 2, draws: 1500, most: quits, play: playingDirect(false, 0, headedActs(inLoans, false)...)},
	{name: "lentRefused", n: 2, draws: 500, most: most, play: playingDirect(false, 3, headedActs(inLoans, false)...)},
	{name: "heap3", n: 3, draws: 1500, most: most, play: playing(false, headedActs(inAreas, true)...)},
	{name: "heapStrict", n: 3, draws: 1500, most: kill2, play: playing(false, headedActs(inLoans, true)...)},
	{name: "heapCanceled", n: 3, draws: 1500, most: quits, play: playing(false, headedActs(inLoans, true)...)},
}
