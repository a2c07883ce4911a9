package coll

import (
	"context"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/internal/reach"
	"github.com/goshmem/goshmem/rma"
)

// # Lent memory
//
// Members of a large exchange may read each other's sources where they lie, so that the data are copied once: sources in
// the symmetric heap, which all have mapped, and large private ones by the kernel (package reach).
//
//   - In the first step each member says where its source is. If all do, each reads what it needs.
//   - In the second step each says whether it has read all. No member returns before: its caller may change the source.
//     A member whose context ends there leaves a mark, which fails the exchange on all that may have read something else.
//   - If the kernel has refused something, the exchange is made in another way, and the member that was refused lends
//     and reads nothing any more on the team.

// lending is what a member knows of what the others lend.
//
//   - Owns: the processes of the others, and what this member lends.
//   - Reads: the sources there, between the two steps.
type lending struct {
	refused bool     // this member could not read something
	said    []word   // what the members have said in the latest exchange
	lenders []lender // the members
	lent    []byte   // what this member lends, so that it is kept
}

// loans is the way of lent memory, as a member of a team goes it.
type loans struct{ *Team }

// lender is what a member knows of another one's process. It is zero before the first access.
type lender struct{ process reach.Process }

// lendLeast is the number of bytes of a private block from which on the kernel's work for each page costs less than a
// second copy.
const lendLeast = 48 << 10

// word is what a member says in the first step of a large exchange. Zero says that it can give its data in neither way.
type word uint64

// The ways of a word. Those of lent memory have an address behind them.
const (
	inPieces   word = 1 // its first piece is in its area, or it gives nothing
	lentMemory word = 2 // its source is at an address of its process
	lentHeap   word = 3 // its source is at an offset of its segment

	wayBits = 2
	wayMask = 1<<wayBits - 1
)

func (w word) lends() bool { return w&wayMask >= lentMemory }

// wayOf returns the way that all members can go, lentMemory if each lends its source, or 0.
func wayOf(all []word) word {
	pieces, lent := 0, 0
	for _, w := range all {
		switch {
		case w.lends():
			lent++
		case w == inPieces:
			pieces++
		}
	}
	switch len(all) {
	case pieces:
		return inPieces
	case lent:
		return lentMemory
	}
	return 0
}

// lent is a source that others may read. The zero lent is none.
type lent struct {
	src   []byte
	block int // bytes of a block
}

func lend(src []byte, block int) lent { return lent{src, block} }

// word returns what this member says of the source.
func (l lent) word(t *Team) word {
	if l.src == nil || t.lending.refused {
		return 0
	}
	at, base := uintptr(unsafe.Pointer(&l.src[0])), uintptr(unsafe.Pointer(t.members[t.me]))
	switch size := uintptr(t.members[t.me].Header.Size); {
	case at >= base && at+uintptr(len(l.src)) <= base+size:
		return lentHeap | word(at-base)<<wayBits
	case l.block < lendLeast:
		return 0
	}
	t.lending.lent = l.src // so that it is not on a stack, which could move
	return lentMemory | word(at)<<wayBits
}

// run is a collective of two steps in which members read what others have lent. A member that lends nothing
// passes the zero lent. If some member cannot lend or read, nothing is done.
func (t loans) run(ctx context.Context, h heading, l lent, read func(from []word) bool) (done bool, err error) {
	seq, err := t.beginCollective(2)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	mine := lentMemory
	if l.src != nil || t.lending.refused {
		mine = l.word(t.Team)
	}
	all, err := t.tellWords(ctx, h, seq, mine)
	if err != nil {
		return true, err
	}
	if wayOf(all) != lentMemory {
		t.state.Seq = seq // nobody enters the second step
		t.lending.lent = nil
		return false, nil
	}
	return t.end(ctx, seq+1, all, read)
}

// compareOnly is a collective of one step that moves nothing: its members find whether they have called the same.
func (t *Team) compareOnly(ctx context.Context, h heading) (done bool, err error) {
	seq, err := t.beginCollective(1)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	_, err = t.tellWords(ctx, h, seq, 0)
	return err != nil, err
}

// tellWords is the first step of a large exchange. It returns what all members have said.
func (t *Team) tellWords(ctx context.Context, h heading, seq uint64, mine word) (all []word, err error) {
	to, err := t.awaitPlace(ctx, seq, headingBytes+8)
	if err != nil {
		return nil, err
	}
	*(*word)(h.writeTo(to, seq)) = mine
	if err := t.meet(ctx, seq); err != nil {
		return nil, err
	}
	said := t.lending.said
	if said == nil {
		said = make([]word, len(t.members))
		t.lending.said = said
	}
	clear(said)
	for _, i := range t.contributors(seq) {
		data, ok := h.match(t.contributionOf(i, seq, headingBytes+8), seq)
		if !ok {
			return nil, t.breakOnMismatch(i)
		}
		said[i] = *(*word)(data)
	}
	return said, nil
}

// end reads what this member needs, and is the second step.
func (t loans) end(ctx context.Context, seq uint64, from []word, read func(from []word) bool) (done bool, err error) {
	const size = 8
	said := uint64(0)
	switch {
	case !read(from):
		t.lending.refused = true
	case !t.someoneDied():
		said = 1
	}
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return true, err
	}
	*(*uint64)(to) = said
	if err := t.meetLast(ctx, seq); err != nil {
		return true, err
	}
	t.lending.lent = nil
	for _, i := range t.contributors(seq) {
		said &= *(*uint64)(t.contributionOf(i, seq, size))
	}
	return said != 0, t.Whole()
}

// someoneDied reports whether the death of a member was published after this one had entered the first step: by then,
// another process may have had the number of the dead one.
func (t loans) someoneDied() bool {
	return t.failures.Epoch() > t.deadEpoch && slices.ContainsFunc(t.everyone, t.knownDead)
}

// copy reads from an offset of what member i has lent. It reports whether it could.
func (t loans) copy(dst []byte, i int, w word, offset int) bool {
	at := uint64(w>>wayBits) + uint64(offset)
	if w&wayMask == lentHeap {
		rma.MoveOut(dst, t.address(i, at))
		return true
	}
	if t.lending.lenders == nil {
		t.lending.lenders = make([]lender, len(t.members))
	}
	of := &t.lending.lenders[i]
	if *of == (lender{}) {
		of.process, _ = reach.Find(t.members[i]) // the zero Process if it may not be accessed, which Read says
	}
	for lo := 0; lo < len(dst); lo += directPart {
		part := dst[lo:min(lo+directPart, len(dst))]
		if of.process.Read(unsafe.Pointer(&part[0]), at+uint64(lo), len(part)) != nil {
			return false
		}
	}
	return true
}

// copyBlocks reads n bytes at an offset of what each of the others has lent to its part of dst.
func (t loans) copyBlocks(dst []byte, n int, from []word, offset int) bool {
	for j := 1; j < len(t.members); j++ {
		i := (t.me + j) % len(t.members) // not everybody from the same member at once
		if !t.copy(dst[i*n:(i+1)*n], i, from[i], offset) {
			return false
		}
	}
	return true
}
