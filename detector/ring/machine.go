package ring

import (
	"fmt"

	"github.com/goshmem/goshmem/detector/bmg"
)

// lateness is how late a machine may look at what is due without thinking that it has missed something.
const lateness = millisecond

// Machine is one member of a ring. The package documentation describes the protocol.
type Machine struct {
	shared  *shared
	roster  bmg.Roster
	probes  []probe // suspicions
	detours []detour
	trips   trips
	me      Node
	target  Node // the first before me that is not known to be dead
	asked   int  // helpers that have been asked
	window  int  // of the members that are verified together

	late     int64 // of this step: how much later it comes than the machine wanted; 0: so little that it does not matter
	next     int64 // when the next ping is due
	deadline int64 // when the target's answer is late; Never while it is suspected
	due      int64
	heard    int64 // when the latest ping was sent that the target has answered
	ticked   int64 // when the first of the pings was sent whose answers had the tick that the last one had

	inc      uint32
	tick     uint32 // of the target's last answer
	ticks    uint32 // of this member, for its own answers
	answered bool   // the target has answered since the last ping
	excused  bool   // the deadline has been moved because this member was late
	judges   bool   // this step may accuse suspects: before it all has been read that had come
	mending  bool   // the target is suspected, and those before it are probed
	known    bool   // heard, tick and ticked are of this target
	begun    bool
}

// New makes a machine at rest.
func New(cfg Config) (*Machine, error) {
	if cfg.Me < 0 || cfg.Me >= cfg.N {
		return nil, fmt.Errorf("%w: member %d, want 0 to %d", ErrConfig, cfg.Me, cfg.N-1)
	}
	s, err := cfg.shared()
	if err != nil {
		return nil, err
	}
	m := newMachine(s, &cfg, cfg.Me)
	return &m, nil
}

// NewGroup makes the machines of all members at rest, for a driver that runs all of them. Me is not looked at.
func NewGroup(cfg Config) ([]Machine, error) {
	s, err := cfg.shared()
	if err != nil {
		return nil, err
	}
	all := make([]Machine, cfg.N)
	for v := range all {
		all[v] = newMachine(s, &cfg, v)
	}
	return all, nil
}

func newMachine(s *shared, cfg *Config, me int) Machine {
	inc := uint32(1)
	if cfg.Incs != nil {
		inc = cfg.Incs[me]
	}
	return Machine{
		shared: s, roster: bmg.NewRoster(cfg.N, cfg.Incs), me: Node(me), target: None, window: s.timing.Window, inc: inc,
		next: Never, deadline: Never, due: Never,
	}
}

// Due returns when the machine wants a Tick, or Never.
func (m *Machine) Due() int64 { return m.due }

// Target returns the member that is watched, or None.
func (m *Machine) Target() Node { return m.target }

// Suspects reports whether a suspicion is open.
func (m *Machine) Suspects() bool { return len(m.probes) > 0 }

// Step handles one event and appends to out what the driver is to do.
func (m *Machine) Step(ev Event, out []Action) []Action {
	m.late, m.judges = 0, ev.Kind == Tick || ev.Kind == Suspect
	if late := ev.Now - m.due; m.due != Never && late > lateness {
		m.late = late
	}
	switch ev.Kind {
	case Start:
		m.begin(ev.Now)
	case Tick:
		out = m.pass(ev.Now, out)
	case Recv:
		out = m.receive(ev.Now, ev.From, &ev.Msg, out)
	case Suspect:
		if ev.From != m.me && m.roster.IsCurrent(ev.From, ev.Inc) {
			out = m.suspect(ev.Now, ev.From, out)
		}
	case PeerFailed:
		if ev.From != m.me && m.roster.Fail(ev.From, ev.Inc) {
			m.forget(ev.From)
			out = m.mend(ev.Now, out)
		}
	case PeerJoined:
		if ev.From != m.me && m.roster.Join(ev.From, ev.Inc) {
			m.forget(ev.From)
			if m.target == ev.From {
				m.target = None // what is known of it was of its predecessor
			}
			out = m.mend(ev.Now, out)
		}
	}
	m.due = min(m.next, m.deadline)
	for i := range m.probes {
		m.due = min(m.due, m.probes[i].due())
	}
	for i := range m.detours {
		m.due = min(m.due, m.detours[i].next)
	}
	return out
}

// begin begins to watch. The members' first pings are spread over a period.
func (m *Machine) begin(now int64) {
	if m.shared.n == 1 || m.begun {
		return
	}
	t := &m.shared.timing
	m.begun = true
	m.next = now + int64(float64(t.Period)*float64(m.shared.distance(m.me, 0))/float64(m.shared.n))
	m.watch(m.shared.before(m.me, 1))
}

// aim makes p the target, of which nothing is known.
func (m *Machine) aim(p Node) { m.target, m.trips, m.known = p, trips{}, false }

// watch makes p the target. The answer to the next ping is awaited.
func (m *Machine) watch(p Node) {
	m.aim(p)
	m.deadline = m.next + m.shared.timing.Margin
	m.answered, m.excused, m.mending, m.window = true, false, false, m.shared.timing.Window
}

// pass lets time pass: pings and rounds of suspicions go out, and what has not been answered is judged.
func (m *Machine) pass(now int64, out []Action) []Action {
	m.ticks++
	if now >= m.next {
		out = m.ping(now, out) // first: it moves the deadline if the target has answered, which then needs no excuse
	}
	if m.late > 0 && now >= m.deadline && !m.excused {
		m.deadline, m.excused = now+min(m.late, m.shared.timing.Margin), true
	}
	if now >= m.deadline {
		out = m.suspect(now, m.target, out)
	}
	return m.tryDirect(now, m.probe(now, out))
}

// ping sends the regular ping.
func (m *Machine) ping(now int64, out []Action) []Action {
	t := &m.shared.timing
	late := now - m.next
	if m.next += t.Period; m.next <= now {
		m.next = now + t.Period - late%t.Period
	}
	if m.answered && m.deadline != Never {
		m.deadline += late
	}
	m.answered = false
	return m.sendPing(now, m.target, out)
}

func (m *Machine) sendPing(now int64, to Node, out []Action) []Action {
	return append(out, Action{Kind: Send, To: to, Msg: Msg{Kind: Ping, For: m.me, Of: to, At: now}})
}

// receive handles a message.
func (m *Machine) receive(now int64, from Node, msg *Msg, out []Action) []Action {
	if !m.roster.Has(msg.For) || !m.roster.Has(msg.Of) || !m.roster.Has(from) {
		return out
	}
	switch msg.Kind {
	case Ping:
		if msg.Of == m.me {
			return append(out, Action{Kind: Send, To: from, Msg: Reply(msg, m.Status())})
		}
	case Ask:
		if msg.Of == m.me { // the driver of For has sent it to the wrong member, which can answer all the same
			return append(out, Action{Kind: Send, To: from, Msg: Reply(msg, m.Status())})
		}
		if from == msg.For && !m.roster.IsDead(msg.Of) {
			return append(out, Action{Kind: Send, To: msg.Of, Msg: Msg{Kind: Ping, For: msg.For, Of: msg.Of, At: msg.At}})
		}
	case Answer:
		switch {
		case msg.For == m.me:
			return m.receiveAnswer(now, from, msg, out)
		case from == msg.Of && !m.roster.IsDead(msg.For): // to a ping that it asked this member for
			return append(out, Action{Kind: Send, To: msg.For, Msg: *msg})
		}
	}
	return out
}

// Status returns what this member answers if its daemon does so itself.
func (m *Machine) Status() Status { return Status{Inc: m.inc, Tick: m.ticks} }

// receiveAnswer handles the answer to a ping of this member.
func (m *Machine) receiveAnswer(now int64, from Node, msg *Msg, out []Action) []Action {
	p, s := msg.Of, &msg.Status
	inc := m.roster.Incarnation(p)
	switch {
	case p == m.me || m.roster.IsDead(p) || s.Inc < inc || msg.At > now:
		return out
	}
	m.noteWay(now, from, p)
	switch {
	case p == m.target && m.known && msg.At <= m.heard: // another way was faster, or a later answer was
		return out
	case s.Inc > inc:
		return m.accuseNow(now, p, Restarted, out)
	case s.DaemonDead:
		return m.accuseNow(now, p, DaemonDead, out)
	case p == m.target && m.isHung(msg):
		return m.accuseNow(now, p, DaemonHung, out)
	}
	m.clear(p)
	if p != m.target {
		return m.mend(now, out)
	}
	t := &m.shared.timing
	if from == p {
		m.trips.add(now-msg.At, t.Period+t.Margin)
	}
	late := msg.At + t.Period + m.trips.patience(t.Margin)
	if m.deadline == Never || late > m.deadline {
		m.deadline = late
	}
	m.heard = msg.At
	m.answered, m.excused, m.mending, m.window = true, false, false, t.Window
	return out
}

// isHung notes the tick of an answer of the target and reports whether it has stood still for too long. It goes by the times of pings,
// not by those of answers: after a pause of this member, an old answer is handled long after it was given.
func (m *Machine) isHung(msg *Msg) bool {
	s := &msg.Status
	if !m.known || s.Tick != m.tick || s.Starved {
		m.tick, m.ticked, m.known = s.Tick, msg.At, true
		return false
	}
	return msg.At-m.ticked > m.shared.timing.Daemon
}

// accuseNow accuses p of what has been proven, and goes on without it.
func (m *Machine) accuseNow(now int64, p Node, why Reason, out []Action) []Action {
	m.forget(p)
	return m.mend(now, m.accuse(p, why, out))
}

func (m *Machine) accuse(p Node, why Reason, out []Action) []Action {
	inc := m.roster.Incarnation(p)
	m.roster.Fail(p, inc)
	m.dropDetour(p)
	return append(out, Action{Kind: Accuse, To: p, Inc: inc, Reason: why})
}
