package flat

import (
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// fault says why a step has failed. Of several faults, the greatest is reported.
type fault uint32

const (
	noFault fault = iota
	broken        // a member has given the team up
	left          // a member has left the team
	dead          // a member has died
)

// status says why a node has no part of a team that is being made.
type status uint32

const (
	statusOK      status = iota
	statusNoID           // the part has found no free id
	statusMembers        // the lists of the part's members are no groups
)

// record is what members contribute to a step, folded, and its decision. It has the same form in every process of the
// job, as all have the same layout version.
type record struct {
	first   coll.Words // what the lowest member gave
	other   coll.Words // what the member differs gave
	and     uint64     // of the words that all gave
	top     uint64     // the greatest number that a member has used
	member  int32      // the lowest member
	differs int32      // the lowest member that gave other words; -1: none
	who     int32      // the member that the fault or the status is about; -1: unknown
	fault   fault
	status  status
	_       uint32
}

const recordBytes = int(unsafe.Sizeof(record{}))

// The conversion fails to compile if a record does not fit into a line.
const _ = uint(layout.UpperData - recordBytes)

// bytes returns the record as bytes.
func (r *record) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), recordBytes) }

// fold adds what in has to r. The members of in come after the lowest member of r.
func (r *record) fold(in *record) {
	switch {
	case in.first != r.first:
		r.noteDiffers(in.member, in.first)
	case in.differs >= 0:
		r.noteDiffers(in.differs, in.other)
	}
	r.and &= in.and
	r.top = max(r.top, in.top)
	if in.fault > r.fault || in.status > r.status {
		r.who = in.who
	}
	r.fault, r.status = max(r.fault, in.fault), max(r.status, in.status)
}

// noteDiffers notes a member that gave other words, unless a lower one is known.
func (r *record) noteDiffers(member int32, words coll.Words) {
	if r.differs < 0 || member < r.differs {
		r.differs, r.other = member, words
	}
}

// foldAll is fold as an operator.
func foldAll(acc, in []record) {
	for i := range acc {
		acc[i].fold(&in[i])
	}
}
