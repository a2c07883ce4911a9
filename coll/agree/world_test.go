package agree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// world runs the machines of a group under an adversarial scheduler. The next event may be any
// message that is the oldest of its channel, any news of a death or any call. Members die between
// any two actions.
type world struct {
	rng   *rand.Rand
	cfg   Config
	n     int
	procs []*proc
	links map[[2]int][]Msg // channels that are not empty
	keys  [][2]int
	place map[[2]int]int // the index of each channel in keys
	news  [][2]int       // {p, q}: p has to learn of q's death

	rounds   int
	lossy    bool // the last messages of a victim may be lost
	last     bool // news of a death comes after all messages of the victim
	budget   int  // actions until the next kill; -1: none
	ticks    int
	kills    int
	root     bool // the lowest living member dies first
	messages int
	deaths   map[int]int // member to die by moment: a step or an action
	moment   int
	clones   bool
	actions  []Action // of the last step, reused
	atOnce   bool     // all members call before anything else happens
	log      []string
	verbose  bool
}

// proc is one member.
type proc struct {
	m       *Machine
	alive   bool
	entered int
	out     []Decision
	knew    [][]Node // the dead it knew at each call
	dead    []Node
	blocked bool
}

func newWorld(cfg Config, seed uint64, verbose bool) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 11)), cfg: cfg, n: cfg.N, links: map[[2]int][]Msg{}, place: map[[2]int]int{}, budget: -1, rounds: 1, verbose: verbose}
	w.cfg.Combine = tally
	w.cfg.Unite = func(a, b string) string { return a + b }
	for p := range w.n {
		cfg := w.cfg
		cfg.Me = p
		m, err := New(cfg)
		if err != nil {
			panic(err)
		}
		w.procs = append(w.procs, &proc{m: m, alive: true})
	}
	w.note("seed %d, %+v", seed, cfg)
	return w
}

// String is for logs.
func (e *Event) String() string {
	switch e.Kind {
	case Recv:
		return fmt.Sprintf("from %d %s", e.From, e.Msg.String())
	case PeerFailed:
		return fmt.Sprintf("%d failed", e.From)
	case Enter:
		return "enter"
	}
	return "tick"
}

func (m *Msg) String() string {
	name := [...]string{"", "VOTE", "DECISION", "QUERY", "GATHER", "WAIT", "TERM_QUERY", "UNCERTAIN", "COLLECTIVE"}[m.Kind]
	s := fmt.Sprintf("%s %d/%d", name, m.Seq, m.Base)
	switch m.Kind {
	case msgDecision:
		s += [...]string{"", " DECIDED", " UNDECIDED"}[m.Outcome]
	case msgTermQuery, msgUncertain:
		s += fmt.Sprintf(" known %d", m.Known)
	case msgCollective:
		s += fmt.Sprintf(" %d %d value %d sets %v", m.Collective.Kind, m.Collective.Seq, m.Collective.Value, m.Collective.Sets)
	}
	return s + fmt.Sprintf(" %x failed %v", m.Vote.Flags, m.Failed)
}

func (a *Action) String() string {
	switch a.Kind {
	case Send:
		return fmt.Sprintf("to %d %s", a.To, a.Msg.String())
	case Deliver:
		return fmt.Sprintf("deliver %d %d %x %v", a.Decision.Seq, a.Decision.Outcome, a.Decision.Flags, a.Decision.Failed)
	}
	return fmt.Sprintf("action %d", a.Kind)
}

// tally counts contributions: each member has one nibble.
func tally(dst, src *Payload) {
	for i := range dst {
		dst[i] += src[i]
	}
}

func ballotFor(p int) Vote {
	v := Vote{Flags: ^(uint64(1) << (p % 64))}
	v.Payload[p/2] = 1 << (4 * (p % 2))
	if p%3 > 0 { // the others have no body
		v.Body = string([]byte{byte(p)})
	}
	return v
}

// isInBody reports whether the body has that of member p as often as the payload counts it.
func isInBody(d *Decision, p int) bool {
	want := countOf(d, p)
	if p%3 == 0 {
		want = 0
	}
	return strings.Count(d.Body, string([]byte{byte(p)})) == want
}

func countOf(d *Decision, p int) int { return int(d.Payload[p/2]>>(4*(p%2))) & 15 }

func (w *world) note(f string, args ...any) {
	if w.verbose {
		w.log = append(w.log, fmt.Sprintf(f, args...))
	}
}

// failure is the panic that ends a trial.
type failure string

func (w *world) fail(f string, args ...any) { panic(failure(fmt.Sprintf(f, args...))) }

// trial runs body, and again with a log if it fails.
func trial(t *testing.T, body func(verbose bool) *world) *world {
	t.Helper()
	run := func(verbose bool) (w *world, why failure) {
		defer func() {
			if v := recover(); v != nil {
				f, ok := v.(failure)
				if !ok {
					panic(v)
				}
				why = f
			}
		}()
		w = body(verbose)
		w.run()
		return w, ""
	}
	w, why := run(false)
	if why == "" {
		return w
	}
	w, _ = run(true)
	for _, l := range w.log {
		t.Log(l)
	}
	t.Fatal(why)
	return nil
}

// step makes one step of member p, in which p may die.
func (w *world) step(p int, ev Event) {
	pr := w.procs[p]
	if w.passMoment(p) || !pr.alive {
		return
	}
	if w.verbose {
		w.note("%d <- %s", p, ev.String())
	}
	for _, a := range w.stepMachine(p, ev) {
		if w.passMoment(p) {
			return
		}
		if w.budget == 0 && w.alive() > 1 {
			w.budget = -1
			w.kill(p)
			return
		}
		if w.budget > 0 {
			w.budget--
		}
		if w.verbose {
			w.note("   %d -> %s", p, a.String())
		}
		switch a.Kind {
		case Send:
			w.messages++
			if int(a.To) == p {
				w.fail("member %d sends to itself", p)
			}
			if w.procs[a.To].alive {
				w.put([2]int{p, int(a.To)}, a.Msg)
			}
		case Deliver:
			w.deliver(p, a.Decision)
		case Blocked:
			if pr.blocked {
				w.fail("member %d is blocked twice", p)
			}
			pr.blocked = true
		default:
			w.fail("member %d: unknown action %+v", p, a)
		}
	}
}

// stepMachine steps the machine of member p. In a world with clones it also steps a clone, which
// must do the same and must not be affected by the machine.
func (w *world) stepMachine(p int, ev Event) []Action {
	m := w.procs[p].m
	if !w.clones {
		w.actions = m.Step(ev, w.actions[:0])
		return w.actions
	}
	clone, before := m.Clone(), m.AppendState(nil)
	actions := m.Step(ev, nil)
	if !bytes.Equal(clone.AppendState(nil), before) {
		w.fail("a step of member %d changes its clone", p)
	}
	again := clone.Step(ev, nil)
	if !reflect.DeepEqual(actions, again) || !bytes.Equal(clone.AppendState(nil), m.AppendState(nil)) {
		w.fail("a clone of member %d behaves differently", p)
	}
	if w.rng.IntN(2) == 0 {
		w.procs[p].m = clone
	}
	return actions
}

// passMoment advances the moment by one and reports whether p dies in it.
func (w *world) passMoment(p int) bool {
	w.moment++
	v, ok := w.deaths[w.moment]
	if ok && w.procs[v].alive {
		w.kill(v)
	}
	return ok && v == p
}

func (w *world) deliver(p int, d Decision) {
	pr := w.procs[p]
	if len(pr.out)+1 != pr.entered || int(d.Seq) != pr.entered {
		w.fail("member %d returns from call %d with the decision of %d, but has entered %d", p, len(pr.out)+1, d.Seq, pr.entered)
	}
	if !slices.IsSorted(d.Failed) {
		w.fail("member %d: failed %v is not sorted", p, d.Failed)
	}
	for _, q := range d.Failed {
		if w.procs[q].alive {
			w.fail("member %d: living member %d in failed %v", p, q, d.Failed)
		}
	}
	pr.out = append(pr.out, d)
	pr.blocked = false
}

func (w *world) put(k [2]int, msg Msg) {
	if len(w.links[k]) == 0 {
		w.place[k] = len(w.keys)
		w.keys = append(w.keys, k)
	}
	w.links[k] = append(w.links[k], msg)
}

// cut keeps only the oldest length messages of a channel.
func (w *world) cut(k [2]int, length int) {
	if w.links[k] = w.links[k][:length]; length > 0 {
		return
	}
	delete(w.links, k)
	i, end := w.place[k], len(w.keys)-1
	w.keys[i] = w.keys[end]
	w.place[w.keys[i]] = i
	w.keys = w.keys[:end]
	delete(w.place, k)
}

func (w *world) alive() int {
	n := 0
	for _, p := range w.procs {
		if p.alive {
			n++
		}
	}
	return n
}

func (w *world) kill(p int) {
	w.note("KILL %d", p)
	w.procs[p].alive = false
	w.news = slices.DeleteFunc(w.news, func(l [2]int) bool { return l[0] == p })
	for q := range w.n {
		if q == p {
			continue
		}
		if l := w.links[[2]int{p, q}]; w.lossy && len(l) > 0 {
			w.cut([2]int{p, q}, w.rng.IntN(len(l)+1))
		}
		if len(w.links[[2]int{q, p}]) > 0 {
			w.cut([2]int{q, p}, 0)
		}
		if w.procs[q].alive {
			w.news = append(w.news, [2]int{q, p})
		}
	}
}

// doNext makes one random event, or returns false if nothing is left to do.
func (w *world) doNext() bool {
	var calls []int
	for p, pr := range w.procs {
		if pr.alive && pr.entered < w.rounds && len(pr.out) == pr.entered {
			calls = append(calls, p)
		}
	}
	news := w.news
	if w.last {
		news = nil
		for _, k := range w.news {
			if len(w.links[[2]int{k[1], k[0]}]) == 0 {
				news = append(news, k)
			}
		}
	}
	if w.atOnce && len(calls) > 0 {
		w.call(calls[0])
		return true
	}
	total := len(calls) + len(news) + len(w.keys)
	if total == 0 {
		return false
	}
	if w.ticks > 0 && w.rng.IntN(4) == 0 {
		w.ticks--
		if p := w.rng.IntN(w.n); w.procs[p].alive {
			w.step(p, Event{Kind: Tick})
		}
		return true
	}
	i := w.rng.IntN(total)
	if i < len(calls) {
		w.call(calls[i])
		return true
	}
	if i -= len(calls); i < len(news) {
		w.tell(news[i][0], news[i][1])
		return true
	}
	k := w.keys[i-len(news)]
	w.pass(k[0], k[1])
	return true
}

// call makes member p call the next agreement.
func (w *world) call(p int) {
	pr := w.procs[p]
	pr.entered++
	pr.knew = append(pr.knew, slices.Clone(pr.dead))
	w.step(p, Event{Kind: Enter, Vote: ballotFor(p)})
}

// tell reports the death of q to member p.
func (w *world) tell(p, q int) {
	w.news = slices.DeleteFunc(w.news, func(l [2]int) bool { return l == [2]int{p, q} })
	w.procs[p].dead = append(w.procs[p].dead, Node(q))
	w.step(p, Event{Kind: PeerFailed, From: Node(q), Inc: 1})
}

// pass delivers the oldest message from p to q.
func (w *world) pass(p, q int) {
	k := [2]int{p, q}
	msg := w.links[k][0]
	if w.links[k] = w.links[k][1:]; len(w.links[k]) == 0 {
		w.cut(k, 0)
	}
	w.step(q, Event{Kind: Recv, From: Node(p), Msg: msg})
}

// check compares what the members returned once nothing is left to do.
func (w *world) check() {
	uniform := w.cfg.Algorithm == EarlyReturning && w.cfg.Durable || w.cfg.Algorithm != EarlyReturning && !w.cfg.Promote
	for i := range w.rounds {
		var first *Decision
		who := -1
		for p, pr := range w.procs {
			if len(pr.out) <= i || !pr.alive && !uniform {
				continue
			}
			d := &pr.out[i]
			w.checkDecision(i, p, d)
			if first == nil {
				first, who = d, p
			} else if d.Outcome != first.Outcome || d.Vote != first.Vote || !slices.Equal(d.Failed, first.Failed) {
				w.fail("round %d: member %d has %+v, member %d has %+v", i+1, who, *first, p, *d)
			}
		}
	}
	w.checkEnds()
}

func (w *world) checkDecision(i, p int, d *Decision) {
	if d.Outcome == Undecided {
		if w.cfg.Algorithm == EarlyReturning {
			w.fail("round %d: member %d is undecided", i+1, p)
		}
		return
	}
	for q, pr := range w.procs {
		c := countOf(d, q)
		bit := d.Flags&(1<<(q%64)) == 0
		if c > 1 || bit != (c == 1) || pr.alive && c != 1 {
			w.fail("round %d: member %d counts member %d %d times, flags %x", i+1, p, q, c, d.Flags)
		}
		if !isInBody(d, q) {
			w.fail("round %d: the body of member %d is %q, want member %d in it %d times", i+1, p, d.Body, q, c)
		}
		if c == 0 && !slices.Contains(d.Failed, Node(q)) {
			w.fail("round %d: member %d does not count member %d, and lists only %v as failed", i+1, p, q, d.Failed)
		}
		if !pr.alive || len(pr.knew) <= i {
			continue
		}
		for _, f := range pr.knew[i] {
			if !slices.Contains(d.Failed, f) {
				w.fail("round %d: the list of member %d lacks %d: %v, but member %d knew of that death", i+1, p, f, d.Failed, q)
			}
		}
	}
}

// checkEnds checks that all living members returned, or that all are stuck in one round whose
// coordinator died after all had voted.
func (w *world) checkEnds() {
	blocked, stuck, ended := 0, 0, -1
	for p, pr := range w.procs {
		switch {
		case !pr.alive:
		case pr.blocked:
			blocked++
			fallthrough
		case len(pr.out) < w.rounds:
			stuck++
			if ended >= 0 && ended != len(pr.out) {
				w.fail("member %d is stuck in round %d, another one in %d", p, len(pr.out)+1, ended+1)
			}
			ended = len(pr.out)
			w.note("%d is stuck in round %d, blocked %v", p, len(pr.out)+1, pr.blocked)
			if pr.entered == len(pr.out) || w.procs[p].m.two != nil && !w.procs[p].m.two.now.voted {
				w.fail("member %d is stuck and has not voted", p)
			}
		}
	}
	if stuck == 0 {
		return
	}
	if blocked == 0 || stuck != w.alive() || w.cfg.Promote || w.cfg.Algorithm == EarlyReturning {
		w.fail("%d of %d members never return, %d of them are blocked", stuck, w.alive(), blocked)
	}
}

// run runs the world to its end.
func (w *world) run() {
	for w.doNext() {
		if w.kills == 0 || w.budget >= 0 || w.alive() == 1 || w.rng.IntN(2*w.n) != 0 {
			continue
		}
		w.kills--
		v := w.rng.IntN(w.n)
		if w.root || w.rng.IntN(2) == 0 {
			for v = 0; !w.procs[v].alive; v++ {
			}
		}
		switch {
		case w.rng.IntN(2) == 0:
			w.budget = w.rng.IntN(6)
		case w.procs[v].alive:
			w.kill(v)
		}
	}
	w.check()
}
