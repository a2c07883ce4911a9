package logp

import (
	"errors"
	"fmt"
	"math/bits"
)

// Driver is a set of machines, one a node, that exchange messages M.
type Driver[M any] interface {
	// Enter makes v call the collective.
	Enter(v, now int32)
	// Arrive puts a message into v's inbound queue and gives its length.
	Arrive(v int32, m *M, now int32) int
	// Turn gives v one step.
	Turn(v, now int32, out *Move[M])
	// Wake is when v may have something to do without anything new.
	Wake(v, now int32) (at int32, ok bool)
	// Lost says who learns when that the message has met a dead node.
	Lost(dead int32, m *M, now int32) (who, at int32, ok bool)
	// Died tells that v has, which calls lost for each message in its queue. If
	// everybody learns of it, ok is true and news is when.
	Died(v, now int32, lost func(m *M)) (news int32, ok bool)
	// Notice tells who that dead is dead.
	Notice(who, dead, now int32)
	// Finished says whether v needs to do no more.
	Finished(v int32) bool
}

// MoveKind is what a node did with its step.
type MoveKind uint8

// The moves.
const (
	Idle MoveKind = iota // nothing: it need not be asked again before something happens
	Sent                 // Msg to To
	Took                 // a message from its queue
)

// Move is what a node did with its step.
type Move[M any] struct {
	Kind MoveKind
	To   int32
	Msg  M
}

// Death is that of a node, in a step; before the first step it is inactive.
type Death struct{ Node, Step int32 }

// Inactive is the step of deaths before the start.
const Inactive = -1

// Config is one run.
type Config struct {
	Nodes   int
	Latency int32   // L, in units of o
	Starts  []int32 // when nodes enter; nil: all in step 0
	Deaths  []Death // not of node 0, unless Drain
	Limit   int32   // steps after which a run is given up; 0: 1<<22
	Root    bool    // node 0 has to finish as well, and its finish is the latency
	Drain   bool    // run until nothing happens any more; whether nodes finished, and when, the driver knows
}

// Result is what a run gives. Times do not count node 0 unless the run is one
// whose root matters, as the published ones do not.
type Result struct {
	Latency   int32 // from the last living node's start to the last finish
	OutSpread int32 // from the first finish to the last
	Messages  int64
	MaxQueue  int
	Dead      int
	Steps     int32 // the last step
}

// ErrStuck says that a run came to no end.
var ErrStuck = errors.New("simulation does not end")

const never = int32(-1)

// Engine runs one collective after the other among the same number of nodes.
type Engine[M any] struct {
	cfg    Config
	drv    Driver[M]
	now    int32
	flight [][]envelope[M] // by the step of arrival, modulo its length
	wheel  wheel
	ready  []uint64 // a bit for each node that may act in this step
	next   []uint64 // and in the next
	nodes  []node
	left   int // living nodes that have not finished
	result Result
	move   Move[M]
	lostFn func(*M)
	dying  int32 // whose messages are being lost
}

type envelope[M any] struct {
	to  int32
	msg M
}

// node is what the engine knows of one.
type node struct {
	wake   int32 // its timer
	finish int32 // its first
	dead   bool
	done   bool
}

// NewEngine makes an engine for runs of a driver.
func NewEngine[M any](drv Driver[M]) *Engine[M] {
	e := &Engine[M]{drv: drv}
	e.lostFn = e.lost
	return e
}

// Run runs the collective once. The driver's machines are at rest.
func (e *Engine[M]) Run(cfg Config) (Result, error) {
	if err := e.reset(cfg); err != nil {
		return Result{}, err
	}
	for ; e.now < e.cfg.Limit; e.now++ {
		e.arrivals()
		e.wheel.expire(e.now, e.timer)
		more := e.turns()
		if e.left == 0 && !e.cfg.Drain {
			return e.finish(), nil
		}
		e.ready, e.next = e.next, e.ready
		if !more && e.wheel.empty() && e.quiet() {
			if e.cfg.Drain {
				return e.finish(), nil
			}
			return Result{}, fmt.Errorf("%w: in step %d nothing is in flight and %d nodes wait", ErrStuck, e.now, e.left)
		}
	}
	return Result{}, fmt.Errorf("%w: %d nodes wait after %d steps", ErrStuck, e.left, e.cfg.Limit)
}

func (e *Engine[M]) reset(cfg Config) error {
	if cfg.Nodes < 1 || cfg.Latency < 1 || cfg.Starts != nil && len(cfg.Starts) != cfg.Nodes {
		return fmt.Errorf("logp: %d nodes, latency %d, %d starts", cfg.Nodes, cfg.Latency, len(cfg.Starts))
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
			e.die(d.Node)
		} else {
			e.wheel.push(timer{at: d.Step, kind: timerDeath, a: d.Node})
		}
	}
	for v := range int32(cfg.Nodes) {
		if cfg.Starts != nil && cfg.Starts[v] > 0 {
			e.wheel.push(timer{at: cfg.Starts[v], kind: timerStart, a: v})
			continue
		}
		e.enter(v)
	}
	return nil
}

// counts says whether the run waits for v.
func (e *Engine[M]) counts(v int32) bool { return v != 0 || e.cfg.Root }

func (e *Engine[M]) enter(v int32) {
	if !e.nodes[v].dead {
		e.drv.Enter(v, e.now)
		e.mark(v)
	}
}

// mark lets v act in this step.
func (e *Engine[M]) mark(v int32) { e.ready[v/64] |= 1 << (v % 64) }

// turns lets all who may act do so, in ascending order as the original did, and
// says whether somebody may in the next step.
func (e *Engine[M]) turns() (more bool) {
	for i, word := range e.ready {
		if word == 0 {
			continue
		}
		e.ready[i] = 0
		for again := uint64(0); word != 0; word &= word - 1 {
			bit := int32(bits.TrailingZeros64(word))
			if e.turn(int32(i)*64 + bit) {
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

func (e *Engine[M]) arrivals() {
	i := e.now % int32(len(e.flight))
	for j := range e.flight[i] {
		env := &e.flight[i][j]
		if e.nodes[env.to].dead {
			e.dying = env.to
			e.lost(&env.msg)
			continue
		}
		if q := e.drv.Arrive(env.to, &env.msg, e.now); q > e.result.MaxQueue {
			e.result.MaxQueue = q
		}
		e.mark(env.to)
	}
	e.flight[i] = e.flight[i][:0]
}

func (e *Engine[M]) quiet() bool {
	for _, f := range e.flight {
		if len(f) > 0 {
			return false
		}
	}
	return true
}

func (e *Engine[M]) timer(t timer) {
	switch n := &e.nodes[t.a]; t.kind {
	case timerWake:
		if n.wake == e.now {
			n.wake = never
			e.mark(t.a)
		}
	case timerStart:
		e.enter(t.a)
	case timerDeath:
		e.die(t.a)
	case timerNotice:
		e.notice(t.a, t.b)
	case timerNews:
		e.news(t.a)
	}
}

func (e *Engine[M]) die(v int32) {
	n := &e.nodes[v]
	if n.dead {
		return
	}
	if e.counts(v) && !n.done {
		e.left--
	}
	n.dead = true
	e.result.Dead++
	e.dying = v
	if at, ok := e.drv.Died(v, e.now, e.lostFn); ok {
		e.wheel.push(timer{at: max(at, e.now+1), kind: timerNews, a: v})
	}
}

// news tells everybody that v is dead.
func (e *Engine[M]) news(v int32) {
	for who := range int32(len(e.nodes)) {
		e.notice(who, v)
	}
}

func (e *Engine[M]) notice(who, dead int32) {
	if !e.nodes[who].dead {
		e.drv.Notice(who, dead, e.now)
		e.look(who)
		e.mark(who)
	}
}

// lost is a message that has met the dead node dying.
func (e *Engine[M]) lost(m *M) {
	if who, at, ok := e.drv.Lost(e.dying, m, e.now); ok {
		e.wheel.push(timer{at: max(at, e.now+1), kind: timerNotice, a: who, b: e.dying})
	}
}

// turn lets v act, and says whether it may in the next step.
func (e *Engine[M]) turn(v int32) bool {
	n := &e.nodes[v]
	if n.dead {
		return false
	}
	e.move.Kind = Idle
	e.drv.Turn(v, e.now, &e.move)
	e.look(v)
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

// look notes that a node has finished, or has to go on after all.
func (e *Engine[M]) look(v int32) {
	n := &e.nodes[v]
	is := e.drv.Finished(v)
	if is == n.done || !e.counts(v) {
		return
	}
	n.done = is
	if !is {
		e.left++
		return
	}
	e.left--
	if n.finish == never {
		n.finish = e.now
	}
}

// finish completes the result.
func (e *Engine[M]) finish() Result {
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
