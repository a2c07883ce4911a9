//go:build linux

package kernel

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

const poll = 20 * time.Millisecond

// TestHangs: the iterator of the kernel and /proc alike report what keeps a process from running,
// and when that ends. It is no death.
func TestHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, w *Watch, l *log) *victim
		want []Kind
	}{
		{"stopped", stopped, []Kind{Stopped, Continued}},
		{"stuck", stuck, []Kind{Stuck, Running}},
		{"starved", starved, []Kind{Starved, Running}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, tier := range []Tier{BPF, PIDFD} {
				t.Run(tier.String(), func(t *testing.T) {
					w, l := open(t, Config{Tier: tier, Poll: poll})
					v := c.run(t, w, l)
					xunix.Kill(v.pid(), syscall.SIGKILL)
					dead, _ := l.awaitEnd(t, 1)
					wantStatus(t, dead, v.reap())
					if got := hangs(l.of(1), c.want[0]); !slices.Equal(got, c.want) {
						t.Errorf("got reports %v, want %v", got, c.want)
					}
				})
			}
		})
	}
}

// hangs returns the reports of the first hang of a kind. On a busy machine any process may be
// starved as well, and more than once.
func hangs(all []Report, kind Kind) (out []Kind) {
	busy := false
	for _, r := range all {
		switch {
		case r.Kind == Dead, len(out) == 2 && kind == Starved:
			return out
		case r.Kind == Starved && kind != Starved:
			busy = true
		case r.Kind == Running && busy:
			busy = false
		default:
			out = append(out, r.Kind)
		}
	}
	return out
}

func stopped(t *testing.T, w *Watch, l *log) *victim {
	v := spawn(t, "threads", "3")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	xunix.Kill(v.pid(), syscall.SIGSTOP)
	l.await(t, 1, Stopped)
	xunix.Kill(v.pid(), syscall.SIGCONT)
	l.await(t, 1, Continued)
	return v
}

func stuck(t *testing.T, w *Watch, l *log) *victim {
	v := begin(t, "vfork")
	child := v.number()
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	l.await(t, 1, Stuck)
	xunix.Kill(child, syscall.SIGKILL)
	l.await(t, 1, Running)
	return v
}

// starved takes the processor from a process that wants one.
func starved(t *testing.T, w *Watch, l *log) *victim {
	v := spawn(t, "spin")
	feed := testenv.Starve(t, v.pid())
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	l.await(t, 1, Starved)
	feed()
	l.await(t, 1, Running)
	return v
}

// TestDiagnose: two samples of the threads of a process give the right diagnosis.
func TestDiagnose(t *testing.T) {
	at := func(state uint32, ran uint64) sample { return sample{thread: 1, state: state, ran: ran, switches: ran} }
	second := func(s sample) sample { s.thread = 2; return s }
	now := at(0, 5)
	now.running = true
	const d, stop = taskUninterruptible, taskStopped
	for i, c := range []struct {
		before, now []sample
		want        Kind
	}{
		{nil, nil, 0},
		{nil, []sample{at(0, 5)}, 0},
		{[]sample{at(0, 5)}, []sample{at(0, 5)}, Starved},
		{[]sample{at(0, 5)}, []sample{at(0, 6)}, 0},
		{[]sample{at(0, 5)}, []sample{now}, 0},
		{[]sample{at(1, 5)}, []sample{at(1, 5)}, 0},
		{[]sample{at(1, 5)}, []sample{at(0, 5)}, 0}, // woken just now
		{[]sample{at(0, 5), second(at(0, 5))}, []sample{at(0, 5), second(at(0, 6))}, 0},
		{[]sample{at(0, 5)}, []sample{at(0, 5), second(at(0, 6))}, 0},
		{[]sample{at(0, 5), second(at(1, 5))}, []sample{at(0, 5), second(at(1, 5))}, Starved},
		{nil, []sample{at(d, 5)}, 0},
		{[]sample{at(d, 5)}, []sample{at(d, 5)}, Stuck},
		{[]sample{at(d, 5)}, []sample{at(d, 6)}, 0},
		{[]sample{at(0x2102, 5), second(at(0, 5))}, []sample{at(0x2102, 5), second(at(0, 6))}, Stuck},
		{[]sample{at(d|taskNoLoad, 5)}, []sample{at(d|taskNoLoad, 5)}, 0},
		{[]sample{at(taskFrozen, 5)}, []sample{at(taskFrozen, 5)}, Stuck},
		{nil, []sample{at(0x104, 5)}, Stopped},
		{nil, []sample{at(taskTraced, 5)}, Stopped},
		{nil, []sample{at(stop, 5), second(at(1, 5))}, 0},
		{nil, []sample{at(stop, 5), second(at(stop, 5))}, Stopped},
	} {
		if got := diagnose(c.before, c.now); got != c.want {
			t.Errorf("case %d: diagnose(%+v, %+v) = %v, want %v", i, c.before, c.now, got, c.want)
		}
	}
}

func TestTransition(t *testing.T) {
	for _, c := range [][4]Kind{
		{0, 0, 0, 0},
		{0, Stuck, 0, Stuck},
		{Stuck, Stuck, 0, 0},
		{Stuck, 0, Running, 0},
		{Stopped, 0, Continued, 0},
		{Stopped, Starved, Continued, Starved},
		{Starved, Stopped, Running, Stopped},
	} {
		if end, begin := transition(c[0], c[1]); end != c[2] || begin != c[3] {
			t.Errorf("transition(%v, %v) = %v, %v, want %v, %v", c[0], c[1], end, begin, c[2], c[3])
		}
	}
}

// TestHealthy: processes that sleep, compute or wait for each other are not reported.
func TestHealthy(t *testing.T) {
	w, l := open(t, Config{Tier: PIDFD, Poll: time.Second})
	v := spawn(t, "threads", "3")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		churn := spawn(t, "churn", "1000")
		if err := w.Add(churn.pid(), 2+uint64(i)); err != nil {
			t.Fatal(err)
		}
		churn.act()
		churn.ready()
		churn.act()
		l.awaitEnd(t, 2+uint64(i))
		churn.reap()
	}
	for _, r := range l.every() {
		if r.Kind != Dead && r.Kind != Released {
			t.Errorf("got report %+v of a healthy process", r)
		}
	}
}
