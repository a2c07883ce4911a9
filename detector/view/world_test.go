package view

import (
	"errors"
	"fmt"
	"slices"
)

// most is the greatest number of nodes of a world. The front end has the number after the last node.
const most = 7

// scenario is what may happen in a world.
type scenario struct {
	n         int
	cut       [most + 1]uint8 // while the network is cut, whom each one cannot send to
	heals     bool            // the cut may end
	deaths    uint8
	resets    uint8 // connections that end for no reason
	holds     uint8
	passes    uint8 // times at which the clock moves without a Tick
	observers int   // how many may accuse a node: those after it
	stale     bool  // the world may change between the answer to a probe and its arrival
	goesOn    bool  // Config.Continue
}

// life is what has become of a node.
type life uint8

const (
	alive  life = iota
	ended       // the daemon; the kernel says so
	gone        // the kernel
	killed      // by a fence; the kernel says so
)

// network is a stage of the network.
type network uint8

const (
	whole network = iota
	cut
	healed
)

// probe is a probe that the core waits for: none, one without a result yet, or sampled + its result.
type probe uint8

const (
	noProbe probe = iota
	openProbe
	sampled
)

// world is a front end with its nodes, and what the checks need to know of the past. It is copied by value; the core is
// cloned. Sets of nodes are bits.
type world struct {
	*scenario
	core *Core
	now  int64

	life  [most]life
	stage network
	apart [most]uint8 // whom each node could not talk to at some time: it may accuse them, however late

	said     [most]uint8 // accusations that have arrived
	proved   uint8       // nodes whose deaths have been reported as proven
	linkless uint8       // as the front end sees it
	probe    [most]probe
	fence    uint8 // open fences

	last    [most]Result // of the last probe; Silent after a fence without an answer
	askedIn uint8        // probes that have begun since the first silence
	fresh   uint8        // of those, the answered ones

	deaths, resets, holds, passes uint8 // left
	held                          bool

	seen *tally
	log  *[]Action // all actions; nil: not kept
}

// tally counts what has happened in a search, so that a test sees that it has looked at everything.
type tally struct {
	states, ends                                  int
	proven, silent, fenced, unfenced, over, empty int
}

// kind is the kind of a choice.
type kind uint8

// Choices that may happen, and those that must.
const (
	doCut kind = iota
	doHeal
	doDie
	doEnd
	doAccuse
	doProve
	doReset
	doHold
	doPass
	mustLoseLink
	mustLinkBack
	mustSample
	mustDeliver
	mustFence
	mustTick
	mustGo
)

var kindNames = [...]string{
	"cut", "heal", "die", "end", "accuse", "prove", "reset", "hold", "pass", "lose link", "link back", "sample", "deliver", "fence",
	"tick", "go",
}

// choice is something that happens in a world.
type choice struct {
	kind kind
	a, b Node
}

func (c choice) String() string { return fmt.Sprintf("%s(%d,%d)", kindNames[c.kind], c.a, c.b) }

// newWorld makes a world in which nothing has happened.
func newWorld(s *scenario) *world {
	return &world{
		scenario: s, core: New(Config{Nodes: s.n, Window: 2, Grace: 3, Continue: s.goesOn}), now: 10,
		deaths: s.deaths, resets: s.resets, holds: s.holds, passes: s.passes, seen: &tally{},
	}
}

func (w *world) clone() *world {
	next := *w
	core := *w.core
	core.nodes, core.accusations = slices.Clone(core.nodes), slices.Clone(core.accusations)
	next.core = &core
	return &next
}

// front is the front end.
func (w *world) front() Node { return Node(w.n) }

func bit(p Node) uint8 { return 1 << p }

func has(set uint8, p Node) bool { return set>>p&1 != 0 }

// answers reports whether p's kernel answers.
func (w *world) answers(p Node) bool { return p == w.front() || w.life[p] != gone }

// sends reports whether what a sends arrives at b.
func (w *world) sends(a, b Node) bool { return w.stage != cut || !has(w.cut[a], b) }

// talks reports whether b answers a, without others' help.
func (w *world) talks(a, b Node) bool { return w.sends(a, b) && w.sends(b, a) && w.answers(b) }

// isBy reports whether some other node can pass the front end's pings to p, and the answers back.
func (w *world) isBy(p Node) bool {
	for h := range Node(w.n) {
		if h != p && w.life[h] == alive && w.talks(w.front(), h) && w.talks(h, p) {
			return true
		}
	}
	return false
}

// isLinked reports whether a connection between p and the front end can live.
func (w *world) isLinked(p Node) bool { return w.life[p] == alive && w.talks(w.front(), p) }

// noteApart notes who cannot talk to whom now.
func (w *world) noteApart() {
	for a := range Node(w.n) {
		for b := range Node(w.n) {
			if a != b && w.life[a] == alive && !w.talks(a, b) {
				w.apart[a] |= bit(b)
			}
		}
	}
}

// changes reports whether anything may still change what a probe finds.
func (w *world) changes() bool {
	return w.deaths > 0 || w.fence != 0 || w.stage == whole && w.cut != [most + 1]uint8{} || w.stage == cut && w.heals
}

// results returns what a probe of p may find now.
func (w *world) results(p Node) []Result {
	found := Answered
	if w.life[p] != alive {
		found = DaemonDead
	}
	switch {
	case w.talks(w.front(), p):
		return []Result{found}
	case w.answers(p) && w.isBy(p):
		return []Result{found, Silent}
	}
	return []Result{Silent}
}

// choices returns what may happen, and what must.
func (w *world) choices() (may, must []choice) {
	if w.core.ended {
		return nil, nil
	}
	if w.stage == whole && w.cut != [most + 1]uint8{} {
		may = append(may, choice{kind: doCut})
	}
	if w.stage == cut && w.heals {
		may = append(may, choice{kind: doHeal})
	}
	for p := range Node(w.n) {
		if w.deaths > 0 && w.life[p] == alive {
			may = append(may, choice{kind: doDie, a: p}, choice{kind: doEnd, a: p})
		}
		for i := 1; i <= w.observers && i < w.n; i++ {
			by := (p + Node(i)) % Node(w.n)
			if has(w.apart[by], p) && !has(w.said[by], p) && w.core.Has(p) {
				may = append(may, choice{doAccuse, by, p})
			}
		}
		if w.core.Has(p) {
			more, need := w.choicesOf(p)
			may, must = append(may, more...), append(must, need...)
		}
	}
	if w.holds > 0 && !w.held {
		may = append(may, choice{kind: doHold})
	}
	if w.passes > 0 {
		may = append(may, choice{kind: doPass})
	}
	if w.core.Due() != Never {
		must = append(must, choice{kind: mustTick})
	}
	if w.held {
		must = append(must, choice{kind: mustGo})
	}
	return may, must
}

// choicesOf returns what may happen to a member, and what must.
func (w *world) choicesOf(p Node) (may, must []choice) {
	if w.life[p] == ended && !has(w.proved, p) {
		may = append(may, choice{kind: doProve, a: p})
	}
	switch linked := w.isLinked(p); {
	case has(w.linkless, p):
		if linked {
			must = append(must, choice{kind: mustLinkBack, a: p})
		}
	case !linked:
		must = append(must, choice{kind: mustLoseLink, a: p})
	case w.resets > 0:
		may = append(may, choice{kind: doReset, a: p})
	}
	switch {
	case w.probe[p] == openProbe:
		for _, r := range w.results(p) {
			must = append(must, choice{mustSample, p, Node(r)})
		}
	case w.probe[p] >= sampled:
		must = append(must, choice{kind: mustDeliver, a: p})
	}
	if has(w.fence, p) {
		must = append(must, choice{kind: mustFence, a: p})
	}
	return may, must
}

// apply lets a choice happen. The error says what the core does wrong.
func (w *world) apply(c choice) error {
	p := c.a
	switch c.kind {
	case doCut, doHeal:
		w.stage++
	case doDie, doEnd:
		w.deaths--
		w.life[p] = gone
		if c.kind == doEnd {
			w.life[p] = ended
		}
	case doAccuse:
		w.said[c.a] |= bit(c.b)
		return w.step(Event{Kind: Accuse, By: c.a, Node: c.b, Inc: 1})
	case doProve:
		w.proved |= bit(p)
		return w.step(Event{Kind: Accuse, By: (p + 1) % Node(w.n), Node: p, Inc: 1, Proven: true})
	case doReset, mustLoseLink:
		if c.kind == doReset {
			w.resets--
		}
		w.linkless |= bit(p)
		return w.step(Event{Kind: LinkLost, Node: p})
	case doHold:
		w.holds--
		w.held = true
		return w.step(Event{Kind: Hold})
	case doPass:
		w.passes--
		w.now++
	case mustLinkBack:
		w.linkless &^= bit(p)
		return w.step(Event{Kind: LinkBack, Node: p})
	case mustSample:
		w.probe[p] = sampled + probe(c.b)
		if !w.stale || !w.changes() {
			return w.deliver(p)
		}
	case mustDeliver:
		return w.deliver(p)
	case mustFence:
		return w.endFence(p)
	case mustTick:
		w.now = max(w.now, w.core.Due())
		return w.step(Event{Kind: Tick})
	case mustGo:
		w.held = false
		w.now += 7
		return w.step(Event{Kind: Go})
	}
	w.noteApart()
	return nil
}

// deliver delivers the result of a probe.
func (w *world) deliver(p Node) error {
	r := Result(w.probe[p] - sampled)
	w.probe[p] = noProbe
	w.last[p] = r
	if w.fresh &^= bit(p); r == Answered {
		w.fresh |= w.askedIn & bit(p)
	}
	return w.step(Event{Kind: Probed, Node: p, Result: r})
}

// endFence delivers the result of a fence. A fence whose confirmation is lost has ended the processes all the same.
func (w *world) endFence(p Node) error {
	w.fence &^= bit(p)
	if w.sends(w.front(), p) && w.answers(p) {
		w.life[p] = killed
		w.noteApart()
		if w.sends(p, w.front()) {
			return w.step(Event{Kind: Fenced, Node: p})
		}
	}
	w.last[p], w.fresh = Silent, w.fresh&^bit(p)
	w.seen.unfenced++
	return w.step(Event{Kind: FenceFailed, Node: p})
}

// errAction is wrapped by errors about a step's actions.
var errAction = errors.New("wrong action")

// step lets the core handle an event, and checks what it answers.
func (w *world) step(ev Event) error {
	ev.Now = w.now
	before, number, wasSilent := w.core.Members(), w.core.Number(), w.core.countSilent() > 0
	out := w.core.Step(ev, nil)
	if w.log != nil {
		*w.log = append(*w.log, out...)
	}
	if !wasSilent && w.core.countSilent() > 0 {
		w.askedIn, w.fresh = 0, 0
	}
	var lost []Node
	for _, a := range out {
		if err := w.act(&ev, a, before); err != nil {
			return fmt.Errorf("%+v: %+v: %w", ev, a, err)
		}
		if a.Kind == Lose {
			lost = append(lost, a.Node)
		}
	}
	after := w.core.Members()
	if len(after)+len(lost) != len(before) {
		return fmt.Errorf("%+v: %w: members %v, then %v, lost %v", ev, errAction, before, after, lost)
	}
	if err := w.checkViews(&ev, out, number); err != nil {
		return fmt.Errorf("%+v: %w", ev, err)
	}
	return w.checkState()
}

// act does what the core asks for, and checks that it may.
func (w *world) act(ev *Event, a Action, before []Node) error {
	p := a.Node
	if a.Kind != EndJob && (!slices.Contains(before, p) || a.Inc != 1) {
		return fmt.Errorf("%w: not a member", errAction)
	}
	switch a.Kind {
	case Probe:
		if w.held || w.probe[p] != noProbe || has(w.fence, p) {
			return fmt.Errorf("%w: held, or open", errAction)
		}
		w.probe[p] = openProbe
		w.askedIn, w.fresh = w.askedIn|bit(p), w.fresh&^bit(p)
	case Fence:
		again := ev.Kind == FenceFailed || ev.Kind == Go // a fence that a hold has spoiled
		if w.held || has(w.fence, p) || !again && (w.probe != [most]probe{} || w.last[p] != Answered) {
			return fmt.Errorf("%w: held, or open, or it has not answered", errAction)
		}
		if !again && !has(w.linkless, p) && !w.isAccused(p, before) {
			return fmt.Errorf("%w: nothing speaks against it", errAction)
		}
		w.fence |= bit(p)
	case Lose:
		w.probe[p], w.fence = noProbe, w.fence&^bit(p)
		if a.Why == "" {
			return fmt.Errorf("%w: no reason", errAction)
		}
	}
	return nil
}

// isAccused reports whether p and a member have accused each other.
func (w *world) isAccused(p Node, members []Node) bool {
	for _, q := range members {
		if q != p && (has(w.said[q], p) || has(w.said[p], q)) {
			return true
		}
	}
	return false
}

// isProven reports whether an event proves a death.
func isProven(ev *Event) bool {
	return ev.Kind == Accuse && ev.Proven || ev.Kind == Fenced || ev.Kind == Probed && ev.Result == DaemonDead
}

// checkViews checks the losses of a step, and the end of the job.
func (w *world) checkViews(ev *Event, out []Action, number uint64) error {
	lost := 0 // by silence
	for _, a := range out {
		if a.Kind != Lose {
			continue
		}
		if isProven(ev) && a.Node == ev.Node {
			number++
			w.seen.proven++
			if ev.Kind == Fenced {
				w.seen.fenced++
			}
			if w.life[a.Node] == alive || a.Number != number {
				return fmt.Errorf("%w: %+v, which lives, or in view %d", errAction, a, number)
			}
			continue
		}
		lost++
		w.seen.silent++
		if w.last[a.Node] != Silent || w.held || a.Number != number+1 {
			return fmt.Errorf("%w: %+v, which has answered, or while held, or in view %d", errAction, a, number+1)
		}
	}
	over := len(out) > 0 && out[len(out)-1].Kind == EndJob
	left, silent := 0, lost
	for _, p := range w.core.Members() {
		switch {
		case w.last[p] == Silent && over:
			silent++
			continue
		case (lost > 0 || over) && !has(w.fresh, p):
			return fmt.Errorf("%w: judged without the word of %d", errAction, p)
		}
		left++
	}
	majority := 2*(left+1) > left+silent+1
	switch {
	case lost > 0 && !majority && !w.goesOn:
		return fmt.Errorf("%w: goes on with %d silent and %d others", errAction, silent, left)
	case w.core.size == 0 && !over:
		return fmt.Errorf("%w: an empty view goes on", errAction)
	case w.core.size == 0:
		w.seen.empty++
	case over && (majority || w.goesOn || w.held):
		return fmt.Errorf("%w: the job ends with %d silent and %d others", errAction, silent, left)
	case over:
		w.seen.over++
	}
	return nil
}

// checkState checks the core between steps.
func (w *world) checkState() error {
	c := w.core
	open := false
	for p := range Node(w.n) {
		busy := w.probe[p] != noProbe || has(w.fence, p)
		open = open || busy
		if m := &c.nodes[p]; !c.ended && (m.task != resting && !m.deferred) != busy {
			return fmt.Errorf("node %d: task %d, and %v is open", p, m.task, busy)
		}
	}
	due := c.Due()
	if (open || w.held || c.ended) && due != Never {
		return fmt.Errorf("due at %d while the core can only wait", due)
	}
	if due <= w.now {
		return fmt.Errorf("due at %d, and it is %d", due, w.now)
	}
	return nil
}

// checkEnd checks a state in which nothing more must happen.
func (w *world) checkEnd() error {
	w.seen.ends++
	members := w.core.Members()
	if w.core.ended {
		return nil
	}
	for _, p := range members {
		switch {
		case !w.isLinked(p):
			return fmt.Errorf("node %d is dead or cut off, and stays", p)
		case has(w.linkless, p):
			return fmt.Errorf("node %d has no link, and stays", p)
		case w.isAccused(p, members):
			return fmt.Errorf("an accusation of or by node %d stands", p)
		}
	}
	if len(w.core.accusations) > 0 {
		return fmt.Errorf("%+v stand", w.core.accusations)
	}
	return nil
}
