package mpi

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # How an Intercomm is made
//
// The three communicators of an Intercomm are made at once: those of both groups, of the other side, and of each group. All of their ranks agree on three numbers.
// The two groups have the number of their own communicator in common, as no process is in both. Dup, Split and Create agree in the communicator of both groups,
// NewIntercomm and Connect in the world.

// deriveTag makes the numbers of these calls differ from those of others.
const deriveTag = 16 * interTag

// Dup makes an Intercomm with the same groups. Messages of the one do not meet those of the other.
//
//   - Errors: *RankError when a rank of either group has died; ErrRevoked; ErrCommBroken when another rank has given this call up; the end of the Intercomm's
//     context.
//   - Cost: two gathers of a word among both groups.
//   - Collective: over both groups.
//   - Source: MPI_Comm_dup.
func (x *Intercomm) Dup() (*Intercomm, error) {
	const op = "Intercomm.Dup"
	if err := x.usable(op); err != nil {
		return nil, x.refuse(err)
	}
	first, n := x.firstSize(), x.both.g.n
	all := ranksUpTo(n)
	of, err := x.derive(op, all[:first], all[first:])
	return of, x.refuse(err)
}

// Split makes Intercomms of the ranks that give the same color, 0 or more: each connects those of this group with those of the other one. In each group they have the
// order of their keys; ranks with equal keys keep their order. Split returns the Intercomm of this rank's color, or nil if that is Undefined or no rank of
// the other group has given it.
//
//   - Errors: as Dup; ErrArgument for any other color, and ErrMismatch then for the other ranks.
//   - Cost: three gathers of some words among both groups.
//   - Collective: over both groups.
//   - Source: MPI_Comm_split.
func (x *Intercomm) Split(color, key int) (*Intercomm, error) {
	const op = "Intercomm.Split"
	if err := x.usable(op); err != nil {
		return nil, x.refuse(err)
	}
	of, err := x.split(op, color, key, 0)
	return of, x.refuse(err)
}

// Create makes an Intercomm of the processes of a group, in its order, and of those that the ranks of the other group name. Processes that are not in the
// group get nil, and so do all processes if the group of either side is empty.
//
//   - Shape: the processes of the group are ranks of Local, and it is the same at all ranks of Local. The two sides name groups of their own.
//   - Errors: as Dup; ErrArgument for a group with other processes, and ErrMismatch then for the other ranks; ErrMismatch where ranks of one side give
//     different groups.
//   - Cost: as Split.
//   - Collective: over both groups, also over ranks that are not in the new ones.
//   - Source: MPI_Comm_create.
func (x *Intercomm) Create(of Group) (*Intercomm, error) {
	const op = "Intercomm.Create"
	if err := x.usable(op); err != nil {
		return nil, x.refuse(err)
	}
	members, failed := ranksOf(x.local, op, of)
	if failed != nil { // the other ranks wait for this one
		_, _ = x.split(op, badColor, 0, 0)
		return nil, x.refuse(failed)
	}
	h := fnv.New64a()
	fmt.Fprint(h, members)
	color, place := Undefined, slices.Index(members, x.local.g.me)
	if place >= 0 {
		color = 0
	}
	made, err := x.split(op, color, place, h.Sum64())
	return made, x.refuse(err)
}

// badColor is the color of a rank with bad arguments.
const badColor = Undefined - 1

// split is Split and Create. ranks of one group give the same hash.
func (x *Intercomm) split(op string, color, key int, hash uint64) (*Intercomm, error) {
	g := x.both.g
	all, err := g.gatherWords(x.both.ctx, op, callSplit, coll.Words{uint64(color), uint64(key), hash}) // also with a bad color: the other ranks wait
	if color < Undefined {
		return nil, usage(op, ErrArgument, "color %d, want 0 or more, or Undefined", color)
	}
	if err != nil {
		return nil, err
	}
	var members [2][]int
	first := x.firstSize()
	for rank, words := range all {
		group := 0
		if rank >= first {
			group = 1
		}
		switch other := int(words[0]); {
		case other < Undefined:
			return nil, usage(op, ErrMismatch, "rank %d of both groups gave bad arguments, want those of its own error", rank)
		case words[2] != all[group*first][2]:
			return nil, usage(op, ErrMismatch, "rank %d of both groups gave another group than rank %d, want the same at all ranks of one side", rank, group*first)
		case color != Undefined && other == color:
			members[group] = append(members[group], rank)
		}
	}
	if len(members[0]) == 0 || len(members[1]) == 0 {
		return nil, nil //nolint:nilnil // one side has no rank in it
	}
	for _, ranks := range members {
		slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(int(all[a][1]), int(all[b][1])) })
	}
	return x.derive(op, members[0], members[1])
}

// firstSize returns how many ranks the group has that comes first in both.
func (x *Intercomm) firstSize() int {
	if x.low {
		return x.local.g.n
	}
	return x.remote.g.n
}

// derive makes an Intercomm of two groups of ranks of both: some of the first group, and some of the second one. This process is one of them.
func (x *Intercomm) derive(op string, low, high []int) (*Intercomm, error) {
	if x.startsLater(low, high) {
		low, high = high, low
	}
	call := newSubset(x.both.g, op, slices.Concat(low, high), deriveTag)
	return makeIntercomm(x.both.ctx, &call, len(low), func(of *Intercomm) {
		inherit(of.local.g, x.local.g)
		inherit(of.remote.g, x.remote.g)
	})
}

// The communicators of an Intercomm, by the place of their numbers.
const (
	ofBoth = iota
	ofRemote
	ofLocal
	derivedMost
)

// startsLater reports whether the second one of two groups of ranks of both has the lowest PE. PEs of several jobs have no order.
func (x *Intercomm) startsLater(low, high []int) bool {
	g := x.both.g
	lowest := func(ranks []int) (pe layout.PE, foreign bool) {
		pes := make([]layout.PE, len(ranks))
		for i, rank := range ranks {
			pes[i] = g.pe(rank)
		}
		return slices.Min(pes), slices.ContainsFunc(pes, g.e.isForeign)
	}
	a, foreignLow := lowest(low)
	b, foreignHigh := lowest(high)
	return !foreignLow && !foreignHigh && b < a
}

// makeIntercomm makes an Intercomm of the ranks of a call: the first ones of them are its low group. All of them call it. What is made inherits from the
// call's communicator; settle says what else, with the engine's lock.
func makeIntercomm(ctx context.Context, call *subset, first int, settle func(of *Intercomm)) (*Intercomm, error) {
	g, e := call.parent, call.parent.e
	place := slices.Index(call.members, g.me)
	mine, theirs, low := call.members[:first], call.members[first:], place < first
	if !low {
		mine, theirs, place = theirs, mine, place-first
	}
	numbers, err := agreeNumbers(ctx, call, derivedMost)
	e.mu.Lock()
	defer e.unlock()
	if err == nil && e.closed.Load() {
		err = usage(call.op, ErrFinalized, finalizedMeanwhile)
	}
	if err != nil {
		if numbers != nil { // others may have made the communicators, and would wait for this rank
			call.tell(numbers[ofBoth], noticeLeft, parcel{})
			tellRanks(g, theirs, place, numbers[ofRemote])
			tellRanks(g, mine, place, numbers[ofLocal])
		}
		return nil, err
	}
	pes := make([]layout.PE, len(theirs))
	for i, rank := range theirs {
		pes[i] = g.pe(rank)
	}
	of := &Intercomm{low: low, local: &Comm{g: enterMessaging(g, mine, numbers[ofLocal]), ctx: ctx}}
	of.remote = &Comm{g: enterRemote(e, of.local.g, pes, numbers[ofRemote]), ctx: ctx}
	of.both = &Comm{g: enterMessaging(g, call.members, numbers[ofBoth]), ctx: ctx}
	settle(of)
	return of, nil
}

// tellRanks tells ranks of a communicator that this process leaves another one, in which it is rank me. The caller has the engine's lock.
func tellRanks(g *group, ranks []int, me int, comm uint32) {
	for _, rank := range ranks {
		if pe := g.pe(rank); pe != g.e.me && !g.e.isDead(pe) {
			g.e.sendPacket(g.e.laneTo(pe), &packet{kind: kindNotice, match: matchOf(comm, noticeLeft), size: sizeOf(me, 0)})
		}
	}
}
