package agent

import (
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
)

// # The last messages of the dead
//
// What a dead PE has sent as messages comes to its receivers, as on one node: they learn of the death after that. So the agent of its
// node takes a last look at its blocks, and goes on to send the messages in them. The daemon has its answer, and tells others
// of the death, when all nodes have taken them, or after partingMost: a receiver may take none. Nothing else is sent
// of a dead PE.

// partingMost bounds how long the death of a PE may become known later because of its last messages.
const partingMost = time.Second

// part begins to send the last messages of a PE of this node that has died.
func (a *Agent) part(pe layout.Local) {
	s := &a.sources[pe]
	if s.dead {
		return
	}
	takeLast(a, pe)
	if s.dead { // its words were not what a PE writes
		return
	}
	s.dead, s.parting = true, time.Now().Add(partingMost)
	a.sender.DropClass(pe, layout.ClassOneSided)
	if a.express != nil {
		a.express.dropLine(pe)
	}
	a.endParting(pe)
}

// takeLast takes a last look at the blocks of a PE that writes nothing more.
func takeLast(a *Agent, pe layout.Local) {
	a.held = findLost(a, a.held, pe)
	a.takeReady()
	a.readHeld()
	a.holdAgain() // a PE that lives may add to them before the next reading
}

// isParting reports whether last messages of a PE are still being sent. It ends that if it is time.
func (a *Agent) isParting(pe layout.Local) bool {
	a.endParting(pe)
	return !a.sources[pe].parting.IsZero()
}

// endParting sends nothing of a PE any more if its last messages have come, or take too long.
func (a *Agent) endParting(pe layout.Local) {
	s := &a.sources[pe]
	if s.parting.IsZero() || a.sender.HasRecords(pe) && time.Now().Before(s.parting) {
		return
	}
	s.parting = time.Time{}
	s.begun = a.countPosts()
	a.sender.DropPE(pe)
}
