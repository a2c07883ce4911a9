package coll

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
)

// call is what has to be the same for all members of a large collective: of what kind it is,
// and what one member takes others to have.
type call [5]uint64

// The kinds. What makes them differ further is added to them.
const (
	callBroadcast = 1 + iota
	callReduce
	callScan
	callFCollect
	callAlltoall
	callAlltoallS
)

// kindOf adds the size of an element to a kind.
func kindOf[T any](kind uint64) uint64 { return kind | uint64(bytesOf[T](1))<<8 }

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

// said is the call in step seq in a word.
func (c *call) said(seq uint64) uint64 {
	h := mix(seq)
	for _, x := range c {
		h = mix(h ^ x)
	}
	return h
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
