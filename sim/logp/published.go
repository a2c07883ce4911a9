package logp

import "github.com/goshmem/goshmem/coll/ftco"

// Published drives the machines of a collective as published. The engine keeps their deadlines, and
// no living node is taken for dead: the published figures were made so.
type Published struct {
	group   *ftco.PublishedGroup
	members []ftco.Published
	event   ftco.PubEvent
	out     []ftco.PubAction
}

// NewPublished makes the machines of a group.
func NewPublished(g *ftco.PublishedGroup) *Published {
	return &Published{group: g, members: g.Members(), out: make([]ftco.PubAction, 0, 4)}
}

// Reset puts all machines back to rest.
func (p *Published) Reset(seed uint64) { p.group.Reset(p.members, seed) }

// Member returns the machine of v.
func (p *Published) Member(v int32) *ftco.Published { return &p.members[v] }

// step gives v's machine an event and returns what the machine does.
func (p *Published) step(v int32, kind ftco.PubEventKind, now int32) []ftco.PubAction {
	p.event.Kind, p.event.Now = kind, now
	p.out = p.members[v].Step(&p.event, p.out[:0])
	return p.out
}

// Enter makes v call the collective.
func (p *Published) Enter(v, now int32) { p.step(v, ftco.PubEnter, now) }

// Arrive puts a message into v's queue.
func (p *Published) Arrive(v int32, m *ftco.PubMsg, now int32) int {
	p.event.Msg = *m
	p.step(v, ftco.PubArrive, now)
	return len(p.members[v].Inbox())
}

// Turn gives v one step.
func (p *Published) Turn(v, now int32, out *Move[ftco.PubMsg]) {
	for i, a := range p.step(v, ftco.PubTurn, now) {
		switch a.Kind {
		case ftco.PubSend:
			out.Kind, out.To, out.Msg = Sent, a.To, p.out[i].Msg
		case ftco.PubTook:
			out.Kind = Took
		case ftco.PubReturn:
		}
	}
}

// Wake returns when v may have something to do.
func (p *Published) Wake(v, now int32) (int32, bool) { return p.members[v].Wake(now) }

// Lost lets the sender learn of the death at the message's deadline.
func (p *Published) Lost(_ int32, m *ftco.PubMsg, _ int32) (learner, at int32, ok bool) {
	return m.From, m.Deadline, m.Deadline > 0
}

// Died calls lost for all messages that v leaves unanswered.
func (p *Published) Died(v, _ int32, lost func(*ftco.PubMsg)) (news int32, ok bool) {
	p.members[v].Unanswered(lost)
	return 0, false
}

// Notice tells v that the node dead is dead.
func (p *Published) Notice(v, dead, now int32) {
	p.event.From = dead
	p.step(v, ftco.PubFailed, now)
}

// Finished reports whether v needs to do no more.
func (p *Published) Finished(v int32) bool { return p.members[v].Finished() }
