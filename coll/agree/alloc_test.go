package agree

import "testing"

// mail delivers messages without allocating.
type mail struct {
	machines []*Machine
	queue    []letter
	out      []Action
	returned int
}

type letter struct {
	from, to Node
	msg      Msg
}

func (m *mail) step(p Node, ev Event) {
	m.out = m.machines[p].Step(ev, m.out[:0])
	for i := range m.out {
		switch a := &m.out[i]; a.Kind {
		case Send:
			m.queue = append(m.queue, letter{p, a.To, a.Msg})
		case Deliver:
			m.returned++
		}
	}
}

// agree runs one agreement of the living members.
func (m *mail) agree() {
	m.queue, m.returned = m.queue[:0], 0
	for p := range m.machines {
		if m.machines[p] != nil {
			m.step(Node(p), Event{Kind: Enter, Vote: Vote{Flags: 7}})
		}
	}
	for i := 0; i < len(m.queue); i++ {
		if l := &m.queue[i]; m.machines[l.to] != nil {
			m.step(l.to, Event{Kind: Recv, From: l.from, Msg: l.msg})
		}
	}
}

// TestStepAllocatesNothing: steps do not allocate as long as no member dies. Then all members know
// the same dead: two-phase commit shares its lists of them, and a rebalanced tree of the
// early-returning agreement has none.
func TestStepAllocatesNothing(t *testing.T) {
	const n = 16
	for _, c := range configs(n, 2) {
		c.Combine = Sum
		m := &mail{}
		for p := range n {
			c.Me = p
			machine, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			m.machines = append(m.machines, machine)
		}
		for _, alive := range []int{n, n - 1} {
			if alive < n && c.Algorithm == EarlyReturning && !c.Rebalance {
				continue // a collective makes its lists anew each time
			}
			for range 20 {
				m.agree() // fills the lists that are kept for a recent round
			}
			if got := testing.AllocsPerRun(20, m.agree); got != 0 || m.returned != alive {
				t.Errorf("%s, %d of %d alive: %.0f allocations and %d returns in an agreement, want 0 and %d", nameOf(c), alive, n, got, m.returned, alive)
			}
			m.machines[4] = nil
			for p, machine := range m.machines {
				if machine != nil {
					m.step(Node(p), Event{Kind: PeerFailed, From: 4, Inc: 1})
				}
			}
		}
	}
}
