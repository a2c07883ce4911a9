package mpi

import "github.com/goshmem/goshmem/symheap/layout"

// commNumbers has the numbers of the communicators of a process. A number is in each envelope. It is the
// id of the communicator's team, and how often the id was used: number % layout.MaxTeams is the id. An
// element of commNumbers is the greatest number with its index as the id that this process has used.
type commNumbers [layout.MaxTeams]uint32

// latest returns the greatest number used with an id.
func (n *commNumbers) latest(id int) uint32 { return n[id] }

// use records the number of a communicator that was made here.
func (n *commNumbers) use(number uint32) { n[number%layout.MaxTeams] = number }

// isUsed reports whether a communicator with the number, or a later one with its id, was made here.
func (n *commNumbers) isUsed(number uint32) bool { return number <= n[number%layout.MaxTeams] }

// nextNumber returns the number of a new communicator with an id. latest is the greatest number that any of its
// members has used with the id.
func nextNumber(latest uint32, id int) uint32 {
	return latest/layout.MaxTeams*layout.MaxTeams + layout.MaxTeams + uint32(id)
}
