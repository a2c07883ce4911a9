package bmg

import (
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

func rounds(n int) int {
	if testing.Short() {
		n /= 5
	}
	return testenv.Rounds(n)
}

// hops returns how many hops a payload takes from a member to all others.
func hops(n int, source Node, offsets func(v Node) []int64) int {
	far := make([]int, n)
	last := 0
	for queue := []Node{source}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		last = far[v]
		for _, d := range offsets(v) {
			if to := Node(((int64(v)+d)%int64(n) + int64(n)) % int64(n)); to != source && far[to] == 0 {
				far[to] = far[v] + 1
				queue = append(queue, to)
			}
		}
	}
	return last
}

// flood counts the messages of one broadcast, each of which arrives before the next is sent on.
func flood(tb testing.TB, n int) (messages int) {
	tb.Helper()
	all, err := NewGroup(Config{N: n})
	if err != nil {
		tb.Fatal(err)
	}
	got := 0
	queue := all[0].Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(Node(n/2), 1, 0)}}}, nil)
	var senders []Node
	for range queue {
		senders = append(senders, 0)
	}
	for i := 0; i < len(queue); i++ {
		a := queue[i]
		switch a.Kind {
		case Deliver:
			got++
		case Send:
			if messages++; messages > endless {
				tb.Fatal("the broadcast does not end")
			}
			before := len(queue)
			queue = all[a.To].Step(Event{Kind: Recv, From: senders[i], Inc: 1, Msg: a.Msg}, queue)
			for range len(queue) - before {
				senders = append(senders, a.To)
			}
		}
	}
	if got != n-1 { // the accused is fenced instead
		tb.Errorf("%d of %d members got the payload, want all but the accused", got, n)
	}
	return messages
}

// TestGraph. Section 4.6: "the maximum degree for every daemon is logarithmic", and a payload reaches all "within
// O(log2 N) steps". The numbers are those of docs/detection.md.
func TestGraph(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, degree, messages, hops int }{
		{1, 0, 0, 0},
		{2, 1, 1, 1},
		{3, 2, 4, 1},
		{12, 6, 61, 2},
		{64, 11, 641, 3},
		{1024, 19, 18433, 5},
		{16384, 27, 425985, 7},
		{65536, 31, 1966081, 8},
		{100000, 34, 3300001, 8},
	} {
		list := Offsets(c.n)
		if len(list) != c.degree {
			t.Errorf("%d members: degree %d, want %d", c.n, len(list), c.degree)
		}
		for _, d := range list {
			if d <= 0 || int(d) >= c.n || !slices.Contains(list, Node(c.n)-d) {
				t.Errorf("%d members: distance %d, want distances from 1 to n-1, each with its opposite", c.n, d)
			}
		}
		if s := slices.Sorted(slices.Values(list)); len(slices.Compact(s)) != c.degree {
			t.Errorf("%d members: neighbors %v, want distinct ones", c.n, list)
		}
		wide := make([]int64, len(list))
		for i, d := range list {
			wide[i] = int64(d)
		}
		if h := hops(c.n, 0, func(Node) []int64 { return wide }); h != c.hops {
			t.Errorf("%d members: %d hops, want %d", c.n, h, c.hops)
		}
		if want := c.n*(c.degree-1) + 1; c.n > 1 && want != c.messages {
			t.Errorf("%d members: N (degree - 1) + 1 is %d, want %d", c.n, want, c.messages)
		}
	}
}

// TestMessages: N (degree - 1) + 1 messages, less those that the accused does not send, for it is fenced.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{12, 64, 1024} {
		degree := len(Offsets(n))
		if got, want := flood(t, n), n*(degree-1)+1-(degree-1); got != want {
			t.Errorf("%d members: %d messages for a report, want %d", n, got, want)
		}
		w := newWorld(t, Config{N: n}, 1)
		w.start(3, Payload{Key: Key{Kind: KindPE, ID: 5, Inc: 1}})
		w.run()
		if want := n*(degree-1) + 1; w.messages != want {
			t.Errorf("%d members: %d messages, want %d", n, w.messages, want)
		}
		if holders := w.check("all live", Key{Kind: KindPE, ID: 5, Inc: 1}); holders != n {
			t.Errorf("%d members: %d have it", n, holders)
		}
	}
}

// TestFewerThanDegree: as many dead as one less than a member has neighbors never separate survivors: all but one of the
// source's neighbors, and random ones.
func TestFewerThanDegree(t *testing.T) {
	t.Parallel()
	for _, n := range []int{12, 64, 1024} {
		list := Offsets(n)
		for trial := range min(rounds(100), len(list)+4000/n) {
			w := newWorld(t, Config{N: n}, uint64(trial))
			for i, p := range w.rng.Perm(n - 1) {
				if i == len(list)-1 {
					break
				}
				w.dead[p+1] = true
			}
			if trial < len(list) {
				clear(w.dead)
				for i, d := range list {
					w.dead[d] = i != trial
				}
			}
			k := Key{Kind: KindPE, ID: 1, Inc: 1}
			w.start(0, Payload{Key: k})
			w.run()
			if holders := w.check("dead neighbors", k); holders != n-len(list)+1 {
				t.Errorf("%d members, %d dead: %d of the survivors have it", n, len(list)-1, holders)
			}
		}
	}
}

// TestManyDead: of 1,024 members, a tenth at random and a third in one piece.
func TestManyDead(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"random", "contiguous"} {
		w := newWorld(t, Config{N: 1024}, 3)
		alive := 1024
		for p := range w.dead {
			if p > 0 && (kind == "random" && w.rng.IntN(10) == 0 || kind == "contiguous" && p >= 100 && p < 440) {
				w.dead[p] = true
				alive--
			}
		}
		k := Key{Kind: KindPE, ID: 1, Inc: 1}
		w.start(0, Payload{Key: k})
		w.run()
		if holders := w.check(kind, k); holders != alive {
			t.Errorf("%s: %d of %d survivors have it", kind, holders, alive)
		}
	}
}

// TestVerdict: the accused gets the report and is fenced; it neither delivers nor forwards. Members drop what it sends
// once they know. Its successor is another member.
func TestVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{N: 16}, 1)
	w.start(0, report(1, 1, 0))
	w.run()
	if !w.fenced[1] || len(w.got[1]) > 0 {
		t.Fatalf("member 1 is not fenced, or has delivered %v", w.got[1])
	}
	late := Key{Kind: KindPE, ID: 7, Inc: 1}
	w.step(0, Event{Kind: Recv, From: 1, Inc: 1, Msg: Msg{Payloads: []Payload{{Key: late}}}})
	if w.got[0][late] > 0 {
		t.Error("member 0 delivers what a dead member has sent")
	}
	m := w.all[0]
	if out := m.Step(Event{Kind: PeerJoined, From: 1, Inc: 2}, nil); len(out) > 0 || m.roster.IsDead(1) {
		t.Errorf("member 1 has joined again: %v, dead %v", out, m.roster.IsDead(1))
	}
	m.Step(Event{Kind: Recv, From: 1, Inc: 1, Msg: Msg{Payloads: []Payload{{Key: late}}}}, nil)
	if m.seen.add(&late) == false {
		t.Error("a message of the earlier incarnation counts")
	}
	again := m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(1, 2, 0)}}}, nil)
	if !slices.ContainsFunc(again, func(a Action) bool { return a.Kind == Deliver }) {
		t.Error("the death of incarnation 2 is not delivered")
	}
	if out := m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(1, 1, 0)}}}, nil); len(out) > 0 {
		t.Errorf("the death of incarnation 1, which is old, makes %v", out)
	}
}

// TestSendsBeforeItDelivers: whoever has delivered has asked for everything to be sent.
func TestSendsBeforeItDelivers(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 64, Me: 4})
	if err != nil {
		t.Fatal(err)
	}
	out := m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(1, 1, 4), report(2, 1, 4)}}}, nil)
	sends := slices.IndexFunc(out, func(a Action) bool { return a.Kind == Deliver })
	if sends != 11 || len(out) != 13 {
		t.Errorf("%d actions, the first to deliver is number %d, want 11 messages with both payloads, then two", len(out), sends)
	}
	for _, a := range out[:11] {
		if len(a.Msg.Payloads) != 2 {
			t.Errorf("a message with %d payloads, want both", len(a.Msg.Payloads))
		}
	}
}

// TestEventsOutOfOrder: an origin's events come by many ways. Each counts once, and what is held stays small.
func TestEventsOutOfOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(200)) {
		w := newWorld(t, Config{N: 5}, seed)
		for i := range 40 {
			w.start(2, Payload{Key: Key{Kind: KindEvent, ID: 2, Inc: 1, Seq: uint64(i + 1)}, Origin: 2})
		}
		w.run()
		for v, m := range w.all {
			if len(w.got[v]) != 40 || len(m.seen.streams) != 1 || m.seen.streams[0].low != 40 || len(m.seen.streams[0].ahead) > 0 {
				t.Fatalf("seed %d: member %d has %d events of 40 and holds %+v", seed, v, len(w.got[v]), m.seen.streams)
			}
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{N: 0}, {N: 2, Me: 2}, {N: 2, Me: -1}, {N: 2, Incs: []uint32{1}}, {N: 2, Resend: -1}, {N: 1<<30 + 1},
	} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want %v", c, err, ErrConfig)
		}
		if _, err := NewGroup(c); !errors.Is(err, ErrConfig) && c.Me == 0 {
			t.Errorf("group of %+v: %v, want %v", c, err, ErrConfig)
		}
	}
}

// TestStrangePayloads: payloads that no member makes are dropped. Parsers let none through; a driver without bytes might.
func TestStrangePayloads(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 4, Resend: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []Key{
		{Kind: 0, Inc: 1},
		{Kind: lastKind + 1, Inc: 1},
		{Kind: KindNode, ID: 4, Inc: 1},
		{Kind: KindNode, ID: 1},
		{Kind: KindEvent, Inc: 1},
		{Kind: KindPE, Inc: 1, Seq: 1},
	} {
		if out := m.Step(Event{Kind: Recv, From: 1, Inc: 1, Msg: Msg{Payloads: []Payload{{Key: k}}}}, nil); len(out) > 0 {
			t.Errorf("%+v makes %v, want nothing", k, out)
		}
	}
	if out := m.Step(Event{Kind: Recv, From: 9, Inc: 1, Msg: Msg{Payloads: []Payload{report(2, 1, 1)}}}, nil); len(out) > 0 {
		t.Errorf("a message of a stranger makes %v, want nothing", out)
	}
}

// TestNoAllocation: a copy of a payload that is known costs no memory, and neither does sending one on.
func TestNoAllocation(t *testing.T) {
	all, err := NewGroup(Config{N: 1024})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]Action, 0, 64)
	msg := Msg{Payloads: []Payload{{Key: Key{Kind: KindPE, ID: 1, Inc: 1}}}}
	if n := testing.AllocsPerRun(100, func() {
		all[0].Reset()
		out = all[0].Step(Event{Kind: Recv, From: 1, Inc: 1, Msg: msg}, out[:0])
		out = all[0].Step(Event{Kind: Recv, From: 2, Inc: 1, Msg: msg}, out)
	}); n != 0 || len(out) != 19 {
		t.Errorf("%v allocations, %d actions, want none and 19", n, len(out))
	}
}
