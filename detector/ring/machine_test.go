package ring

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func rounds(n int) int {
	if testing.Short() {
		n /= 5
	}
	return testenv.Rounds(n)
}

func TestStride(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2000; n++ {
		g := Stride(n)
		s, err := (&Config{N: n, Stride: g, Timing: TimingOf(Kernel, 1)}).shared()
		if err != nil {
			t.Fatalf("%d members: %v", n, err)
		}
		if n > 30 && (float64(g) < 0.55*float64(n) || float64(g) > 0.69*float64(n)) {
			t.Errorf("%d members: stride %d, want one near 0.618 n", n, g)
		}
		p, seen := Node(0), make([]bool, n)
		for k := range int64(n) {
			if seen[p] || s.distance(0, p) != k || s.before(0, k) != p {
				t.Fatalf("%d members, stride %d: place %d is member %d at distance %d", n, g, k, p, s.distance(0, p))
			}
			seen[p] = true
			p = s.before(p, 1)
		}
	}
	// "Rack-contiguous failures become isolated runs": no two of 400 neighbors among 1,024 are neighbors in the ring.
	s, _ := (&Config{N: 1024, Stride: Stride(1024), Timing: TimingOf(Kernel, 1)}).shared()
	for p := range Node(380) {
		if q := s.before(p, 1); q < 380 {
			t.Errorf("members %d and %d are neighbors in the ring", p, q)
		}
	}
}

// TestSingleDeath: a death is known to all within a period, the margin, and the time to verify. No one else is accused.
func TestSingleDeath(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(100)) {
		n := 2 + int(seed)%40
		w := newWorld(t, n, Kernel, Stride(n), seed)
		w.run(second + w.rng.Int64N(100*millisecond))
		victim := Node(w.rng.IntN(n))
		w.kill(victim)
		died := w.now
		w.run(second)
		took := w.lastToKnow(victim) - died
		least, most := w.timing.Margin, w.timing.Period+w.timing.Margin+w.timing.Verify+millisecond
		if len(w.accused) != 1 || took < least || took > most {
			t.Fatalf("seed %d, %d members: all know after %d us, want %d to %d; %+v", seed, n, took/1000, least/1000, most/1000, w.accused)
		}
		if w.accused[0].open {
			t.Errorf("seed %d, %d members: those before the dead one have answered, and are still suspected", seed, n)
		}
	}
}

// TestRuns: f members that are dead in a row, in the ring's order, cost log2(f/4 + 1) rounds, rounded up.
func TestRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ f, rounds int }{{1, 1}, {4, 1}, {5, 2}, {12, 2}, {13, 3}, {28, 3}, {60, 4}, {61, 5}, {100, 5}} {
		w := newWorld(t, 128, Kernel, 1, uint64(c.f))
		w.run(second)
		died := w.now
		dead := contiguous(128, 100, c.f)
		w.kill(dead...)
		w.run(second)
		// The observer's ping goes out within a period; an answer takes 40 us.
		wait := w.timing.Period + w.timing.Margin + 100_000
		took := w.lastToKnow(dead...) - died
		if most := wait + int64(c.rounds)*w.timing.Verify + millisecond; took > most || len(w.accused) != c.f {
			t.Errorf("%d dead in a row: %d accused, all know after %d us, want at most %d", c.f, len(w.accused), took/1000, most/1000)
		}
		for _, a := range w.accused {
			if want := Node((100 + c.f) % 128); a.by != want {
				t.Errorf("%d dead in a row: %d accuses %d, want %d to do so", c.f, a.by, a.of, want)
			}
		}
	}
}

// TestWhoeverDies: any set of members dies, at any moments, with messages that take up to a millisecond. All survivors
// learn of all of them, and nobody else is accused. A survivor may be left alone.
func TestWhoeverDies(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(300)) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 2 + rng.IntN(40)
		stride := Stride(n)
		if rng.IntN(2) == 0 {
			stride = 1
		}
		tier := Tier(1 + rng.IntN(3))
		w := newWorld(t, n, tier, stride, seed)
		w.latency = func(_, _ Node) int64 { return 10000 + w.rng.Int64N(millisecond) }
		w.run(second)
		// The graph of survivors stays connected with fewer dead than neighbors; see detector/bmg.
		most := len(bmg.Offsets(n)) - 1
		var dead []Node
		for _, p := range rng.Perm(n)[:rng.IntN(most+1)] {
			dead = append(dead, Node(p))
			w.after(rng.Int64N(300*millisecond), func() { w.kill(Node(p)) })
		}
		w.run(20 * second)
		w.lastToKnow(dead...)
		if wrong := w.wrong(); len(wrong) > 0 || len(w.accused) < len(dead) {
			t.Fatalf("seed %d, %d members, stride %d, tier %d: %d dead, accused %+v", seed, n, stride, tier, len(dead), w.accused)
		}
	}
}

// TestPauses: daemons, and in the kernel's tier whole machines for less than an observer waits, stand still at any
// moments. Nobody is accused, and a death is found beside it.
func TestPauses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(200)) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 3 + rng.IntN(20)
		tier := []Tier{Kernel, User}[rng.IntN(2)]
		w := newWorld(t, n, tier, Stride(n), seed)
		// A daemon that answers for itself may be silent for almost as long as its observer waits, a daemon whose kernel
		// answers until it hangs.
		longest := map[Tier]int64{Kernel: 9 * second, User: 900 * millisecond}[tier]
		w.run(second)
		for range 30 {
			v := Node(rng.IntN(n))
			w.after(rng.Int64N(20*second), func() {
				if w.nodes[v].paused <= w.now {
					w.pause(v, 1+rng.Int64N(longest), tier == User)
				}
			})
		}
		w.run(40 * second)
		if len(w.accused) > 0 {
			t.Fatalf("seed %d, %d members, tier %d: %+v", seed, n, tier, w.accused)
		}
		victim := Node(rng.IntN(n))
		w.kill(victim)
		w.run(5 * second)
		w.lastToKnow(victim)
	}
}

// TestOneWayIsEnough: a suspect that answers in one way only is not accused, whether it is the last direct ping or the
// last one by way of another member. If it answers in none, it is.
func TestOneWayIsEnough(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		direct, asks int // every how many-th is not lost; 0: none
		wrong        int
	}{
		{"the last direct ping", 4, 0, 0}, // after the regular one and two of the suspicion
		{"the last way by others", 0, 3, 0},
		{"none", 0, 0, 1},
	} {
		w := newWorld(t, 16, Kernel, Stride(16), 1)
		w.run(second)
		target := w.nodes[0].ring.Target()
		pings, asks := 0, 0
		w.lost = func(from, to Node, msg *Msg) bool {
			switch {
			case from != 0 || msg.Of != target:
				return false
			case msg.Kind == Ping:
				pings++
				return c.direct == 0 || pings%c.direct != 0
			}
			asks++
			return c.asks == 0 || asks%c.asks != 0
		}
		w.run(3 * second)
		if len(w.accused) != c.wrong || pings < 20 && c.wrong == 0 || asks < 3 {
			t.Errorf("%s: %d pings, %d requests, accused %+v, want %d", c.name, pings, asks, w.accused, c.wrong)
		}
	}
}

// TestSuspectIsNoVerdict: the end of a connection starts the verification at once. It is over in the time to verify if
// the member is dead, and without consequence if it lives.
func TestSuspectIsNoVerdict(t *testing.T) {
	t.Parallel()
	for _, tier := range []Tier{Kernel, Process, User} {
		for _, dead := range []bool{false, true} {
			for _, target := range []bool{false, true} {
				w := newWorld(t, 16, tier, Stride(16), 1)
				w.run(second)
				p := w.nodes[0].ring.Target()
				if !target {
					p = (p + 1) % 16
				}
				if dead {
					w.kill(p)
				}
				at := w.now
				w.step(0, Event{Kind: Suspect, From: p, Inc: 1})
				w.step(0, Event{Kind: Suspect, From: p, Inc: 2})
				w.step(0, Event{Kind: Suspect, From: 0, Inc: 1})
				if !w.nodes[0].ring.Suspects() {
					t.Fatal("no suspicion is open")
				}
				w.run(w.timing.Verify + millisecond)
				switch {
				case dead && (len(w.accused) != 1 || w.lastToKnow(p)-at > w.timing.Verify+millisecond):
					t.Errorf("tier %d, dead: %+v", tier, w.accused)
				case !dead && (len(w.accused) > 0 || w.nodes[0].ring.Suspects()):
					t.Errorf("tier %d, alive: %+v", tier, w.accused)
				}
			}
		}
	}
}

// TestTwoConnectionsEnd: the target and a member before it are dead, and one between them lives. Its answer ends the
// verification of the window, and not that of the other member whose connection has ended.
func TestTwoConnectionsEnd(t *testing.T) {
	t.Parallel()
	for _, targetFirst := range []bool{false, true} {
		w := newWorld(t, 16, Kernel, 1, 1)
		w.run(second)
		dead := []Node{15, 13}
		w.kill(dead...)
		if !targetFirst {
			slices.Reverse(dead)
		}
		at := w.now
		for _, p := range dead {
			w.step(0, Event{Kind: Suspect, From: p, Inc: 1})
		}
		w.run(w.timing.Verify + millisecond)
		if took := w.lastToKnow(dead...) - at; took > w.timing.Verify+millisecond || len(w.wrong()) > 0 {
			t.Errorf("target first %v: all know after %d us, %+v", targetFirst, took/1000, w.accused)
		}
	}
}

// TestDaemonEnds: a kernel that answers proves the end of its daemon, at the next ping or at once after the end of a
// connection.
func TestDaemonEnds(t *testing.T) {
	t.Parallel()
	for _, news := range []bool{false, true} {
		w := newWorld(t, 16, Kernel, Stride(16), 1)
		w.run(second)
		w.nodes[5].ended = true
		at := w.now
		most := w.timing.Period + millisecond
		if news {
			w.step(2, Event{Kind: Suspect, From: 5, Inc: 1})
			most = millisecond
		}
		w.run(second)
		if took := w.lastToKnow(5) - at; took > most || len(w.accused) != 1 || w.accused[0].why != DaemonDead {
			t.Errorf("with news %v: all know after %d us, want at most %d; %+v", news, took/1000, most/1000, w.accused)
		}
	}
}

// TestHungIsNotStarved: a daemon whose tick stands still for ten seconds hangs, unless its kernel says that it is
// starved. Then it is waited for.
func TestHungIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, starved := range []bool{false, true} {
		w := newWorld(t, 16, Kernel, Stride(16), 1)
		w.run(second)
		w.nodes[5].starved = starved
		w.pause(5, 60*second, false)
		w.run(9 * second)
		if len(w.accused) > 0 {
			t.Fatalf("starved %v: accused after nine seconds: %+v", starved, w.accused)
		}
		w.run(50 * second)
		switch {
		case starved && len(w.accused) > 0:
			t.Errorf("a starved daemon is accused: %+v", w.accused)
		case !starved && (len(w.accused) != 1 || w.accused[0].why != DaemonHung || w.accused[0].at > 12*second):
			t.Errorf("a daemon that hangs: %+v", w.accused)
		}
	}
}

// TestObserverPausedLong: an observer that stood still for a minute takes no answer from before for a daemon that hangs.
func TestObserverPausedLong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(50)) {
		w := newWorld(t, 8, Kernel, Stride(8), seed)
		w.latency = func(_, _ Node) int64 { return 1 + w.rng.Int64N(4*millisecond) }
		w.run(second + w.rng.Int64N(100*millisecond))
		v := Node(seed % 8)
		w.nodes[v].starved = true // or its own observer would say that it hangs
		w.pause(v, 60*second, seed%2 == 0)
		if seed%2 == 0 {
			w.fencing = false // the others accuse a machine that stands still for a minute
		}
		w.run(70 * second)
		for _, a := range w.accused {
			if a.by == v {
				t.Fatalf("seed %d: the member that stood still accuses: %+v", seed, a)
			}
		}
	}
}

// TestLateVerification: an observer that stands still during a verification gives the pings that it sends behind that as much
// time to be answered as it stood still.
func TestLateVerification(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 4, Stride: 1, Timing: TimingOf(Kernel, 100*millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(Event{Kind: Start}, nil)
	m.Step(Event{Kind: Suspect, Now: millisecond, From: 2, Inc: 1}, nil) // its first pings are lost
	const still, way = 9 * millisecond, 5 * millisecond                  // the verification would be over after 10 ms
	pings := 0
	step := func(now int64) {
		for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
			switch {
			case a.Kind == Accuse:
				t.Fatalf("after %d us: %+v, want nobody accused before answers can come", now/1000, a)
			case a.Kind == Send && a.To == 2 && a.Msg.Kind == Ping:
				pings++
			}
		}
	}
	now := millisecond + still
	for step(now); now < millisecond+still+way; {
		now = min(m.Due(), millisecond+still+way)
		step(now)
	}
	if pings < 17 {
		t.Errorf("%d pings have gone out, want almost 20: they were due", pings)
	}
	answer := Reply(&Msg{Kind: Ping, For: 0, Of: 2, At: millisecond + still}, Status{Inc: 1, Tick: 1})
	m.Step(Event{Kind: Recv, Now: now, From: 2, Msg: answer}, nil)
	if m.Suspects() {
		t.Error("a member that has answered is suspected")
	}
	m.Step(Event{Kind: Suspect, Now: now, From: 2, Inc: 1}, nil)
	for end := now + 30*millisecond; ; now = m.Due() { // nothing is lost by that: a dead member is accused in time
		if slices.ContainsFunc(m.Step(Event{Kind: Tick, Now: now}, nil), func(a Action) bool { return a.Kind == Accuse && a.To == 2 }) {
			return
		}
		if m.Due() > end {
			t.Fatal("member 2, which does not answer, is not accused")
		}
	}
}

// TestLateJudgment: a suspect has time to answer the pings of an observer that stood still, whatever event the observer handles
// first. A suspect that is dead is accused all the same.
func TestLateJudgment(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]Event{
		"time":               {{Kind: Tick}},
		"a connection":       {{Kind: Suspect, From: 2, Inc: 1}},
		"deaths of a window": {{Kind: PeerFailed, From: 7, Inc: 1}, {Kind: PeerFailed, From: 6, Inc: 1}, {Kind: PeerFailed, From: 5, Inc: 1}, {Kind: PeerFailed, From: 4, Inc: 1}},
		"a restart":          {{Kind: Recv, From: 7, Msg: Reply(&Msg{Kind: Ping, For: 0, Of: 7, At: millisecond}, Status{Inc: 2})}, {Kind: Suspect, From: 3, Inc: 1}},
	} {
		t.Run(name, func(t *testing.T) { testLateJudgment(t, events) })
	}
}

func testLateJudgment(t *testing.T, events []Event) {
	m, err := New(Config{N: 8, Stride: 1, Timing: TimingOf(Kernel, 100*millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	accuses := func(ev Event) bool {
		return slices.ContainsFunc(m.Step(ev, nil), func(a Action) bool { return a.Kind == Accuse && a.To == 1 })
	}
	accuses(Event{Kind: Start})
	accuses(Event{Kind: Suspect, Now: millisecond, From: 1, Inc: 1})
	accuses(Event{Kind: Suspect, Now: millisecond, From: 7, Inc: 1}) // the target
	late := 15 * millisecond                                         // the verifications would be over after 11 ms
	for _, ev := range events {
		if ev.Now = late; accuses(ev) {
			t.Errorf("a member is accused that was pinged once, want as many pings as others get")
		}
	}
	for now := late; ; now = max(now, m.Due()) { // after some of the events, the observer is late for more
		switch accused := accuses(Event{Kind: Tick, Now: now}); {
		case accused && now < late+5*millisecond:
			t.Fatalf("a member is accused %d us after its pings, want more time", (now-late)/1000)
		case accused:
			return
		case now > late+30*millisecond:
			t.Fatal("a member that does not answer is not accused")
		}
	}
}

// TestAlwaysLate: an observer that gets a processor only every 130 ms still finds a death.
func TestAlwaysLate(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 4, Stride: 1, Timing: TimingOf(Kernel, 100*millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(Event{Kind: Start}, nil)
	var accused []Action
	now, answers := int64(0), []Msg{}
	for range 60 {
		now += 130 * millisecond
		for i := range answers { // it drains its sockets first
			m.Step(Event{Kind: Recv, Now: now, From: 3, Msg: answers[i]}, nil)
		}
		answers = answers[:0]
		for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
			switch {
			case a.Kind == Accuse:
				accused = append(accused, a)
			case a.To == 3 && now < 5*second:
				answers = append(answers, Reply(&a.Msg, Status{Inc: 1, Tick: uint32(now)}))
			}
		}
		if now < 5*second && len(accused) > 0 {
			t.Fatalf("after %d ms: %+v, want nobody accused while answers come", now/millisecond, accused)
		}
	}
	if !slices.ContainsFunc(accused, func(a Action) bool { return a.To == 3 && a.Reason == Silent }) {
		t.Errorf("accused %+v, want member 3", accused)
	}
}

// TestIncarnations: an answer of an earlier incarnation counts for nothing, one of a later incarnation proves the death of
// the watched one; the successor is watched when it has joined.
func TestIncarnations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, Kernel, Stride(8), 1)
	w.run(second)
	w.nodes[3].inc = 2 // it has been started again, and nobody has heard of it
	w.boot(3, Config{N: 8, Me: 3, Incs: []uint32{1, 1, 1, 2, 1, 1, 1, 1}, Stride: Stride(8), Timing: w.timing})
	w.run(second)
	if len(w.accused) != 1 || w.accused[0].why != Restarted {
		t.Fatalf("accused %+v, want incarnation 1 of 3, because it is restarted", w.accused)
	}
	observer := w.accused[0].by
	if m := w.nodes[observer].ring; m.Target() == 3 {
		t.Fatalf("member %d watches 3, which is dead", observer)
	}
	for v := range w.nodes {
		if v != 3 {
			w.step(Node(v), Event{Kind: PeerJoined, From: 3, Inc: 2})
		}
	}
	if m := w.nodes[observer].ring; m.Target() != 3 {
		t.Errorf("member %d watches %d, want 3, which has joined", observer, m.Target())
	}
	w.run(second)
	w.kill(3)
	w.run(second)
	if last := w.accused[len(w.accused)-1]; len(w.accused) != 2 || last.of != 3 || last.by != observer {
		t.Errorf("accused %+v, want incarnation 2 of 3, too", w.accused)
	}
	m := w.nodes[observer].ring
	m.Step(Event{Kind: PeerJoined, Now: w.now, From: 3, Inc: 4}, nil)
	old := Msg{Kind: Answer, For: observer, Of: 3, At: w.now, Status: Status{Inc: 3}}
	if out := m.Step(Event{Kind: Recv, Now: w.now, From: 3, Msg: old}, nil); len(out) > 0 || m.trips.count > 0 {
		t.Errorf("an answer of incarnation 3 of 3, which is now 4, counts: %+v", out)
	}
}

// TestAlone: the last survivor watches nobody, and begins again when another joins.
func TestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Kernel, Stride(3), 1)
	w.run(second)
	w.kill(1, 2)
	w.run(second)
	m := w.nodes[0].ring
	if m.Target() != None || m.Due() != Never || len(w.accused) != 2 {
		t.Fatalf("target %d, due %d, accused %+v; want nobody left to watch", m.Target(), m.Due(), w.accused)
	}
	out := m.Step(Event{Kind: PeerJoined, Now: w.now, From: 1, Inc: 2}, nil)
	if m.Target() != 1 || m.Due() == Never || len(out) != 1 {
		t.Errorf("member 1 has joined: target %d, due %d, %+v", m.Target(), m.Due(), out)
	}
	one, err := New(Config{N: 1, Stride: 1, Timing: w.timing})
	if err != nil {
		t.Fatal(err)
	}
	if out := one.Step(Event{Kind: Start}, nil); len(out) > 0 || one.Due() != Never {
		t.Errorf("a ring of one: %+v, due %d", out, one.Due())
	}
}

// TestReporterDies: error 7 of docs/detection.md. The observer that has accused dies before a copy of its report has
// left. Its own observer finds it, and then the first one.
func TestReporterDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 32, Kernel, Stride(32), 1)
	w.run(second)
	observer := Node(-1)
	for v := range w.nodes {
		if w.nodes[v].ring.Target() == 9 {
			observer = Node(v)
		}
	}
	w.kill(9)
	died := w.now
	for len(w.accused) == 0 {
		if next := w.queue[0]; next.kind == timer && next.to == observer && w.nodes[observer].ring.Suspects() && next.at-died > w.timing.Margin {
			w.kill(observer) // at the latest moment at which nobody knows
		}
		w.run(w.queue[0].at - w.now)
		if w.now-died > second {
			t.Fatal("no one is accused")
		}
	}
	w.run(second)
	took := w.lastToKnow(9, observer) - died
	if most := 2*(w.timing.Period+w.timing.Margin) + 2*w.timing.Verify + millisecond; took > most || len(w.wrong()) > 0 {
		t.Errorf("all know after %d us, want at most %d; %+v", took/1000, most/1000, w.accused)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{N: 8, Stride: 5, Timing: TimingOf(User, 1)}
	for name, change := range map[string]func(*Config){
		"none":     func(c *Config) { c.N = 0 },
		"me":       func(c *Config) { c.Me = 8 },
		"stride":   func(c *Config) { c.Stride = 4 },
		"stride 0": func(c *Config) { c.Stride = 0 },
		"incs":     func(c *Config) { c.Incs = []uint32{1} },
		"period":   func(c *Config) { c.Timing.Period = 0 },
		"probes":   func(c *Config) { c.Timing.Probes = 0 },
		"window":   func(c *Config) { c.Timing.Window = 0 },
		"verify":   func(c *Config) { c.Timing.Verify = 3 },
	} {
		c := good
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, ErrConfig)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// TestPatience: the deadline follows round trips, and one long one does not spoil it.
func TestPatience(t *testing.T) {
	t.Parallel()
	var quick, slow, once trips
	for i := range int64(200) {
		quick.add(40_000+i%2*10_000, 120*millisecond)
		slow.add(10*millisecond+i%2*20*millisecond, 120*millisecond)
		once.add(40_000, 120*millisecond)
	}
	once.add(60*second, 120*millisecond)
	for _, c := range []struct {
		name      string
		trips     *trips
		low, high int64
	}{
		{"quick", &quick, 20 * millisecond, 21 * millisecond},
		{"slow", &slow, 55 * millisecond, 65 * millisecond}, // mean 20 ms, four times 10 ms
		{"once", &once, 20 * millisecond, 70 * millisecond},
	} {
		if p := c.trips.patience(20 * millisecond); p < c.low || p > c.high {
			t.Errorf("%s: %d us, want %d to %d", c.name, p/1000, c.low/1000, c.high/1000)
		}
	}
}
