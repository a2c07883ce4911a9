package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxErrands bounds the requests of one process that wait for other nodes.
const maxErrands = 4096

// errand is a client's request that waits for answers of other nodes, or of the board.
type errand struct {
	at      caller
	waits   int          // number of answers to come
	answers []peerAnswer // those that have come; a node that has died gives none
	giveUp  bool         // the other side has to hear if the client goes away
	done    func(answers []peerAnswer)
}

// errands asks the servers of other nodes and the board for clients, and serves what they ask.
type errands struct {
	*common
	events     *events
	groups     *groups
	control    *jobControl
	queries    *queries
	last       uint64             // number of the last question
	open       map[uint64]*errand // by number of the question
	byProc     map[*process]int   // number of errands
	forwarding *forwarding
}

// ask puts a question to some nodes for a client. When all have answered, it calls done, unless the client has gone.
func (es *errands) ask(at caller, to []int, m *peerMessage, done func(answers []peerAnswer)) {
	if es.byProc[at.process] >= maxErrands {
		es.refuse(at, codec.StatusErrOutOfResource,
			fmt.Sprintf("%d requests of the caller wait for other nodes already, which is the limit", maxErrands))
		return
	}
	e := &errand{at: at, waits: len(to), giveUp: m.op == opRequest, done: done}
	es.byProc[at.process]++
	body := m.append(nil)
	for _, node := range to {
		es.last++
		es.open[es.last] = e
		es.emit(action{kind: actAsk, node: node, request: es.last, payload: body})
	}
}

// tell sends news to a node, to the board or to everyone.
func (es *errands) tell(to int, m *peerMessage) {
	es.emit(action{kind: actTell, node: to, payload: m.append(nil)})
}

// takeAnswer takes the answer to a question.
func (es *errands) takeAnswer(ev event) {
	e := es.open[ev.request]
	if e == nil {
		return // the client has gone
	}
	delete(es.open, ev.request)
	e.waits--
	if ev.payload != nil {
		a, err := parsePeerAnswer(ev.payload)
		if err != nil {
			a = peerAnswer{status: codec.StatusErrUnpackFailure, why: err.Error()}
		}
		if a.why != "" {
			es.emit(action{kind: actRefused, conn: e.at.conn, proc: e.at.name, status: a.status, text: a.why})
		}
		e.answers = append(e.answers, a)
	}
	if e.waits == 0 {
		es.forget(e)
		e.done(e.answers)
	}
}

// forget counts an errand as over.
func (es *errands) forget(e *errand) {
	if es.byProc[e.at.process]--; es.byProc[e.at.process] == 0 {
		delete(es.byProc, e.at.process)
	}
}

// dropConnection drops the errands of a connection that has ended.
func (es *errands) dropConnection(conn connID) {
	var dropped []*errand
	for _, number := range sortedKeys(es.open) {
		e := es.open[number]
		if e.at.conn != conn {
			continue
		}
		delete(es.open, number)
		if e.giveUp {
			es.tell(Root, &peerMessage{op: opGiveUp, number: number})
		}
		if !slices.Contains(dropped, e) {
			dropped = append(dropped, e)
			es.forget(e)
		}
	}
}

// serveQuestion serves a question of another node.
func (es *errands) serveQuestion(ev event) {
	m, err := parsePeerMessage(ev.payload)
	a := peerAnswer{status: codec.StatusErrUnpackFailure}
	switch {
	case err != nil:
		a.why = err.Error()
	case m.op == opCensus:
		a = es.queries.serveCensus(&m)
	case m.op == opControl:
		a = es.control.serveFar(&m)
	default:
		a = peerAnswer{status: codec.StatusErrNotSupported, why: fmt.Sprintf("question of kind %d, want one that a node serves", m.op)}
	}
	es.emit(action{kind: actServed, request: ev.request, payload: a.append(nil)})
}

// takeNews takes news of another node.
func (es *errands) takeNews(ev event) {
	m, err := parsePeerMessage(ev.payload)
	if err == nil {
		switch m.op {
		case opEvent:
			err = es.events.raiseFar(&m)
		case opCondemn:
			es.control.condemn(m.proc, m.procs, m.flag)
		case opLeft:
			err = es.groups.noteLeft(ev, &m)
		case opInput:
			es.emit(action{kind: actStdin, procs: m.procs, payload: m.body, flag: m.flag})
		default:
			err = fmt.Errorf("news of kind %d, want one that a node takes", m.op)
		}
	}
	if err != nil {
		es.emit(action{kind: actRefused, status: codec.StatusErrBadParam, text: "news of another node: " + err.Error()})
	}
}

// nodesOf returns the other nodes that processes are on, in order. A wildcard rank stands for a namespace. Known is false
// if one of the processes is on no node that this server knows: a tool is known on its own node only.
func (es *errands) nodesOf(procs []codec.Proc) (nodes []int, known bool) {
	known = true
	seen := map[int]bool{}
	add := func(p *process) {
		if node := int(p.place.Node); !p.local && !p.space.tool && !seen[node] {
			seen[node] = true
			nodes = append(nodes, node)
		}
	}
	for _, name := range procs {
		s := es.spaces[name.Nspace]
		switch {
		case s == nil:
			known = false
		case name.Rank == codec.RankWildcard:
			for _, p := range s.procs {
				add(p)
			}
		default:
			if p := s.find(name.Rank); p != nil {
				add(p)
			}
		}
	}
	slices.Sort(nodes)
	return nodes, known
}
