package span

import (
	"cmp"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/internal/fold"
)

// Died is why a member of a lost node has not contributed.
const Died = board.Died

// Fault says why a step has failed. Of several faults, the greatest is reported.
type Fault uint32

// The faults.
const (
	NoFault Fault = iota
	Again         // a member of a tolerant team could not do its part, as another one has died
	Broken        // a member has given the team up
	Left          // a member has left the team
	Dead          // a member of a strict team has died
)

// What a record says of the bytes behind it, by Op:
//
//	fold.KindUser     pieces of members, or bits: each member's bytes are its own
//	Sum to Xor        elements of the type Elem, which the agents fold by that operator
//	Mixed             nothing is behind it: members gave what cannot be folded into one

// Mixed is Record.Op if members gave other kinds of bytes, or of other lengths. So it is only if their words differ, or if one has a
// fault.
const Mixed fold.Kind = 1<<8 - 1

// Record is what members contribute to a step, folded, and its decision. It has the same form in every process of the
// job, as all have the same layout version.
type Record struct {
	First   [4]uint64 // what the lowest member gave
	Other   [4]uint64 // what the member Differs gave
	And     uint64    // of the words that all gave
	Member  int32     // the lowest member
	Differs int32     // the lowest member that gave other words; -1: none
	Who     int32     // the lowest member that the fault is about or, without one, the status; -1: unknown
	Fault   Fault
	Status  uint32 // the greatest one that a member gives
	Give    uint16 // bytes that the member gives besides
	Op      fold.Kind
	Elem    fold.Elem
}

// RecordBytes is the size of a record.
const RecordBytes = int(unsafe.Sizeof(Record{}))

// Bytes returns the record as bytes.
func (r *Record) Bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), RecordBytes) }

// Fold adds what in has to r, in any order.
func (r *Record) Fold(in *Record) {
	if in.Member < r.Member {
		low := *in
		low.Fold(r)
		*r = low
		return
	}
	switch {
	case in.First != r.First:
		r.noteDiffers(in.Member, in.First)
	case in.Differs >= 0:
		r.noteDiffers(in.Differs, in.Other)
	}
	r.And &= in.And
	if c := r.compareAbout(in); c < 0 || c == 0 && uint32(in.Who) < uint32(r.Who) {
		r.Who = in.Who
	}
	r.Fault, r.Status = max(r.Fault, in.Fault), max(r.Status, in.Status)
	if r.Fault != NoFault { // nobody uses what members give
		r.Op, r.Elem, r.Give = fold.KindUser, fold.NoElem, 0
	}
}

// compareAbout compares what Who is about: the fault or, if there is none, the status.
func (r *Record) compareAbout(in *Record) int {
	if r.Fault != NoFault || in.Fault != NoFault {
		return cmp.Compare(r.Fault, in.Fault)
	}
	return cmp.Compare(r.Status, in.Status)
}

// noteDiffers notes a member that gave other words, unless a lower one is known.
func (r *Record) noteDiffers(member int32, words [4]uint64) {
	if r.Differs < 0 || member < r.Differs {
		r.Differs, r.Other = member, words
	}
}
