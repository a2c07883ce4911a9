package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// messagingID is the id of all communicators without a team. No communicator has a team of this id.
const messagingID = 0

// These are added to the number of a communicator in messages that are not the program's.
const (
	hiddenComm      = 1 << 31 // of its collectives
	agreeingComm    = 1 << 30 // of its agreements
	partitionedComm = 1 << 29 // of its partitioned messages
)

// commNumbers has the numbers of the communicators of a process. A number is in each envelope. It is the
// id of the communicator's team, and how often the id was used: number % layout.MaxTeams is the id. An
// element of used is the greatest number with its index as the id that this process has used.
type commNumbers struct {
	used     [layout.MaxTeams]uint32
	claimed  uint32 // greatest count of a communicator that Shrink has made with a team, or was to make
	reserved uint32 // greatest number of a communicator without a team that was reserved here
	proposed uint32 // for a communicator without a team: the latest number that this process has proposed, or that was chosen
}

// latest returns the greatest number that was used with an id, or that another rank may have used.
func (n *commNumbers) latest(id int) uint32 { return max(n.used[id], numberOf(n.claimed, id)) }

// latestCount returns how often the id was used that was used most.
func (n *commNumbers) latestCount() uint32 {
	return max(n.claimed, slices.Max(n.used[:])/layout.MaxTeams)
}

// use records the number of a communicator that was made here.
func (n *commNumbers) use(number uint32) {
	n.used[number%layout.MaxTeams] = max(n.used[number%layout.MaxTeams], number)
}

// isUsed reports whether a communicator with the number, or a later one with its id, was made here.
func (n *commNumbers) isUsed(number uint32) bool {
	if number &^= hiddenComm | agreeingComm | partitionedComm; number%layout.MaxTeams == messagingID {
		return true // those of the future are reserved
	}
	return number <= n.used[number%layout.MaxTeams]
}

// numbersMost bounds the numbers of communicators, in multiples of layout.MaxTeams.
const numbersMost = partitionedComm / layout.MaxTeams

// errNumbers reports that all numbers of communicators were used.
func errNumbers(op string) error {
	return usage(op, ErrTooMany, "%d communicators were made one after the other, want fewer; hint: keep communicators instead of making them anew", numbersMost)
}

// numberOf returns the number of a communicator by how often its id was used.
func numberOf(count uint32, id int) uint32 { return count*layout.MaxTeams + uint32(id) }

// nextNumber returns the number of a new communicator with an id. latest is the greatest number that any of its
// members has used with the id.
func nextNumber(latest uint32, id int) uint32 {
	return numberOf(latest/layout.MaxTeams+1, id)
}
