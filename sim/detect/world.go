package detect

import (
	"math/rand/v2"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/ring"
)

// nearby is how many living members before it in the ring hear of a death. Another one does not watch so far: it would
// have to suspect that many living members in a row.
const nearby = 64

// world is one sample. What is of one algorithm only is in watchers.
type world struct {
	o        *Options
	rng      *rand.Rand
	now      int64
	queue    queue
	watchers watchers
	flood    *flood
	stride   int64   // of the ring
	offsets  []int32 // of the graph
	nearby   int

	victim []bool // dies at the moment of the deaths
	gone   []bool // gets and does nothing any more
	died   int64
	result sample

	knownAt  []int64 // of each victim: when the last survivor knew
	unknown  int     // victims of which some survivor does not know
	reported []bool  // a report has reached all
	accused  []bool  // false reports
	fresh    []int32 // of one step
}

// sample is what one run has shown. Times are from the deaths.
type sample struct {
	first, last  int64
	reports      int64 // runs of the broadcast
	copies       int64 // messages of these
	pings        int64 // messages of the ring until the deaths
	warm         int64 // how long that was
	falseReports int
	missed       int // victims of which some survivor never learned
}

// watchers are the ring machines of all members.
type watchers interface {
	start()
	// handle lets an occasion happen to a member. It returns whom the member accuses.
	handle(o *occasion) (accused []int32)
}

// newWorld makes the sample of a seed.
func newWorld(o *Options, seed uint64) (*world, error) {
	w := &world{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, seed)), nearby: nearby,
		victim: make([]bool, o.members()), gone: make([]bool, o.members()), accused: make([]bool, o.members()),
		knownAt: make([]int64, o.members()), reported: make([]bool, o.members()),
	}
	nodes, err := o.victims(w.rng)
	if err != nil {
		return nil, err
	}
	per := o.members() / o.Nodes
	for _, p := range nodes {
		for i := range o.deadPerNode() {
			w.victim[int(p)*per+i] = true
			w.unknown++
		}
	}
	steps := int32(o.Latency / o.Overhead)
	if o.isLiteral() {
		flavor := bmg.Printed
		if o.PRRTE {
			flavor = bmg.Runtime
		}
		w.watchers, w.stride = newPushers(w), 1
		w.flood = newFlood(newPrinted(flavor, o.members()), o.members(), 2*len(bmg.Offsets(o.members()))+4, steps)
		return w, nil
	}
	kind := bmg.KindNode
	if o.Death == deathPE {
		kind = bmg.KindPE
	}
	g, err := newGraph(o.Nodes, kind)
	if err != nil {
		return nil, err
	}
	w.stride, w.offsets = int64(o.stride()), bmg.Offsets(o.Nodes)
	w.flood = newFlood(g, o.Nodes, len(w.offsets)+1, steps)
	w.watchers, err = newPingers(w)
	return w, err
}

// warmup is the number of periods before the deaths.
const warmup = 5

// run runs the sample.
func (w *world) run() sample {
	period := int64(w.o.Period)
	w.died = warmup*period + w.rng.Int64N(period)
	w.queue.push(occasion{at: w.died, kind: deaths})
	w.watchers.start()
	end := w.died + int64(w.o.Duration)
	limit := end + w.patience()
	for len(w.queue.heap) > 0 {
		if at := w.queue.heap[0].at; at > limit || at > end && w.unknown == 0 {
			break
		}
		o := w.queue.pop()
		w.now = o.at
		if o.kind == deaths {
			w.die()
			continue
		}
		if accused := w.watchers.handle(&o); len(accused) > 0 {
			w.report(o.node, accused)
		}
	}
	return w.sum()
}

// patience returns how long a sample may take after its deaths.
func (w *world) patience() int64 {
	period := int64(w.o.Period)
	if w.o.isLiteral() { // two timeouts of two periods for each of a run
		return 5 * period * int64(w.unknown+2)
	}
	t := ring.TimingOf(w.o.tier(), period)
	return 20 * (period + t.Margin + t.Verify)
}

// die lets the victims die.
func (w *world) die() {
	w.result.pings, w.result.warm = w.sent(), w.now
	if w.o.Death == deathPE {
		w.diePEs()
		return
	}
	for v := range w.victim {
		if !w.victim[v] || w.gone[v] {
			if w.victim[v] { // fenced before
				w.unknown--
			}
			continue
		}
		w.gone[v] = true
		w.knownAt[v] = -1
		if w.o.Death != "daemon" {
			continue
		}
		for _, d := range w.offsets { // its kernel closes its connections
			w.queue.push(occasion{at: w.now + w.travel(), kind: hangup, node: w.member(int64(v) + int64(d)), peer: int32(v)})
		}
	}
}

// sent returns how many messages the ring has sent.
func (w *world) sent() int64 {
	switch a := w.watchers.(type) {
	case *pingers:
		return a.sent
	case *pushers:
		return a.sent
	}
	return 0
}

// member returns a member by any number that is equal modulo their number.
func (w *world) member(v int64) int32 {
	n := int64(len(w.gone))
	return int32((v%n + n) % n)
}

// travel draws how long a message of the ring travels.
func (w *world) travel() int64 {
	d := int64(w.o.Latency)
	if w.o.Jitter > 0 {
		d += w.rng.Int64N(int64(w.o.Jitter))
	}
	return d
}

// isLost draws whether a message of the ring is lost.
func (w *world) isLost() bool { return w.o.Loss > 0 && w.rng.Float64()*100 < w.o.Loss }

// report runs the broadcast of what a member has accused others of, and lets news travel. A second report of the same
// member would end at members that know the first one.
func (w *world) report(by int32, accused []int32) {
	w.fresh = w.fresh[:0]
	for _, p := range accused {
		if !w.reported[p] {
			w.fresh = append(w.fresh, p)
		}
	}
	if !w.o.isLiteral() {
		w.spread(by, w.fresh)
		return
	}
	for i := range w.fresh {
		w.spread(by, w.fresh[i:i+1])
	}
}

// spread runs one broadcast.
func (w *world) spread(by int32, accused []int32) {
	if len(accused) == 0 {
		return
	}
	w.result.reports++
	w.result.copies += w.flood.run(by, accused, w.gone)
	last, reached := int64(0), true
	for v, step := range w.flood.arrived {
		switch {
		case w.gone[v]:
		case step == never:
			reached = false
		default:
			last = max(last, w.now+int64(step)*int64(w.o.Overhead))
		}
	}
	for _, p := range accused {
		w.reported[p] = reached
		w.note(p, last, reached)
		w.tell(p)
	}
}

// note notes that a report of p is known to all by last, or not to all.
func (w *world) note(p int32, last int64, reached bool) {
	if !w.gone[p] {
		if !w.accused[p] {
			w.result.falseReports++
		}
		w.accused[p] = true
		if step := w.flood.arrived[p]; !w.o.isLiteral() && step != never {
			w.queue.push(occasion{at: w.now + int64(step)*int64(w.o.Overhead), kind: fence, node: p})
		}
		return
	}
	if !w.victim[p] {
		return // fenced before
	}
	if w.result.first == 0 {
		w.result.first = w.now - w.died
	}
	if reached && w.knownAt[p] < 0 {
		w.knownAt[p] = last
		w.unknown--
		w.result.last = max(w.result.last, last-w.died)
	}
}

// tell lets those hear of p's death to whom it matters: members after p in the ring and neighbors of p in the graph.
func (w *world) tell(p int32) {
	at := func(v int32) {
		if step := w.flood.arrived[v]; step != never && v != p && !w.gone[v] {
			w.queue.push(occasion{at: w.now + int64(step)*int64(w.o.Overhead), kind: news, node: v, peer: p})
		}
	}
	living := 0
	v := int64(p)
	for range len(w.gone) - 1 {
		v = int64(w.member(v + w.stride))
		at(int32(v))
		if !w.gone[v] {
			if living++; living == w.nearby {
				break
			}
		}
	}
	for _, d := range w.offsets {
		at(w.member(int64(p) + int64(d)))
	}
}

// sum counts what has been missed.
func (w *world) sum() sample {
	for v := range w.victim {
		if w.victim[v] && w.knownAt[v] < 0 {
			w.result.missed++
		}
	}
	return w.result
}
