package view

// task is what the driver does about a node.
type task uint8

const (
	resting task = iota
	probing      // a probe is open
	fencing      // a fence is open, so the node goes, whatever else is said of it
)

// member is what the core knows of a node. Times are those of the core's own clock, which stands still during a hold.
type member struct {
	inc      uint32
	in       bool // the view has it
	task     task
	deferred bool   // the task has not been given to the driver, because the job is held
	stale    bool   // the reason to ask is younger than the open probe: an answer to it proves nothing
	doubtful bool   // the front end stood still during the task, or the node has redialed: silence proves nothing
	silent   bool   // it has not answered a probe, or a fence
	unfenced bool   // it has not answered a fence
	linkless bool   // it has no connection to the front end
	silentAt int64  // when it was found silent
	graceEnd int64  // until when it may be linkless
	why      string // it is fenced
}

// accusation is the word of a member, which has found another one silent.
type accusation struct {
	by, node Node
	answered bool  // node has answered the front end since: the two cannot talk
	at       int64 // when it answered
}

// Core decides which nodes are lost. The package documentation describes the rules.
type Core struct {
	cfg         Config
	nodes       []member
	accusations []accusation // between members, in the order in which they came
	number      uint64
	size        int   // of the view
	now         int64 // by the core's own clock
	paused      int64 // how far that clock is behind the driver's
	heldAt      int64 // by the driver's clock
	held        bool
	ended       bool
}

// New makes a core whose view has all nodes.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg, nodes: make([]member, cfg.Nodes), number: 1, size: cfg.Nodes}
	for p := range c.nodes {
		c.nodes[p] = member{in: true, inc: 1}
		if cfg.Incs != nil {
			c.nodes[p].inc = cfg.Incs[p]
		}
	}
	return c
}

// Number returns the number of the view.
func (c *Core) Number() uint64 { return c.number }

// Members returns the nodes of the view, in order.
func (c *Core) Members() []Node {
	list := make([]Node, 0, c.size)
	for p := range c.nodes {
		if c.nodes[p].in {
			list = append(list, Node(p))
		}
	}
	return list
}

// Has reports whether the view has p.
func (c *Core) Has(p Node) bool { return p >= 0 && int(p) < len(c.nodes) && c.nodes[p].in }

// Step handles one event and appends to out what the driver is to do.
func (c *Core) Step(ev Event, out []Action) []Action {
	if c.ended {
		return out
	}
	if !c.held {
		c.now = max(c.now, ev.Now-c.paused)
	}
	switch ev.Kind {
	case Hold:
		c.hold(ev.Now)
	case Go:
		out = c.resume(ev.Now, out)
	case Tick:
	default:
		if c.Has(ev.Node) {
			out = c.handle(&ev, out)
		}
	}
	return c.judge(out)
}

// handle handles an event of a member.
func (c *Core) handle(ev *Event, out []Action) []Action {
	p, m := ev.Node, &c.nodes[ev.Node]
	switch ev.Kind {
	case Accuse:
		return c.accuse(ev, out)
	case LinkLost:
		if !m.linkless {
			m.linkless, m.graceEnd = true, c.now+c.cfg.Grace
		}
		return c.ask(p, out)
	case LinkBack:
		m.linkless = false
		if m.silent && !m.unfenced {
			m.silent = false
			return c.begin(p, probing, out)
		}
		m.doubtful = m.doubtful || m.task == probing
	case Probed:
		return c.endProbe(p, ev.Result, out)
	case Fenced:
		return c.lose(p, whyFenced(m), out)
	case FenceFailed:
		if m.task != fencing || m.deferred {
			return out
		}
		if m.doubtful {
			return c.begin(p, fencing, out)
		}
		m.task, m.unfenced = resting, true
		return c.silence(p, out)
	}
	return out
}

// accuse handles an accusation. That of a node which the view does not have is only a reason to ask.
func (c *Core) accuse(ev *Event, out []Action) []Action {
	if ev.Inc != c.nodes[ev.Node].inc {
		return out
	}
	if ev.Proven {
		return c.lose(ev.Node, c.whyDead(ev.Node, ev.Reason), out)
	}
	if ev.By == ev.Node {
		return out
	}
	if c.Has(ev.By) && !c.isAccused(ev.Node, ev.By) {
		c.accusations = append(c.accusations, accusation{by: ev.By, node: ev.Node})
	}
	return c.ask(ev.Node, out)
}

// isAccused reports whether by has accused p.
func (c *Core) isAccused(p, by Node) bool {
	for i := range c.accusations {
		if a := &c.accusations[i]; a.node == p && a.by == by {
			return true
		}
	}
	return false
}

// ask asks for a probe that begins from now on, unless it is settled that p goes or that its silence is judged.
func (c *Core) ask(p Node, out []Action) []Action {
	m := &c.nodes[p]
	switch {
	case m.silent || m.task == fencing:
		return out
	case m.task == probing:
		m.stale = !m.deferred
		return out
	}
	return c.begin(p, probing, out)
}

// begin begins a task, or leaves it for the end of the hold.
func (c *Core) begin(p Node, t task, out []Action) []Action {
	m := &c.nodes[p]
	m.task, m.deferred, m.stale, m.doubtful = t, c.held, false, false
	if c.held {
		return out
	}
	kind := Probe
	if t == fencing {
		kind = Fence
	}
	return append(out, Action{Kind: kind, Node: p, Inc: m.inc})
}

// endProbe handles the result of a probe.
func (c *Core) endProbe(p Node, r Result, out []Action) []Action {
	m := &c.nodes[p]
	switch {
	case r == DaemonDead:
		return c.lose(p, c.whyDead(p, 0), out)
	case m.task != probing || m.deferred:
		return out
	case r == Answered && m.stale, r == Silent && m.doubtful:
		return c.begin(p, probing, out)
	}
	m.task = resting
	if r == Silent {
		return c.silence(p, out)
	}
	for i := range c.accusations {
		if a := &c.accusations[i]; a.node == p && !a.answered {
			a.answered, a.at = true, c.now
			out = c.ask(a.by, out)
		}
	}
	return out
}

// silence notes that p is silent. If it is the first, all others are asked: whether one node is silent or half of the
// network decides who goes.
func (c *Core) silence(p Node, out []Action) []Action {
	first := c.countSilent() == 0
	m := &c.nodes[p]
	m.silent, m.silentAt = true, c.now
	if !first {
		return out
	}
	for q := range c.nodes {
		if c.nodes[q].in {
			out = c.ask(Node(q), out)
		}
	}
	return out
}

// hold stops the core's clock. The front end may stand still from now on, so that open tasks miss their answers.
func (c *Core) hold(now int64) {
	if c.held {
		return
	}
	c.held, c.heldAt = true, now
	for p := range c.nodes {
		c.nodes[p].doubtful = true
	}
}

// resume lets the core's clock go on, and gives out what was left during the hold.
func (c *Core) resume(now int64, out []Action) []Action {
	if !c.held {
		return out
	}
	c.held = false
	c.paused += now - c.heldAt
	for p := range c.nodes {
		if m := &c.nodes[p]; m.in && m.deferred {
			out = c.begin(Node(p), m.task, out)
		}
	}
	return out
}

// lose makes a view without p.
func (c *Core) lose(p Node, why string, out []Action) []Action {
	c.number++
	out = c.remove(p, why, out)
	return c.endIfEmpty(why, out)
}

// remove takes p, and what it and others have said of each other, out of the view.
func (c *Core) remove(p Node, why string, out []Action) []Action {
	inc := c.nodes[p].inc
	c.nodes[p] = member{inc: inc}
	c.size--
	kept := c.accusations[:0]
	for _, a := range c.accusations {
		if a.by != p && a.node != p {
			kept = append(kept, a)
		}
	}
	c.accusations = kept
	return append(out, Action{Kind: Lose, Node: p, Inc: inc, Number: c.number, Why: why})
}

// endIfEmpty ends the job if the view is empty. why is about the last node.
func (c *Core) endIfEmpty(why string, out []Action) []Action {
	if c.size > 0 {
		return out
	}
	c.ended = true
	return append(out, Action{Kind: EndJob, Why: "no node is left: of the last one, " + why})
}
