package explore

import (
	"fmt"
	"slices"
	"testing"
)

// counters is a system of members with two processes each. Process 0 counts and tells the next member; process 1 counts what
// process 0 has counted.
type counters struct{ n, most int }

func (s *counters) N() int         { return s.n }
func (s *counters) Calls() int     { return 1 }
func (s *counters) String() string { return fmt.Sprintf("%d counters to %d", s.n, s.most) }

func (s *counters) Member(me int) (Member, error) { return &counter{sys: s, me: me}, nil }

// Check demands that counters that live have counted to the end or stopped.
func (s *counters) Check(g *Group) error {
	for p, m := range g.Members {
		if c, ok := m.(*counter); !g.IsDead(p) && (!ok || c.told != s.most && !c.stops || c.seen == 0) {
			return fmt.Errorf("%w: member %d: %+v", ErrHang, p, m)
		}
	}
	return nil
}

// counter is a member of counters.
type counter struct {
	sys        *counters
	me         int
	told, seen int
	stops      bool
	heard      []byte // who has told, and what
	gone       uint64
}

// count is a message.
type count byte

func (c count) AppendState(b []byte) []byte { return append(b, byte(c)) }
func (c count) String() string              { return fmt.Sprint(byte(c)) }

// Own has the choice of process 0 to stop early, which need not happen.
func (c *counter) Own() (set, optional uint64) {
	if c.told < c.sys.most && !c.stops {
		set |= 1
	}
	if c.seen < c.told {
		set |= 1 << (MostOwn - 1)
	}
	if c.told > 0 && !c.stops {
		set, optional = set|2, 2
	}
	return set, optional
}

func (c *counter) Choose(number int, out []Effect) []Effect {
	if number == 1 {
		c.stops = true
		return out
	}
	if number > 0 {
		c.seen = c.told
		return out
	}
	c.told++
	return append(out, Effect{To: (c.me + 1) % c.sys.n, Msg: count(10*c.told + c.seen)})
}

func (c *counter) Recv(from int, msg Message, out []Effect) []Effect {
	if c.gone>>from&1 == 0 {
		c.heard = msg.AppendState(append(c.heard, byte(from)))
	}
	return out
}

func (c *counter) PeerFailed(q int, out []Effect) []Effect { c.gone |= 1 << q; return out }
func (c *counter) Enter(out []Effect) []Effect             { return out }
func (c *counter) Tick(out []Effect) []Effect              { return out }
func (c *counter) Entered() int                            { return 1 }
func (c *counter) Returned() int                           { return 1 }
func (c *counter) Result(int) string                       { return string(c.AppendState(nil)) }
func (c *counter) Remains() Member                         { return nil }
func (c *counter) AppendState(b []byte) []byte {
	return fmt.Append(b, c.told, c.seen, c.stops, c.heard, c.gone)
}

func (c *counter) Clone() Member {
	d := *c
	d.heard = slices.Clone(c.heard)
	return &d
}

// TestOwnChoices: members' own choices come in all orders, and what members die after is searched.
func TestOwnChoices(t *testing.T) {
	t.Parallel()
	for _, sys := range []*counters{{1, 3}, {2, 1}, {2, 2}, {3, 1}} {
		compareEnds(t, sys, Faults{})
		compareEnds(t, sys, Faults{Deaths: sys.n - 1})
	}
	for seed := range uint64(1000) {
		draw := fixed(&counters{1 + int(seed%4), 3}, Faults{Deaths: int(seed % 3)})
		run, faults, failure := RandomRun(draw, seed)
		if failure != nil {
			t.Fatal(Trace(failure, faults))
		}
		if done, err := Replay(run.System, faults, run.Choices, nil); err != nil || len(done) != len(run.Choices) {
			t.Fatalf("seed %d: %v, %d of %d choices", seed, err, len(done), len(run.Choices))
		}
	}
}
