package ring

// LiteralConfig shapes a [Literal].
type LiteralConfig struct {
	N, Me           int
	Period, Timeout int64 // delta and eta
	// Runtime follows errmgr/detector of PRRTE 2.0 where it differs from the paper: member 0, the launcher, is not in the
	// ring, and the next member is given a timeout more after a failure.
	Runtime bool
}

// LiteralEventKind is the kind of an event of a Literal.
type LiteralEventKind uint8

// The events of a Literal.
const (
	LiteralStart     LiteralEventKind = 1 + iota
	LiteralTick                       // it is Now
	LiteralHeartbeat                  // of From
	LiteralRequest                    // From wants heartbeats
	LiteralReported                   // From has been reported as failed
)

// LiteralEvent is an event of a Literal.
type LiteralEvent struct {
	Kind LiteralEventKind
	Now  int64
	From Node
}

// LiteralActionKind is the kind of an action of a Literal.
type LiteralActionKind uint8

// The actions of a Literal.
const (
	SendHeartbeat LiteralActionKind = 1 + iota
	SendRequest
	LiteralAccuse
)

// LiteralAction is what a Literal asks its driver to do.
type LiteralAction struct {
	Kind LiteralActionKind
	To   Node
}

// Literal is the observation ring of the paper's section 4.5 as printed, or as it was in PRRTE 2.0. It is a baseline for
// comparisons, with its mistakes: docs/detection.md lists them.
type Literal struct {
	cfg      *LiteralConfig // shared by a group, so its Me is not looked at
	reported map[Node]bool
	stamp    int64 // of the last heartbeat
	next     int64 // when the next heartbeat goes out
	me       Node
	target   Node
	observer Node // one slot
}

// NewLiteral makes the machines of all members at rest. Me is not looked at.
func NewLiteral(cfg LiteralConfig) []Literal {
	all := make([]Literal, cfg.N)
	for v := range all {
		all[v] = Literal{cfg: &cfg, me: Node(v), target: None, observer: None, next: Never}
	}
	return all
}

// Due returns when the machine wants a Tick, or Never.
func (l *Literal) Due() int64 {
	if l.target == None {
		return l.next
	}
	return min(l.next, l.stamp+l.cfg.Timeout+1)
}

// Step handles one event and appends to out what the driver is to do.
func (l *Literal) Step(ev LiteralEvent, out []LiteralAction) []LiteralAction {
	switch ev.Kind {
	case LiteralStart:
		if l.cfg.Runtime && l.me == 0 {
			return out
		}
		l.target, l.observer = l.step(l.me, -1), l.step(l.me, 1)
		l.stamp, l.next = ev.Now, ev.Now+int64(float64(l.cfg.Period)*float64(l.me)/float64(l.cfg.N))
		if l.target == l.me {
			l.target, l.observer, l.next = None, None, Never
		}
	case LiteralTick:
		return l.pass(ev.Now, out)
	case LiteralHeartbeat:
		if ev.From == l.target {
			l.stamp = max(l.stamp, ev.Now)
		}
	case LiteralRequest:
		l.observer = ev.From
	case LiteralReported:
		l.report(ev.From)
	}
	return out
}

// step returns the next member in the ring, in one of the two directions.
func (l *Literal) step(p Node, by Node) Node {
	n := Node(l.cfg.N)
	p = (p + by + n) % n
	if p == 0 && l.cfg.Runtime {
		p = (p + by + n) % n
	}
	return p
}

func (l *Literal) report(p Node) {
	if l.reported == nil {
		l.reported = map[Node]bool{}
	}
	l.reported[p] = true
}

// pass sends the heartbeat that is due, and declares the target dead if it has been silent for longer than the timeout.
func (l *Literal) pass(now int64, out []LiteralAction) []LiteralAction {
	if now >= l.next {
		l.next += l.cfg.Period * ((now-l.next)/l.cfg.Period + 1)
		if l.observer != None {
			out = append(out, LiteralAction{SendHeartbeat, l.observer})
		}
	}
	if l.target == None || now-l.stamp <= l.cfg.Timeout {
		return out
	}
	out = append(out, LiteralAction{LiteralAccuse, l.target})
	l.report(l.target)
	for p := l.step(l.target, -1); ; p = l.step(p, -1) {
		if p == l.me {
			l.target = None
			return out
		}
		if !l.reported[p] {
			l.target = p
			break
		}
	}
	l.stamp = now
	if l.cfg.Runtime { // for the time that the request takes
		l.stamp += l.cfg.Timeout
	}
	return append(out, LiteralAction{SendRequest, l.target})
}
