package detector

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

// newProber makes the front end of a cluster.
func (c *cluster) newProber(timing ring.Timing) *Prober {
	c.t.Helper()
	conn, _ := listen(c.t, &options{addr: localhost})
	p, err := NewProber(ProberConfig{Key: testKey, Job: testJob, Socket: conn, Peers: c.peers, Timing: timing, fenceFor: longFence})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.Close)
	return p
}

// patient is a timing under which no detector accuses anybody during a test, and a probe is quick.
func patient() ring.Timing {
	t := quick()
	t.Margin, t.Period = 100000*millisecond, 100000*millisecond
	return t
}

// TestProbe: a node that lives answers, one whose daemon has ended says so, and one that has failed is silent.
func TestProbe(t *testing.T) {
	c := newCluster(t, 5, options{timing: patient()})
	p := c.newProber(patient())
	c.nodes[1].responder.dead.Store(true)
	c.nodes[3].responder.fenced.Store(true)
	c.nodes[2].responder.mute.Store(true)
	for node, want := range []Result{
		{Answered: true, Packet: packet.Packet{}},
		{Answered: true, Packet: packet.Packet{DaemonDead: true}},
		{},
		{Answered: true, Packet: packet.Packet{Fenced: true}},
	} {
		began := time.Now()
		got, err := p.Probe(t.Context(), ring.Node(node))
		took := time.Since(began)
		switch {
		case err != nil || got.Answered != want.Answered:
			t.Fatalf("node %d: %+v, %v", node, got, err)
		case !got.Answered:
			if limit := time.Duration(2*patient().Verify) + slack; took < time.Duration(patient().Verify) || took > limit {
				t.Errorf("node %d is silent after %v, want %v to %v", node, took, time.Duration(patient().Verify), limit)
			}
		case got.Packet.DaemonDead != want.Packet.DaemonDead || got.Packet.Fenced != want.Packet.Fenced || got.Packet.Inc != 1:
			t.Errorf("node %d: %+v", node, got)
		}
		if dead := node == 1 || node == 3; got.IsDead() != dead {
			t.Errorf("node %d: is dead: %v", node, got.IsDead())
		}
	}
}

// TestProbeByOthers: a node that the front end does not reach answers by way of others, and can be fenced by way of them.
func TestProbeByOthers(t *testing.T) {
	c := newCluster(t, 5, options{timing: patient()})
	p := c.newProber(patient())
	c.nodes[2].responder.deaf.Store(true)
	c.fall(3) // it cannot help
	got, err := p.Probe(t.Context(), 2)
	if err != nil || !got.Answered || got.By == 2 || got.By == packet.FrontEnd {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := p.Fence(t.Context(), 2, 1); err != nil || !c.nodes[2].responder.fenced.Load() {
		t.Errorf("fence: %v", err)
	}
	for node := range len(c.nodes) {
		p.NodeLost(ring.Node(node)) // nobody is left to help
	}
	if got, err := p.Probe(t.Context(), 2); err != nil || got.Answered {
		t.Errorf("without others: %+v, %v", got, err)
	}
}

// TestProbeWithLoss: a node that lives is found although a third of the questions is lost.
func TestProbeWithLoss(t *testing.T) {
	timing := patient()
	timing.Probes = 6 // with 3, all ways of one of 30 probes are lost in one run of 50: 0.3^3 * (1-0.7^3)^9 for each
	c := newCluster(t, 5, options{timing: timing, loss: 0.3})
	conn, _ := listen(t, &options{addr: localhost})
	rng := rand.New(rand.NewPCG(5, 5))
	p, err := NewProber(ProberConfig{
		Key: testKey, Job: testJob, Socket: conn, Peers: c.peers, Timing: timing, lose: func() bool { return rng.Float64() < 0.3 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for k := range 30 {
		if r, err := p.Probe(t.Context(), ring.Node(k%5)); err != nil || !r.Answered {
			t.Errorf("probe %d: %+v, %v", k, r, err)
		}
	}
}

// TestProbesAtOnce: several nodes are probed at the same time.
func TestProbesAtOnce(t *testing.T) {
	c := newCluster(t, 8, options{timing: patient()})
	p := c.newProber(patient())
	c.nodes[5].responder.mute.Store(true)
	type found struct {
		node ring.Node
		r    Result
		err  error
	}
	results := make(chan found)
	for i := range c.nodes {
		go func() {
			r, err := p.Probe(t.Context(), ring.Node(i))
			results <- found{ring.Node(i), r, err}
		}()
	}
	for range c.nodes {
		if f := <-results; f.err != nil || f.r.Answered != (f.node != 5) || f.r.Answered && f.r.Packet.Of != f.node {
			t.Errorf("%+v", f)
		}
	}
}

// TestFence: a node is fenced at once, and one that does not obey is an error.
func TestFence(t *testing.T) {
	c := newCluster(t, 3, options{timing: patient()})
	p := c.newProber(patient())
	if err := p.Fence(t.Context(), 0, 1); err != nil || !c.nodes[0].responder.fenced.Load() {
		t.Errorf("fence: %v", err)
	}
	p.fenceFor = fenceFor
	c.nodes[1].responder.tough.Store(true)
	if err := p.Fence(t.Context(), 1, 1); !errors.Is(err, ErrNotFenced) {
		t.Errorf("a node that does not obey: error %v, want %v", err, ErrNotFenced)
	}
	if err := p.Fence(t.Context(), 2, 7); !errors.Is(err, ErrNotFenced) || c.nodes[2].responder.fenced.Load() {
		t.Errorf("another incarnation: error %v, want %v", err, ErrNotFenced)
	}
}

// TestProbeEnds: the context and Close end a probe, and there is no node beyond the last.
func TestProbeEnds(t *testing.T) {
	timing := patient()
	timing.Verify = 100000 * millisecond
	c := newCluster(t, 2, options{timing: patient()})
	p := c.newProber(timing)
	c.nodes[0].responder.mute.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := p.Probe(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	time.AfterFunc(time.Millisecond, p.Close)
	if _, err := p.Probe(t.Context(), 0); !errors.Is(err, ErrProberClosed) {
		t.Errorf("error %v, want %v", err, ErrProberClosed)
	}
	for _, node := range []ring.Node{-1, 2} {
		if _, err := p.Probe(t.Context(), node); !errors.Is(err, ErrConfig) {
			t.Errorf("node %d: error %v, want %v", node, err, ErrConfig)
		}
	}
}

// TestInquiry: a probe asks Probes times and ends after Verify, also if each look comes a millisecond late, as with timers.
// A caller that stood still asks all that is due, and gives the answers time.
func TestInquiry(t *testing.T) {
	timing := ring.TimingOf(ring.Kernel, 100*millisecond)
	tests := map[string]struct {
		late  func(look int) int64 // how late a look comes
		least int64                // when it is over
		most  int64
	}{
		"in time":       {func(int) int64 { return 0 }, timing.Verify, timing.Verify},
		"timers":        {func(int) int64 { return millisecond }, timing.Verify, timing.Verify + 2*millisecond},
		"late at first": {func(look int) int64 { return when(look == 0, 15*millisecond) }, 25 * millisecond, 26 * millisecond},
		"late within":   {func(look int) int64 { return when(look == 5, 5*millisecond) }, timing.Verify, 13 * millisecond},
		"long pause":    {func(look int) int64 { return when(look == 3, 1000*millisecond) }, 1010 * millisecond, 1013 * millisecond},
		"late at last":  {func(look int) int64 { return when(look == timing.Probes, 7*millisecond) }, 22 * millisecond, 25 * millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q, now, asked := newInquiry(0, &timing), int64(0), 0
			for look := 0; ; look++ {
				now += tt.late(look)
				asked += q.due(now)
				if q.isOver(now) {
					break
				}
				if next := q.next(); next <= now {
					t.Fatalf("at %d ns the next look is at %d ns", now, next)
				}
				now = q.next()
			}
			if asked != timing.Probes || now < tt.least || now > tt.most {
				t.Errorf("%d questions, over after %d ns; want %d and %d to %d", asked, now, timing.Probes, tt.least, tt.most)
			}
		})
	}
}

// when returns d if it is the case, otherwise 0.
func when(is bool, d int64) int64 {
	if is {
		return d
	}
	return 0
}
