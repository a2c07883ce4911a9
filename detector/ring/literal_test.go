package ring

import (
	"slices"
	"testing"
)

// literalWorld runs literal rings in virtual time. Messages take no time; reports reach all at once.
type literalWorld struct {
	all     []Literal
	dead    []bool
	now     int64
	accused []accusation
	lost    func(from, to Node) bool // of heartbeats
}

func newLiteralWorld(n int, runtime bool) *literalWorld {
	w := &literalWorld{
		all:  NewLiteral(LiteralConfig{N: n, Period: 100 * millisecond, Timeout: 200 * millisecond, Runtime: runtime}),
		dead: make([]bool, n), lost: func(_, _ Node) bool { return false },
	}
	for v := range w.all {
		w.step(Node(v), LiteralEvent{Kind: LiteralStart})
	}
	return w
}

func (w *literalWorld) step(v Node, ev LiteralEvent) {
	if w.dead[v] {
		return
	}
	ev.Now = w.now
	for _, a := range w.all[v].Step(ev, nil) {
		switch a.Kind {
		case SendHeartbeat:
			if !w.lost(v, a.To) {
				w.step(a.To, LiteralEvent{Kind: LiteralHeartbeat, From: v})
			}
		case SendRequest:
			w.step(a.To, LiteralEvent{Kind: LiteralRequest, From: v})
		case LiteralAccuse:
			w.accused = append(w.accused, accusation{by: v, of: a.To, at: w.now, truth: w.dead[a.To]})
			for u := range w.all {
				w.step(Node(u), LiteralEvent{Kind: LiteralReported, From: a.To})
			}
		}
	}
}

// run lets time pass, in steps of a millisecond.
func (w *literalWorld) run(d int64) {
	for end := w.now + d; w.now < end; w.now += millisecond {
		for v := range w.all {
			if w.all[v].Due() <= w.now {
				w.step(Node(v), LiteralEvent{Kind: LiteralTick})
			}
		}
	}
}

func (w *literalWorld) falsely() (n int) {
	seen := map[Node]bool{}
	for _, a := range w.accused {
		if !a.truth && !seen[a.of] {
			seen[a.of] = true
			n++
		}
	}
	return n
}

// TestLiteralMending: error 6. The paper's ring waits one timeout for each dead member in a row, the old runtime two.
// Ours: TestRuns, and the two rows here.
func TestLiteralMending(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runtime   bool
		f         int
		low, high int64 // ms
	}{
		{false, 1, 100, 205}, // section 4.5: between the period and the timeout after the last heartbeat
		{false, 16, 3100, 3230},
		{true, 16, 6100, 6220},
	} {
		w := newLiteralWorld(64, c.runtime)
		w.run(second)
		died := w.now
		for _, p := range contiguous(64, 20, c.f) {
			w.dead[p] = true
		}
		w.run(10 * second)
		took := (w.accused[len(w.accused)-1].at - died) / millisecond
		if len(w.accused) != c.f || took < c.low || took > c.high {
			t.Errorf("runtime %v, %d dead in a row: %d accused, the last after %d ms, want %d to %d", c.runtime, c.f, len(w.accused), took, c.low, c.high)
		}
	}
	w := newWorld(t, 64, Kernel, 1, 1)
	w.run(second)
	dead := contiguous(64, 20, 16)
	died := w.now
	w.kill(dead...)
	w.run(second)
	if took := (w.lastToKnow(dead...) - died) / millisecond; took > 151 {
		t.Errorf("16 dead in a row: all known after %d ms, want at most 151", took)
	}
}

// TestLiteralCascade: error 5. Two heartbeats in a row are lost. Nobody ends the one that is declared dead; it loses its
// own target to its accuser, declares that one dead, and so on around the ring. In ours the same losses are a suspicion
// that other ways end. If all ways are cut for as long as ours needs, one member is accused, and it ends.
func TestLiteralCascade(t *testing.T) {
	t.Parallel()
	l := newLiteralWorld(64, false)
	l.run(second)
	l.lost = func(from, to Node) bool { return from == 10 && to == 11 && l.now < 1300*millisecond }
	l.run(60 * second)
	if n := l.falsely(); n < 60 {
		t.Errorf("literal: %d of 64 living members are declared dead, want nearly all", n)
	}
	for _, all := range []bool{false, true} {
		w := newWorld(t, 64, Kernel, 1, 1)
		w.run(second)
		w.lost = func(from, to Node, msg *Msg) bool {
			return w.now < 1300*millisecond && (msg.Of == 10 && all || from == 11 && to == 10)
		}
		w.run(60 * second)
		want := 0
		if all {
			want = 1
		}
		if len(w.accused) != want {
			t.Errorf("all ways cut %v: %+v, want %d", all, w.accused, want)
		}
	}
}

// TestLiteralClockStep: error 9. A clock that is set, as gettimeofday's may be, makes every member declare its target
// dead. Ours want a clock that is not set; a driver that passes such a step on all the same gets a suspicion.
func TestLiteralClockStep(t *testing.T) {
	t.Parallel()
	l := newLiteralWorld(16, true)
	l.run(second)
	l.now += 10 * second
	l.run(millisecond)
	if n := l.falsely(); n == 0 {
		t.Error("literal: the clock was set by ten seconds, and nobody is declared dead")
	}
	w := newWorld(t, 16, Kernel, Stride(16), 1)
	w.run(second)
	for i := range w.queue { // what is on its way is so still
		w.queue[i].at += 10 * second
	}
	for i := range w.queue {
		if w.queue[i].kind == timer {
			w.queue[i].at = w.now + 10*second
		}
	}
	w.now += 10 * second
	w.run(10 * second)
	if len(w.accused) > 0 {
		t.Errorf("the clock was set by ten seconds: %+v", w.accused)
	}
}

// TestRuntimeLeavesOneOut: error 9. Member 0 is not in the old runtime's ring, so nobody learns of its death.
func TestRuntimeLeavesOneOut(t *testing.T) {
	t.Parallel()
	l := newLiteralWorld(8, true)
	l.run(second)
	l.dead[0] = true
	l.run(20 * second)
	if len(l.accused) > 0 {
		t.Errorf("runtime: %+v, want the death of 0 unseen", l.accused)
	}
	w := newWorld(t, 8, Kernel, Stride(8), 1)
	w.run(second)
	w.kill(0)
	w.run(second)
	w.lastToKnow(0)
}

// TestManyFailures: error 9. The old runtime's list of dead members had room for eight before it wrote beyond its end.
// Such a mistake cannot be made in Go; here is the ninth failure, and those after it.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 64, Kernel, Stride(64), 1)
	w.run(second)
	var dead []Node
	for p := Node(0); p < 60; p += 3 {
		dead = append(dead, p)
		w.kill(p)
		w.run(second)
	}
	w.lastToKnow(dead...)
	if len(w.accused) != len(dead) || len(w.wrong()) > 0 {
		t.Errorf("%d dead one by one: accused %+v", len(dead), w.accused)
	}
	if !slices.IsSortedFunc(w.accused, func(a, b accusation) int { return int(a.of - b.of) }) {
		t.Errorf("accused %+v, want them in the order of their deaths", w.accused)
	}
}
