package coll

import (
	"context"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Folder combines contributions element by element: acc = acc op in.
type Folder[T any] interface{ Fold(acc, in []T) }

// Buffers names the symmetric objects of a collective by their offsets in the
// segment, the same for all members.
type Buffers struct {
	Dst, Src uint64
	N        int // elements that one member contributes (to one other, for an exchange)
}

func view[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// bytesOf returns the size of n elements.
func bytesOf[T any](n int) int {
	var z T
	return n * int(unsafe.Sizeof(z))
}

// Broadcast copies N elements of the root's source to everybody's destination,
// the root's included. Source and destination may be the same object.
//
// A member returns as soon as it has the root's data; the root returns, with a
// small message, at once. Large data are read from the root's source, so it
// returns when all that live have them.
//
// On a tolerant team, a root that died short of it is a *DeadError for all.
func Broadcast[T any](ctx context.Context, t *Team, b Buffers, root int) (err error) {
	if bytesOf[T](b.N) > t.small {
		return broadcastLarge[T](ctx, t, b, root)
	}
	size := max(bytesOf[T](b.N), aCell) // so that the root may be many steps ahead
	seq, err := t.begin(1)
	if err != nil {
		return err
	}
	defer t.end(&err)
	t.only = root
	dst := view[T](t.at(t.me, b.Dst), b.N)
	if t.me != root {
		t.enter(seq, false)
		if _, err := t.awaitRoot(ctx, root, seq); err != nil {
			return err
		}
		rma.CopyOut(dst, t.slot(root, seq, size))
		return nil
	}
	to, err := t.take(ctx, seq, size)
	if err != nil {
		return err
	}
	src := view[T](t.at(root, b.Src), b.N)
	rma.Copy(to, src)
	t.enter(seq, true)
	copy(dst, src)
	return nil
}

// broadcastLarge has everybody read the root's source where it lies.
func broadcastLarge[T any](ctx context.Context, t *Team, b Buffers, root int) (err error) {
	seq, err := t.begin(2)
	if err != nil {
		return err
	}
	defer t.end(&err)
	t.only = root
	c := call{kind: kindOf[T](callBroadcast, uint64(root)), n: uint64(b.N), src: b.Src}
	if t.me == root {
		t.announce(seq, c)
	}
	t.enter(seq, t.me == root)
	alive, err := t.awaitRoot(ctx, root, seq)
	if alive && t.me != root {
		if err := t.concurs(root, c.said(seq)); err != nil {
			return err
		}
	}
	if !alive && !t.survives(err) {
		return err
	}
	if alive && (t.me != root || b.Dst != b.Src) { // in place, nothing is written while others read it
		rma.MoveOut(view[T](t.at(t.me, b.Dst), b.N), t.at(root, b.Src))
	}
	t.enter(seq+1, false)
	if t.me == root {
		return t.awaitAll(ctx, seq+1)
	}
	if alive {
		return t.stays(root, seq+1)
	}
	return err
}

// stays returns an error if a broadcast's root has given it up in its last step, seq: its
// source may have changed before this member, which has entered that step, had read it.
func (t *Team) stays(root int, seq uint64) error {
	if v := atomic.LoadUint64(t.word(root)); v&gaveUp != 0 && v&^marks <= seq {
		_, err := t.marked(root, v)
		return err
	}
	return nil
}

// awaitRoot returns when a broadcast's root has entered step seq, or with the error
// of all survivors if it is dead short of it.
func (t *Team) awaitRoot(ctx context.Context, root int, seq uint64) (alive bool, err error) {
	v, err := t.await(ctx, root, seq)
	if err == nil && v == 0 {
		err = &DeadError{Members: []int{root}}
	}
	return err == nil, err
}

// Reduce combines N elements of everybody's source, in the order of the group,
// into everybody's destination. Source and destination may be the same object.
//
// Small data: everybody combines all. Large data: member i combines the i-th
// part for all. An element has at most layout.SlotSize bytes.
func Reduce[T any](ctx context.Context, t *Team, b Buffers, op Folder[T]) error {
	size := bytesOf[T](b.N)
	if size > t.small {
		return reduceLarge(ctx, t, b, op)
	}
	seq, err := t.exchange(ctx, view[byte](t.at(t.me, b.Src), size))
	if err != nil {
		return err
	}
	dst, who := view[T](t.at(t.me, b.Dst), b.N), t.present(seq)
	copy(dst, view[T](t.slot(who[0], seq, size), b.N))
	for _, i := range who[1:] {
		op.Fold(dst, view[T](t.slot(i, seq, size), b.N))
	}
	return nil
}

// reduceLarge lets each member combine its part, piece by piece in its own
// slot, and put it to everybody. No other member reads that part of any source, so
// the two objects may be one.
func reduceLarge[T any](ctx context.Context, t *Team, b Buffers, op Folder[T]) (err error) {
	seq, err := t.begin(2)
	if err != nil {
		return err
	}
	defer t.end(&err)
	rma.StoreRelease(t.progress(t.me), 0)
	said := t.announce(seq, call{kindOf[T](callReduce, 0), uint64(b.N), b.Src, b.Dst})
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	r := reduction[T]{t: t, b: b, op: op, seq: seq, who: t.present(seq)}
	if err := t.concur(r.who, said); err != nil {
		return err
	}
	k, _ := slices.BinarySearch(r.who, t.me)
	r.push(k)
	if err := t.meetLast(ctx, seq+1); err != nil || t.gone == nil || !r.lacking() {
		return err
	}
	return r.rescue(ctx)
}
