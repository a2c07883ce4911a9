package coll

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
)

// call is what has to be the same on all members of a large collective: its kind, and what a member
// assumes about the others' arguments. Each member says it in the words Call of its own
// layout.Team, and reads those of the others.
//
// It has as many fields as the compiler keeps in registers. In memory it would be copied by
// loads that take what two stores have written. They would wait for all stores before them, which
// get their lines from other members.
type call struct{ kind, n, src, dst uint64 }

// The kinds of calls. kindOf adds what makes them differ further.
const (
	callBroadcast = 1 + iota
	callReduce
	callScan
	callFCollect
	callAlltoall
	callAlltoallS
)

// kindOf adds to a kind the size of an element, and more on which all members have to agree.
func kindOf[T any](kind, more uint64) uint64 {
	return kind + uint64(bytesOf[T](1))<<8 + more*0xff51afd7ed558ccd
}

// announceCall publishes what this member calls, before it enters step seq. It returns what
// every member has to have said: a member that calls anything else says something else for this
// step.
//
// The announcement stays beside the following one until all members that live have looked at
// it: a member that makes the second call after it has seen them enter a step of the next large
// collective. Members that differ in anything all find a difference, as each one finds a
// member that differs from itself. That holds for a member that has given up and gone on as well:
// its word is of a later step then.
func (s *steps) announceCall(seq uint64, c call) (said uint64) {
	said = c.digest(seq)
	rma.StoreRelease(&s.state.Call[1], s.state.Call[0])
	rma.StoreRelease(&s.state.Call[0], said)
	return said
}

// digest returns the call in step seq as one word. The products do not depend on each other, as
// members compare digests after they have met and before they move anything.
func (c call) digest(seq uint64) uint64 {
	return mix(seq + c.kind*0xbf58476d1ce4e5b9 + c.n*0x94d049bb133111eb +
		c.src*0xd6e8feb86659fd93 + c.dst*0xc2b2ae3d27d4eb4f)
}

// checkCallOf returns an error if member i, which has entered the step, has called anything else.
// The error breaks the team: how many steps the other call takes is not known.
func (s *steps) checkCallOf(i int, said uint64) error {
	of := &s.members[i].Teams[s.id].Call
	if atomic.LoadUint64(&of[0]) != said && atomic.LoadUint64(&of[1]) != said {
		return &OtherError{Member: i}
	}
	return nil
}

// checkCalls is checkCallOf for some members.
func (s *steps) checkCalls(who []int, said uint64) error {
	for _, i := range who {
		if err := s.checkCallOf(i, said); err != nil {
			return err
		}
	}
	return nil
}
