package coll

import (
	"context"
	"unsafe"
)

// Words is a small record that all members compare.
type Words [4]uint64

// record is what Same and Gather put into a slot.
type record struct {
	seq   uint64
	check uint64 // complement of seq: what other collectives leave in a slot does not look so
	w     Words
}

const recordBytes = int(unsafe.Sizeof(record{}))

// Same returns -1 when all members that have called it did so with the same words.
// Otherwise it returns the first member whose words differ from those of the first
// member, and both. All members get the same answer.
func (t *Team) Same(ctx context.Context, w Words) (differs int, first, other Words, err error) {
	// A member that is in another collective has not written its slot in this
	// step: what an earlier one left there must not pass for its words.
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), recordBytes))
	if err != nil {
		return -1, w, w, err
	}
	who := t.contributors(seq)
	first = t.wordsOf(who[0], seq)
	for _, i := range who[1:] {
		if other = t.wordsOf(i, seq); other != first {
			return i, first, other, nil
		}
	}
	return -1, first, first, nil
}

// wordsOf returns what member i gave to Same in step seq, zeros if the member was in another
// collective.
func (t *Team) wordsOf(i int, seq uint64) Words {
	if r := (*record)(t.contributionOf(i, seq, recordBytes)); r.seq == seq && r.check == ^seq {
		return r.w
	}
	return Words{}
}

// Gather returns the words of all members, in their order. It is strict: all
// survivors get a *DeadError if a member has died short of it.
//
//   - Errors: *OtherError when a member has called something else.
func (t *Team) Gather(ctx context.Context, w Words) ([]Words, error) {
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), recordBytes))
	if err == nil {
		err = t.Whole()
	}
	if err != nil {
		return nil, err
	}
	all := make([]Words, len(t.members))
	for i := range all {
		r := (*record)(t.contributionOf(i, seq, recordBytes))
		if r.seq != seq || r.check != ^seq {
			return nil, t.breakOnMismatch(i)
		}
		all[i] = r.w
	}
	return all, nil
}
