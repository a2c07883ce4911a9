package ftco

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

type wire struct {
	msg   Msg
	value []uint8
	expr  string
}

type proc struct {
	m       *Machine
	alive   bool
	bufs    map[uint64]map[Buf][]uint8
	entered int
	out     map[uint64]*Action
	val     map[uint64][]uint8
	expr    map[uint64]map[Buf]string // how each buffer was combined
	text    map[uint64]string         // how the result was combined
}

type world struct {
	t      *testing.T
	rng    *rand.Rand
	n      int
	procs  []*proc
	links  [][][]wire
	news   [][]bool // news[p][q]: p has still to learn of q's death
	calls  []Call
	budget int // actions until the next kill; -1: none
	log    []string
}

func (w *world) do(p int, ev Event, in []uint8, expr string) {
	pr := w.procs[p]
	w.log = append(w.log, fmt.Sprintf("%d <- %+v", p, ev))
	acts := pr.m.Step(ev, nil)
	for _, a := range acts {
		if w.budget >= 0 {
			if w.budget == 0 && pr.alive {
				w.budget = -1
				w.kill(p)
				return
			}
			w.budget--
		}
		w.log = append(w.log, fmt.Sprintf("   %d -> %+v", p, a))
		b := pr.bufs[a.Seq]
		if b == nil {
			b = map[Buf][]uint8{}
			pr.bufs[a.Seq] = b
		}
		e := pr.expr[a.Seq]
		if e == nil {
			e = map[Buf]string{}
			pr.expr[a.Seq] = e
		}
		switch a.Kind {
		case Send:
			var v []uint8
			if a.Msg.Value != NoValue {
				v = slices.Clone(b[a.Msg.Value])
				if v == nil {
					w.fail("member %d sends the empty buffer %d", p, a.Msg.Value)
				}
			}
			w.links[p][a.To] = append(w.links[p][a.To], wire{a.Msg, v, e[a.Msg.Value]})
		case Keep:
			b[a.Dst], e[a.Dst] = in, expr
		case Combine:
			if b[a.Dst] == nil || b[a.Src] == nil {
				w.fail("member %d combines empty buffers: %+v", p, a)
			}
			e[a.Dst] = "(" + e[a.Dst] + "+" + e[a.Src] + ")"
			for i := range b[a.Dst] {
				b[a.Dst][i] += b[a.Src][i]
			}
		case Decide:
			b[Result], e[Result] = b[a.Src], e[a.Src]
		case Deliver, Fail:
			if (a.Kind == Fail) != (w.calls[a.Seq-1].Strict && a.Msg.Sets != nil) {
				w.fail("member %d: want Fail exactly if a strict call has failures: %+v", p, a)
			}
			aa := a
			pr.out[a.Seq] = &aa
			if a.Src != NoValue {
				pr.val[a.Seq], pr.text[a.Seq] = slices.Clone(b[a.Src]), e[a.Src]
			}
		case Refuse, Mismatch:
			w.fail("member %d refused %+v", p, ev)
		}
	}
}

func (w *world) fail(f string, args ...any) {
	w.t.Helper()
	for _, l := range w.log {
		w.t.Log(l)
	}
	w.t.Fatalf(f, args...)
}

func (w *world) kill(p int) {
	w.log = append(w.log, fmt.Sprintf("KILL %d", p))
	w.procs[p].alive = false
	for q := range w.n {
		if l := w.links[p][q]; len(l) > 0 && w.rng.IntN(2) == 0 {
			w.links[p][q] = l[:w.rng.IntN(len(l)+1)]
		}
		w.links[q][p] = nil
		if q != p {
			w.news[q][p] = true
		}
	}
}

func (w *world) run(kills int) {
	for {
		type choice struct{ kind, a, b int }
		var cs []choice
		for p := range w.n {
			if !w.procs[p].alive {
				continue
			}
			pr := w.procs[p]
			if pr.entered < len(w.calls) && (pr.entered == 0 || pr.out[uint64(pr.entered)] != nil) {
				cs = append(cs, choice{0, p, 0})
			}
			for q := range w.n {
				if len(w.links[q][p]) > 0 {
					cs = append(cs, choice{1, q, p})
				}
				if w.news[p][q] {
					cs = append(cs, choice{2, p, q})
				}
			}
		}
		if len(cs) == 0 {
			break
		}
		if kills > 0 && w.budget < 0 && w.rng.IntN(8) == 0 {
			alive := 0
			for _, p := range w.procs {
				if p.alive {
					alive++
				}
			}
			if alive > 1 {
				kills--
				if w.rng.IntN(2) == 0 {
					w.budget = w.rng.IntN(6)
				} else {
					v := w.rng.IntN(w.n)
					if w.rng.IntN(2) == 0 {
						for v = 0; !w.procs[v].alive; v++ {
						}
					}
					if w.procs[v].alive {
						w.kill(v)
						continue
					}
				}
			}
		}
		alive := 0
		for _, p := range w.procs {
			if p.alive {
				alive++
			}
		}
		if alive == 1 {
			w.budget = -1
		}
		switch c := cs[w.rng.IntN(len(cs))]; c.kind {
		case 0:
			pr := w.procs[c.a]
			call := w.calls[pr.entered]
			pr.entered++
			seq := uint64(pr.entered)
			if pr.bufs[seq] == nil {
				pr.bufs[seq] = map[Buf][]uint8{}
			}
			if call.Kind != Barrier && (call.Kind != Bcast || int(call.Root) == c.a) {
				v := make([]uint8, w.n)
				v[c.a] = 1
				pr.bufs[seq][Buf(c.a)] = v
				if pr.expr[seq] == nil {
					pr.expr[seq] = map[Buf]string{}
				}
				pr.expr[seq][Buf(c.a)] = fmt.Sprint(c.a)
			}
			w.do(c.a, Event{Kind: Enter, Call: call}, nil, "")
		case 1:
			x := w.links[c.a][c.b][0]
			w.links[c.a][c.b] = w.links[c.a][c.b][1:]
			w.do(c.b, Event{Kind: Recv, From: Node(c.a), Msg: x.msg}, x.value, x.expr)
		case 2:
			w.news[c.a][c.b] = false
			w.do(c.a, Event{Kind: PeerFailed, From: Node(c.b), Inc: 1}, nil, "")
		}
	}
	w.check()
}

func (w *world) check() {
	for i, call := range w.calls {
		seq := uint64(i + 1)
		var first *Action
		var fv []uint8
		var who int
		for p, pr := range w.procs {
			o := pr.out[seq]
			if o == nil {
				if pr.alive {
					w.fail("op %d %+v: member %d never returned", seq, call, p)
				}
				continue
			}
			if !pr.alive && !call.Uniform {
				continue
			}
			miss, failed := []Node(nil), []Node(nil)
			if o.Msg.Sets != nil {
				miss, failed = o.Msg.Sets.Missing, o.Msg.Sets.Failed
			}
			for q := range w.n {
				in := !slices.Contains(miss, Node(q))
				if w.procs[q].alive && slices.Contains(failed, Node(q)) {
					w.fail("op %d: living member %d is reported as failed", seq, q)
				}
				if call.Kind == Bcast || call.Kind == Barrier {
					continue
				}
				if w.procs[q].alive && !in {
					w.fail("op %d: living member %d is missing at member %d", seq, q, p)
				}
				if v := pr.val[seq]; v != nil {
					want := uint8(0)
					if in {
						want = 1
					}
					if v[q] != want {
						w.fail("op %d at member %d: the contribution of member %d counts %d times, want %d", seq, p, q, v[q], want)
					}
				}
			}
			if call.Kind == Allreduce && pr.val[seq] == nil {
				w.fail("op %d: member %d returned no value", seq, p)
			}
			if call.Kind == Bcast && pr.val[seq] == nil && w.procs[call.Root].alive {
				w.fail("op %d: the value of the living root is missing at member %d", seq, p)
			}
			if first == nil {
				first, fv, who = o, pr.val[seq], p
				continue
			}
			var m1, f1 []Node
			if first.Msg.Sets != nil {
				m1, f1 = first.Msg.Sets.Missing, first.Msg.Sets.Failed
			}
			if !slices.Equal(m1, miss) || !slices.Equal(f1, failed) || call.Kind != Reduce && !slices.Equal(fv, pr.val[seq]) {
				w.fail("op %d %+v: members %d and %d differ: missing, failed and value are %v %v %v and %v %v %v", seq, call, who, p, m1, f1, fv, miss, failed, pr.val[seq])
			}
		}
	}
}

// newWorld makes n members in a tree of radix k that make the given calls.
func newWorld(t *testing.T, rng *rand.Rand, n, k int, calls []Call) *world {
	t.Helper()
	w := &world{t: t, rng: rng, n: n, budget: -1, calls: calls, links: make([][][]wire, n), news: make([][]bool, n)}
	for p := range n {
		w.procs = append(w.procs, &proc{
			m: newMember(t, Config{N: n, Me: p, Radix: k}), alive: true, bufs: map[uint64]map[Buf][]uint8{}, out: map[uint64]*Action{},
			val: map[uint64][]uint8{}, expr: map[uint64]map[Buf]string{}, text: map[uint64]string{},
		})
		w.links[p], w.news[p] = make([][]wire, n), make([]bool, n)
	}
	w.log = append(w.log, fmt.Sprintf("n %d k %d calls %+v", n, k, calls))
	return w
}

// TestRandomSchedules runs up to four operations among up to nine members, any of which may die,
// even between two actions of one step. Package sim/explore does this at length.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testenv.Rounds(5000)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 1 + rng.IntN(9)
		var calls []Call
		for range 1 + rng.IntN(4) {
			c := Call{Kind: Kind(1 + rng.IntN(4)), Uniform: rng.IntN(3) == 0, Strict: rng.IntN(5) == 0, Tag: rng.Uint32()}
			if c.Kind == Reduce || c.Kind == Bcast {
				c.Root = Node(rng.IntN(n))
			}
			calls = append(calls, c)
		}
		w := newWorld(t, rng, n, 2+rng.IntN(3), calls)
		w.log[0] += fmt.Sprint(" seed ", seed)
		w.run(rng.IntN(n))
	}
}
