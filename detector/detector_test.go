package detector

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// sizes are the numbers of nodes of most tests.
var sizes = []int{2, 5, 8}

// forSizes runs a test with several numbers of nodes.
func forSizes(t *testing.T, test func(t *testing.T, n int)) {
	t.Helper()
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) { test(t, n) })
	}
}

// TestNoFalseAccusation: detectors of an ordinary process accuse nobody, though its processors are busy.
func TestNoFalseAccusation(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		var stop atomic.Bool
		var busy sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			busy.Go(func() {
				for n := 0; !stop.Load(); n++ { // the loop is the load
				}
			})
		}
		defer busy.Wait()
		defer stop.Store(true)
		timing := ring.TimingOf(ring.User, 100*millisecond)
		c := newCluster(t, n, options{timing: timing})
		<-time.After(2 * time.Second)
		c.close()
		c.checkQuiet()
		for i, v := range c.nodes {
			s := v.Stats()
			t.Logf("node %d: %+v", i, s)
			if s.Pings == 0 || s.Answers == 0 {
				t.Errorf("node %d: %+v, want pings and answers", i, s)
			}
		}
	})
}

// TestSilentNodeIsAccused: the observer of a node that has failed calls Silent in the time of the tier, and nobody calls
// anything else. Whether its ports refuse datagrams or not makes no difference.
func TestSilentNodeIsAccused(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		timing := ring.TimingOf(ring.User, 100*millisecond)
		for _, refuses := range []bool{false, true} {
			c := newCluster(t, n, options{timing: timing})
			c.warm()
			victim := ring.Node(n - 1)
			o := c.nodes[c.observer(victim)]
			died := time.Now()
			c.fall(victim)
			if refuses {
				c.nodes[victim].responder.conn.Close()
			}
			bound := time.Duration(timing.Period + timing.Margin + timing.Verify)
			late := time.Duration(timing.Margin + timing.Verify) // once, if the observer is late
			c.await("the observer calls Silent", bound+late+slack, func() bool { return len(o.silent) > 0 })
			took := time.Since(died)
			c.close()
			s := o.Stats()
			t.Logf("refuses %v: accused after %v; the latest turn was late by %v", refuses, took, s.Latest)
			if s.Latest < 10*time.Millisecond && took > bound+slack {
				t.Errorf("accused after %v, want %v at most, as the observer was not late", took, bound)
			}
			if want := []silence{{victim, 1}}; !slices.Equal(o.silent, want) {
				t.Errorf("the observer calls Silent %v, want %v", o.silent, want)
			}
			o.silent = nil
			for i, v := range c.nodes {
				if len(v.proven)+len(v.silent)+len(v.heard)+v.accused > 0 {
					t.Errorf("node %d: proven %v, silent %v, heard %v, accused %d", i, v.proven, v.silent, v.heard, v.accused)
				}
			}
		}
	})
}

// TestBrokenWay: a node that hears of a suspect by way of others only says so, once. Nobody is accused.
func TestBrokenWay(t *testing.T) {
	timing := quick()
	timing.Direct = 200 * millisecond
	c := newCluster(t, 4, options{timing: timing})
	c.warm()
	c.nodes[2].responder.cut.Store(1 + 0)
	c.nodes[0].Suspect(2)
	c.await("node 0 calls Unreached", tooLong, func() bool { return len(c.nodes[0].unreached) > 0 })
	c.nodes[0].Suspect(2)
	<-time.After(aftermath)
	c.close()
	if want := []silence{{2, 1}}; !slices.Equal(c.nodes[0].unreached, want) {
		t.Errorf("node 0 calls Unreached %v, want %v", c.nodes[0].unreached, want)
	}
	c.nodes[0].unreached = nil
	c.checkQuiet()
}

// TestRingMends: once the front end has said that a node is lost, its observer watches the next one.
func TestRingMends(t *testing.T) {
	const n = 5
	c := newCluster(t, n, options{timing: ring.TimingOf(ring.User, 100*millisecond)})
	c.warm()
	first := ring.Node(0)
	observer := c.observer(first)
	next := ring.Node((int(first) - ring.Stride(n) + n) % n) // it is before the first in the ring
	for _, p := range []ring.Node{first, next} {
		c.fall(p)
		v := c.nodes[observer]
		c.await(fmt.Sprintf("node %d is accused", p), tooLong, func() bool { return slices.Contains(v.silent, silence{p, 1}) })
		for _, v := range c.nodes {
			v.NodeLost(p, 1)
		}
	}
	c.close()
	for i, v := range c.nodes {
		if i != int(observer) && len(v.silent) > 0 {
			t.Errorf("node %d accuses %v", i, v.silent)
		}
	}
}

// TestProvenDeaths: what a node's kernel says of its daemon is an accusation at once. The node is fenced, its observer calls
// Proven, and all others hear of it, each once.
func TestProvenDeaths(t *testing.T) {
	for _, test := range []struct {
		name  string
		apply func(r *responder)
		why   ring.Reason
		cause failure.Kind
	}{
		{"ended", func(r *responder) { r.dead.Store(true) }, ring.DaemonDead, failure.Fenced},
		{"fenced before", func(r *responder) { r.fenced.Store(true) }, ring.DaemonDead, failure.Fenced},
		{"hung", func(r *responder) { r.frozen.Store(true) }, ring.DaemonHung, failure.Fenced},
		{"restarted", func(r *responder) { r.inc.Store(2) }, ring.Restarted, failure.NodeLost},
		{"not fenced", func(r *responder) { r.tough.Store(true); r.dead.Store(true) }, ring.DaemonDead, failure.NodeLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			forSizes(t, func(t *testing.T, n int) {
				timing := quick()
				if test.why == ring.DaemonHung {
					timing.Daemon = 2000 * millisecond
				}
				o := options{timing: timing}
				if test.cause == failure.NodeLost {
					o.fenceFor = fenceFor
				}
				c := newCluster(t, n, o)
				c.warm()
				victim := ring.Node(1)
				v, observer := c.nodes[victim], c.observer(victim)
				v.Close() // the daemon runs no longer
				test.apply(v.responder)
				c.await("all have heard of it", tooLong, func() bool {
					for i, v := range c.nodes {
						if i != int(victim) && len(v.proven)+len(v.heard) == 0 {
							return false
						}
					}
					return true
				})
				<-time.After(aftermath)
				c.close()
				c.checkProven(victim, observer, test.why, test.cause)
				if v.responder.orders.Load() == 0 {
					t.Error("no fence has come")
				}
				if fenced := v.responder.fenced.Load(); fenced != (test.cause == failure.Fenced) {
					t.Errorf("fenced: %v", fenced)
				}
			})
		})
	}
}

// checkProven checks that the observer has proven the death, and all others have heard of it.
func (c *cluster) checkProven(victim, observer ring.Node, why ring.Reason, cause failure.Kind) {
	c.t.Helper()
	for i, v := range c.nodes {
		switch ring.Node(i) {
		case victim:
		case observer:
			if want := []proof{{victim, 1, why}}; !slices.Equal(v.proven, want) || len(v.heard) > 0 {
				c.t.Errorf("the observer has proven %v, want %v; it has heard %+v", v.proven, want, v.heard)
			}
		default:
			want := bmg.Key{Kind: bmg.KindNode, ID: uint64(victim), Inc: 1}
			if len(v.heard) != 1 || v.heard[0].Key != want || v.heard[0].Origin != observer ||
				failure.Cause(v.heard[0].Cause).Kind() != cause || len(v.proven) > 0 {
				c.t.Errorf("node %d has heard %+v, want %+v of %d; it has proven %v", i, v.heard, want, observer, v.proven)
			}
		}
		if len(v.silent) > 0 || v.accused > 0 {
			c.t.Errorf("node %d: silent %v, accused %d", i, v.silent, v.accused)
		}
	}
}

// TestAccusedHearsOfIt: a node that is reported as dead and lives is told so, once.
func TestAccusedHearsOfIt(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		c := newCluster(t, n, options{timing: quick()})
		v := c.nodes[0]
		v.responder.dead.Store(true)
		c.await("the node is told that it is accused", tooLong, func() bool { return v.accused > 0 })
		<-time.After(aftermath)
		c.close()
		if v.accused != 1 || len(v.heard) > 0 {
			t.Errorf("accused %d times, heard %v", v.accused, v.heard)
		}
	})
}

// TestReportsReachAll: a PE's report reaches all other nodes, once, although a third of the datagrams is lost. Many reports
// take several datagrams.
func TestReportsReachAll(t *testing.T) {
	const each = 60
	for _, loss := range []float64{0, 0.3} {
		forSizes(t, func(t *testing.T, n int) {
			t.Logf("loss %v", loss)
			c := newCluster(t, n, options{timing: quick(), loss: loss})
			for i, v := range c.nodes {
				for k := range each {
					v.ReportPE(3, uint64(i*each+k), 1, uint32(failure.ByExit(k)), int64(k))
				}
			}
			c.await("all reports have come", tooLong, func() bool {
				return !slices.ContainsFunc(c.nodes, func(v *node) bool { return len(v.heard) < (n-1)*each })
			})
			<-time.After(aftermath)
			c.close()
			for i, v := range c.nodes {
				seen := map[uint64]bool{}
				for _, p := range v.heard {
					from, k := int(p.ID)/each, int(p.ID)%each
					want := bmg.Payload{
						Key:    bmg.Key{Kind: bmg.KindPE, Job: 3, ID: p.ID, Inc: 1},
						Origin: ring.Node(from), Cause: uint32(failure.ByExit(k)), At: int64(k),
					}
					if seen[p.ID] || from == i || !reflect.DeepEqual(p, want) {
						t.Errorf("node %d hears %+v, want %+v, once and not of itself", i, p, want)
					}
					seen[p.ID] = true
				}
				if s := v.Stats(); s.Reports != uint64(n*each) || s.Accusations > 0 {
					t.Errorf("node %d: %+v, want %d reports", i, s, n*each)
				}
			}
		})
	}
}

// TestNewsEnds: once a report has been acknowledged, the detector does not wake for it any more.
func TestNewsEnds(t *testing.T) {
	c := newCluster(t, 2, options{timing: quick(), still: true})
	d := c.nodes[0]
	d.ReportPE(1, 1, 1, 1, 1)
	d.turnOnce(t)
	if d.newsNext == ring.Never {
		t.Fatal("the detector does not wait for the acknowledgment")
	}
	limit := time.Now().Add(tooLong)
	for d.newsNext != ring.Never {
		if d.turnOnce(t); time.Now().After(limit) {
			t.Fatalf("after %v the detector still wakes for its report", tooLong)
		}
	}
	c.await("the report has come", tooLong, func() bool { return len(c.nodes[1].heard) == 1 })
}

// TestSuspectVerifiesAtOnce: whoever suspects a node has it verified without waiting for a deadline.
func TestSuspectVerifiesAtOnce(t *testing.T) {
	timing := quick()
	timing.Period, timing.Margin = 100000*millisecond, 100000*millisecond
	c := newCluster(t, 5, options{timing: timing})
	victim, alive := ring.Node(2), ring.Node(3)
	c.fall(victim)
	began := time.Now()
	for _, v := range c.nodes {
		v.Suspect(victim)
		v.Suspect(alive)
	}
	limit := time.Duration(2*timing.Verify) + slack
	c.await("the suspect is accused by all others", limit, func() bool {
		return !slices.ContainsFunc(c.nodes, func(v *node) bool { return v != c.nodes[victim] && len(v.silent) == 0 })
	})
	if took := time.Since(began); took < time.Duration(timing.Verify) {
		t.Errorf("accused after %v, want %v for the verification", took, time.Duration(timing.Verify))
	}
	c.close()
	for i, v := range c.nodes {
		if want := []silence{{victim, 1}}; ring.Node(i) != victim && !slices.Equal(v.silent, want) {
			t.Errorf("node %d calls Silent %v, want %v", i, v.silent, want)
		}
	}
}

// TestNewsOfWhoIsLost: what a node that is lost still sends is ignored.
func TestNewsOfWhoIsLost(t *testing.T) {
	timing := quick()
	timing.Period, timing.Margin = 100000*millisecond, 100000*millisecond
	c := newCluster(t, 2, options{timing: timing})
	c.nodes[1].NodeLost(0, 1)
	eventually(t, "the detector has taken the request", func() bool {
		c.nodes[1].mu.Lock()
		defer c.nodes[1].mu.Unlock()
		return len(c.nodes[1].queue) == 0
	})
	was := c.nodes[1].Stats().Received
	c.nodes[0].ReportPE(1, 1, 1, 1, 1)
	eventually(t, "the news have come", func() bool { return c.nodes[1].Stats().Received > was })
	<-time.After(aftermath)
	c.close()
	if heard := c.nodes[1].heard; len(heard) > 0 {
		t.Errorf("heard %v", heard)
	}
}

// TestStrangers: what is not of the job is counted, and has no effect.
func TestStrangers(t *testing.T) {
	c := newCluster(t, 2, options{timing: quick()})
	conn, _ := listen(t, &options{addr: localhost})
	fence := packet.Packet{Kind: packet.Answer, For: 0, Of: 1, From: 1, At: 1, Inc: 1, Job: testJob, DaemonDead: true}
	alien := fence
	alien.Job++
	for _, b := range [][]byte{
		{},
		[]byte("GSH1"), bytes.Repeat([]byte{0xff}, 1500), fence.Append(nil, &packet.Key{9}), alien.Append(nil, &testKey),
		fence.Append(nil, &testKey)[:packet.Size-1],
	} {
		if _, err := conn.WriteToUDPAddrPort(b, c.peers[0].Detector); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []packet.Packet{ // of the job, and senseless
		{Kind: packet.News, From: 1, Inc: 1, Body: []byte("no news")},
		{Kind: packet.News, From: 99, Inc: 1, Body: (&bmg.Msg{}).Append(nil)},
		{Kind: packet.Answer, From: -5, For: 0, Of: 77, DaemonDead: true},
		{Kind: packet.Ask, From: 99, For: 99, Of: 1},
		{Kind: packet.Ask, From: packet.FrontEnd, For: packet.FrontEnd, Of: 1 << 30},
		{Kind: packet.Fence, From: 3, For: 3, Of: -7},
		{Kind: packet.Fenced, From: 1, For: 3, Of: 1, Fenced: true},
		{Kind: packet.Ping, From: -9, For: 0, Of: 0},
	} {
		p.Job = testJob
		if _, err := conn.WriteToUDPAddrPort(p.Append(nil, &testKey), c.peers[0].Detector); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the strangers' datagrams are counted", func() bool { return c.nodes[0].Stats().Strangers == 6 })
	was := c.nodes[0].Stats().Answers
	eventually(t, "pings are answered", func() bool { return c.nodes[0].Stats().Answers > was+2 })
	c.close()
	c.checkQuiet()
}

// TestAddresses: nodes have addresses of IPv4 or IPv6, and sockets of either kind.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		name string
		o    options
	}{
		{"IPv4", options{addr: localhost}},
		{"IPv6", options{addr: netip.IPv6Loopback()}},
		{"zone", options{addr: netip.IPv6Loopback().WithZone("lo")}},
		{"IPv4 by IPv6", options{addr: localhost, dual: true}},
		{"mapped", options{addr: netip.AddrFrom16(localhost.As16()), dual: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.o.timing = quick()
			c := newCluster(t, 2, test.o)
			c.warm()
			c.nodes[0].ReportPE(1, 1, 1, 1, 1)
			c.await("the report has come", tooLong, func() bool { return len(c.nodes[1].heard) == 1 })
		})
	}
}

// TestClose: a detector can be closed by any goroutine, while others call it, and twice.
func TestClose(t *testing.T) {
	c := newCluster(t, 5, options{timing: quick()})
	var wg sync.WaitGroup
	for _, v := range c.nodes {
		for range 2 {
			wg.Go(v.Close)
			wg.Go(func() {
				for k := range 100 {
					v.ReportPE(1, uint64(k), 1, 1, 1)
					v.Suspect(ring.Node(k % 7))
					v.NodeLost(6, 1)
					v.Stats()
				}
			})
		}
	}
	wg.Wait()
}

// TestSocketClosed: a detector whose socket somebody else closes says so and ends.
func TestSocketClosed(t *testing.T) {
	var log syncBuffer
	c := newCluster(t, 2, options{timing: quick(), log: zerolog.New(&log)})
	c.nodes[0].link.conn.Close()
	eventually(t, "the detector says that it has ended", func() bool { return strings.Contains(log.String(), "watches no node any more") })
	c.close()
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestTickerMoves: the tick of the responder moves on although there is nobody to watch.
func TestTickerMoves(t *testing.T) {
	c := newCluster(t, 1, options{timing: quick()})
	was := c.nodes[0].responder.tick.Load()
	eventually(t, "the tick moves on", func() bool { return c.nodes[0].responder.tick.Load() > was+3 })
}

// TestNoGarbage: the turns of a detector that has nothing but pings to do allocate nothing.
func TestNoGarbage(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	timing := quick()
	timing.Period = millisecond
	c := newCluster(t, 2, options{timing: timing, still: true})
	d := c.nodes[0]
	turn := func() { d.turnOnce(t) }
	for range 100 {
		turn()
	}
	was := d.Stats()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations in a turn", n)
	}
	if s := d.Stats(); s.Pings < was.Pings+300 || s.Answers < was.Answers+300 || s.Accusations > 0 {
		t.Errorf("%+v, before %+v: want 300 pings and answers more", s, was)
	}
}

// TestErrorsAreLoggedOnce: an error of the socket is counted each time, and logged once.
func TestErrorsAreLoggedOnce(t *testing.T) {
	var log syncBuffer
	o := options{addr: localhost, log: zerolog.New(&log)}
	conn, _ := listen(t, &o)
	var l link
	l.logger = o.log
	nowhere := netip.AddrPortFrom(localhost, 0)
	if err := l.open(conn, []Peer{{nowhere, nowhere}}, ring.None); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.raw.Control(func(fd uintptr) { l.send(int(fd), &packet.Packet{}, &l.peers[0].responder) }); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || l.failed.Load() != 3 {
		t.Errorf("%d errors, log:\n%s", l.failed.Load(), &log.b)
	}
}

// TestConfigs: what no detector can have is refused, and the socket stays the caller's.
func TestConfigs(t *testing.T) {
	o := options{addr: localhost, timing: quick()}
	conn, at := listen(t, &o)
	good := Config{Nodes: 2, Socket: conn, Peers: []Peer{{}, {at, at}}, Timing: o.timing}
	for name, change := range map[string]func(c *Config){
		"no socket":   func(c *Config) { c.Socket = nil },
		"few peers":   func(c *Config) { c.Peers = c.Peers[:1] },
		"no address":  func(c *Config) { c.Peers = make([]Peer, 2) },
		"other kind":  func(c *Config) { c.Peers = []Peer{{}, {netip.MustParseAddrPort("[::1]:1"), at}} },
		"no timing":   func(c *Config) { c.Timing = ring.Timing{} },
		"me":          func(c *Config) { c.Me = 2 },
		"incarnation": func(c *Config) { c.Incs = []uint32{1} },
	} {
		cfg := good
		change(&cfg)
		if d, err := Start(cfg); err == nil {
			d.Close()
			t.Errorf("%s: no error", name)
		}
	}
	d, err := Start(good)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}
