package ftco

// PubEventKind is the kind of an event for a machine as published.
type PubEventKind uint8

// The events.
const (
	PubEnter  PubEventKind = iota + 1 // the local member calls the collective
	PubArrive                         // Msg comes into the inbound queue
	PubFailed                         // the deadline of a message to From has passed, and From is dead
	PubTurn                           // one step: send a message, or handle one
)

// PubEvent is one event and its time.
type PubEvent struct {
	Kind PubEventKind
	Now  int32
	From Node
	Msg  PubMsg
}

// PubMsgKind is the kind of a message (Section 3, "Message Flow").
type PubMsgKind uint8

// The messages.
const (
	PubData      PubMsgKind = iota + 1 // a value along the tree
	PubKeepAlive                       // explicit fault detection
	PubAck                             // of either
)

// PubMsg is what machines send each other. DATA says what it holds by the set of nodes that it
// accounts for.
type PubMsg struct {
	From        Node
	Deadline    int32 // when the sender takes the receiver for dead; 0: it does not wait for an answer
	a, b, spans int32 // the set: one interval from a to b, or spans intervals at a of the group's store
	Distance    uint16
	Kind        PubMsgKind
}

// PubActionKind is the kind of an action.
type PubActionKind uint8

// The actions.
const (
	PubSend   PubActionKind = iota + 1 // send Msg to To, which is the step
	PubTook                            // the machine has handled Msg from its queue, which was the step
	PubReturn                          // the collective returns, which takes no step
)

// PubAction is what a machine does or has done.
type PubAction struct {
	Kind PubActionKind
	To   Node
	Msg  PubMsg
}

// Published is one node's part in one collective, by Algorithms 1 to 5 with the choices that
// docs/ftco.md lists. [PublishedGroup.Members] makes it.
//
// # Messages
//
//	DATA       a partial or the whole result, and the nodes that it accounts for
//	KEEPALIVE  a question whether the node lives; the answer is ACK, or DATA if that is due
//	ACK        the answer to either; not sent if DATA goes to the same node first
//
// # States, and what moves it
//
//	state           event                          becomes         actions
//	late            KEEPALIVE                      late            ACK
//	late            DATA                           late            none: it stays in the queue
//	late            PubEnter                       fromBelow
//	fromBelow       DATA of all below              toAbove         (the same for those in the place of dead children)
//	toAbove         a turn for each above          fromAbove       DATA up, or to all other roots
//	fromAbove       DATA of all above              whole           (node 0 is whole first)
//	whole           all are accounted for          toBelow
//	toBelow         a turn for each below          finished        DATA down; PubReturn
//	any but late    a turn with nothing of these   the same        DATA handled, else an ACK or KEEPALIVE sent, else one handled
//	any             PubFailed of a node below,     fromBelow       its children take its place; everything is sent again
//	                or of another root
//	any             PubFailed of a node above      toAbove, or     those above it take its place
//	                                               stays
//	any             a message of a stranger        as PubFailed    all nodes between it and this one are dead
//	finished        anything else                  finished        none (Bcast, Reduce: the ACKs that are due)
//
// A broadcast begins at toAbove (node 0 sends to the other roots) or at whole (all other nodes wait
// for any DATA). A reduction ends when all nodes above have acknowledged.
type Published struct {
	role
	contacts  contacts
	inbox     inbox
	accounted spanSet
	rng       uint64
	index     int32 // how far the phase has got in its contacts
	phase     phase
	late      bool // the collective has not been called here yet
	got       bool // DATA has come; in a broadcast it is the result
	finished  bool // the node is silent; only strangers are answered
	returned  bool
	stranger  bool // the inbox has a message of a stranger: a node that is no contact
}

// Step handles one event and appends what the machine does. Of PubTurn this is at most one PubSend
// or PubTook. If there is neither, the machine has nothing to do before Wake or the next other
// event.
func (p *Published) Step(ev *PubEvent, out []PubAction) []PubAction {
	switch ev.Kind {
	case PubEnter:
		p.late = false
	case PubArrive:
		p.inbox = append(p.inbox, ev.Msg)
		if p.finished && !p.stranger {
			p.stranger = p.contacts.find(ev.Msg.From) < 0
		}
		p.contacts.far = p.contacts.far || ev.Msg.Distance > 1
	case PubFailed:
		p.accounted.add(p.g.place(ev.From))
		p.reroute(ev.From, true)
	case PubTurn:
		return p.turn(ev.Now, out)
	}
	return out
}

// turn is one iteration of Algorithm 1, or of Algorithm 5.
func (p *Published) turn(now int32, out []PubAction) []PubAction {
	if p.late {
		return p.turnLate(now, out)
	}
	if p.finished {
		return p.turnFinished(now, out)
	}
	var isDone bool
	before := len(out)
	if out, isDone = p.traverse(now, out); len(out) > before {
		return out
	}
	if isDone {
		p.finished = p.me != 0
		if !p.returned {
			p.returned = true
			out = append(out, PubAction{Kind: PubReturn})
		}
		if p.finished {
			p.stranger = p.inbox.fromStranger(&p.contacts) >= 0
			return p.turnFinished(now, out)
		}
	}
	return p.serve(now, out)
}

// turnFinished answers strangers only, because all contacts have been sent what there is. The
// printed algorithm answers no node here, and so returns partial results.
func (p *Published) turnFinished(now int32, out []PubAction) []PubAction {
	if p.stranger {
		if i := p.inbox.fromStranger(&p.contacts); i >= 0 {
			out = p.handle(i, out)
		}
		p.stranger = p.finished && p.inbox.fromStranger(&p.contacts) >= 0
		return out
	}
	switch p.g.cfg.Collective {
	case Bcast:
		return p.acknowledge(0, out)
	case Reduce: // other nodes return only when they have their ACKs
		return p.serve(now, out)
	}
	return out
}

// turnLate is Appendix B: "respond with ACK ..., retain arriving DATA, but not send any DATA". It
// answers KEEPALIVE only, because DATA is answered later.
func (p *Published) turnLate(now int32, out []PubAction) []PubAction {
	if p.g.cfg.Service == NoService {
		return out
	}
	if i := p.inbox.find(PubKeepAlive, 0); i >= 0 {
		from := p.inbox[i].From
		out = p.handle(i, out)
		if c := p.contacts.find(from); c >= 0 && p.contacts.list[c].owed {
			out = append(out[:len(out)-1], p.ack(&p.contacts.list[c]))
		}
		return out
	}
	if i := p.inbox.find(PubAck, 0); i >= 0 {
		return p.handle(i, out)
	}
	return out
}

// serve is the rest of an iteration of Algorithm 1, lines 6 to 11, when the traversal has nothing
// to send.
func (p *Published) serve(now int32, out []PubAction) []PubAction {
	before := len(out)
	if p.contacts.far {
		if out = p.serveAt(p.distance(now), now, out); len(out) > before {
			return out
		}
	}
	return p.serveAt(0, now, out)
}

// serveAt serves the nodes at the distance d, or at any if d is 0. The printed order makes queues
// short, and gives other figures than the published ones.
func (p *Published) serveAt(d int32, now int32, out []PubAction) []PubAction {
	before := len(out)
	if i := p.inbox.find(PubData, d); i >= 0 {
		return p.handle(i, out)
	}
	if !p.g.cfg.PrintedOrder {
		if out = p.detect(d, now, out); len(out) > before {
			return out
		}
	}
	if i := p.inbox.find(PubKeepAlive, d); i >= 0 {
		return p.handle(i, out)
	}
	if i := p.inbox.find(PubAck, d); i >= 0 {
		return p.handle(i, out)
	}
	if p.g.cfg.PrintedOrder {
		return p.detect(d, now, out)
	}
	return out
}

// handle handles message i of the inbox (Algorithm 2).
func (p *Published) handle(i int, out []PubAction) []PubAction {
	m := p.inbox[i]
	p.inbox = append(p.inbox[:i], p.inbox[i+1:]...)
	out = append(out, PubAction{Kind: PubTook, Msg: m})
	at := p.contacts.find(m.From)
	isStranger := at < 0
	if isStranger {
		at = p.contacts.meet(p.newContact(m.From, int32(m.Distance)))
	}
	c := &p.contacts.list[at]
	if c.dead {
		return out
	}
	c.waits, c.seen = false, true
	if m.Kind != PubAck && p.g.cfg.Service != NoService {
		if !c.owed || m.Deadline < c.until {
			c.until = m.Deadline
		}
		p.contacts.setOwed(c, true)
	} else {
		p.contacts.setOwed(c, false)
	}
	if m.Kind == PubData {
		p.got = true
		p.accounted.addFrom(&m, p.g)
	}
	if isStranger {
		p.reroute(m.From, false)
	}
	return out
}

// Returned reports whether the collective has returned here.
func (p *Published) Returned() bool { return p.returned }

// Finished reports whether the machine has nothing more to do, unless a failure is noticed or a
// stranger turns up.
func (p *Published) Finished() bool {
	if p.me == 0 {
		return p.returned
	}
	return p.finished
}

// Inbox returns the inbound queue, for drivers that count.
func (p *Published) Inbox() []PubMsg { return p.inbox }

// Unanswered calls f for all messages that stay without an answer if this node is killed: their
// senders wait until the deadline. Figure 10 was made without messages that have been handled and
// not answered; in an allreduce all contacts ask each other, so the death is noticed all the same.
// In a reduction and a broadcast no other node would find out.
func (p *Published) Unanswered(f func(m *PubMsg)) {
	for i := range p.inbox {
		f(&p.inbox[i])
	}
	for i := range p.contacts.list {
		if c := &p.contacts.list[i]; c.owed && !c.dead && p.g.cfg.Collective != Allreduce {
			f(&PubMsg{From: c.node, Deadline: c.until})
		}
	}
}

// Complete reports whether every node is accounted for here.
func (p *Published) Complete() bool { return p.accounted.isFull(p.g.n) }

// Accounted appends the nodes that are accounted for here.
func (p *Published) Accounted(nodes []Node) []Node {
	return p.g.appendNodes(p.accounted.spans, nodes)
}
