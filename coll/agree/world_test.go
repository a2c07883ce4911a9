package agree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// world runs the machines of a group under an adversarial scheduler: any message
// that is the oldest of its channel, any news of a death and any call may come
// next, and members die between any two actions.
type world struct {
	rng   *rand.Rand
	cfg   Config
	n     int
	procs []*proc
	links map[[2]int][]Msg // channels that hold something; in order of keys
	keys  [][2]int
	place map[[2]int]int // of each key in keys
	news  [][2]int       // {p, q}: p has to learn of q's death

	rounds   int
	lossy    bool // a victim's last messages may be lost
	last     bool // news come after all messages of the victim
	budget   int  // actions until a kill, -1 never
	ticks    int
	kills    int
	root     bool // the lowest living member dies first
	messages int
	deaths   map[int]int // which member dies at which moment: a step or an action
	moment   int
	clones   bool
	actions  []Action // of the last step, to be used again
	atOnce   bool     // all call before anything else happens
	log      []string
	verbose  bool
}

// proc is a member.
type proc struct {
	m       *Machine
	alive   bool
	entered int
	out     []Decision
	knew    [][]Node // at each call
	dead    []Node
	blocked bool
}

func newWorld(cfg Config, seed uint64, verbose bool) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 11)), cfg: cfg, n: cfg.N, links: map[[2]int][]Msg{}, place: map[[2]int]int{}, budget: -1, rounds: 1, verbose: verbose}
	w.cfg.Combine = tally
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

// tally counts contributions: a nibble for each member.
func tally(dst, src *Payload) {
	for i := range dst {
		dst[i] += src[i]
	}
}

func ballotFor(p int) Vote {
	v := Vote{Flags: ^(uint64(1) << (p % 64))}
	v.Payload[p/2] = 1 << (4 * (p % 2))
	return v
}

func counted(d *Decision, p int) int { return int(d.Payload[p/2]>>(4*(p%2))) & 15 }

func (w *world) note(f string, args ...any) {
	if w.verbose {
		w.log = append(w.log, fmt.Sprintf(f, args...))
	}
}

// failure is what stops a trial.
type failure string

func (w *world) fail(f string, args ...any) { panic(failure(fmt.Sprintf(f, args...))) }

// trial runs body, and once more with a log if it fails.
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

// step lets member p take one step, in which it may die.
func (w *world) step(p int, ev Event) {
	pr := w.procs[p]
	if w.dies(p) || !pr.alive {
		return
	}
	if w.verbose {
		w.note("%d <- %s", p, ev.String())
	}
	for _, a := range w.stepMachine(p, ev) {
		if w.dies(p) {
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
				w.fail("%d sends to itself", p)
			}
			if w.procs[a.To].alive {
				w.put([2]int{p, int(a.To)}, a.Msg)
			}
		case Deliver:
			w.deliver(p, a.Decision)
		case Blocked:
			if pr.blocked {
				w.fail("%d is blocked twice", p)
			}
			pr.blocked = true
		default:
			w.fail("%d: action %+v", p, a)
		}
	}
}

// stepMachine steps the machine of member p and, if the world is for that, a clone
// of it, which must do the same, and on which the machine itself has no effect.
func (w *world) stepMachine(p int, ev Event) []Action {
	m := w.procs[p].m
	if !w.clones {
		w.actions = m.Step(ev, w.actions[:0])
		return w.actions
	}
	clone, before := m.Clone(), m.AppendState(nil)
	actions := m.Step(ev, nil)
	if !bytes.Equal(clone.AppendState(nil), before) {
		w.fail("a step of %d changes its clone", p)
	}
	again := clone.Step(ev, nil)
	if !reflect.DeepEqual(actions, again) || !bytes.Equal(clone.AppendState(nil), m.AppendState(nil)) {
		w.fail("a clone of %d differs", p)
	}
	if w.rng.IntN(2) == 0 {
		w.procs[p].m = clone
	}
	return actions
}

// dies lets a moment go by, and says whether p dies in it.
func (w *world) dies(p int) bool {
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
		w.fail("%d returns from %d with %d, having entered %d", p, len(pr.out)+1, d.Seq, pr.entered)
	}
	if !slices.IsSorted(d.Failed) {
		w.fail("%d: failed %v", p, d.Failed)
	}
	for _, q := range d.Failed {
		if w.procs[q].alive {
			w.fail("%d: living %d in %v", p, q, d.Failed)
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

// cut leaves so many messages in a channel.
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

// next does one thing, or says that nothing is left to do.
func (w *world) next() bool {
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

// call lets member p call the next agreement.
func (w *world) call(p int) {
	pr := w.procs[p]
	pr.entered++
	pr.knew = append(pr.knew, slices.Clone(pr.dead))
	w.step(p, Event{Kind: Enter, Vote: ballotFor(p)})
}

// tell tells member p that q is dead.
func (w *world) tell(p, q int) {
	w.news = slices.DeleteFunc(w.news, func(l [2]int) bool { return l == [2]int{p, q} })
	w.procs[p].dead = append(w.procs[p].dead, Node(q))
	w.step(p, Event{Kind: PeerFailed, From: Node(q), Inc: 1})
}

// pass gives member q the oldest message from p.
func (w *world) pass(p, q int) {
	k := [2]int{p, q}
	msg := w.links[k][0]
	if w.links[k] = w.links[k][1:]; len(w.links[k]) == 0 {
		w.cut(k, 0)
	}
	w.step(q, Event{Kind: Recv, From: Node(p), Msg: msg})
}

// check compares what the members returned, when nothing is left to do.
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
				w.fail("round %d: %d has %+v, %d has %+v", i+1, who, *first, p, *d)
			}
		}
	}
	w.checkEnds()
}

func (w *world) checkDecision(i, p int, d *Decision) {
	if d.Outcome == Undecided {
		if w.cfg.Algorithm == EarlyReturning {
			w.fail("round %d: %d is undecided", i+1, p)
		}
		return
	}
	for q, pr := range w.procs {
		c := counted(d, q)
		bit := d.Flags&(1<<(q%64)) == 0
		if c > 1 || bit != (c == 1) || pr.alive && c != 1 {
			w.fail("round %d: %d counts %d %d times, flags %x", i+1, p, q, c, d.Flags)
		}
		if c == 0 && !slices.Contains(d.Failed, Node(q)) {
			w.fail("round %d: %d counts %d not, and lists only %v", i+1, p, q, d.Failed)
		}
		if !pr.alive || len(pr.knew) <= i {
			continue
		}
		for _, f := range pr.knew[i] {
			if !slices.Contains(d.Failed, f) {
				w.fail("round %d: %d lacks %d in %v, which %d knew", i+1, p, f, d.Failed, q)
			}
		}
	}
}

// checkEnds holds members to their promise that they return, or that all who
// live are stuck in one round whose coordinator died after all had voted.
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
				w.fail("%d is stuck in round %d, another in %d", p, len(pr.out)+1, ended+1)
			}
			ended = len(pr.out)
			w.note("%d is stuck in round %d, blocked %v", p, len(pr.out)+1, pr.blocked)
			if pr.entered == len(pr.out) || w.procs[p].m.two != nil && !w.procs[p].m.two.now.voted {
				w.fail("%d is stuck and has not voted", p)
			}
		}
	}
	if stuck == 0 {
		return
	}
	if blocked == 0 || stuck != w.alive() || w.cfg.Promote || w.cfg.Algorithm == EarlyReturning {
		w.fail("%d of %d never return, %d of them blocked", stuck, w.alive(), blocked)
	}
}

// run runs all to the end.
func (w *world) run() {
	for w.next() {
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
