package flat

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Port reaches the agent of this node, and data of PEs on other nodes. The caller of New gives it.
type Port interface {
	// Announce tells the agent of this node that the words of a team have changed.
	Announce(id int)
	// Get copies from an offset of a PE's segment.
	Get(ctx context.Context, pe layout.PE, off uint64, data []byte) error
}

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
}

// Process is this process's side of all its spanning teams in one world.
type Process struct {
	Config

	start   uint64 // of the world
	mu      sync.Mutex
	used    uint64                    // a bit for each upper id that is taken here
	reached [layout.UpperTeams]uint64 // the greatest number that a team with this id has reached here
}

// NewProcess returns the state of a world without teams.
func NewProcess(c Config) *Process { return &Process{Config: c} }

// Clear prepares the words of this PE for a new world. No other PE may write them, so it is called between two barriers
// by other means.
//
// The steps of a new world have greater numbers than those of the world before, whose team the agent still knows.
func (p *Process) Clear() {
	if before := &p.Words.Parts[WorldID]; before.Nodes > 0 {
		p.start = before.Start + worldSteps
	}
	*p.Words = layout.Upper{}
}

// worldSteps is more steps than a world makes.
const worldSteps = 1 << 40

// offer returns which ids are free here, and the greatest number that any team has reached. A PE that is to be in no
// spanning team offers all ids.
func (p *Process) offer(member bool) (free, top uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	top = slices.Max(p.reached[:])
	if !member {
		return ^uint64(0), top
	}
	return ^p.used, top
}

// claim takes an id for a team that begins at a number. It fails if a Split of another team has taken the id since it
// was offered, even if the id is free again.
func (p *Process) claim(id int, start uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used&(1<<id) != 0 || p.reached[id] >= start {
		return false
	}
	p.used |= 1 << id
	p.reached[id] = start
	return true
}

// free gives an id back.
func (p *Process) free(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used &^= 1 << id
}

// reach notes that the team with an id has reached a number.
func (p *Process) reach(id int, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached[id] = seq
}

// mineAt is where Mine lies in Upper.
const mineAt = uint64(unsafe.Offsetof(layout.Upper{}.Mine))
