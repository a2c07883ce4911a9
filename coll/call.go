package coll

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
)

// call is what has to be the same for all members of a large collective: of what kind it is,
// and what one member takes others to have.
//
// It has as many fields as the compiler keeps in registers. In memory it would be copied by
// loads that take what two stores have written, and so wait for all stores before them, which
// get their lines from other members.
type call struct{ kind, n, src, dst uint64 }

// The kinds. What makes them differ further is added to them.
const (
	callBroadcast = 1 + iota
	callReduce
	callScan
	callFCollect
	callAlltoall
	callAlltoallS
)

// kindOf adds the size of an element to a kind, and what else all have to agree in.
func kindOf[T any](kind, more uint64) uint64 {
	return kind + uint64(bytesOf[T](1))<<8 + more*0xff51afd7ed558ccd
}

// announce says what this member calls, before it enters step seq, and returns what everybody
// has to have said. A member that has called anything else has not said that for this step.
//
// It stays beside the one that follows until all that live have looked: who calls the one behind
// that has seen them enter a step of the next large collective. Members that differ in
// anything find so all alike, as each finds one that differs from itself, also where that one
// has given up and gone on: then its word is of a later step.
func (t *Team) announce(seq uint64, c call) (said uint64) {
	said = c.said(seq)
	rma.StoreRelease(&t.state.Call[1], t.state.Call[0])
	rma.StoreRelease(&t.state.Call[0], said)
	return said
}

// said is the call in step seq in a word. The products do not depend on each other: members
// that have met look at it before they move anything.
func (c call) said(seq uint64) uint64 {
	return mix(seq + c.kind*0xbf58476d1ce4e5b9 + c.n*0x94d049bb133111eb +
		c.src*0xd6e8feb86659fd93 + c.dst*0xc2b2ae3d27d4eb4f)
}

// concurs returns an error if a member that has entered the step has called anything else. The
// team is broken then: nobody knows how many steps the others take.
func (t *Team) concurs(i int, said uint64) error {
	of := &t.members[i].Teams[t.id].Call
	if atomic.LoadUint64(&of[0]) != said && atomic.LoadUint64(&of[1]) != said {
		return &OtherError{Member: i}
	}
	return nil
}

// concur is concurs for some members.
func (t *Team) concur(who []int, said uint64) error {
	for _, i := range who {
		if err := t.concurs(i, said); err != nil {
			return err
		}
	}
	return nil
}
