package coll

import (
	"sync"

	"github.com/goshmem/goshmem/symheap/layout"
)

// areas says which teams use the areas of the PEs of this process. Reductions use the places at
// the beginning of an area, broadcasts those at its end. Each part has one user at a time. A
// second reduction or broadcast of the same PE, on another team, goes through slots.
var areas struct {
	sync.Mutex
	reductions map[*layout.Control]lease // by the PE
	broadcasts map[*layout.Control]lease
}

// lease is a team's use of a part of an area.
type lease struct {
	t     *Team
	until uint64 // no member looks at the area any more when all have entered this step; 0: it is in use
	moves bool   // the area goes from team to team
}

// inUse says whether a team other than the one that asks, or a collective under way, has the
// lease.
func (l lease) inUse(t *Team) bool { return l.until == 0 || l.t != t && !l.t.othersEntered(l.until) }

// area is the places for reductions in this member's own area, as a team uses them.
//
//   - Owns: nothing; areas has the leases.
//   - Writes: only the owner of the area writes into it, and only with the lease.
type area struct{ t *Team }

// claim takes the places, if no other team uses them.
func (a area) claim() bool {
	areas.Lock()
	defer areas.Unlock()
	t, me := a.t, a.t.members[a.t.me]
	l, used := areas.reductions[me]
	if l.moves = l.moves || used && l.t != t && !l.t.released.Load(); used {
		areas.reductions[me] = l
	}
	if used && l.inUse(t) {
		return false
	}
	if areas.reductions == nil {
		areas.reductions = map[*layout.Control]lease{}
	}
	areas.reductions[me] = lease{t: t, moves: l.moves}
	return true
}

// moves says whether other teams have had the places, which this team has.
func (a area) moves() bool {
	areas.Lock()
	defer areas.Unlock()
	return areas.reductions[a.t.members[a.t.me]].moves
}

// release leaves the places to this team, and to others when all members have entered a step.
func (a area) release(until uint64) {
	areas.Lock()
	defer areas.Unlock()
	me := a.t.members[a.t.me]
	areas.reductions[me] = lease{a.t, until, areas.reductions[me].moves}
}
