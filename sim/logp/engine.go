package logp

import (
	"errors"
	"fmt"
	"math/bits"
)

// Driver is a set of machines, one for each node, that exchange messages M.
type Driver[M any] interface {
	// Enter makes v call the collective.
	Enter(v, now int32)
	// Arrive puts a message into v's inbound queue and returns the queue's length.
	Arrive(v int32, m *M, now int32) int
	// Turn gives v one step.
	Turn(v, now int32, out *Move[M])
	// Wake returns when v may have something to do although nothing happens.
	Wake(v, now int32) (at int32, ok bool)
	// Lost returns which node learns, and when, that the message has met a dead node.
	Lost(dead int32, m *M, now int32) (learner, at int32, ok bool)
	// Died tells the driver that v has died. It calls lost for each message that v leaves in its
	// queue. If all nodes learn of the death, ok is true and news is when.
	Died(v, now int32, lost func(m *M)) (news int32, ok bool)
	// Notice tells v that the node dead is dead.
	Notice(v, dead, now int32)
	// Finished reports whether v needs to do no more.
	Finished(v int32) bool
}

// MoveKind is what a node does with a step.
type MoveKind uint8

// The moves.
const (
	Idle MoveKind = iota // the node has nothing to do until something happens
	Sent                 // it has sent Msg to To
	Took                 // it has handled a message from its queue
)

// Move is what a node does with a step.
type Move[M any] struct {
	Kind MoveKind
	To   int32
	Msg  M
}

// Death is the death of a node in a step. With step Inactive the node is dead from the start.
type Death struct{ Node, Step int32 }

// Inactive is the step of deaths before the start.
const Inactive = -1

// Config is one run.
type Config struct {
	Nodes   int
	Latency int32   // L, in units of o
	Starts  []int32 // when nodes enter; nil: all in step 0
	Deaths  []Death // without Drain, node 0 must not die
	Limit   int32   // steps after which the run fails; 0: 1<<22
	Root    bool    // node 0 has to finish as well, and its finish ends the latency
	Drain   bool    // run until nothing happens any more; the driver knows which nodes finished, and when
}

// Result is the result of a run. Like the published times, its times leave node 0 out, unless
// Config.Root is set.
type Result struct {
	Latency   int32 // from the last living node's start to the last finish
	OutSpread int32 // from the first finish to the last
	Messages  int64
	MaxQueue  int
	Dead      int
	Steps     int32 // the last step
}

// ErrStuck reports a run that does not end.
var ErrStuck = errors.New("simulation does not end")

// never is no step.
const never = int32(-1)

// Engine runs one collective after the other among the same number of nodes.
type Engine[M any] struct {
	cfg    Config
	drv    Driver[M]
	now    int32
	flight [][]envelope[M] // messages by the step of arrival, modulo the length
	wheel  wheel
	ready  []uint64 // a bit for each node that may act in this step
	next   []uint64 // a bit for each node that may act in the next step
	nodes  []node
	left   int // living nodes that have not finished
	result Result
	move   Move[M]
	lostFn func(*M) // e.lose, made once
	dying  int32    // the dead node that lostFn's messages have met
}

// envelope is a message in flight.
type envelope[M any] struct {
	to  int32
	msg M
}

// node is what the engine knows of a node.
type node struct {
	wake   int32 // when its timer expires, or never
	finish int32 // when it finished first, or never
	dead   bool
	done   bool // it has finished
}

// NewEngine makes an engine for runs of a driver.
func NewEngine[M any](drv Driver[M]) *Engine[M] {
	e := &Engine[M]{drv: drv}
	e.lostFn = e.lose
	return e
}

// Run runs the collective once. The driver's machines have to be at rest.
func (e *Engine[M]) Run(cfg Config) (Result, error) {
	if err := e.reset(cfg); err != nil {
		return Result{}, err
	}
	for ; e.now < e.cfg.Limit; e.now++ {
		e.deliver()
		e.wheel.expire(e.now, e.fire)
		more := e.takeTurns()
		if e.left == 0 && !e.cfg.Drain {
			return e.conclude(), nil
		}
		e.ready, e.next = e.next, e.ready
		if !more && e.wheel.isEmpty() && !e.inFlight() {
			if e.cfg.Drain {
				return e.conclude(), nil
			}
			return Result{}, fmt.Errorf("%w: in step %d nothing is in flight and %d nodes wait", ErrStuck, e.now, e.left)
		}
	}
	return Result{}, fmt.Errorf("%w: %d nodes wait after %d steps", ErrStuck, e.left, e.cfg.Limit)
}

// reset checks the configuration and prepares a run.
func (e *Engine[M]) reset(cfg Config) error {
	if cfg.Nodes < 1 || cfg.Latency < 1 || cfg.Starts != nil && len(cfg.Starts) != cfg.Nodes {
		return fmt.Errorf("logp: %d nodes, latency %d, %d starts: want 1 node or more, latency 1 or more, and no or all starts", cfg.Nodes, cfg.Latency, len(cfg.Starts))
	}
	if cfg.Limit == 0 {
		cfg.Limit = 1 << 22
	}
	e.cfg, e.now, e.result = cfg, 0, Result{}
	if len(e.flight) != int(cfg.Latency)+2 {
		e.flight = make([][]envelope[M], cfg.Latency+2)
	}
	for i := range e.flight {
		e.flight[i] = e.flight[i][:0]
	}
	e.wheel.reset()
	if len(e.nodes) != cfg.Nodes {
		e.nodes = make([]node, cfg.Nodes)
		e.ready, e.next = make([]uint64, (cfg.Nodes+63)/64), make([]uint64, (cfg.Nodes+63)/64)
	}
	clear(e.ready)
	clear(e.next)
	for i := range e.nodes {
		e.nodes[i] = node{wake: never, finish: never}
	}
	e.left = cfg.Nodes
	if !cfg.Root {
		e.left--
	}
	for _, d := range cfg.Deaths {
		first := int32(1)
		if cfg.Drain {
			first = 0
		}
		if d.Node < first || int(d.Node) >= cfg.Nodes {
			return fmt.Errorf("logp: death of node %d, want %d to %d", d.Node, first, cfg.Nodes-1)
		}
		if d.Step < 0 {
			e.kill(d.Node)
		} else {
			e.wheel.push(timer{at: d.Step, kind: timerDeath, a: d.Node})
		}
	}
	for v := range int32(cfg.Nodes) {
		if cfg.Starts != nil && cfg.Starts[v] > 0 {
			e.wheel.push(timer{at: cfg.Starts[v], kind: timerStart, a: v})
			continue
		}
		e.start(v)
	}
	return nil
}

// waitsFor reports whether the run ends only when v has finished.
func (e *Engine[M]) waitsFor(v int32) bool { return v != 0 || e.cfg.Root }

// start lets v call the collective, if it lives.
func (e *Engine[M]) start(v int32) {
	if !e.nodes[v].dead {
		e.drv.Enter(v, e.now)
		e.mark(v)
	}
}

// mark lets v act in this step.
func (e *Engine[M]) mark(v int32) { e.ready[v/64] |= 1 << (v % 64) }

// takeTurns gives all nodes that may act their step, in ascending order as the original did. It
// reports whether any node may act in the next step.
func (e *Engine[M]) takeTurns() (more bool) {
	for i, word := range e.ready {
		if word == 0 {
			continue
		}
		e.ready[i] = 0
		for again := uint64(0); word != 0; word &= word - 1 {
			bit := int32(bits.TrailingZeros64(word))
			if e.takeTurn(int32(i)*64 + bit) {
				again |= 1 << bit
			}
			e.next[i], more = again, more || again != 0
		}
	}
	return more
}

// send puts a message in flight.
func (e *Engine[M]) send(to int32, m *M) {
	e.result.Messages++
	i := (e.now + e.cfg.Latency + 1) % int32(len(e.flight))
	e.flight[i] = append(e.flight[i], envelope[M]{to, *m})
}

// deliver delivers the messages that arrive in this step.
func (e *Engine[M]) deliver() {
	i := e.now % int32(len(e.flight))
	for j := range e.flight[i] {
		env := &e.flight[i][j]
		if e.nodes[env.to].dead {
			e.dying = env.to
			e.lose(&env.msg)
			continue
		}
		if q := e.drv.Arrive(env.to, &env.msg, e.now); q > e.result.MaxQueue {
			e.result.MaxQueue = q
		}
		e.mark(env.to)
	}
	e.flight[i] = e.flight[i][:0]
}

// inFlight reports whether a message is in flight.
func (e *Engine[M]) inFlight() bool {
	for _, f := range e.flight {
		if len(f) > 0 {
			return true
		}
	}
	return false
}

// fire does what a timer that has expired is for.
func (e *Engine[M]) fire(t timer) {
	switch n := &e.nodes[t.a]; t.kind {
	case timerWake:
		if n.wake == e.now {
			n.wake = never
			e.mark(t.a)
		}
	case timerStart:
		e.start(t.a)
	case timerDeath:
		e.kill(t.a)
	case timerNotice:
		e.notify(t.a, t.b)
	case timerNews:
		e.notifyAll(t.a)
	}
}

// kill lets v die.
func (e *Engine[M]) kill(v int32) {
	n := &e.nodes[v]
	if n.dead {
		return
	}
	if e.waitsFor(v) && !n.done {
		e.left--
	}
	n.dead = true
	e.result.Dead++
	e.dying = v
	if at, ok := e.drv.Died(v, e.now, e.lostFn); ok {
		e.wheel.push(timer{at: max(at, e.now+1), kind: timerNews, a: v})
	}
}

// notifyAll tells all living nodes that dead is dead.
func (e *Engine[M]) notifyAll(dead int32) {
	for v := range int32(len(e.nodes)) {
		e.notify(v, dead)
	}
}

// notify tells v, if it lives, that dead is dead.
func (e *Engine[M]) notify(v, dead int32) {
	if !e.nodes[v].dead {
		e.drv.Notice(v, dead, e.now)
		e.updateDone(v)
		e.mark(v)
	}
}

// lose handles a message that has met the dead node dying.
func (e *Engine[M]) lose(m *M) {
	if learner, at, ok := e.drv.Lost(e.dying, m, e.now); ok {
		e.wheel.push(timer{at: max(at, e.now+1), kind: timerNotice, a: learner, b: e.dying})
	}
}

// takeTurn gives v its step, and reports whether v may act in the next step.
func (e *Engine[M]) takeTurn(v int32) bool {
	n := &e.nodes[v]
	if n.dead {
		return false
	}
	e.move.Kind = Idle
	e.drv.Turn(v, e.now, &e.move)
	e.updateDone(v)
	switch e.move.Kind {
	case Sent:
		e.send(e.move.To, &e.move.Msg)
	case Idle:
		if at, ok := e.drv.Wake(v, e.now); ok && at != n.wake {
			n.wake = max(at, e.now+1)
			e.wheel.push(timer{at: n.wake, kind: timerWake, a: v})
		}
		return false
	}
	return true
}

// updateDone notes whether v has finished. A node that has finished may have to go on after all.
func (e *Engine[M]) updateDone(v int32) {
	n := &e.nodes[v]
	isDone := e.drv.Finished(v)
	if isDone == n.done || !e.waitsFor(v) {
		return
	}
	n.done = isDone
	if !isDone {
		e.left++
		return
	}
	e.left--
	if n.finish == never {
		n.finish = e.now
	}
}

// conclude completes the result.
func (e *Engine[M]) conclude() Result {
	r := e.result
	r.Steps = e.now
	first, last := e.now, int32(0)
	for v := range e.nodes {
		n := &e.nodes[v]
		if n.dead {
			continue
		}
		if n.finish != never && v != 0 {
			first = min(first, n.finish)
		}
		if e.cfg.Starts != nil {
			last = max(last, e.cfg.Starts[v])
		}
	}
	r.OutSpread = e.now - first
	end := e.now
	if e.cfg.Root {
		end = e.nodes[0].finish
	}
	r.Latency = end - last
	return r
}
