package coll

import (
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// roster is the members of a team, and which of them this member knows to be dead.
//
//   - Owns: dead and deadEpoch, which noteDeaths alone changes. New sets the other fields
//     once.
//   - Shared words: it writes none. It reads the failure page, which the step on the node
//     writes, and rings the members' bells.
type roster struct {
	members   []*layout.Control // each member's control region, in the order of the team
	me        int               // this member's index
	id        int               // the team's id, the same on all members
	tolerant  bool              // collectives go on without members that have died
	waiter    *wait.Waiter      // how this process waits
	failures  *failure.View     // the failure page; nil if no death is ever reported
	dead      []bool            // the members that were dead at deadEpoch; nil if none was
	deadEpoch uint64            // the latest epoch of the failure page that noteDeaths has seen
	where     []Member          // each member's number in the job and index on the node
	everyone  []int             // 0, 1, ... up to the last member's index
	// incarnation returns the incarnation of a PE. Nil: the headers of the members' segments are read.
	incarnation func(pe layout.PE) uint32
}

// address returns where offset off of member i's segment is mapped.
func (r *roster) address(i int, off uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(r.members[i]), int(off))
}

// knownDead reports whether the failure page tells of member i.
func (r *roster) knownDead(i int) bool {
	return r.failures.Dead(int(r.where[i].PE), r.incarnationOf(i))
}

// incarnationOf returns the incarnation of member i. Deaths of earlier incarnations are not its deaths.
func (r *roster) incarnationOf(i int) uint32 {
	if r.incarnation != nil {
		return r.incarnation(r.where[i].PE)
	}
	return r.members[i].Header.Incarnation
}

// noteDeaths brings dead and deadEpoch up to the failure page.
//
// The epoch is read before the members are looked at. A death that is published in between
// may be noted already; the next call looks again.
func (r *roster) noteDeaths() {
	epoch := r.failures.Epoch() // before the looks at the members
	if epoch <= r.deadEpoch {
		return
	}
	for i := range r.members {
		if !r.knownDead(i) {
			continue
		}
		if r.dead == nil {
			r.dead = make([]bool, len(r.members))
		}
		r.dead[i] = true
	}
	r.deadEpoch = epoch
}

// diedBy returns the members that had died by an epoch of the failure page, and those of
// others, which are ascending.
func (r *roster) diedBy(epoch uint64, others []int) (failed []int) {
	for i, m := range r.where {
		f, ok := r.failures.Failure(int(m.PE))
		dead := ok && f.Epoch <= epoch && f.Incarnation >= r.incarnationOf(i)
		if len(others) > 0 && others[0] == i {
			dead, others = true, others[1:]
		}
		if dead {
			failed = append(failed, i)
		}
	}
	return failed
}

// ringOthers wakes every other member that sleeps.
func (r *roster) ringOthers() {
	for i, m := range r.members {
		if i != r.me {
			rma.RingBell(&m.Bell)
		}
	}
}
