package bmg

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// world runs the machines of a group under an adversarial scheduler: the next event may be any message in flight, and
// members die between any two actions. With loss, any message may vanish, and ticks come when nothing else is left.
type world struct {
	t         testing.TB
	rng       *rand.Rand
	all       []*Machine
	dead      []bool
	flight    []envelope
	loss      int // percent
	kills     int // members that may still die while messages are in flight
	got       []map[Key]int
	fenced    []bool
	messages  int // with payloads
	acks      int
	actions   []Action
	delivered func(v Node, p *Payload)
}

// endless is more messages than any broadcast here takes.
const endless = 1 << 20

type envelope struct {
	from, to Node
	msg      Msg
}

func newWorld(tb testing.TB, cfg Config, seed uint64) *world {
	tb.Helper()
	w := &world{
		t: tb, rng: rand.New(rand.NewPCG(seed, 5)), dead: make([]bool, cfg.N), fenced: make([]bool, cfg.N),
		got: make([]map[Key]int, cfg.N),
	}
	for v := range cfg.N {
		cfg.Me = v
		m, err := New(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		w.all, w.got[v] = append(w.all, m), map[Key]int{}
	}
	return w
}

func report(p Node, inc uint32, origin Node) Payload {
	return Payload{Key: Key{Kind: KindNode, ID: uint64(p), Inc: inc}, Origin: origin}
}

// start makes v broadcast payloads.
func (w *world) start(v Node, list ...Payload) {
	w.step(v, Event{Kind: Start, Msg: Msg{Payloads: list}})
}

// step makes one step of v, in which v may die between any two actions.
func (w *world) step(v Node, ev Event) {
	if w.dead[v] || w.fenced[v] {
		return
	}
	for _, a := range w.all[v].Step(ev, w.actions[:0]) {
		if w.kills > 0 && w.rng.IntN(40) == 0 {
			w.kills--
			w.dead[v] = true
			return
		}
		switch a.Kind {
		case Send:
			if a.To == v {
				w.t.Fatalf("member %d sends to itself", v)
			}
			if len(a.Msg.Payloads) > 0 {
				w.messages++
			} else {
				w.acks++
			}
			w.flight = append(w.flight, envelope{v, a.To, a.Msg})
		case Deliver:
			w.got[v][a.Payload.Key]++
			if w.delivered != nil {
				w.delivered(v, a.Payload)
			}
		case Fenced:
			w.fenced[v] = true
			return
		}
	}
}

// run delivers all messages, in any order.
func (w *world) run() {
	for len(w.flight) > 0 {
		if w.messages > endless {
			w.t.Fatal("the broadcast does not end")
		}
		i := w.rng.IntN(len(w.flight))
		e := w.flight[i]
		w.flight[i] = w.flight[len(w.flight)-1]
		w.flight = w.flight[:len(w.flight)-1]
		if w.loss > 0 && w.rng.IntN(100) < w.loss {
			continue
		}
		w.step(e.to, Event{Kind: Recv, From: e.from, Inc: 1, Msg: e.msg})
	}
}

// reached returns the members that are connected to v by survivors.
func (w *world) reached(v Node) []bool {
	seen, offsets := make([]bool, len(w.all)), Offsets(len(w.all))
	seen[v] = true
	for queue := []Node{v}; len(queue) > 0; queue = queue[1:] {
		for _, d := range offsets {
			if to := neighbor(queue[0], d, Node(len(w.all))); !seen[to] && !w.dead[to] && !w.fenced[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}

// check checks the promise: no member has a payload twice, and if a survivor has it, all that are connected to it do.
func (w *world) check(what string, k Key) (holders int) {
	w.t.Helper()
	known := make([]bool, len(w.all)) // members of pieces that have been looked at
	for v := range w.all {
		if n := w.got[v][k]; n > 1 {
			w.t.Fatalf("%s: member %d has %+v %d times, want once", what, v, k, n)
		}
		if w.dead[v] || w.fenced[v] || w.got[v][k] == 0 {
			continue
		}
		holders++
		if known[v] {
			continue
		}
		for u, ok := range w.reached(Node(v)) {
			if known[u] = known[u] || ok; ok && w.got[u][k] == 0 {
				w.t.Fatalf("%s: survivor %d has %+v, survivor %d, which is connected to it, does not", what, v, k, u)
			}
		}
	}
	return holders
}

// TestAnyOrder: whoever dies while payloads travel, all survivors that are connected get the same ones, each once.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(3000)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(20)
		w := newWorld(t, Config{N: n}, seed)
		w.kills = rng.IntN(min(n, 6))
		var keys []Key
		for i := range 1 + rng.IntN(4) {
			k := Key{Kind: KindPE, Job: uint32(rng.IntN(2)), ID: uint64(i), Inc: 1}
			if rng.IntN(2) == 0 {
				k = Key{Kind: KindEvent, ID: uint64(i), Inc: 1, Seq: 1}
			}
			keys = append(keys, k)
			for range 1 + rng.IntN(2) { // two members may report the same
				from := Node(rng.IntN(n))
				w.start(from, Payload{Key: k, Origin: from})
			}
		}
		w.run()
		for _, k := range keys {
			w.check(fmt.Sprintf("seed %d, %d members", seed, n), k)
		}
	}
}

// TestLossyLinks: with Resend the same holds although messages are lost. Each member that has died is reported, as the
// failure detector would do, so that nobody waits for its answers.
func TestLossyLinks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(1000)) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(14)
		w := newWorld(t, Config{N: n, Resend: 1 + rng.IntN(3)}, seed)
		w.loss, w.kills = 1+rng.IntN(60), rng.IntN(min(n-1, 4))
		k := Key{Kind: KindRevoke, Job: 1, ID: 9, Inc: 1}
		w.start(Node(rng.IntN(n)), Payload{Key: k})
		told := make([]bool, n)
		for range 10000 {
			w.run()
			for p := range w.all {
				if !w.dead[p] || told[p] {
					continue
				}
				told[p] = true
				for v := range w.all {
					w.step(Node(v), Event{Kind: PeerFailed, From: Node(p), Inc: 1})
				}
			}
			open := 0
			for v := range w.all {
				if !w.dead[v] {
					open += len(w.all[v].unsure)
					w.step(Node(v), Event{Kind: Tick})
				}
			}
			if open == 0 && len(w.flight) == 0 {
				break
			}
		}
		for v := range w.all {
			if u := w.all[v].unsure; !w.dead[v] && len(u) > 0 {
				t.Fatalf("seed %d: member %d still repeats %+v", seed, v, u)
			}
		}
		w.check(fmt.Sprintf("seed %d, %d members, %d %% lost", seed, n, w.loss), k)
	}
}

// TestOneAckEach: without losses, Resend costs an acknowledgment a member and no second copy.
func TestOneAckEach(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 12, 64, 200} {
		w := newWorld(t, Config{N: n, Resend: 2}, uint64(n))
		w.start(0, Payload{Key: Key{Kind: KindAbort, Inc: 1}})
		w.run()
		degree := len(Offsets(n))
		if want := n*(degree-1) + 1; w.messages != want || w.acks != n-1 {
			t.Errorf("%d members: %d messages and %d acknowledgments, want %d and %d", n, w.messages, w.acks, want, n-1)
		}
		for v := range w.all {
			if len(w.all[v].unsure) > 0 {
				t.Errorf("%d members: member %d is unsure of %+v", n, v, w.all[v].unsure)
			}
		}
	}
}
