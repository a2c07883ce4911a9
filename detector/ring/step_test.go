package ring

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/detector/bmg"
)

// Tests of single steps, without a world.

// newMachine0 returns member 0 of n in a plain ring, which has begun at 0. Its target is n-1.
func newMachine0(tb testing.TB, n int, tier Tier) *Machine {
	tb.Helper()
	m, err := New(Config{N: n, Stride: 1, Timing: TimingOf(tier, 100*millisecond)})
	if err != nil {
		tb.Fatal(err)
	}
	m.Step(Event{Kind: Start}, nil)
	return m
}

// answer lets member 0 have an answer to a ping that it has sent at a time.
func answer(m *Machine, now, at int64, of Node) []Action {
	return m.Step(Event{Kind: Recv, Now: now, From: of, Msg: Msg{Kind: Answer, Of: of, At: at, Status: Status{Inc: 1, Tick: uint32(at)}}}, nil)
}

// until gives ticks in time until a suspicion is open, and returns when that was.
func until(tb testing.TB, m *Machine) int64 {
	tb.Helper()
	for range 100 {
		now := m.Due()
		if m.Step(Event{Kind: Tick, Now: now}, nil); m.Suspects() {
			return now
		}
	}
	tb.Fatal("the target does not become suspect")
	return 0
}

// TestNewsOfTheTarget: an observer whose target is reported by others turns to the next member at once.
func TestNewsOfTheTarget(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	out := m.Step(Event{Kind: PeerFailed, Now: 10, From: 7, Inc: 1}, nil)
	if m.Target() != 6 || len(out) != 1 || out[0].Kind != Send || out[0].To != 6 || out[0].Msg.Kind != Ping {
		t.Errorf("target %d, %+v; want a ping to 6", m.Target(), out)
	}
	if m.Step(Event{Kind: PeerFailed, Now: 20, From: 3, Inc: 1}, nil); m.Target() != 6 {
		t.Errorf("target %d after the death of 3, want 6", m.Target())
	}
}

// TestTargetJoins: what is known of an incarnation says nothing of the next one.
func TestTargetJoins(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	answer(m, 50, 0, 7)
	if !m.known || m.trips.count != 1 {
		t.Fatalf("known %v, %v round trips, want one", m.known, m.trips.count)
	}
	out := m.Step(Event{Kind: PeerJoined, Now: 60, From: 7, Inc: 2}, nil)
	if m.known || m.trips.count != 0 || m.Target() != 7 || len(out) != 1 {
		t.Errorf("known %v, %v round trips, target %d, %+v; want a ping to 7 as to a new one", m.known, m.trips.count, m.Target(), out)
	}
}

// TestLateObserver: an observer that looks late at a deadline grants the same time again, at most the margin, and once.
func TestLateObserver(t *testing.T) {
	t.Parallel()
	for _, late := range []int64{5 * millisecond, 60 * millisecond} {
		m := newMachine0(t, 8, Kernel)
		m.Step(Event{Kind: Tick, Now: 0}, nil)
		now := m.deadline + late
		if m.Step(Event{Kind: Tick, Now: now}, nil); m.Suspects() {
			t.Fatalf("%d ms late: suspects at once", late/millisecond)
		}
		if want := now + min(late, 20*millisecond); m.deadline != want {
			t.Errorf("%d ms late at %d us: deadline %d, want %d us", late/millisecond, now/1000, m.deadline/1000, want/1000)
		}
		if m.Step(Event{Kind: Tick, Now: m.deadline + late}, nil); !m.Suspects() {
			t.Errorf("%d ms late twice: does not suspect", late/millisecond)
		}
	}
}

// TestLateObserverOfSlowTarget: an observer that is late for each ping suspects a daemon that answers for itself, and is
// dead, hardly later than one that is in time.
func TestLateObserverOfSlowTarget(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, User)
	for now := int64(0); !m.Suspects(); now = m.Due() + 90*millisecond {
		if now > 1200*millisecond {
			t.Fatalf("no suspicion after %d ms", now/millisecond)
		}
		m.Step(Event{Kind: Tick, Now: now}, nil)
	}
}

// TestMissedPings: an observer that stood still sends one ping for all that it has missed, and keeps to its period.
func TestMissedPings(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	answer(m, 50, 0, 7)
	out := m.Step(Event{Kind: Tick, Now: 1030 * millisecond}, nil)
	answer(m, 1030*millisecond+50, 1030*millisecond, 7)
	if len(out) != 1 || m.Due() != 1100*millisecond {
		t.Errorf("%+v, and the next ping at %d ms; want one ping, and the next at 1100", out, m.Due()/millisecond)
	}
}

// TestWaysOfAnswers: an answer by way of another member is no round trip.
func TestWaysOfAnswers(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	relayed := Msg{Kind: Answer, Of: 7, Status: Status{Inc: 1}}
	if m.Step(Event{Kind: Recv, Now: 5 * millisecond, From: 3, Msg: relayed}, nil); m.trips.count != 0 || !m.answered {
		t.Errorf("%v round trips, answered %v; want none, and an answer", m.trips.count, m.answered)
	}
}

// TestOldAnswer: an answer that has been had does not end a suspicion when it comes again.
func TestOldAnswer(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 5}, nil)
	answer(m, 50, 5, 7)
	now := until(t, m)
	if answer(m, now+10, 5, 7); !m.Suspects() {
		t.Error("the suspicion is over")
	}
	if answer(m, now+20, 100*millisecond, 7); m.Suspects() {
		t.Error("the late answer to the last ping does not end the suspicion")
	}
}

// TestSuspicions: one for each member, of its current incarnation, and none of the dead.
func TestSuspicions(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: PeerJoined, From: 2, Inc: 3}, nil)
	m.Step(Event{Kind: PeerFailed, From: 5, Inc: 1}, nil)
	for _, e := range []Event{{From: 2, Inc: 2}, {From: 2, Inc: 4}, {From: 5, Inc: 1}, {From: 0, Inc: 1}, {From: 9, Inc: 1}} {
		e.Kind = Suspect
		if m.Step(e, nil); m.Suspects() {
			t.Fatalf("%+v opens a suspicion", e)
		}
	}
	for range 2 {
		m.Step(Event{Kind: Suspect, From: 2, Inc: 3}, nil)
		m.Step(Event{Kind: Suspect, From: 3, Inc: 1}, nil)
		if len(m.probes) != 2 {
			t.Errorf("%d suspicions, want 2", len(m.probes))
		}
	}
}

// TestAnswerBeforeTheEnd: a member of the window that has answered is verified anew if a connection to it ends then.
func TestAnswerBeforeTheEnd(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	now := until(t, m)
	answer(m, now+millisecond, now, 6)
	end := m.probes[0].end
	m.Step(Event{Kind: Suspect, Now: now + 2*millisecond, From: 6, Inc: 1}, nil)
	var accused []Node
	for m.Due() <= end+5*millisecond {
		for _, a := range m.Step(Event{Kind: Tick, Now: m.Due()}, nil) {
			if a.Kind == Accuse {
				accused = append(accused, a.To)
			}
		}
	}
	if !slices.Equal(accused, []Node{7, 6}) || m.Target() != 5 {
		t.Errorf("accused %v, target %d, want 7 and 6 accused and 5 watched", accused, m.Target())
	}
}

// TestAccusesOnce: an accused member is dead for its observer at once, whether or not anybody reports it.
func TestAccusesOnce(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	now := until(t, m)
	answer(m, now, now, 6)
	var accused []Action
	for m.Due() < 10*second {
		now = m.Due()
		for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
			switch {
			case a.Kind == Accuse:
				accused = append(accused, a)
			case a.Msg.Kind == Ping && a.To == 6:
				answer(m, now, now, 6)
			}
		}
		if len(accused) > 0 && m.Target() != 6 {
			t.Fatalf("target %d after %+v, want 6", m.Target(), accused)
		}
	}
	if len(accused) != 1 || accused[0].To != 7 || accused[0].Inc != 1 || accused[0].Reason != Silent {
		t.Errorf("accused %+v, want 7 once", accused)
	}
}

// TestHelpers: members that are asked to ping a suspect live, are neighbors in the graph of reports, and are no suspects
// themselves. They take turns.
func TestHelpers(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 32, Kernel)
	for _, p := range []Node{16, 8, 24} {
		m.Step(Event{Kind: PeerFailed, From: p, Inc: 1}, nil)
	}
	m.Step(Event{Kind: Suspect, From: 4, Inc: 1}, nil)
	asked := map[Node]int{}
	for now := int64(0); now < 30*millisecond; now = max(m.Due(), now+1) {
		for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
			if a.Kind == Send && a.Msg.Kind == Ask {
				if asked[a.To]++; m.roster.IsDead(a.To) || a.To == a.Msg.Of || !slices.Contains(bmg.Offsets(32), a.To) ||
					a.Msg.Of == 4 && now < 20*millisecond && a.To == 4 {
					t.Errorf("%d is asked for %d", a.To, a.Msg.Of)
				}
			}
		}
	}
	if len(asked) < 3 {
		t.Errorf("asked %v, want several", asked)
	}
	for _, p := range []Node{8, 16, 24} {
		if asked[p] > 0 {
			t.Errorf("%d, which is dead, is asked", p)
		}
	}
}

// TestPauseIsGrantedOnce: a pause of the observer, while the target lives, does not put off the next deadline for as long again.
func TestPauseIsGrantedOnce(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	answer(m, 50, 0, 7)
	const pause = 60 * second
	m.Step(Event{Kind: Tick, Now: pause}, nil)
	answer(m, pause+50, pause, 7) // from now on it is dead
	if at := until(t, m); at > pause+130*millisecond {
		t.Errorf("suspected %d ms after the pause, want 120", (at-pause)/millisecond)
	}
}

// TestNoJudgmentBeforeAllIsRead: while an observer reads what has come, it accuses nobody of silence: the answer may be the next.
func TestNoJudgmentBeforeAllIsRead(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	m.Step(Event{Kind: Tick, Now: 0}, nil)
	answer(m, 50, 0, 7)
	for _, p := range []Node{1, 7} {
		m.Step(Event{Kind: Suspect, Now: millisecond, From: p, Inc: 1}, nil)
	}
	for m.Due() < 11*millisecond {
		m.Step(Event{Kind: Tick, Now: m.Due()}, nil)
	}
	now := 11*millisecond + millisecond/5
	for _, p := range []Node{7, 6, 5, 4} { // all of a window, so that the next one is opened
		dead := Msg{Kind: Answer, Of: p, At: millisecond, Status: Status{Inc: 1, DaemonDead: true}}
		for _, a := range m.Step(Event{Kind: Recv, Now: now, From: p, Msg: dead}, nil) {
			if a.Kind == Accuse && a.To == 1 {
				t.Error("a member is accused before its answer is read")
			}
		}
	}
	if m.Due() > now {
		t.Errorf("due in %d us, want at once: there is somebody to judge", (m.Due()-now)/1000)
	}
	answer(m, now, 10*millisecond, 1)
	for _, a := range m.Step(Event{Kind: Tick, Now: now}, nil) {
		if a.Kind == Accuse && a.To == 1 {
			t.Error("a member is accused that has answered")
		}
	}
}

// TestLateTwice: an observer that stands still a second time, when it has sent most of its pings late, excuses itself again.
func TestLateTwice(t *testing.T) {
	t.Parallel()
	m := newMachine0(t, 8, Kernel)
	accuses := func(ev Event) bool {
		return slices.ContainsFunc(m.Step(ev, nil), func(a Action) bool { return a.Kind == Accuse && a.To == 1 })
	}
	accuses(Event{Kind: Suspect, Now: millisecond, From: 1, Inc: 1})
	for _, now := range []int64{16, 31} { // the second time, it sent its pings a moment ago
		if accuses(Event{Kind: Tick, Now: now * millisecond}) {
			t.Fatalf("a member is accused after %d ms, a moment after its pings", now)
		}
	}
	for now := int64(46); ; now += 15 { // a third time it has no excuse
		if accuses(Event{Kind: Tick, Now: now * millisecond}) {
			return
		}
		if now > 100 {
			t.Fatal("a member that does not answer is not accused")
		}
	}
}
