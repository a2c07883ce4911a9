package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Exchanges of private memory
//
// Data that fit into a slot go in one step, behind a heading (private.go), which says what its member has called. Larger
// data go through areas, or are read where they lie: pieces.go, lend.go, scatterstream.go, relay.go. If neither can be done, each
// function reports on all members that it has moved nothing.
//
// No member may use Outcome after them to find contributors: they need all members. On a tolerant team with a dead member
// they return what Whole returns.

// AllgatherPrivate puts the src of all members one after the other, in the order of the group, into everybody's dst. src
// may be this member's part of dst.
//
//   - Shape: src has as many bytes on all members.
//   - Errors: as ReducePrivate. If done is false, nothing was moved.
func AllgatherPrivate(ctx context.Context, t *Team, dst, src []byte) (done bool, err error) {
	if len(src) > MaxPrivate {
		return allgatherPieces(ctx, t, dst, src)
	}
	return t.exchangeBlocks(ctx, headingOf(whatAllgather, -1, len(src)), dst, src, 0, len(src))
}

// AlltoallPrivate puts the i-th block of member j's src into the j-th block of member i's dst. dst may be src.
//
//   - Shape: src and dst have as many bytes, the same multiple of the number of members on all of them.
//   - Errors: as AllgatherPrivate.
func AlltoallPrivate(ctx context.Context, t *Team, dst, src []byte) (done bool, err error) {
	n := len(src) / len(t.members)
	if len(src) > MaxPrivate {
		return alltoallPieces(ctx, t, dst, src)
	}
	return t.exchangeBlocks(ctx, headingOf(whatAlltoall, -1, len(src)), dst, src, t.me*n, n)
}

// exchangeBlocks copies n bytes of each member's contribution, from one of them on, to this member's dst.
func (t *Team) exchangeBlocks(ctx context.Context, h heading, dst, src []byte, from, n int) (done bool, err error) {
	seq, err := t.exchangeHeaded(ctx, h, src)
	if err != nil {
		return true, err
	}
	size := headingBytes + len(src)
	for _, i := range t.contributors(seq) {
		data, ok := h.match(t.contributionOf(i, seq, size), seq)
		if !ok {
			return true, t.breakOnMismatch(i)
		}
		rma.CopyOut(dst[i*n:(i+1)*n], unsafe.Add(data, from))
	}
	return true, t.Whole()
}

// GatherPrivate puts the src of all members one after the other, in the order of the group, into the root's dst. Other
// members wait only if they lend their src, or for places in their slots and areas. src may be the root's part of dst.
//
//   - Shape: src has as many bytes on all members.
//   - Errors: as AllgatherPrivate, but only the root finds that members have called something else.
func GatherPrivate(ctx context.Context, t *Team, dst, src []byte, root int) (done bool, err error) {
	h, n := headingOf(whatGather, root, len(src)), len(src)
	if n > MaxPrivate {
		return gatherLarge(ctx, t, dst, src, root)
	}
	seq, err := t.beginCollective(1)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	size := max(headingBytes+n, aCell) // so that a member may be many steps ahead of the root
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return true, err
	}
	copy(unsafe.Slice((*byte)(h.writeTo(to, seq)), n), src)
	t.enterStep(seq, false)
	if t.me != root {
		return true, nil
	}
	if err := t.awaitAll(ctx, seq); err != nil {
		return true, err
	}
	for _, i := range t.contributors(seq) {
		data, ok := h.match(t.contributionOf(i, seq, size), seq)
		if !ok {
			return true, &OtherError{Member: i} // which breaks the team
		}
		rma.CopyOut(dst[i*n:(i+1)*n], data)
	}
	return true, t.Whole()
}

// ScatterPrivate puts the i-th block of the root's src into member i's dst. The root waits only if it lends its src, or for
// places. dst may be the root's block of src.
//
//   - Shape: dst has as many bytes on all members.
//   - Errors: as AllgatherPrivate; *OtherError when the root has called something else.
func ScatterPrivate(ctx context.Context, t *Team, dst, src []byte, root int) (done bool, err error) {
	n := len(dst)
	h, all := headingOf(whatScatter, root, n), n*len(t.members)
	if all > MaxPrivate {
		return scatterStream(ctx, t, dst, src, root)
	}
	seq, err := t.beginCollective(1)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	t.onlyContributor = root
	size := max(headingBytes+all, aCell)
	if t.me == root {
		to, err := t.awaitPlace(ctx, seq, size)
		if err != nil {
			return true, err
		}
		copy(unsafe.Slice((*byte)(h.writeTo(to, seq)), all), src)
		t.enterStep(seq, true)
		copy(dst, src[root*n:(root+1)*n])
		return true, nil
	}
	t.enterStep(seq, false)
	if _, err := t.awaitRoot(ctx, root, seq); err != nil {
		return true, err
	}
	data, ok := h.match(t.contributionOf(root, seq, size), seq)
	if !ok {
		return true, &OtherError{Member: root}
	}
	rma.CopyOut(dst, unsafe.Add(data, t.me*n))
	return true, nil
}

// ScanPrivate combines the src of the members up to this one, in the order of the group, into dst. An exclusive scan
// leaves out this member's, and the dst of the first member as it is. No member waits for those behind it, but for places,
// and of two members the first one may lend its src. dst may be src.
//
//   - Shape: all members have as many elements.
//   - Errors: as AllgatherPrivate, but a member finds only what those before it have called.
func ScanPrivate[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], exclusive bool) (done bool, err error) {
	what, end := whatScan, t.me+1
	if exclusive {
		what, end = whatExscan, t.me
	}
	bytes := bytesOf[T](len(src))
	if bytes > MaxPrivate {
		return scanChain(ctx, t, dst, src, op, exclusive)
	}
	size := max(headingBytes+bytes, aCell) // so that a member may be many steps ahead of those behind it
	seq, err := t.takeFromBefore(ctx, headingOf(what, -1, bytes), size, view[byte](unsafe.Pointer(unsafe.SliceData(src)), bytes))
	if err != nil {
		return true, err
	}
	for i := range end {
		combineNext(dst, t, i, seq, size, 0, op)
	}
	return true, nil
}

// takeFromBefore publishes bytes, and returns when this member may read the contributions of those before it.
func (t *Team) takeFromBefore(ctx context.Context, h heading, size int, bytes []byte) (seq uint64, err error) {
	if seq, err = t.beginCollective(1); err != nil {
		return 0, err
	}
	defer t.endCollective(&err)
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return 0, err
	}
	copy(unsafe.Slice((*byte)(h.writeTo(to, seq)), len(bytes)), bytes)
	t.enterStep(seq, true) // others may be waiting for this member alone
	for i := range t.me {
		if _, err := t.awaitRoot(ctx, i, seq); err != nil {
			return 0, err
		}
		if _, ok := h.match(t.contributionOf(i, seq, size), seq); !ok {
			return 0, &OtherError{Member: i} // which breaks the team
		}
	}
	return seq, nil
}

// combineNext combines member i's contribution, from one element on, with what dst has of the members before it.
func combineNext[T any](dst []T, t *Team, i int, seq uint64, size, from int, op Op[T]) {
	in := unsafe.Add(t.contributionOf(i, seq, size), headingBytes+bytesOf[T](from))
	if i == 0 {
		rma.CopyOut(dst, in)
	} else {
		op(dst, view[T](in, len(dst)))
	}
}

// ReduceScatterPrivate combines the i-th blocks of all members' src, in the order of the group, into member i's dst.
// dst may be the beginning of src. If the operator panics while others wait for this member, it breaks the team.
//
//   - Shape: src has as many elements on all members, dst a block of them.
//   - Errors: as AllgatherPrivate.
func ReduceScatterPrivate[T any](ctx context.Context, t *Team, dst, src []T, op Op[T]) (done bool, err error) {
	if bytesOf[T](len(src)) > MaxPrivate {
		return reduceScatterPieces(ctx, t, dst, src, op)
	}
	h := headingOf(whatReduceScatter, -1, bytesOf[T](len(src)))
	seq, err := t.exchangeHeaded(ctx, h, view[byte](unsafe.Pointer(unsafe.SliceData(src)), bytesOf[T](len(src))))
	if err != nil {
		return true, err
	}
	size := headingBytes + bytesOf[T](len(src))
	for _, i := range t.contributors(seq) {
		if _, ok := h.match(t.contributionOf(i, seq, size), seq); !ok {
			return true, t.breakOnMismatch(i)
		}
	}
	if err := t.Whole(); err != nil {
		return true, err
	}
	for i := range t.members {
		combineNext(dst, t, i, seq, size, t.me*len(dst), op)
	}
	return true, nil
}
