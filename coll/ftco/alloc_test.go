package ftco

import "testing"

// fleet runs collectives without failures and delivers messages in the order in which they were
// sent.
type fleet struct {
	machines  []*Machine
	queue     []letter
	out       []Action
	delivered int
}

type letter struct {
	from, to Node
	msg      Msg
}

func newFleet(tb testing.TB, n, k int) *fleet {
	tb.Helper()
	f := &fleet{queue: make([]letter, 0, 4*n), out: make([]Action, 0, n+8)}
	for p := range n {
		m, err := New(Config{N: n, Me: p, Radix: k})
		if err != nil {
			tb.Fatal(err)
		}
		f.machines = append(f.machines, m)
	}
	return f
}

func (f *fleet) step(p Node, ev Event) {
	f.out = f.machines[p].Step(ev, f.out[:0])
	for _, a := range f.out {
		switch a.Kind {
		case Send:
			f.queue = append(f.queue, letter{p, a.To, a.Msg})
		case Deliver:
			f.delivered++
		}
	}
}

// run runs one operation and returns the number of messages.
func (f *fleet) run(call Call) int {
	f.queue, f.delivered = f.queue[:0], 0
	for p := range f.machines {
		f.step(Node(p), Event{Kind: Enter, Call: call})
	}
	for i := 0; i < len(f.queue); i++ {
		x := f.queue[i]
		f.step(x.to, Event{Kind: Recv, From: x.from, Msg: x.msg})
	}
	return len(f.queue)
}

// TestCostWithoutFailures counts messages and allocations: one contribution up and one decision
// down each edge, and nothing else. Only a uniform call has two more sweeps.
func TestCostWithoutFailures(t *testing.T) {
	const n = 50
	for _, c := range []struct {
		call  Call
		every int // this many times the edges in each call
		extra int // plus this many times in each syncEvery calls
	}{
		{Call{Kind: Allreduce}, 2, 0},
		{Call{Kind: Barrier}, 2, 0},
		{Call{Kind: Reduce, Root: 7}, 2, 0},
		{Call{Kind: Bcast, Root: 7}, 1, 1},
		{Call{Kind: Allreduce, Uniform: true}, 4, 0},
	} {
		f := newFleet(t, n, 3)
		got := 0
		calls := 4 * syncEvery
		for range calls {
			got += f.run(c.call)
			if f.delivered != n {
				t.Fatalf("%+v: %d members returned, want %d", c.call, f.delivered, n)
			}
		}
		if want := (n - 1) * (calls*c.every + 4*c.extra); got != want {
			t.Errorf("%+v: %d messages, want %d", c.call, got, want)
		}
		if a := testing.AllocsPerRun(20, func() { f.run(c.call) }); a != 0 {
			t.Errorf("%+v: %v allocations an operation among %d, want none", c.call, a, n)
		}
	}
}

func BenchmarkAllreduce(b *testing.B) {
	f := newFleet(b, 64, 4)
	b.ReportAllocs()
	for b.Loop() {
		f.run(Call{Kind: Allreduce})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/member")
}
