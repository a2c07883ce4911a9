package ring

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/goshmem/goshmem/detector/bmg"
)

// world runs the machines of a ring in virtual time, with the broadcast beside them, as a node's daemon would: what a
// member accuses becomes a report, a report is news for the ring, and a member that gets its own report ends.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	now     int64
	queue   occurrences
	order   int
	nodes   []member
	timing  Timing
	kernel  bool // pings are answered as long as the machine runs
	latency func(from, to Node) int64
	lost    func(from, to Node, msg *Msg) bool // of pings and answers; reports are not lost
	fencing bool

	accused   []accusation
	unreached []accusation
	actions   []Action
}

// member is a node of the world.
type member struct {
	ring    *Machine
	flood   *bmg.Machine
	inc     uint32
	dead    bool  // the machine is gone
	ended   bool  // the daemon has ended, and the kernel runs
	paused  int64 // the daemon stands still until then
	frozen  bool  // while the daemon is paused, the whole machine is
	starved bool  // the kernel says so of a daemon that is paused
	ticked  uint32
	inbox   []occurrence
	timer   int64
	knows   map[Node]int64 // when it learned of deaths
}

type accusation struct {
	by, of Node
	at     int64
	why    Reason
	truth  bool
	open   bool // a suspicion was left
}

// occurrence is something that happens at a time.
type occurrence struct {
	at    int64
	order int
	to    Node
	from  Node
	kind  int
	msg   Msg
	flood bmg.Msg
	do    func()
}

const (
	message = iota
	broadcast
	timer
	call
)

type occurrences []occurrence

func (q *occurrences) Len() int { return len(*q) }

func (q *occurrences) Less(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (q *occurrences) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

func (q *occurrences) Push(x any) { *q = append(*q, x.(occurrence)) }

func (q *occurrences) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// newWorld makes a world of n members that all live. The tier decides who answers pings.
func newWorld(tb testing.TB, n int, tier Tier, stride int, seed uint64) *world {
	tb.Helper()
	w := &world{
		t: tb, rng: rand.New(rand.NewPCG(seed, 3)), timing: TimingOf(tier, 100*millisecond), kernel: tier == Kernel, fencing: true,
		latency: func(_, _ Node) int64 { return 20000 },
		lost:    func(_, _ Node, _ *Msg) bool { return false },
	}
	for v := range n {
		w.nodes = append(w.nodes, member{inc: 1, timer: Never, knows: map[Node]int64{}})
		w.boot(Node(v), Config{N: n, Me: v, Stride: stride, Timing: w.timing})
	}
	for v := range n {
		w.step(Node(v), Event{Kind: Start})
	}
	return w
}

func (w *world) boot(v Node, cfg Config) {
	w.t.Helper()
	var err error
	n := &w.nodes[v]
	if n.ring, err = New(cfg); err == nil {
		n.flood, err = bmg.New(bmg.Config{N: cfg.N, Me: cfg.Me, Incs: cfg.Incs})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) push(o occurrence) {
	w.order++
	o.order = w.order
	heap.Push(&w.queue, o)
}

// after lets f happen some time from now.
func (w *world) after(d int64, f func()) { w.push(occurrence{at: w.now + d, kind: call, do: f}) }

// run lets time pass.
func (w *world) run(d int64) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		o := heap.Pop(&w.queue).(occurrence)
		w.now = o.at
		w.happen(&o)
	}
	w.now = end
}

func (w *world) happen(o *occurrence) {
	if o.kind == call {
		o.do()
		return
	}
	n := &w.nodes[o.to]
	if n.dead {
		return
	}
	asleep := n.paused > w.now
	if o.kind == message && o.msg.Kind == Ping && o.msg.Of == o.to && w.kernel && (!asleep || !n.frozen) {
		w.send(o.to, o.from, Reply(&o.msg, Status{Inc: n.inc, Tick: n.ticked, DaemonDead: n.ended, Starved: n.starved && asleep}))
		return
	}
	if n.ended {
		return
	}
	if asleep {
		if o.kind != timer {
			n.inbox = append(n.inbox, *o)
		} else {
			n.timer = Never
		}
		return
	}
	switch o.kind {
	case message:
		w.step(o.to, Event{Kind: Recv, From: o.from, Msg: o.msg})
	case broadcast:
		w.stepFlood(o.to, bmg.Event{Kind: bmg.Recv, From: o.from, Inc: w.nodes[o.from].inc, Msg: o.flood})
	case timer:
		if n.timer = Never; n.ring.Due() <= w.now {
			w.step(o.to, Event{Kind: Tick})
		} else {
			w.arm(o.to)
		}
	}
}

// arm sets the timer of v.
func (w *world) arm(v Node) {
	if n := &w.nodes[v]; n.ring.Due() < n.timer {
		n.timer = n.ring.Due()
		w.push(occurrence{at: max(n.timer, w.now), kind: timer, to: v})
	}
}

func (w *world) send(from, to Node, msg Msg) {
	if !w.lost(from, to, &msg) {
		w.push(occurrence{at: w.now + w.latency(from, to), kind: message, from: from, to: to, msg: msg})
	}
}

// step makes one step of v's ring, and reports whom it accuses.
func (w *world) step(v Node, ev Event) {
	n := &w.nodes[v]
	n.ticked++
	ev.Now = w.now
	var reports []bmg.Payload
	for _, a := range n.ring.Step(ev, w.actions[:0]) {
		switch a.Kind {
		case Send:
			if a.To == v || a.To < 0 || int(a.To) >= len(w.nodes) {
				w.t.Fatalf("member %d sends %+v", v, a)
			}
			w.send(v, a.To, a.Msg)
		case Accuse:
			of := &w.nodes[a.To]
			truth := of.dead || of.ended || of.inc > a.Inc
			w.accused = append(w.accused, accusation{v, a.To, w.now, a.Reason, truth, n.ring.Suspects()})
			reports = append(reports, bmg.Payload{Key: bmg.Key{Kind: bmg.KindNode, ID: uint64(a.To), Inc: a.Inc}, Origin: v})
		case Unreached:
			w.unreached = append(w.unreached, accusation{by: v, of: a.To, at: w.now})
		}
	}
	w.arm(v)
	if len(reports) > 0 {
		w.stepFlood(v, bmg.Event{Kind: bmg.Start, Msg: bmg.Msg{Payloads: reports}})
	}
}

func (w *world) stepFlood(v Node, ev bmg.Event) {
	n := &w.nodes[v]
	for _, a := range n.flood.Step(ev, nil) {
		switch a.Kind {
		case bmg.Send:
			w.push(occurrence{at: w.now + w.latency(v, a.To), kind: broadcast, from: v, to: a.To, flood: a.Msg})
		case bmg.Deliver:
			p := Node(a.Payload.ID)
			if _, twice := n.knows[p]; twice && a.Payload.Inc == 1 {
				w.t.Errorf("member %d learns twice of the death of %d", v, p)
			}
			n.knows[p] = w.now
			w.step(v, Event{Kind: PeerFailed, From: p, Inc: a.Payload.Inc})
		case bmg.Fenced:
			n.dead = n.dead || w.fencing
		}
	}
}

// pause stops v's daemon, or the whole machine, for some time.
func (w *world) pause(v Node, d int64, frozen bool) {
	n := &w.nodes[v]
	n.paused, n.frozen = w.now+d, frozen
	w.after(d, func() {
		if n.paused > w.now || n.dead {
			return
		}
		inbox := n.inbox
		n.inbox = nil
		for i := range inbox { // the driver drains its sockets first
			w.happen(&inbox[i])
		}
		if n.ring.Due() <= w.now {
			w.step(v, Event{Kind: Tick})
		}
		n.timer = Never
		w.arm(v)
	})
}

// kill lets members die.
func (w *world) kill(list ...Node) {
	for _, p := range list {
		w.nodes[p].dead = true
	}
}

// wrong returns the accusations of members that lived.
func (w *world) wrong() (list []accusation) {
	for _, a := range w.accused {
		if !a.truth {
			list = append(list, a)
		}
	}
	return list
}

// lastToKnow returns when the last survivor has learned of all of the dead. A survivor that has not fails the test.
func (w *world) lastToKnow(dead ...Node) (last int64) {
	w.t.Helper()
	for v := range w.nodes {
		if w.nodes[v].dead || w.nodes[v].ended {
			continue
		}
		for _, p := range dead {
			at, ok := w.nodes[v].knows[p]
			if !ok {
				w.t.Fatalf("member %d does not know that %d is dead; its target is %d", v, p, w.nodes[v].ring.Target())
			}
			last = max(last, at)
		}
	}
	return last
}

// contiguous returns k members from first on, around the ring of members' numbers.
func contiguous(n, first, k int) (list []Node) {
	for i := range k {
		list = append(list, Node((first+i)%n))
	}
	return list
}
