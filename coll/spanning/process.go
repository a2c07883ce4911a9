package spanning

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Port reaches the agent of this node, and data of PEs on other nodes. The caller of New gives it.
type Port interface {
	// Announce tells the agent of this node that the words of a team have changed.
	Announce(id int)
	// Get copies from an offset of a PE's segment. It returns an error that is ErrDead if the PE is dead. Agents know that before the
	// failure page tells it.
	Get(ctx context.Context, pe layout.PE, off uint64, data []byte) error
}

// ErrDead is the error of a Port for a PE that is dead.
var ErrDead = errors.New("the PE is dead")

// Config is what the spanning teams of a process need.
type Config struct {
	Port     Port
	Words    *layout.Upper // of this PE
	Offset   uint64        // of the words in every segment
	Waiter   *wait.Waiter
	Failures *failure.View                    // nil: no death is ever reported
	Near     func(pe layout.PE) *layout.Upper // the words of a PE of this node; nil for any other PE
	Dead     func(pe layout.PE) bool          // whether a PE is known to be dead; called after a death only
	Local    func(pe layout.PE) layout.Local  // the local index of a PE of this node
	Node     func(pe layout.PE) (int, error)  // the index of a PE's node in the job
	First    uint64                           // first word of the name of the first team of all PEs: layout.UpperFirstWorld, or another one
}

// Process is this process's side of all its spanning teams in one world.
type Process struct {
	Config

	mu     sync.Mutex
	top    uint64 // the greatest number that a team has reached here
	worlds uint64 // worlds that this process has had before
}

// NewProcess returns the state of a world without teams.
func NewProcess(c Config) *Process { return &Process{Config: c, top: 1} }

// Clear prepares the words of this PE for a new world. No other PE may use them, so it is called between two barriers
// by other means.
//
// The steps of a new world have greater numbers than those of the world before, whose teams the agent still knows. The team of all ranks
// of package mpi has a life of its own.
func (p *Process) Clear() {
	before := &p.Words.Parts[WorldID]
	if before.Start > 0 {
		p.top, p.worlds = before.Start+worldSteps, before.Start/worldSteps+1
	}
	for id := range layout.UpperTeams {
		if id == coll.MPIWorld {
			continue
		}
		p.Words.Parts[id] = layout.UpperPart{}
		for line := range layout.UpperLines {
			p.Words.Lines[line][id] = layout.UpperLine{}
		}
	}
}

// Renew gives the next team of all PEs another name than the last one has. Its steps have greater numbers anyway.
func (p *Process) Renew() { p.worlds++ }

// worldSteps is more steps than a world makes.
const worldSteps = 1 << 40

// begin returns the number of the step before a team's first one, greater than any number of a team before.
func (p *Process) begin() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.top++
	return p.top
}

// reach notes that a team has reached a number.
func (p *Process) reach(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.top = max(p.top, seq)
}

// line returns the words of this PE for a line of steps of the team with an id.
func (p *Process) line(line, id int) *layout.UpperLine { return &p.Words.Lines[line][id] }

// givenAt returns where the data that a PE gives lie in its Upper.
func givenAt(line, id int) uint64 {
	return uint64(unsafe.Offsetof(layout.Upper{}.Lines)) + uint64(line*layout.UpperTeams+id)*uint64(unsafe.Sizeof(layout.UpperLine{})) +
		uint64(unsafe.Offsetof(layout.UpperLine{}.Given))
}
