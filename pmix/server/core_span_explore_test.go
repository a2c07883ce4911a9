package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// layout is a case to explore: the nodes of the ranks, and what may happen.
type layout struct {
	name   string
	nodes  []uint32 // the node of each rank
	fences int      // number of fences that each rank calls in a row
	deaths int      // most ranks that die
	leave  bool     // ranks finalize before they die
	limit  bool     // the first rank sets a deadline, which may pass
}

// cluster is a job on several nodes, with a driver between them that implements Remote. Messages arrive in any order.
type cluster struct {
	layout
	t      *testing.T
	worlds []*world
	parts  map[FenceID][]*action // by node
	done   []map[FenceID]bool    // by node: the answer has arrived
	mail   []letter
	ranks  []member
	ticked bool
}

type letter struct {
	to int
	ev event
}

// member is the history of a rank.
type member struct {
	dead    bool
	results []string // statuses of its fences, in order
	waiting uint32   // tag of its pending request
}

// namespaces returns each node's description of the job, made once for all clusters of a layout.
func (l *layout) namespaces(t *testing.T) (all []*nspace) {
	for node := range slices.Max(l.nodes) + 1 {
		j := JobLayout{Nspace: testNspace, ThisNode: node, Hosts: make([]string, slices.Max(l.nodes)+1)}
		for r, at := range l.nodes {
			j.Procs = append(j.Procs, Proc{Rank: uint32(r), Node: at, LocalRank: uint16(r)})
		}
		s, err := newNspace(&j, codec.Proc{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// afresh returns a copy of a namespace, in the initial state.
func afresh(s *nspace) *nspace {
	fresh := *s
	fresh.store, fresh.procs = kvs.New(s.name), nil
	for _, p := range s.procs {
		fresh.procs = append(fresh.procs, &process{name: p.name, space: &fresh, place: p.place, local: p.local})
	}
	return &fresh
}

func newCluster(t *testing.T, l layout, spaces []*nspace) *cluster {
	c := &cluster{layout: l, t: t, parts: map[FenceID][]*action{}, ranks: make([]member, len(l.nodes))}
	for node, s := range spaces {
		w := &world{t: t, core: newCore(true, 100), conns: map[codec.Rank]connID{}, tags: map[connID]uint32{}}
		w.step(event{kind: evAddJob, space: afresh(s)})
		for r, at := range l.nodes {
			if int(at) == node {
				w.connect(codec.Rank(r))
			}
		}
		c.worlds = append(c.worlds, w)
		c.done = append(c.done, map[FenceID]bool{})
	}
	return c
}

// moves returns all moves that are possible now.
func (c *cluster) moves() (all []func()) {
	died := 0
	for i := range c.ranks {
		if c.ranks[i].dead {
			died++
		}
	}
	for r := range c.ranks {
		m := &c.ranks[r]
		if m.dead {
			continue
		}
		if m.waiting == 0 && len(m.results) < c.fences {
			all = append(all, func() { c.join(r) })
		}
		if died < c.deaths && (!c.leave || m.waiting == 0) {
			all = append(all, func() { c.die(r) })
		}
	}
	for i := range c.mail {
		all = append(all, func() { c.deliver(i) })
	}
	if c.limit && !c.ticked && c.ranks[0].waiting != 0 {
		all = append(all, func() {
			c.ticked = true
			w := c.worlds[c.nodes[0]]
			w.now += 100
			c.step(int(c.nodes[0]), event{kind: evTick})
		})
	}
	return all
}

func (c *cluster) join(r int) {
	node := int(c.nodes[r])
	q := fenceOf()
	if c.limit && r == 0 {
		q.Info = []codec.Info{seconds(1)}
	}
	c.ask(node, r, q)
}

// ask sends a rank's request. The rank then waits for the answer.
func (c *cluster) ask(node, r int, q codec.Request) {
	w := c.worlds[node]
	body, err := codec.AppendRequest(nil, q)
	if err != nil {
		c.t.Fatal(err)
	}
	conn := w.conns[codec.Rank(r)]
	w.tags[conn] = max(w.tags[conn], codec.TagFirstDynamic-1) + 1
	tag := w.tags[conn]
	c.ranks[r].waiting = tag
	c.step(node, event{kind: evFrame, conn: conn, tag: tag, payload: body})
}

func (c *cluster) die(r int) {
	node := int(c.nodes[r])
	if c.leave {
		c.ask(node, r, &codec.FinalizeRequest{})
	}
	c.ranks[r].dead = true
	c.step(node, event{kind: evExited, proc: first(codec.Rank(r))})
	for other := range c.worlds {
		if other != node {
			c.mail = append(c.mail, letter{other, event{kind: evExited, proc: first(codec.Rank(r))}})
		}
	}
}

func (c *cluster) deliver(i int) {
	l := c.mail[i]
	c.mail = slices.Delete(c.mail, i, i+1)
	if l.ev.kind == evFenceDone {
		c.done[l.to][l.ev.fence] = true
	}
	c.step(l.to, l.ev)
}

// step steps the core of a node and executes its actions.
func (c *cluster) step(node int, ev event) {
	w := c.worlds[node]
	ev.now = w.now
	for _, a := range w.core.Step(ev, nil) {
		switch a.kind {
		case actSend:
			c.answer(w, &a)
		case actFence:
			c.take(node, &a)
		case actExpire:
			c.call(node, &a, codec.StatusErrTimeout)
		}
	}
}

func (c *cluster) answer(w *world, a *action) {
	for r := range c.ranks {
		if m := &c.ranks[r]; w.conns[codec.Rank(r)] == a.conn && m.waiting == a.tag {
			m.waiting = 0
			if len(m.results) < c.fences && !c.left(r) {
				m.results = append(m.results, describeBody(a.payload))
			}
		}
	}
}

// left says whether a rank has finalized; the answer to that is no fence's.
func (c *cluster) left(r int) bool {
	p := c.worlds[c.nodes[r]].core.find(first(codec.Rank(r)))
	return p.phase == phaseFinalized
}

// call tells the other nodes of a fence.
func (c *cluster) call(from int, a *action, status codec.Status) {
	for node := range c.worlds {
		if node != from && (c.parts[a.fence] == nil || c.parts[a.fence][node] == nil) {
			ev := event{kind: evFenceCalled, fence: a.fence, procs: a.procs, flag: a.flag, status: status}
			c.mail = append(c.mail, letter{node, ev})
		}
	}
}

// take adds a node's part of a fence, and answers when all parts are there.
func (c *cluster) take(node int, a *action) {
	before := a.fence
	if before.Seq--; before.Seq > 0 && !c.done[node][before] {
		c.t.Fatalf("node %d hands in %v before %v was answered", node, a.fence, before)
	}
	if c.parts[a.fence] == nil {
		c.call(node, a, codec.StatusSuccess)
		c.parts[a.fence] = make([]*action, len(c.worlds))
	}
	parts := c.parts[a.fence]
	if parts[node] != nil {
		c.t.Fatalf("node %d hands in %v twice", node, a.fence)
	}
	parts[node] = a
	done := event{kind: evFenceDone, fence: a.fence}
	for _, p := range parts {
		if p == nil {
			return
		}
		if done.status == codec.StatusSuccess {
			done.status = p.status
		}
	}
	for to := range c.worlds {
		c.mail = append(c.mail, letter{to, done})
	}
}

// state returns a key that differs for different states.
func (c *cluster) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v;", c.ticked, c.ranks)
	letters := make([]string, len(c.mail))
	for i, l := range c.mail {
		letters[i] = fmt.Sprint(l.to, l.ev.kind, l.ev.fence, l.ev.proc.Rank, l.ev.status)
	}
	slices.Sort(letters)
	fmt.Fprint(&b, letters)
	for node, w := range c.worlds {
		fmt.Fprintf(&b, ";%v", len(c.done[node]))
		for _, set := range w.core.fences.sortedSets() {
			for _, f := range w.core.fences.bySet[set] {
				fmt.Fprint(&b, f.id, f.part, f.cause, f.failed, f.status, f.missing, f.deadline, len(f.joined), ",")
			}
		}
		for _, p := range w.core.spaces[testNspace].procs {
			fmt.Fprint(&b, p.phase, p.exited)
		}
		for set, s := range w.core.fences.sequences {
			fmt.Fprint(&b, set, s.last)
		}
	}
	return b.String()
}

// check checks a final state: all living ranks were answered, and each fence has ended with one status.
func (c *cluster) check(path []int) {
	for n := range c.fences {
		status := ""
		for r, m := range c.ranks {
			switch {
			case len(m.results) <= n && !m.dead:
				c.t.Fatalf("%s, moves %v: rank %d waits forever in fence %d", c.name, path, r, n+1)
			case len(m.results) <= n:
			case status == "":
				status = m.results[n]
			case status != m.results[n]:
				c.t.Fatalf("%s, moves %v: rank %d ends fence %d with %s, a lower rank with %s", c.name, path, r, n+1, m.results[n], status)
			}
		}
	}
	for node, w := range c.worlds {
		if len(w.core.fences.bySet) != 0 {
			c.t.Fatalf("%s, moves %v: node %d keeps %d fences", c.name, path, node, len(w.core.fences.bySet))
		}
	}
}

// explore tries all orders of moves and returns the numbers of states and of final states.
func explore(t *testing.T, l layout) (states, ends int) {
	seen, spaces := map[string]bool{}, l.namespaces(t)
	var visit func(path []int)
	visit = func(path []int) {
		c := newCluster(t, l, spaces)
		for _, i := range path {
			c.moves()[i]()
		}
		if key := c.state(); seen[key] {
			return
		} else {
			seen[key] = true
		}
		n := len(c.moves())
		if n == 0 {
			ends++
			c.check(path)
		}
		for i := range n {
			visit(append(slices.Clip(path), i))
		}
	}
	visit(nil)
	return len(seen), ends
}

// For every order of deaths, deadlines, contributions and messages, a fence ends with the same status on all nodes, all
// living processes are answered, and no state is kept.
func TestFencesEndAlikeOnAllNodes(t *testing.T) {
	for _, l := range []layout{
		{name: "two nodes, two fences", nodes: []uint32{0, 1}, fences: 2},
		{name: "two nodes, a death", nodes: []uint32{0, 0, 1}, fences: 2, deaths: 1},
		{name: "two nodes, two deaths", nodes: []uint32{0, 0, 1}, fences: 1, deaths: 2},
		{name: "two nodes, one leaves", nodes: []uint32{0, 0, 1}, fences: 2, deaths: 1, leave: true},
		{name: "two nodes, a deadline", nodes: []uint32{0, 0, 1}, fences: 2, limit: true},
		{name: "two nodes, a death and a deadline", nodes: []uint32{0, 1}, fences: 2, deaths: 1, limit: true},
		{name: "three nodes, a death", nodes: []uint32{0, 1, 2}, fences: 1, deaths: 1},
		{name: "three nodes, a death and a deadline", nodes: []uint32{0, 1, 2}, fences: 1, deaths: 1, limit: true},
	} {
		t.Run(l.name, func(t *testing.T) {
			if testing.Short() && len(l.nodes) == 3 && l.limit {
				t.Skip("has ten times as many states as the others")
			}
			states, ends := explore(t, l)
			t.Logf("%d states, %d ends", states, ends)
			if ends < 1 {
				t.Errorf("no final state among %d states", states)
			}
		})
	}
}
