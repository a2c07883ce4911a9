package mpi

import (
	"errors"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
)

// # Blocks through a team
//
// Gather, Scatter, Allgather, Alltoall, ReduceScatterBlock, Scan and Exscan of a communicator with a team on one node begin
// with a step of the team (coll/headed.go). In it, ranks find that others have called something else.
//
//   - Data that fit into a slot with what a rank gives, 8,176 bytes, move in that step. Longer data move in several, in
//     pieces, or are read where they lie.
//   - If the team can do neither, they go in messages after it, as those of communicators without a team do.
//   - A rank that fails in the team breaks the collectives in messages, too: others may be in them already.
//   - The forms with counts always go in messages: a rank does not know how much another one gives.

// hasOwnTeam reports whether a communicator has a team of its ranks, all of which are on this node.
func hasOwnTeam(g *group) bool { return !collectivesInMessages(g) && g.upper == nil }

// beginThroughTeam compares the calls of the ranks, if that is asked for.
func beginThroughTeam(c *Comm, x call) error {
	if !c.g.checks {
		return nil
	}
	return c.compare(x.op, "%s", x.describe())
}

// endThroughTeam returns the error of a call that has ended in the step of the team.
func endThroughTeam(c *Comm, op string, err error) error {
	if err == nil {
		return nil
	}
	e := c.g.fail(op, err)
	_, late := errors.AsType[*coll.LateError](err)
	_, differs := errors.AsType[*coll.OtherError](err)
	if late || differs {
		because := uint64(becauseGivenUp)
		if differs {
			because = becauseMismatch
		}
		c.g.e.mu.Lock()
		c.g.collectives.breakOff(because)
		c.g.e.unlock()
	}
	return handled(c.g, e)
}

// breakOnPanic is deferred around collectives with an operator. If it has panicked while other ranks wait in the team, the
// collectives in messages end as well.
func (g *group) breakOnPanic(returned *bool) {
	if *returned || !g.t.Broken() {
		return
	}
	g.e.mu.Lock()
	g.collectives.breakOff(becauseGivenUp)
	g.e.unlock()
}

// asBytes returns the memory of a slice.
func asBytes[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*elemSize[T]())
}

// checkBlocks checks that a buffer is divided among all ranks, and returns the length of a block.
func checkBlocks[T any](c *Comm, op, what string, all []T) (n int, err error) {
	if err := checkType[T](op); err != nil {
		return 0, err
	}
	if err := c.usable(op); err != nil {
		return 0, err
	}
	if len(all)%c.g.n != 0 {
		return 0, usage(op, ErrArgument, "%s has %d elements, want a multiple of the number of ranks, %d", what, len(all), c.g.n)
	}
	return len(all) / c.g.n, nil
}

// checkRootBlocks checks the buffers of a gather or a scatter. The root has all blocks, and each rank has one.
func checkRootBlocks[T any](c *Comm, op, whole string, all []T, part string, mine []T, root int) error {
	if err := checkType[T](op); err != nil {
		return err
	}
	if err := c.checkRoot(op, root); err != nil || root != c.g.me {
		return err
	}
	n, err := checkBlocks(c, op, whole, all)
	if err == nil {
		err = checkLength(op, part, len(mine), n)
	}
	if err != nil {
		return err
	}
	if spanOf(all).overlaps(spanOf(mine)) && data(mine) != data(all[root*n:]) {
		return usage(op, ErrArgument, "%s and %s overlap, want disjoint slices, or as %s the root's part of the %s", part, whole, part, whole)
	}
	return nil
}

// refused is the error of a call with bad arguments.
func refused(c *Comm, op string, err error) error { return handledOf(c, refuse(c, op, err)) }

func gatherBlocks[T any](c *Comm, op string, dst, src []T, root int) error {
	if err := checkRootBlocks(c, op, "destination", dst, "source", src, root); err != nil {
		return refused(c, op, err)
	}
	if hasOwnTeam(c.g) {
		if err := beginThroughTeam(c, call{op: op, kind: ofGather, root: root}); err != nil {
			return handled(c.g, err)
		}
		done, err := coll.GatherPrivate(revocableOf(c.ctx, c.g), c.g.t, asBytes(dst), asBytes(src), root)
		if done || err != nil {
			return endThroughTeam(c, op, err)
		}
	}
	counts, err := rootCounts(c, op, "destination", len(dst), root)
	if err != nil {
		return handledOf(c, err)
	}
	x, err := describeGather(c, op, dst, src, counts, root)
	return runNow(c, x, err)
}

func scatterBlocks[T any](c *Comm, op string, dst, src []T, root int) error {
	if err := checkRootBlocks(c, op, "source", src, "destination", dst, root); err != nil {
		return refused(c, op, err)
	}
	if hasOwnTeam(c.g) {
		if err := beginThroughTeam(c, call{op: op, kind: ofScatter, root: root}); err != nil {
			return handled(c.g, err)
		}
		done, err := coll.ScatterPrivate(revocableOf(c.ctx, c.g), c.g.t, asBytes(dst), asBytes(src), root)
		if done || err != nil {
			return endThroughTeam(c, op, err)
		}
	}
	counts, err := rootCounts(c, op, "source", len(src), root)
	if err != nil {
		return handledOf(c, err)
	}
	x, err := describeScatter(c, op, dst, src, counts, root)
	return runNow(c, x, err)
}

func allgatherBlocks[T any](c *Comm, op string, dst, src []T) error {
	n, err := checkBlocks(c, op, "destination", dst)
	if err == nil {
		err = checkLength(op, "source", len(src), n)
	}
	if err != nil {
		return refused(c, op, err)
	}
	if d, s := spanOf(dst), spanOf(src); d.overlaps(s) && data(src) != data(dst[c.g.me*n:]) {
		return refused(c, op, usage(op, ErrArgument, "source and destination overlap, want disjoint slices, or as source this rank's part of the destination"))
	}
	if hasOwnTeam(c.g) {
		if err := beginThroughTeam(c, call{op: op, kind: ofAllgather, bytes: spanOf(dst).bytes}); err != nil {
			return handled(c.g, err)
		}
		done, err := coll.AllgatherPrivate(revocableOf(c.ctx, c.g), c.g.t, asBytes(dst), asBytes(src))
		if done || err != nil {
			return endThroughTeam(c, op, err)
		}
	}
	x, err := describeAllgather(c, op, dst, src, Counts{Counts: sameCounts(c.g.n, n)})
	return runNow(c, x, err)
}

func alltoallBlocks[T any](c *Comm, op string, dst, src []T) error {
	n, err := checkBlocks(c, op, "source", src)
	if err == nil {
		err = checkBuffers(c, op, dst, src)
	}
	if err == nil {
		err = checkLength(op, "destination", len(dst), len(src))
	}
	if err != nil {
		return refused(c, op, err)
	}
	if hasOwnTeam(c.g) {
		if err := beginThroughTeam(c, call{op: op, kind: ofAlltoall}); err != nil {
			return handled(c.g, err)
		}
		done, err := coll.AlltoallPrivate(revocableOf(c.ctx, c.g), c.g.t, asBytes(dst), asBytes(src))
		if done || err != nil {
			return endThroughTeam(c, op, err)
		}
	}
	counts := Counts{Counts: sameCounts(c.g.n, n)}
	x, err := describeAlltoall(c, op, dst, src, counts, counts)
	return runNow(c, x, err)
}

func reduceScatterBlock[T any](c *Comm, name string, dst, src []T, op Op[T]) error {
	n, err := checkBlocks(c, name, "source", src)
	if err == nil {
		err = checkBuffers(c, name, dst, src)
	}
	switch {
	case err != nil:
	case op == nil:
		err = usage(name, ErrArgument, "operator is nil, want Sum, Max or another one")
	case data(dst) == data(src):
		dst = src[:n]
	default:
		err = checkLength(name, "destination", len(dst), n)
	}
	if err != nil {
		return refused(c, name, err)
	}
	if hasOwnTeam(c.g) {
		if err := beginThroughTeam(c, call{op: name, kind: ofReduceScatter, bytes: spanOf(src).bytes}); err != nil {
			return handled(c.g, err)
		}
		returned := false
		defer c.g.breakOnPanic(&returned)
		done, err := coll.ReduceScatterPrivate(revocableOf(c.ctx, c.g), c.g.t, dst, src, coll.Op[T](op))
		returned = true
		if done || err != nil {
			return endThroughTeam(c, name, err)
		}
	}
	x, err := describeReduceScatter(c, name, dst, src, sameCounts(c.g.n, n), op)
	return runNow(c, x, err)
}

func scanThroughTeam[T any](c *Comm, name string, dst, src []T, op Op[T], exclusive bool) error {
	err := c.usable(name)
	if err == nil {
		err = checkReduce(name, dst, src, op, true)
	}
	if err != nil {
		return refused(c, name, err)
	}
	if hasOwnTeam(c.g) {
		kind := ofScan
		if exclusive {
			kind = ofExscan
		}
		if err := beginThroughTeam(c, call{op: name, kind: kind, bytes: spanOf(src).bytes}); err != nil {
			return handled(c.g, err)
		}
		returned := false
		defer c.g.breakOnPanic(&returned)
		done, err := coll.ScanPrivate(revocableOf(c.ctx, c.g), c.g.t, dst, src, coll.Op[T](op), exclusive)
		returned = true
		if done || err != nil {
			return endThroughTeam(c, name, err)
		}
	}
	x, err := describeScan(c, name, dst, src, op, exclusive)
	return runNow(c, x, err)
}
