package agent

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// A PE of this node may have a successor: the same number with a higher incarnation, on the same segment. What the dead one has
// sent and asked for must not be mistaken for the successor's:
//
//   - Records carry the incarnation. Other agents begin a fresh stream with the first record of the successor, without answers that
//     they have kept, and drop what comes late of the dead one (package stream).
//   - Counts and answers for the dead one carry its incarnation, too. The stream's sender drops them.
//   - Posts refer to the blocks of the dead one. The successor may write these only when no such post is under way.
//   - Teams keep the dead one as a member that has died: its node may judge it later. The successor is a member of none of them.
//   - Done, slots and Ready begin anew. Otherwise a slot could hold what looks like the answer to a request of the successor,
//     because the numbers of its requests begin at 0 as well.

// StartPE begins a further incarnation of a PE of this node whose death the agent knows. Started is false while posts that
// refer to the dead PE's memory are under way; the caller calls again later, and starts the successor only when started is true.
// Posts to a node that takes nothing end when that node is lost, or their connection is cut.
func (a *Agent) StartPE(local layout.Local, incarnation uint32) (started bool, err error) {
	if local < 0 || int(local) >= len(a.sources) {
		return false, fmt.Errorf("start of local PE %d, want 0 to %d", local, len(a.sources)-1)
	}
	s := &a.sources[local]
	switch {
	case !s.dead || !a.memory.dead[local]:
		return false, fmt.Errorf("start of incarnation %d of local PE %d: its incarnation %d is not dead", incarnation, local, s.incarnation)
	case incarnation <= s.incarnation:
		return false, fmt.Errorf("start of incarnation %d of local PE %d, want a higher one than %d", incarnation, local, s.incarnation)
	case a.isParting(local) || !a.haveEnded(s.begun):
		return false, nil
	}
	isOf := func(h holding) bool { return h.pe == local }
	a.held, a.settling = slices.DeleteFunc(a.held, isOf), slices.DeleteFunc(a.settling, isOf)
	s.wire.Reset()
	*s = source{wire: s.wire, incarnation: incarnation}
	a.memory.dead[local] = false
	a.inboxes.begin(local)
	a.sender.StartPE(local, incarnation)
	return true, nil
}

// countPosts returns how many posts there were so far, by node and lane.
func (a *Agent) countPosts() [][2]uint64 {
	begun := make([][2]uint64, len(a.boxes))
	for node := range a.boxes {
		for lane := range begun[node] {
			begun[node][lane] = a.boxes[node][lane].begun
		}
	}
	return begun
}

// haveEnded says whether none of the posts that countPosts has counted is under way.
func (a *Agent) haveEnded(begun [][2]uint64) bool {
	for node := range begun {
		for _, lane := range []transport.Lane{transport.Out, transport.In} {
			if a.box(node, lane).ended < begun[node][lane] {
				return false
			}
		}
	}
	return true
}
