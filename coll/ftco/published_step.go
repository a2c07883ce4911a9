package ftco

// PubEventKind is what a machine as published can learn.
type PubEventKind uint8

// The events.
const (
	PubEnter  PubEventKind = iota + 1 // the local member calls the collective
	PubArrive                         // Msg comes into the inbound queue
	PubFailed                         // the deadline of a message to From has passed, and From is dead
	PubTurn                           // one step: send a message, or handle one
)

// PubEvent is what a machine is told, and when.
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

// PubMsg is what machines send each other. DATA names what it holds by the set of
// nodes that it accounts for.
type PubMsg struct {
	From        Node
	Deadline    int32 // when the sender takes the receiver for dead; 0: it does not wait for an answer
	a, b, spans int32 // an interval, or where in the group's store
	Distance    uint16
	Kind        PubMsgKind
}

// PubActionKind is what a machine does.
type PubActionKind uint8

// The actions.
const (
	PubSend   PubActionKind = iota + 1 // Msg to To; this was the step
	PubTook                            // a message from the queue; this was the step
	PubReturn                          // the collective returns; takes no step
)

// PubAction is what a machine does or has done.
type PubAction struct {
	Kind PubActionKind
	To   Node
	Msg  PubMsg
}

// contact is a node that I deal with.
type contact struct {
	node     Node
	sent     int32 // when it was sent DATA or KEEPALIVE last
	patience int32 // f_timeout of messages to it
	interval int32 // between KEEPALIVEs
	until    int32 // when it takes me for dead, if it is owed an ACK
	distance uint16
	seen     bool // it sent anything
	waits    bool // it owes an answer
	owed     bool // it is owed an ACK
	dead     bool
}

// Published is one node's part in one collective, by Algorithms 1 to 5 with the
// choices that docs/ftco.md lists. [PublishedGroup] makes it.
//
// # Messages
//
//	DATA       a partial or the whole result, and whom it accounts for
//	KEEPALIVE  are you alive: the answer is ACK, or DATA if that is due
//	ACK        of either; not sent if DATA goes to the same node first
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
//	whole           everybody is accounted for     toBelow
//	toBelow         a turn for each below          finished        DATA down; PubReturn
//	any but late    nothing of these to do         the same        DATA handled, else an ACK or KEEPALIVE sent, else one handled
//	any             PubFailed of a node below,     fromBelow       its children take its place; everything is sent again
//	                or of another root
//	any             PubFailed of a node above      toAbove, or     those above it take its place
//	                                               as before
//	any             a message of a stranger        as PubFailed    all between it and me are dead
//	finished        anything else                  finished        none (Bcast, Reduce: the ACKs that are due)
//
// A broadcast begins at toAbove (node 0 tells the other roots) or whole (all
// others wait for any DATA); a reduction ends when all above have acknowledged.
type Published struct {
	g        *PublishedGroup
	contacts []contact // fathers, children, then whoever turns up
	inbox    []PubMsg
	have     []span
	tour     *detour // nil until somebody fails
	rng      uint64
	me       Node
	ups      int32 // the first contacts are above me
	base     int32 // and up to here they are those of the tree without failures
	index    int32 // how far the phase has got
	owing    int32 // contacts that are owed an ACK
	snap     int32 // where my set is in the group's store
	phase    phase
	snapped  bool
	late     bool // not in the collective yet
	got      bool // DATA came; in a broadcast it is the result
	finished bool // silent, but for strangers
	returned bool
	stranger bool // a message of one is in the inbox
	far      bool // there are nodes beyond distance 1
}

// detour is how the tree has changed for a node: contacts, by number.
type detour struct{ up, down []int32 }

// Step tells the machine of one event and appends what it does. Of PubTurn this
// is at most one PubSend or PubTook; if there is neither, it has nothing to do
// before Wake or the next other event.
func (p *Published) Step(ev *PubEvent, out []PubAction) []PubAction {
	switch ev.Kind {
	case PubEnter:
		p.late = false
	case PubArrive:
		p.inbox = append(p.inbox, ev.Msg)
		if p.finished && !p.stranger {
			p.stranger = p.lookup(ev.Msg.From) < 0
		}
		p.far = p.far || ev.Msg.Distance > 1
	case PubFailed:
		p.add(p.g.place(ev.From))
		p.bypass(ev.From, true)
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
	var done bool
	before := len(out)
	if out, done = p.traverse(now, out); len(out) > before {
		return out
	}
	if done {
		p.finished = p.me != 0
		if !p.returned {
			p.returned = true
			out = append(out, PubAction{Kind: PubReturn})
		}
		if p.finished {
			p.stranger = p.hasStranger()
			return p.turnFinished(now, out)
		}
	}
	return p.serve(now, out)
}

// turnFinished answers only who is not known: everybody else has been sent what
// there is. Losing a finished node's memory is what makes the printed algorithm
// return partial results.
func (p *Published) turnFinished(now int32, out []PubAction) []PubAction {
	if p.stranger {
		for i := range p.inbox {
			if p.lookup(p.inbox[i].From) < 0 {
				out = p.take(i, out)
				break
			}
		}
		p.stranger = p.finished && p.hasStranger()
		return out
	}
	switch p.g.cfg.Collective {
	case Bcast:
		return p.acknowledge(0, out)
	case Reduce: // others cannot return before they have their ACKs
		return p.serve(now, out)
	}
	return out
}

func (p *Published) hasStranger() bool {
	for i := range p.inbox {
		if p.lookup(p.inbox[i].From) < 0 {
			return true
		}
	}
	return false
}

// turnLate is Appendix B: "respond with ACK ..., retain arriving DATA, but not
// send any DATA". Only KEEPALIVE is answered, because DATA is answered later.
func (p *Published) turnLate(now int32, out []PubAction) []PubAction {
	if p.g.cfg.Service == NoService {
		return out
	}
	if i := p.find(PubKeepAlive, 0); i >= 0 {
		from := p.inbox[i].From
		out = p.take(i, out)
		if c := p.lookup(from); c >= 0 && p.contacts[c].owed {
			out = append(out[:len(out)-1], p.ack(&p.contacts[c]))
		}
		return out
	}
	if i := p.find(PubAck, 0); i >= 0 {
		return p.take(i, out)
	}
	return out
}

// serve is the rest of an iteration of Algorithm 1, lines 6 to 11, for when the
// tree has nothing to send.
func (p *Published) serve(now int32, out []PubAction) []PubAction {
	before := len(out)
	if p.far {
		if out = p.serveAt(p.distance(now), now, out); len(out) > before {
			return out
		}
	}
	return p.serveAt(0, now, out)
}

// serveAt handles what is at the distance d, or at any if d is 0. The printed
// order makes queues short, and gives other figures than the published ones.
func (p *Published) serveAt(d int32, now int32, out []PubAction) []PubAction {
	before := len(out)
	if i := p.find(PubData, d); i >= 0 {
		return p.take(i, out)
	}
	if !p.g.cfg.PrintedOrder {
		if out = p.detect(d, now, out); len(out) > before {
			return out
		}
	}
	if i := p.find(PubKeepAlive, d); i >= 0 {
		return p.take(i, out)
	}
	if i := p.find(PubAck, d); i >= 0 {
		return p.take(i, out)
	}
	if p.g.cfg.PrintedOrder {
		return p.detect(d, now, out)
	}
	return out
}

// find is the first message of a kind in the inbox, at the distance d or any.
func (p *Published) find(kind PubMsgKind, d int32) int {
	for i := range p.inbox {
		if m := &p.inbox[i]; m.Kind == kind && (d == 0 || int32(m.Distance) == d) {
			return i
		}
	}
	return -1
}

// take handles a message (Algorithm 2).
func (p *Published) take(i int, out []PubAction) []PubAction {
	m := p.inbox[i]
	p.inbox = append(p.inbox[:i], p.inbox[i+1:]...)
	out = append(out, PubAction{Kind: PubTook, Msg: m})
	at := p.lookup(m.From)
	strange := at < 0
	if strange {
		at = p.meet(m.From, int32(m.Distance))
	}
	c := &p.contacts[at]
	if c.dead {
		return out
	}
	c.waits, c.seen = false, true
	if m.Kind != PubAck && p.g.cfg.Service != NoService {
		if !c.owed || m.Deadline < c.until {
			c.until = m.Deadline
		}
		p.owe(c, true)
	} else {
		p.owe(c, false)
	}
	if m.Kind == PubData {
		p.got = true
		p.merge(&m)
	}
	if strange {
		p.bypass(m.From, false)
	}
	return out
}

// owe notes whether an ACK is due.
func (p *Published) owe(c *contact, yes bool) {
	switch {
	case yes && !c.owed:
		p.owing++
	case !yes && c.owed:
		p.owing--
	}
	c.owed = yes
}

// Wake is when the machine could do something without any other event; ok is
// false if never.
func (p *Published) Wake(now int32) (at int32, ok bool) {
	if p.late || p.finished || p.g.cfg.Service == NoService {
		return 0, false
	}
	eta := p.eta()
	if eta >= now {
		return eta + 1, true
	}
	for i := range p.contacts {
		c := &p.contacts[i]
		if !p.asks(c) {
			continue
		}
		due := now + 1
		if c.seen {
			due = max(due, c.sent+c.interval+1)
		}
		if !ok || due < at {
			at, ok = due, true
		}
	}
	return at, ok
}

// Returned says whether the collective has returned here.
func (p *Published) Returned() bool { return p.returned }

// Finished says that the machine is done with, unless somebody's failure is
// noticed or a node in need turns up.
func (p *Published) Finished() bool {
	if p.me == 0 {
		return p.returned
	}
	return p.finished
}

// Inbox is the inbound queue, for drivers that count.
func (p *Published) Inbox() []PubMsg { return p.inbox }

// Unanswered calls f for all messages that nobody will answer if I am killed:
// their senders wait until the deadline. Figure 10 was made without those that have
// been handled and not answered; in an allreduce all contacts ask each other.
// In a reduction and a broadcast nobody else would find out.
func (p *Published) Unanswered(f func(m *PubMsg)) {
	for i := range p.inbox {
		f(&p.inbox[i])
	}
	for i := range p.contacts {
		if c := &p.contacts[i]; c.owed && !c.dead && p.g.cfg.Collective != Allreduce {
			f(&PubMsg{From: c.node, Deadline: c.until})
		}
	}
}

// Complete says whether every node is accounted for here.
func (p *Published) Complete() bool { return p.full() }

// Accounted appends the nodes that are.
func (p *Published) Accounted(nodes []Node) []Node { return p.g.nodes(p.have, nodes) }
