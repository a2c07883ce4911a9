package ring

import "testing"

// cut loses what two members send each other; oneWay only what the first one sends.
func (w *world) cut(a, b Node, oneWay bool) {
	w.lost = func(from, to Node, _ *Msg) bool { return from == a && to == b || !oneWay && from == b && to == a }
}

// TestBrokenWay: a member that cannot talk to its target, which others can, says so once, and accuses nobody.
func TestBrokenWay(t *testing.T) {
	t.Parallel()
	for _, tier := range []Tier{Kernel, Process, User} {
		for n := 3; n <= 20; n++ {
			for _, oneWay := range []bool{false, true} {
				w := newWorld(t, n, tier, Stride(n), uint64(n))
				w.run(second)
				target := w.nodes[0].ring.Target()
				at := w.now
				w.cut(target, 0, oneWay)
				w.run(20 * second)
				if len(w.unreached) != 1 || len(w.accused) > 0 {
					t.Fatalf("tier %d, %d members, one way %v: %+v, accused %+v; want 0 not to reach %d", tier, n, oneWay, w.unreached, w.accused, target)
				}
				x := w.unreached[0]
				most := w.timing.Period + w.timing.Margin + w.timing.Verify + w.timing.Direct + 2*w.timing.Direct/directPings
				if took := x.at - at; x.by != 0 || x.of != target || took < w.timing.Direct || took > most {
					t.Errorf("tier %d, %d members, one way %v: %+v after %d ms, want 0 not to reach %d after %d ms at most",
						tier, n, oneWay, x, took/millisecond, target, most/millisecond)
				}
			}
		}
	}
}

// TestBrokenWayOfConnection: the same of a member that is watched by another one, after the end of a connection.
func TestBrokenWayOfConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, Kernel, 1, 1)
	w.cut(0, 3, false)
	w.run(10 * second)
	if len(w.unreached) > 0 {
		t.Fatalf("%+v before anybody has asked", w.unreached)
	}
	w.step(0, Event{Kind: Suspect, From: 3, Inc: 1})
	w.run(10 * second)
	if len(w.unreached) != 1 || w.unreached[0].by != 0 || w.unreached[0].of != 3 || len(w.accused) > 0 {
		t.Errorf("%+v, accused %+v, want 0 not to reach 3", w.unreached, w.accused)
	}
}

// TestWayIsBack: a way that works again in time, and one that loses some messages, are no broken ones.
func TestWayIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, Kernel, Stride(8), 1)
	w.run(second)
	target := w.nodes[0].ring.Target()
	for range 3 {
		w.cut(0, target, false)
		w.run(w.timing.Direct - 50*millisecond)
		if len(w.nodes[0].ring.detours) != 1 {
			t.Fatalf("detours %+v, want one", w.nodes[0].ring.detours)
		}
		w.lost = func(_, _ Node, _ *Msg) bool { return false }
		w.run(second)
	}
	w.lost = func(from, to Node, _ *Msg) bool {
		return (from == 0 && to == target || from == target && to == 0) && w.rng.IntN(10) < 3
	}
	w.run(1000 * second)
	w.lost = func(_, _ Node, _ *Msg) bool { return false }
	w.run(second)
	if len(w.unreached) > 0 || len(w.accused) > 0 || len(w.nodes[0].ring.detours) > 0 {
		t.Errorf("%+v, accused %+v, detours %+v, want none", w.unreached, w.accused, w.nodes[0].ring.detours)
	}
}

// TestEndBehindBrokenWay: a member that dies while it answers by way of others is accused, and not unreached later.
func TestEndBehindBrokenWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, Kernel, Stride(8), 1)
	w.run(second)
	target := w.nodes[0].ring.Target()
	w.cut(0, target, false)
	w.run(second)
	w.kill(target)
	w.run(10 * second)
	if len(w.unreached) > 0 || len(w.accused) != 1 {
		t.Errorf("%+v, accused %+v, want %d accused", w.unreached, w.accused, target)
	}
}

// TestSecondAnswer: the direct answer to a ping that others have brought an answer to already shows that the way works.
func TestSecondAnswer(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	now := until(t, m)
	m.Step(Event{Kind: Recv, Now: now + 1, From: 3, Msg: Msg{Kind: Answer, Of: 7, At: now, Status: Status{Inc: 1}}}, nil)
	if len(m.detours) != 1 {
		t.Fatalf("detours %+v, want one", m.detours)
	}
	if answer(m, now+2, now, 7); len(m.detours) > 0 {
		t.Errorf("detours %+v, want none", m.detours)
	}
}

// TestDetours: what opens a detour, what a member does then that stands still, and what ends it.
func TestDetours(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 8, Stride: 1, Timing: TimingOf(Kernel, 5*second)}) // no regular ping is due in between
	if err != nil {
		t.Fatal(err)
	}
	m.Step(Event{Kind: Start}, nil)
	relayed := func(now, at int64) {
		m.Step(Event{Kind: Recv, Now: now, From: 3, Msg: Msg{Kind: Answer, Of: 7, At: at, Status: Status{Inc: 1}}}, nil)
	}
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	if relayed(5, 0); len(m.detours) > 0 {
		t.Fatal("an answer by way of another member opens a detour to one that is not suspected")
	}
	now := until(t, m)
	relayed(now, now)
	next := now + m.shared.timing.Direct/directPings
	if m.Due() > next {
		t.Errorf("due %d, want %d at the latest", m.Due(), next)
	}
	if len(m.detours) != 1 || m.detours[0].next != next {
		t.Fatalf("detours %+v, due %d, want a ping at %d", m.detours, m.Due(), next)
	}
	for range 3 {
		now += 20 * second
		for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
			if a.Kind == Unreached {
				t.Fatal("a member that stood still takes the time for pings")
			}
		}
	}
	m.Step(Event{Kind: PeerFailed, Now: now, From: 7, Inc: 1}, nil)
	if len(m.detours) > 0 {
		t.Error("a detour to a dead member is left")
	}
}
