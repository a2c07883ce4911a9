package coll

import (
	"context"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Op combines contributions element by element: acc[i] = acc[i] op in[i], of slices of the same length.
type Op[T any] func(acc, in []T)

// Buffers names the symmetric objects of a collective by their offsets in the
// segment, the same for all members.
type Buffers struct {
	Dst, Src uint64
	N        int // elements that one member contributes (to one other, for an exchange)
}

func view[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// elements returns n elements at an offset of member i's segment. It is generic so that the compiler puts it in
// line in collectives that other packages instantiate: it puts no call of a plain function in line there.
func elements[T any](t *Team, i int, off uint64, n int) []T {
	return view[T](unsafe.Add(unsafe.Pointer(t.members[i]), int(off)), n)
}

// bytesOf returns the size of n elements.
func bytesOf[T any](n int) int {
	var z T
	return n * int(unsafe.Sizeof(z))
}

// Broadcast copies N elements of the root's source to everybody's destination,
// the root's included. Source and destination may be the same object.
//
// A member returns as soon as it has the root's data. Of small data, the root returns
// at once. Large data are read from the root's source, so the root returns when all members
// that live have them.
//
//   - Errors: on a tolerant team whose root died short of it, a *DeadError on all members.
func Broadcast[T any](ctx context.Context, t *Team, b Buffers, root int) error {
	if bytesOf[T](b.N) > t.slotBytes {
		return broadcastLarge[T](ctx, t, b, root)
	}
	size := max(bytesOf[T](b.N), aCell) // so that the root may be many steps ahead
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	t.onlyContributor = root
	if t.me == root {
		err = giveSmall[T](ctx, t, b, seq, size)
	} else {
		err = takeSmall[T](ctx, t, b, root, seq, size)
	}
	t.endCollective(&err) // not deferred, as in exchange
	return err
}

// giveSmall is the root's part of a broadcast through its slots.
func giveSmall[T any](ctx context.Context, t *Team, b Buffers, seq uint64, size int) error {
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return err
	}
	src := elements[T](t, t.me, b.Src, b.N)
	rma.Copy(to, src)
	t.enterStep(seq, true)
	copy(elements[T](t, t.me, b.Dst, b.N), src)
	return nil
}

// takeSmall is the part of the other members.
func takeSmall[T any](ctx context.Context, t *Team, b Buffers, root int, seq uint64, size int) error {
	t.enterStep(seq, false)
	if _, err := t.awaitRoot(ctx, root, seq); err != nil {
		return err
	}
	rma.CopyOut(elements[T](t, t.me, b.Dst, b.N), t.contributionOf(root, seq, size))
	return nil
}

// broadcastLarge lets every member read the root's source where it lies.
func broadcastLarge[T any](ctx context.Context, t *Team, b Buffers, root int) (err error) {
	seq, err := t.beginCollective(2)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	t.onlyContributor = root
	c := call{kind: kindOf[T](callBroadcast, uint64(root)), n: uint64(b.N), src: b.Src}
	if t.me == root {
		t.announceCall(seq, c)
	}
	t.enterStep(seq, t.me == root)
	alive, err := t.awaitRoot(ctx, root, seq)
	if alive && t.me != root {
		if err := t.checkCallOf(root, c.digest(seq)); err != nil {
			return err
		}
	}
	if !alive && !t.survives(err) {
		return err
	}
	if alive && (t.me != root || b.Dst != b.Src) { // in place, nothing is written while others read it
		rma.MoveOut(elements[T](t, t.me, b.Dst, b.N), t.address(root, b.Src))
	}
	t.enterStep(seq+1, false)
	if t.me == root {
		return t.awaitAll(ctx, seq+1)
	}
	if alive {
		return t.checkRootStayed(root, seq+1)
	}
	return err
}

// Reduce combines N elements of everybody's source, in the order of the group,
// into everybody's destination. Source and destination may be the same object.
//
//   - Small data: everybody combines all.
//   - Large data: member i combines the i-th part for all.
//   - Shape: an element has at most layout.SlotSize bytes.
func Reduce[T any](ctx context.Context, t *Team, b Buffers, op Op[T]) error {
	size := bytesOf[T](b.N)
	if size > t.slotBytes {
		return reduceLarge(ctx, t, b, op)
	}
	seq, err := t.exchange(ctx, elements[byte](t, t.me, b.Src, size))
	if err != nil {
		return err
	}
	dst, who := elements[T](t, t.me, b.Dst, b.N), t.contributors(seq)
	copy(dst, view[T](t.contributionOf(who[0], seq, size), b.N))
	for _, i := range who[1:] {
		op(dst, view[T](t.contributionOf(i, seq, size), b.N))
	}
	return nil
}

// reduceLarge lets each member combine its part, piece by piece in its own slot, and put the
// pieces to all. No other member reads that part of any source. So source and destination may be
// one object.
func reduceLarge[T any](ctx context.Context, t *Team, b Buffers, op Op[T]) (err error) {
	seq, err := t.beginCollective(2)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	rma.StoreRelease(t.progressOf(t.me), 0)
	said := t.announceCall(seq, call{kindOf[T](callReduce, 0), uint64(b.N), b.Src, b.Dst})
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	r := reduction[T]{t: t, b: b, op: op, seq: seq, who: t.contributors(seq)}
	if err := t.checkCalls(r.who, said); err != nil {
		return err
	}
	k, _ := slices.BinarySearch(r.who, t.me)
	r.pushPart(k)
	if err := t.meetLast(ctx, seq+1); err != nil || t.dead == nil || !r.lacksPart() {
		return err
	}
	return r.rescueParts(ctx)
}
