package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// mesh is a job on several nodes with two processes each: a core for each node, and the board. What they say to each
// other arrives at once.
type mesh struct {
	t        *testing.T
	worlds   []*world
	board    *Board
	requests map[uint64]func([]byte)
	last     uint64
	dead     map[int]bool
	parts    map[FenceID]map[int]action // what the nodes have handed in
	between  func()                     // happens once all parts of a fence are there, before it ends
	ended    func(node int)             // happens when a fence has ended on a node, before it ends on the next
	late     map[int]bool               // nodes that news for is kept for
	kept     map[int][]event
}

// newMesh returns a job on n nodes whose processes are all connected.
func newMesh(t *testing.T, n int) *mesh {
	t.Helper()
	m := &mesh{
		t: t, board: NewBoard(), requests: map[uint64]func([]byte){}, dead: map[int]bool{}, parts: map[FenceID]map[int]action{},
		late: map[int]bool{}, kept: map[int][]event{},
	}
	t.Cleanup(m.board.Close)
	for me := range n {
		w := newWorld(t, spread(n, uint32(me)), true)
		w.core.peered = true
		w.carry = func(a action) { m.carry(me, a) }
		m.worlds = append(m.worlds, w)
	}
	for me, w := range m.worlds {
		w.connect(codec.Rank(2*me), codec.Rank(2*me+1))
	}
	m.clear()
	return m
}

// spread returns a job on n nodes with two processes each.
func spread(n int, this uint32) JobLayout {
	j := JobLayout{Nspace: testNspace, ThisNode: this}
	for node := range uint32(n) {
		j.Hosts = append(j.Hosts, "n"+string(rune('0'+node)))
		for i := range uint32(2) {
			j.Procs = append(j.Procs, Proc{Rank: 2*node + i, Node: node, LocalRank: uint16(i)})
		}
	}
	return j
}

// carry carries what a node asks, answers or tells.
func (m *mesh) carry(from int, a action) {
	switch {
	case a.kind == actFence:
		m.meet(from, a)
	case a.kind == actServed:
		reply := m.requests[a.request]
		delete(m.requests, a.request)
		reply(a.payload)
	case a.kind == actAsk:
		answer := func(body []byte) {
			if !m.dead[from] {
				m.worlds[from].step(event{kind: evAnswered, request: a.request, payload: body})
			}
		}
		switch {
		case a.node == Root:
			m.board.Asked(from, a.request, a.payload, answer)
		case m.dead[a.node]:
			answer(nil)
		default:
			m.last++
			m.requests[m.last] = answer
			m.worlds[a.node].step(event{kind: evAsked, request: m.last, payload: a.payload})
		}
	case a.node == Root:
		if err := m.board.Told(from, a.payload); err != nil {
			m.t.Error(err)
		}
	default:
		for node, w := range m.worlds {
			if node != from && !m.dead[node] && (a.node == Everyone || a.node == node) {
				m.tell(node, w, event{kind: evTold, payload: a.payload})
			}
		}
	}
}

// tell gives a node news, or keeps it.
func (m *mesh) tell(node int, w *world, ev event) {
	if m.late[node] {
		m.kept[node] = append(m.kept[node], ev)
		return
	}
	w.step(ev)
}

// release gives a node the news that was kept for it.
func (m *mesh) release(node int) {
	m.late[node] = false
	for _, ev := range m.kept[node] {
		m.worlds[node].step(ev)
	}
	m.kept[node] = nil
}

// meet takes a node's part of a fence. The first part calls the other nodes. When the nodes of all participants have handed
// theirs in, the fence ends on all of them.
func (m *mesh) meet(from int, a action) {
	var nodes []int
	for node := range m.worlds {
		if slices.ContainsFunc(a.procs, func(p codec.Proc) bool { return int(p.Rank/2) == node }) {
			nodes = append(nodes, node)
		}
	}
	if m.parts[a.fence] == nil {
		m.parts[a.fence] = map[int]action{from: a}
		for _, node := range nodes {
			if node != from {
				m.worlds[node].step(event{kind: evFenceCalled, fence: a.fence, procs: a.procs, flag: a.flag})
			}
		}
	}
	m.parts[a.fence][from] = a
	ev := event{kind: evFenceDone, fence: a.fence}
	for _, node := range nodes {
		part, there := m.parts[a.fence][node]
		if !there {
			return
		}
		if ev.status == codec.StatusSuccess {
			ev.status = part.status
		}
		ev.payload = append(ev.payload, part.payload...)
	}
	if m.between != nil {
		m.between()
	}
	for _, node := range nodes {
		m.worlds[node].step(ev)
		if m.ended != nil {
			m.ended(node)
		}
	}
}

// on returns the node of a process.
func (m *mesh) on(rank codec.Rank) *world { return m.worlds[rank/2] }

// clear forgets what has happened so far.
func (m *mesh) clear() {
	for _, w := range m.worlds {
		w.log, w.sent = nil, nil
	}
}

// request sends a request of a process.
func (m *mesh) request(rank codec.Rank, r codec.Request) { m.on(rank).request(rank, r) }

// find looks a key up for a process.
func (m *mesh) find(rank codec.Rank, want, keys string, infos ...codec.Info) {
	m.t.Helper()
	m.request(rank, lookupOf(keys, infos...))
	m.on(rank).expectFound(want)
}

// exit tells a process's own node that it has ended well. The other nodes do not hear of that.
func (m *mesh) exit(rank codec.Rank) {
	m.on(rank).step(event{kind: evExited, proc: first(rank)})
}

// kill ends a node, and tells the others.
func (m *mesh) kill(node int) {
	m.dead[node] = true
	m.board.NodeDead(node)
	for n, w := range m.worlds {
		if !m.dead[n] {
			w.step(event{kind: evNodeLost, procs: []codec.Proc{first(codec.Rank(2 * node)), first(codec.Rank(2*node + 1))}})
		}
	}
}
