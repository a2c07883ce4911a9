package agent

import (
	"cmp"
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/agent/teams"
	"github.com/goshmem/goshmem/symheap/layout"
)

// newTeams returns the teams of the agent's node.
func (a *Agent) newTeams() *teams.Teams {
	return teams.New(teams.Config{
		World: worldNodes(a.cfg.Page, a.cfg.Nodes),
		Node:  a.cfg.Node, Nodes: a.cfg.Nodes, Locals: len(a.sources), Radix: cmp.Or(a.cfg.CollRadix, tree.DefaultRadix),
		Words: func(pe layout.Local) *layout.Upper { return a.sources[pe].wire.Upper() },
		Dead:  func(pe layout.Local) bool { return a.memory.dead[pe] },
		Wake:  a.memory.ringOne,
		Send:  a.own.send,
		Log:   a.log,
	})
}

// worldNodes returns the nodes that have PEs, in the order of their first ones.
func worldNodes(page *layout.AgentPage, nodes int) (order []int) {
	list := page.List()
	first := func(node int) int {
		at := page.Parts[node].First
		if int(at) < len(list) {
			return int(list[at])
		}
		return int(at)
	}
	for node := range min(nodes, len(page.Parts)) {
		if page.Parts[node].Count > 0 {
			order = append(order, node)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return first(a) - first(b) })
	return order
}

// ownStream is the streams of an agent itself, one to each node, for messages about teams. It is as if the agent were one more PE of
// the node. So a message arrives once, in order, whatever becomes of connections, or its node is lost. Its blocks are in
// memory of its own.
//
// # Counts that may wait
//
// The other agent tells what it has executed, which frees blocks. That word is a frame of its own, for which this agent wakes up. A
// message that others follow does without it (record.TeamLater), as theirs counts for it, too. The word goes
//
//   - with the next one to this node that does not wait;
//   - for a message that no other follows, at once;
//   - when half of a block is filled, or half of all blocks, at once;
//   - otherwise after some 50 ms (tellLate), far below Config.Patience.
//
// So a stream has two blocks under way at most, as long as its messages are small, and nothing of a team that has ended well waits
// for a word.
type ownStream struct {
	agent  *Agent
	local  layout.Local
	blocks []ownBlock
	nodes  []ownTarget
	room   []byte
	used   int // blocks with records
}

// ownBlock is a block. It is free if it has no records.
type ownBlock struct {
	body    []byte
	first   uint64
	records uint64
}

// ownTarget is the stream to a node.
type ownTarget struct {
	dead    bool
	next    uint64   // number of the next record
	blocks  []int    // in use, in order; records are added to the last one
	waiting [][]byte // parts of messages without room
	begun   []byte   // of a message that comes from there
}

func (s *ownStream) init(a *Agent) {
	s.agent, s.local = a, layout.Local(len(a.sources))
	s.blocks, s.nodes = make([]ownBlock, layout.WireBlocks), make([]ownTarget, a.cfg.Nodes)
	a.sender.StartPE(s.local, a.cfg.Incarnation)
}

// chunk is how much of a message a record carries, behind a byte that says whether more follows.
const chunk = 3 << 10

// send sends a message to a node. If others follow it, the word that it has come may wait.
func (s *ownStream) send(node int, message []byte, follow bool) {
	for more := byte(1); more == 1; {
		part := message[:min(chunk, len(message))]
		if message = message[len(part):]; len(message) == 0 {
			more = 0
		}
		s.room = append(append(s.room[:0], more), part...)
		s.sendChunk(node, s.room, follow)
	}
}

// sendChunk sends a part of a message to a node.
func (s *ownStream) sendChunk(node int, part []byte, follow bool) {
	to := &s.nodes[node]
	switch {
	case to.dead:
	case len(to.waiting) > 0 || !s.add(node, part, follow):
		to.waiting = append(to.waiting, slices.Clone(part))
	}
}

// receive takes a part of a message of a node. It returns the message when that is whole, until the next call.
func (s *ownStream) receive(node int, part []byte) (message []byte, whole bool) {
	if len(part) == 0 {
		return nil, false // only an agent that is broken sends that
	}
	from := &s.nodes[node]
	switch {
	case part[0] != 0:
		from.begun = append(from.begun, part[1:]...)
		return nil, false
	case len(from.begun) == 0:
		return part[1:], true
	}
	message = append(from.begun, part[1:]...)
	from.begun = from.begun[:0]
	return message, true
}

// halfBody is half of a block.
const halfBody = layout.WireBody / 2

// add adds a part of a message to a block, if there is room.
func (s *ownStream) add(node int, part []byte, follow bool) bool {
	to := &s.nodes[node]
	size := record.SizePut(len(part))
	at := -1
	if n := len(to.blocks); n > 0 && len(s.blocks[to.blocks[n-1]].body)+size <= layout.WireBody {
		at = to.blocks[n-1]
	}
	if at < 0 {
		at = slices.IndexFunc(s.blocks, func(b ownBlock) bool { return b.records == 0 })
		if at < 0 {
			return false
		}
		b := &s.blocks[at]
		if b.body == nil {
			b.body = make([]byte, 0, layout.WireBody)
		}
		b.body, b.first = b.body[:0], to.next
		to.blocks = append(to.blocks, at)
		s.used++
	}
	b := &s.blocks[at]
	code := record.TeamLater
	if before := len(b.body); !follow || before < halfBody && before+size >= halfBody || s.used > len(s.blocks)/2 {
		code = record.TeamSoon
	}
	b.body = record.AppendTeam(b.body, code, part)
	b.records++
	to.next++
	err := s.agent.sender.Add(&stream.Block{Local: s.local, Number: at, Node: node, Class: layout.ClassOneSided, First: b.first, Body: b.body})
	if err != nil {
		s.agent.log(err)
	}
	return true
}

// done notes that a node has taken all records below a number.
func (s *ownStream) done(node int, count uint64) {
	to := &s.nodes[node]
	for len(to.blocks) > 0 {
		b := &s.blocks[to.blocks[0]]
		if b.first+b.records > count {
			break
		}
		b.records = 0
		s.used--
		to.blocks = slices.Delete(to.blocks, 0, 1)
	}
	s.addWaiting()
}

// addWaiting adds what waits for room, as far as there is some.
func (s *ownStream) addWaiting() {
	for i := range s.nodes {
		for to := &s.nodes[i]; len(to.waiting) > 0 && s.add(i, to.waiting[0], false); {
			to.waiting = slices.Delete(to.waiting, 0, 1)
		}
	}
}

// dropNode forgets what is under way to a dead node.
func (s *ownStream) dropNode(node int) {
	to := &s.nodes[node]
	for _, at := range to.blocks {
		s.blocks[at].records = 0
		s.used--
	}
	*to = ownTarget{dead: true}
	s.addWaiting()
}
