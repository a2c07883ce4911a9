package agent

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/symheap/layout"
)

// teams is the agent's part in the collectives of teams that span nodes: package span decides, and this type reads and writes
// the words of the node's PEs (layout.Upper) and carries messages to other agents.
//
// A message is a record of a stream that the agent has itself, as if it were one more PE of the node. So it arrives once, in
// order, whatever becomes of connections, or its node is lost.
type teams struct {
	agent *Agent
	out   ownStream
	byID  [layout.UpperTeams][]*team // the last one is under way, or may be; earlier ones answer late messages
	early []earlyMessage
	dead  []bool // by node
	outs  []span.Output
	room  []byte
}

// team is a team that spans nodes.
type team struct {
	name
	part    *span.Part
	nodes   []int          // in the job, of each node of the team
	members []layout.Local // of the part
}

// name is the name of a team on all nodes.
type name struct {
	id    int
	start uint64 // the number of the step before the first one
	first uint32 // the first PE
}

// earlyMessage is a message for a team that no PE of this node has announced yet.
type earlyMessage struct {
	node int
	name name
	body []byte
}

func (t *teams) init(a *Agent) {
	t.agent, t.dead = a, make([]bool, a.cfg.Nodes)
	t.out.init(a)
}

// messageHead is what precedes a message of a part: u8 id, u32 first, and u64 start.
const messageHead = 13

// teamRadix is the radix of the tree of nodes.
const teamRadix = 4

// announced takes a number of Ready: a member says that it is in a team, or that all members of the part have entered a step.
func (t *teams) announced(pe layout.Local, id int) {
	upper := t.agent.sources[pe].wire.Upper()
	p := &upper.Parts[id]
	m := t.find(name{id, p.Start, p.First})
	if m == nil {
		var err error
		if m, err = t.begin(id, p); err != nil {
			t.agent.accuse(pe, "team %d: %w", id, err)
			return
		}
	}
	m.part.Look()
	t.proceed(m)
}

// find returns the team with a name.
func (t *teams) find(n name) *team {
	for _, m := range t.byID[n.id] {
		if m.name == n {
			return m
		}
	}
	return nil
}

// begin begins a team that a member has described.
func (t *teams) begin(id int, p *layout.UpperPart) (*team, error) {
	m := &team{name: name{id, p.Start, p.First}}
	if p.Nodes < 1 || p.Nodes > layout.UpperNodes || p.Me >= p.Nodes {
		return nil, fmt.Errorf("node %d of %d, want 0 to %d of at most %d", p.Me, p.Nodes, p.Nodes-1, layout.UpperNodes)
	}
	for _, n := range p.Node[:p.Nodes] {
		if int(n) >= t.agent.cfg.Nodes || slices.Contains(m.nodes, int(n)) {
			return nil, fmt.Errorf("node %d twice, or not below %d", n, t.agent.cfg.Nodes)
		}
		m.nodes = append(m.nodes, int(n))
	}
	for i := range len(t.agent.sources) {
		if p.Local[i/64]>>(i%64)&1 != 0 {
			m.members = append(m.members, layout.Local(i))
		}
	}
	if int(p.Node[p.Me]) != t.agent.cfg.Node || len(m.members) != int(p.Members) {
		return nil, fmt.Errorf("%d members of node %d, want %d of node %d", p.Members, p.Node[p.Me], len(m.members), t.agent.cfg.Node)
	}
	var err error
	m.part, err = span.New(span.Config{Nodes: len(m.nodes), Me: int(p.Me), Members: len(m.members), Radix: teamRadix, Fold: span.FoldRecords})
	if err != nil {
		return nil, err
	}
	const kept = 64 // teams of an id: late messages are of the last ones
	if all := t.byID[id]; len(all) == kept {
		t.byID[id] = slices.Delete(all, 0, 1)
	}
	t.byID[id] = append(t.byID[id], m)
	for node, dead := range t.dead {
		if dead {
			t.nodeDead(m, node)
		}
	}
	early := t.early
	t.early = nil
	for _, e := range early {
		if e.name == m.name {
			t.deliver(m, e.node, e.body)
		} else {
			t.early = append(t.early, e)
		}
	}
	return m, nil
}

// proceed answers what a part asks for, until it asks for nothing.
func (t *teams) proceed(m *team) {
	for {
		i, what := m.part.Next()
		switch what {
		case span.Nothing:
			return
		case span.Word:
			word := atomic.LoadUint64(&t.upper(m, i).Cells[m.id].Word)
			m.part.SetWord(stepOf(word, m.start))
		case span.News:
			m.part.SetDead(t.agent.memory.dead[m.members[i]])
		case span.Data:
			t.perform(m, m.part.SetData(t.fold(m), t.outs[:0]))
		}
	}
}

// stepOf returns an arrival word with the number that the step has in its part.
func stepOf(word, start uint64) uint64 {
	const marks = 7 << 61
	if n := word &^ marks; n >= start {
		return word&marks | (n - start)
	}
	return word & marks // of the time before the team
}

func (t *teams) upper(m *team, i int) *layout.Upper {
	return t.agent.sources[m.members[i]].wire.Upper()
}

// fold folds what the members have contributed.
func (t *teams) fold(m *team) (data []byte) {
	for i := range m.members {
		if !m.part.Entered(i) {
			continue
		}
		cell := &t.upper(m, i).Cells[m.id].Data
		if data == nil {
			data = slices.Clone(cell[:span.RecordBytes])
		} else {
			span.FoldRecords(data, cell[:span.RecordBytes])
		}
	}
	return data
}

// receive takes a message of another agent.
func (t *teams) receive(node int, b []byte) {
	if len(b) < messageHead || b[0] >= layout.UpperTeams {
		t.agent.log(fmt.Errorf("node %d sends a team message of %d bytes", node, len(b)))
		return
	}
	n, body := name{int(b[0]), binary.LittleEndian.Uint64(b[5:]), binary.LittleEndian.Uint32(b[1:])}, slices.Clone(b[messageHead:])
	if m := t.find(n); m != nil {
		t.deliver(m, node, body)
	} else if all := t.byID[n.id]; len(all) == 0 || all[len(all)-1].start <= n.start {
		t.early = append(t.early, earlyMessage{node, n, body})
	}
}

// deliver gives a message to its part.
func (t *teams) deliver(m *team, node int, body []byte) {
	msg, err := span.ParseMessage(body)
	if err == nil {
		var outs []span.Output
		if outs, err = m.part.Receive(slices.Index(m.nodes, node), msg, t.outs[:0]); err == nil {
			t.perform(m, outs)
			t.proceed(m)
			return
		}
	}
	t.agent.log(fmt.Errorf("node %d, team %d: %w", node, m.id, err))
}

// dropNode tells all teams that a node is lost.
func (t *teams) dropNode(node int) {
	t.dead[node] = true
	t.early = slices.DeleteFunc(t.early, func(e earlyMessage) bool { return e.node == node })
	t.out.dropNode(node)
	for _, all := range t.byID {
		for _, m := range all {
			t.nodeDead(m, node)
		}
	}
}

func (t *teams) nodeDead(m *team, node int) {
	if i := slices.Index(m.nodes, node); i >= 0 && node != t.agent.cfg.Node {
		t.perform(m, m.part.NodeDead(i, t.outs[:0]))
		t.proceed(m)
	}
}

// look has all parts look at their members, one of which has died.
func (t *teams) look() {
	for _, all := range t.byID {
		for _, m := range all {
			m.part.Look()
			t.proceed(m)
		}
	}
}

// perform does what a part says.
func (t *teams) perform(m *team, outs []span.Output) {
	for i := range outs {
		switch o := &outs[i]; o.Kind {
		case span.Send:
			t.room = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(append(t.room[:0], byte(m.id)), m.first), m.start)
			t.room = o.Message.Append(t.room)
			t.out.send(m.nodes[o.To], t.room)
		case span.Deliver:
			t.writeResult(m, o.Result)
		case span.Wrong:
			t.agent.log(fmt.Errorf("team %d: %w", m.id, o.Err))
		}
	}
	clear(outs)
	t.outs = outs[:0]
}

// writeResult writes the result of a step for all living members, and wakes them.
func (t *teams) writeResult(m *team, r *span.Result) {
	lacks := make([]layout.UpperLack, 0, layout.UpperLacks)
	n := 0
	add := func(l layout.UpperLack) {
		if n++; n <= layout.UpperLacks {
			lacks = append(lacks, l)
		}
	}
	for _, node := range r.Missing {
		add(layout.UpperLack{Node: uint16(node), Member: layout.UpperAll, Why: uint32(span.Died)})
	}
	for _, e := range r.Without {
		add(layout.UpperLack{Node: uint16(e.Node), Member: uint16(e.Member), Why: uint32(e.Why)})
	}
	for i, pe := range m.members {
		if t.agent.memory.dead[pe] {
			continue
		}
		to := &t.upper(m, i).Results[m.id]
		copy(to.Data[:], r.Data)
		to.Lacks = uint32(n)
		copy(to.Lack[:], lacks)
		atomic.StoreUint64(&to.Seq, m.start+r.Seq)
		t.agent.memory.ringOne(pe)
	}
}

// ownStream is the streams of an agent itself, one to each node. Its blocks are in memory of its own.
type ownStream struct {
	agent  *Agent
	local  layout.Local
	blocks []ownBlock
	nodes  []ownTarget
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
	waiting [][]byte // messages without room
}

func (s *ownStream) init(a *Agent) {
	s.agent, s.local = a, layout.Local(len(a.sources))
	s.blocks, s.nodes = make([]ownBlock, layout.WireBlocks), make([]ownTarget, a.cfg.Nodes)
	a.sender.StartPE(s.local, a.cfg.Incarnation)
}

// send sends a message to a node.
func (s *ownStream) send(node int, message []byte) {
	to := &s.nodes[node]
	switch {
	case to.dead:
	case len(to.waiting) > 0 || !s.add(node, message):
		to.waiting = append(to.waiting, slices.Clone(message))
	}
}

// add adds a message to a block, if there is room.
func (s *ownStream) add(node int, message []byte) bool {
	to := &s.nodes[node]
	size := record.SizePut(len(message))
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
	}
	b := &s.blocks[at]
	b.body = record.AppendTeam(b.body, message)
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
		to.blocks = slices.Delete(to.blocks, 0, 1)
	}
	for i := range s.nodes {
		for to := &s.nodes[i]; len(to.waiting) > 0 && s.add(i, to.waiting[0]); {
			to.waiting = slices.Delete(to.waiting, 0, 1)
		}
	}
}

// dropNode forgets what is under way to a dead node.
func (s *ownStream) dropNode(node int) {
	to := &s.nodes[node]
	for _, at := range to.blocks {
		s.blocks[at].records = 0
	}
	*to = ownTarget{dead: true}
}

// done is ownStream.done.
func (t *teams) done(node int, count uint64) { t.out.done(node, count) }

// The conversion fails to compile if a record does not fit into a cell.
const _ = uint(layout.UpperData - span.RecordBytes)
