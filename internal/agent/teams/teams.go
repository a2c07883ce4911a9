package teams

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Config is what the teams of a node need.
type Config struct {
	Node, Nodes int   // in the job
	Locals      int   // PEs of this node
	Radix       int   // of the trees of nodes
	World       []int // the nodes of the first team of all PEs, in the order of their first PEs; nil: that is not known
	// Words returns the words of a PE of this node.
	Words func(pe layout.Local) *layout.Upper
	// Dead says whether the death of a PE of this node is known, and it has no successor.
	Dead func(pe layout.Local) bool
	// Wake wakes a PE whose words have changed.
	Wake func(pe layout.Local)
	// Send sends a message to another node: once, and in order, or the node is lost. The message is not kept. follow says that
	// another one to that node follows, sooner or later.
	Send func(node int, message []byte, follow bool)
	// Log takes what went wrong.
	Log func(err error)
}

// Teams are the teams that PEs of this node are in with PEs of others.
type Teams struct {
	cfg    Config
	named  map[name]*team
	latest [layout.UpperTeams][]*team // of the teams with an id, by the first local member: the one whose words these are
	early  []letter
	dead   []bool // by node
	room   []byte
	untold int // teams that have ended here, of which this node has not told the others
}

// name is the name of a team on all its nodes.
type name [2]uint64

// letter is a message for a team that no PE of this node has described yet.
type letter struct {
	from int
	head head
	body []byte
}

// team is a team that PEs of this node are in.
type team struct {
	name    name
	id      int
	me      int
	nodes   []int // in the job, of each node of the team
	members []member
	lines   [layout.UpperLines]*span.Part
	origin  layout.UpperOrigin
	ended   bool   // all local members that live have the last result, or make no step any more
	done    []bool // by node of the team: it has said that the team has ended there, or that it does not know the team
	over    []bool // by node of the team: it has said that it says nothing more of the team, or that it does not know the team
}

// member is a PE of this node in a team.
type member struct {
	pe    layout.Local
	start uint64 // as it has described the team; 0: it has not yet
	gone  bool   // its words are a later team's
	dead  bool   // it has died. It stays so when the PE has a successor, which is no member, and whose words these are then
	last  [layout.UpperLines]last
}

// last is what a dead member has left in the words of a line.
type last struct {
	word uint64 // as wordOf returns it
	data []byte // what it has contributed to the step in word
}

// New returns the teams of a node before any.
func New(c Config) *Teams {
	t := &Teams{cfg: c, named: map[name]*team{}, dead: make([]bool, c.Nodes)}
	if me := slices.Index(c.World, c.Node); len(c.World) > 1 && me >= 0 {
		m := &team{name: name{layout.UpperFirstWorld, 0}, id: layout.UpperWorld, me: me, nodes: c.World}
		for i := range c.Locals {
			m.members = append(m.members, member{pe: layout.Local(i)})
		}
		if err := t.complete(m); err != nil {
			c.Log(err)
		}
	}
	return t
}

// Announced takes the news that the words of a PE for an id have changed: it has described a team, all members of its part have
// entered a step, or it has left a mark. An error says that the PE has written nonsense.
func (t *Teams) Announced(pe layout.Local, id int) error {
	m, err := t.describedBy(pe, id)
	if err != nil || m == nil {
		return err
	}
	t.look(m)
	t.noteEnd(m, pe)
	return nil
}

// describedBy returns the team that a PE has described. It may be new here. Nil: the PE has described none.
func (t *Teams) describedBy(pe layout.Local, id int) (*team, error) {
	words := &t.cfg.Words(pe).Parts[id]
	called, start := nameOf(words), atomic.LoadUint64(&words.Start)
	var p layout.UpperPart
	for i := range p.Words() {
		p.Words()[i] = atomic.LoadUint64(&words.Words()[i])
	}
	p.Name = called
	if called == (name{}) || start == 0 || nameOf(words) != called || atomic.LoadUint64(&words.Start) != start {
		return nil, nil //nolint:nilnil // the PE says nothing, or is writing something else, which it announces then
	}
	m := t.named[called]
	if m == nil {
		if p.Ended != 0 {
			return nil, nil //nolint:nilnil // it is forgotten already
		}
		if p.Local[pe/64]>>(pe%64)&1 == 0 {
			return nil, fmt.Errorf("team %d: PE %d has described it, want one of its members", id, pe)
		}
		var err error
		if m, err = t.begin(id, &p); err != nil {
			return nil, fmt.Errorf("team %d: %w", id, err)
		}
	}
	i := m.indexOf(pe)
	if i < 0 || m.id != id {
		return nil, fmt.Errorf("team %d: PE %d has described it, want one of its members, with id %d", id, pe, m.id)
	}
	if m.members[i].start == 0 {
		m.members[i].start = start
		t.noteGone(m, pe)
	}
	return m, nil
}

// nameOf returns the name of a team that a PE has described. What else it has written about the team is visible then.
func nameOf(p *layout.UpperPart) name {
	second := atomic.LoadUint64(&p.Name[1])
	return name{atomic.LoadUint64(&p.Name[0]), second}
}

// begin begins a team that a member has described.
func (t *Teams) begin(id int, p *layout.UpperPart) (*team, error) {
	m := &team{name: nameOf(p), id: id, me: int(p.Me), origin: p.Origin}
	if p.Origin.Line >= layout.UpperLines {
		return nil, fmt.Errorf("line %d of the team that makes it, want less than %d", p.Origin.Line, layout.UpperLines)
	}
	if p.Nodes < 1 || p.Nodes > layout.UpperNodes || p.Me >= p.Nodes {
		return nil, fmt.Errorf("node %d of %d, want 0 to %d of at most %d", p.Me, p.Nodes, p.Nodes-1, layout.UpperNodes)
	}
	for _, n := range p.Node[:p.Nodes] {
		if int(n) >= t.cfg.Nodes || slices.Contains(m.nodes, int(n)) {
			return nil, fmt.Errorf("node %d twice, or not below %d", n, t.cfg.Nodes)
		}
		m.nodes = append(m.nodes, int(n))
	}
	for i := range t.cfg.Locals {
		if p.Local[i/64]>>(i%64)&1 != 0 {
			m.members = append(m.members, member{pe: layout.Local(i)})
		}
	}
	if m.nodes[m.me] != t.cfg.Node || len(m.members) != int(p.Members) {
		return nil, fmt.Errorf("%d members of node %d, want %d of node %d", p.Members, m.nodes[m.me], len(m.members), t.cfg.Node)
	}
	return m, t.complete(m)
}

// complete makes what a new team needs, and the team known.
func (t *Teams) complete(m *team) (err error) {
	for line := range m.lines {
		c := span.Config{Nodes: len(m.nodes), Me: m.me, Members: len(m.members), Radix: t.cfg.Radix, Least: span.RecordBytes, Fold: span.FoldSteps, Check: span.CheckSteps}
		if line == layout.UpperVotes {
			c.Fold, c.Check = span.FoldBits, nil
		}
		if m.lines[line], err = span.New(c); err != nil {
			return err
		}
	}
	m.done, m.over = make([]bool, len(m.nodes)), make([]bool, len(m.nodes))
	for i := range m.members {
		m.members[i].dead = t.cfg.Dead(m.members[i].pe)
	}
	t.register(m)
	return nil
}

// register makes a new team known, and tells it what has happened before.
func (t *Teams) register(m *team) {
	t.named[m.name] = m
	all := slices.DeleteFunc(t.latest[m.id], func(old *team) bool { return old.shares(m) })
	t.latest[m.id] = append(all, m)
	for node, dead := range t.dead {
		if dead {
			t.nodeDead(m, node)
		}
	}
	var mine []letter
	t.early = slices.DeleteFunc(t.early, func(l letter) bool {
		if l.head.name != m.name {
			return false
		}
		mine = append(mine, l)
		return true
	})
	for _, l := range mine {
		t.deliver(m, l.from, l.head, l.body)
	}
}

// shares reports whether a PE is in both teams, so that the words of the one are those of the other.
func (m *team) shares(other *team) bool {
	return slices.ContainsFunc(m.members, func(x member) bool {
		return slices.ContainsFunc(other.members, func(y member) bool { return x.pe == y.pe })
	})
}

// indexOf returns which member a PE is, or -1.
func (m *team) indexOf(pe layout.Local) int {
	return slices.IndexFunc(m.members, func(x member) bool { return x.pe == pe })
}

// hasWords reports whether the words of its id are the team's.
func (t *Teams) hasWords(m *team) bool { return slices.Contains(t.latest[m.id], m) }

// look has the parts of a team look at the words, and proceed.
func (t *Teams) look(m *team) {
	for line := range m.lines {
		m.lines[line].Look()
		t.proceed(m, line)
	}
}

// proceed answers what a part asks for, until it asks for nothing.
func (t *Teams) proceed(m *team, line int) {
	p := m.lines[line]
	for {
		switch i, what := p.Next(); what {
		case span.Nothing:
			return
		case span.Word:
			p.SetWord(t.wordOf(m, line, i))
		case span.News:
			p.SetDead(m.members[i].dead)
		case span.Data:
			t.perform(m, line, p.SetData(t.fold(m, line), nil))
		}
	}
}

// Dies takes the news that a PE of this node has died. What it has described and not announced counts as announced.
//
// A part may judge the PE much later, when its other members have entered the step. By then the PE may have a successor, which is not
// dead and writes in these words. So each team keeps who has died, and what it has left.
func (t *Teams) Dies(pe layout.Local, unread uint64) {
	for id := range layout.UpperTeams {
		if unread>>id&1 != 0 {
			if err := t.Announced(pe, id); err != nil {
				t.cfg.Log(err)
			}
		}
	}
	for _, m := range t.named {
		if i := m.indexOf(pe); i >= 0 {
			x := &m.members[i]
			x.dead = false // a team that has just become known has taken it for dead, but has not looked what it has left
			for line := range x.last {
				x.last[line] = last{t.wordOf(m, line, i), t.contribution(m, line, i)}
			}
			x.dead = true
		}
		t.look(m)
		t.endIfLeft(m)
	}
}

// DropNode takes the news that a node is lost.
func (t *Teams) DropNode(node int) {
	t.dead[node] = true
	t.early = slices.DeleteFunc(t.early, func(l letter) bool { return l.from == node })
	for _, m := range t.named {
		t.nodeDead(m, node)
	}
}

// nodeDead tells a team that a node is lost.
func (t *Teams) nodeDead(m *team, node int) {
	i := slices.Index(m.nodes, node)
	if i < 0 || i == m.me {
		return
	}
	for line := range m.lines {
		t.perform(m, line, m.lines[line].NodeDead(i, nil))
		t.proceed(m, line)
	}
	t.forgetIfDone(m)
}

// noteEnd takes note if a member says that the team has ended, and tells the other nodes.
func (t *Teams) noteEnd(m *team, pe layout.Local) {
	if m.ended || atomic.LoadUint32(&t.cfg.Words(pe).Parts[m.id].Ended) == 0 || !t.hasWords(m) {
		return
	}
	t.end(m)
}

// noteGone takes note that a PE has described a team with words of earlier teams, which it does not use any more. It may have said
// so of a team that has ended, but has written over that.
func (t *Teams) noteGone(m *team, pe layout.Local) {
	for _, old := range t.named {
		if old == m || old.id != m.id {
			continue
		}
		// If it is not known to have described the other team, that may be the later one.
		if i := old.indexOf(pe); i >= 0 && old.members[i].start != 0 {
			old.members[i].gone = true
			t.endIfLeft(old)
		}
	}
}

// endIfLeft ends a team here of which no member of this node makes a step any more. Until other nodes have ended it, it answers them.
func (t *Teams) endIfLeft(m *team) {
	if !m.ended && !slices.ContainsFunc(m.members, func(x member) bool { return !x.gone && !x.dead }) {
		t.end(m)
	}
}

// end takes note that a team has ended here.
func (t *Teams) end(m *team) {
	m.ended = true
	t.untold++
	t.tellEnds()
}

// tellEnds tells the other nodes which teams have ended here, once they are made. So whoever does not know such a team never will: it has
// failed to make the team, or its members have given that up.
func (t *Teams) tellEnds() {
	if t.untold == 0 {
		return
	}
	for _, m := range t.named {
		if !m.ended || m.done[m.me] || !t.isMade(m) {
			continue
		}
		says := kindGone
		if m.origin == (layout.UpperOrigin{}) { // PEs of other nodes begin a world when they like
			says = kindDone
		}
		t.untold--
		m.done[m.me] = true
		t.sendOthers(m, says)
		t.forgetIfDone(m)
	}
}

// sendOthers sends a message of a head alone to the other nodes of a team.
func (t *Teams) sendOthers(m *team, k kind) {
	for i, node := range m.nodes {
		if i != m.me && !t.dead[node] {
			t.send(node, head{kind: k, name: m.name})
		}
	}
}

// allHave says whether something holds for all nodes of a team that live.
func (t *Teams) allHave(m *team, what []bool) bool {
	for i, node := range m.nodes {
		if !what[i] && !t.dead[node] {
			return false
		}
	}
	return true
}

// isMade says whether the step has a result that makes a team: all members of its parent have entered it, or never will.
func (t *Teams) isMade(m *team) bool {
	parent := t.named[m.origin.Parent]
	return parent == nil || parent.lines[m.origin.Line].Seq() > m.origin.Step // a parent that is forgotten makes no steps any more
}

// forgetIfDone forgets a team of which no node asks for anything any more, nor says anything.
func (t *Teams) forgetIfDone(m *team) {
	if !t.allHave(m, m.done) {
		return
	}
	if !m.over[m.me] {
		m.over[m.me] = true
		t.sendOthers(m, kindOver)
	}
	if !t.allHave(m, m.over) {
		return
	}
	for i := range m.members { // the dead say nothing of the end themselves, and their words must not make the team known again
		x := &m.members[i]
		if p := &t.cfg.Words(x.pe).Parts[m.id]; x.dead && x.start != 0 && atomic.LoadUint64(&p.Start) == x.start {
			atomic.StoreUint32(&p.Ended, 1)
		}
	}
	delete(t.named, m.name)
	t.latest[m.id] = slices.DeleteFunc(t.latest[m.id], func(other *team) bool { return other == m })
	t.tellEnds() // of teams that it has made
}
