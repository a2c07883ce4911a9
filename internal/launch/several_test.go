package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// pairStarter starts two nodes.
type pairStarter struct{ a, b *fake }

// Check finds nothing wrong.
func (pairStarter) Check(*daemon.Config) error { return nil }

// Start returns the two.
func (s pairStarter) Start(_ context.Context, _ Span, _ daemon.Config, hooks func(node int) daemon.Hooks) ([]Node, error) {
	s.a.began, s.b.began = hooks(0).Began, hooks(1).Began
	return []Node{s.a, s.b}, nil
}

// pairLayout puts PEs with even numbers on host a and the others on host b.
func pairLayout(npes int) *plan.Layout {
	l := &plan.Layout{Nodes: []plan.Node{{Host: plan.Host{Name: "a"}, Here: true}, {Host: plan.Host{Name: "b"}}}}
	for pe := range npes {
		l.Nodes[pe%2].PEs = append(l.Nodes[pe%2].PEs, pe)
		l.Homes = append(l.Homes, pe%2)
	}
	return l
}

// inPair runs a job of n PEs on two fake nodes in a bubble, and the test beside it. The fake of the play is host a.
func inPair(t *testing.T, n int, change func(o *Options, b *fake), test func(p *play, b *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newFake(0, n)
		p := newPlay(t, n, func(o *Options) {
			o.Layout = pairLayout(n)
			if change != nil {
				change(o, b)
			}
		})
		go func() {
			defer close(p.done)
			p.status, p.err = p.o.run(t.Context(), pairStarter{p.fake, b})
		}()
		synctest.Wait()
		test(p, b)
	})
}

// reports has the node of a PE report something.
func (p *play) reports(b *fake, e daemon.Event) {
	to := p.fake
	if e.PE%2 == 1 {
		to = b
	}
	e.At, e.PID = time.Since(p.begin), p.PID(e.ID)
	to.events <- e
	synctest.Wait()
}

// told returns the failures that a node was told of.
func (f *fake) told() (far []string) {
	for _, call := range f.noted() {
		if strings.HasPrefix(call, "far failed ") {
			far = append(far, call)
		}
	}
	return far
}

// Other nodes learn of a failure if the job goes on: with --recover, also where the process that has started the program
// goes on, and without it where another PE has asked for the end.
func TestOthersAreTold(t *testing.T) {
	for _, x := range []struct {
		name    string
		recover bool
		e       daemon.Event
		told    []string
	}{
		{"killed", true, daemon.Event{Kind: daemon.Failed, End: killed}, []string{"far failed [1] false"}},
		{"killed below a shell", true, daemon.Event{Kind: daemon.Failed, End: killed, GoesOn: true}, []string{"far failed [1] false"}},
		{"killed on request", false, daemon.Event{Kind: daemon.Failed, End: killed, By: "PE 0"}, []string{"far failed [1] false"}},
		{"killed, which ends the job", false, daemon.Event{Kind: daemon.Failed, End: killed}, nil},
		{"finished", true, daemon.Event{Kind: daemon.Exited}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			inPair(t, 2, func(o *Options, _ *fake) { o.Recover = x.recover }, func(p *play, b *fake) {
				x.e.ID = daemon.ID{PE: 1}
				p.reports(b, x.e)
				if got := p.told(); !slices.Equal(got, x.told) || len(b.told()) > 0 {
					t.Errorf("nodes were told %q and %q, want %q and nothing", got, b.told(), x.told)
				}
				for pe := range 2 {
					p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: pe}})
				}
				<-p.done
			})
		})
	}
}

// A PE counts as failed once, although its node is lost after it.
func TestLostNodeHasDeadPEs(t *testing.T) {
	inPair(t, 4, func(o *Options, _ *fake) { o.Recover = true }, func(p *play, b *fake) {
		p.reports(b, daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: 1}, End: killed, Tier: "pidfd"})
		b.events <- daemon.Event{Kind: daemon.NodeLost, Msg: "gone", At: 2 * time.Second}
		synctest.Wait()
		p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 0}})
		p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 2}})
		p.ends(StatusTolerated,
			"oshrun: PE 1 (pid 1001) was killed by signal 9 (SIGKILL) after 0s; 3 PEs go on",
			"oshrun: node b is lost with 2 PEs, 1 to 3: gone; 2 PEs go on",
			"oshrun: 2 of 4 PEs failed:",
			"oshrun:   PE 1 (pid 1001) was killed by signal 9 (SIGKILL) after 0s (learnt by pidfd)",
			"oshrun:   PE 3 (pid unknown) was lost with its node, b after 2s (learnt by the loss of its node)")
	})
}

// Other nodes hear of the loss of a node, also of its PEs that had ended: agents may still send to it.
func TestLossOfEndedPEsIsTold(t *testing.T) {
	for _, x := range []struct {
		name  string
		ended []int // PEs of the node that have ended before
		told  []string
	}{
		{"all", []int{1, 3}, []string{"far failed before [1 3] true"}},
		{"one", []int{1}, []string{"far failed [3] true", "far failed before [1] true"}},
		{"none", nil, []string{"far failed [1 3] true"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			inPair(t, 4, func(o *Options, _ *fake) { o.Recover = true }, func(p *play, b *fake) {
				for _, pe := range x.ended {
					p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: pe}})
				}
				b.events <- daemon.Event{Kind: daemon.NodeLost, Msg: "gone"}
				synctest.Wait()
				if got := p.told(); !slices.Equal(got, x.told) {
					t.Errorf("node a was told %q, want %q", got, x.told)
				}
				p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 0}})
				p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 2}})
				<-p.done
			})
		})
	}
}

// A node that is lost when all its PEs have ended may have kept some of their output, so the job has not ended well.
func TestLostAtTheEnd(t *testing.T) {
	lost := &daemon.LostError{Err: errors.New("gone")}
	exited, gone := daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}}, daemon.Event{Kind: daemon.NodeLost, Msg: "gone"}
	dies := daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}, End: killed}
	for _, x := range []struct {
		name   string
		closed error
		events []daemon.Event // of node b, before the last PE of a ends; with a loss the job goes on
		status int
		said   []string
	}{
		{"lost", fmt.Errorf("close: %w", lost), []daemon.Event{exited}, StatusError, []string{"oshrun: node b is lost before it has said that all output had come: gone"}},
		{"another error", errors.New("broken"), []daemon.Event{exited}, StatusOK, nil},
		{"lost before", lost, []daemon.Event{gone}, StatusTolerated, []string{
			"oshrun: node b is lost with PE 1: gone; 1 PE goes on", "oshrun: 1 of 2 PEs failed:",
			"oshrun:   PE 1 (pid unknown) was lost with its node, b after 0s (learnt by the loss of its node)",
		}},
		{"lost after its PE", lost, []daemon.Event{exited, gone}, StatusError, []string{
			"oshrun: node b is lost with no PE that runs: gone; 1 PE goes on",
			"oshrun: node b is lost before it has said that all output had come: gone",
		}},
		{"lost after its PE has failed", lost, []daemon.Event{dies, gone}, StatusTolerated, []string{
			"oshrun: PE 1 (pid unknown) was killed by signal 9 (SIGKILL) after 0s; 1 PE goes on",
			"oshrun: node b is lost with no PE that runs: gone; 1 PE goes on",
			"oshrun: node b is lost, whose PEs had failed before: the last of their output may be missing: gone",
			"oshrun: 1 of 2 PEs failed:", "oshrun:   PE 1 (pid unknown) was killed by signal 9 (SIGKILL) after 0s (learnt when its process could be reaped)",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			inPair(t, 2, func(o *Options, b *fake) { o.Recover, b.closed = slices.Contains(x.events, gone), x.closed }, func(p *play, b *fake) {
				for _, e := range x.events {
					b.events <- e
				}
				synctest.Wait()
				p.exits(0, ending.End{})
				p.ends(x.status, x.said...)
			})
		})
	}
}

// asking is a node that notes whether it is asked if its PEs are stopped.
type asking struct{ *fake }

// Stopped says that they are.
func (a asking) Stopped() bool {
	a.note("stopped?")
	return true
}

// Before this process stops, each node has answered a question that it was asked after the signal. So the signal has come.
func TestStopIsDelivered(t *testing.T) {
	a, b := asking{newFake(0, 1)}, asking{newFake(1, 1)}
	c := NewCluster([]Node{a, b}, []int{0, 1})
	c.Stop()
	for _, n := range []asking{a, b} {
		if got, want := n.noted(), []string{fmt.Sprint("signal ", int(xunix.SIGSTOP)), "stopped?"}; !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// silent is a node that does not answer until it is closed.
type silent struct {
	*fake
	closing chan struct{}
}

// PID waits.
func (s silent) PID(daemon.ID) int { <-s.closing; return 0 }

// HasGo waits.
func (s silent) HasGo(daemon.ID) bool { <-s.closing; return false }

// Tier waits.
func (s silent) Tier() string { <-s.closing; return "silent" }

// A node out of reach delays the list of running PEs once, not for each of its PEs.
func TestRunningOnSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := silent{newFake(0, 20), make(chan struct{})}
		c := NewCluster([]Node{newFake(0, 20), b}, pairLayout(20).Homes)
		begin := time.Now()
		got := listRunning(map[int][]bool{0: {3: true, 4: true, 19: false}}, c.PIDs)
		if took := time.Since(begin); took != pidsAtMost {
			t.Errorf("the list took %v, want %v", took, pidsAtMost)
		}
		if want := "PE 0 (pid 1000), PE 1 (pid unknown), PE 2 (pid 1002), PE 5 (pid unknown), "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "PE 17 (pid unknown), ...") {
			t.Errorf("list %q, want %q at its beginning and 16 PEs", got, want)
		}
		close(b.closing)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Silent nodes are asked at once for the way in which they learn of ends.
func TestTierOfSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(0, 1), newFake(0, 1)
		both := make(chan struct{})
		c := NewCluster([]Node{meeting{a, both}, meeting{b, both}}, []int{0, 1})
		if tier := c.Tier(); tier != "met" {
			t.Errorf("tier %q", tier)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// meeting is a node that answers once another one is asked, too.
type meeting struct {
	*fake
	both chan struct{}
}

// Tier waits for the other one.
func (m meeting) Tier() string {
	select {
	case m.both <- struct{}{}:
	case <-m.both:
	}
	return "met"
}

// PEs that wait for a debugger on other hosts are listed with these.
func TestDebugElsewhere(t *testing.T) {
	for _, emulated := range []bool{false, true} {
		inPair(t, 2, func(o *Options, b *fake) {
			o.Debug, o.Layout.Allocation.Emulated, b.isGo = []int{0, 1}, emulated, true
		}, func(p *play, b *fake) {
			p.exits(0, ending.End{})
			b.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}}
			where := " on host b"
			if emulated {
				where = ""
			}
			p.ends(0,
				"oshrun: PE 0 (pid 1000) waits for a debugger: gdb -p 1000 -ex 'handle SIGCONT nostop noprint'; without one it goes on by: kill -CONT 1000",
				"oshrun: PE 1 (pid 1001) waits for a debugger"+where+": dlv attach 1001; without one it goes on by: kill -CONT 1001")
		})
	}
}

// If the time is over when the job is ending, no node is asked for processes.
func TestTimeoutWhileEnding(t *testing.T) {
	inPair(t, 2, func(o *Options, _ *fake) { o.Timeout = time.Second }, func(p *play, b *fake) {
		p.signals <- syscall.SIGTERM
		synctest.Wait()
		p.set(func() { p.pids = 0 })
		p.after(time.Second)
		p.set(func() {
			if p.pids > 0 {
				t.Errorf("a node is asked for %d processes, want none", p.pids)
			}
		})
		p.exits(0, quitted)
		b.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}, End: quitted}
		p.ends(StatusSignal+15, "oshrun: SIGTERM: ending 2 PEs")
	})
}

// PEs on several nodes have a working directory that all nodes find by its name.
func TestDirectoryIsNamed(t *testing.T) {
	o := Options{Apps: []App{{NPEs: 1, Program: "a"}, {NPEs: 1, Program: "b", Dir: "/b"}}, HeapSize: 1 << 20}
	for _, layout := range []*plan.Layout{nil, pairLayout(2)} {
		o.Layout = layout
		cfg, err := o.config()
		if err != nil {
			t.Fatal(err)
		}
		want, err := ownDir()
		if layout == nil {
			want = ""
		}
		if err != nil || cfg.Apps[0].Dir != want || cfg.Apps[1].Dir != "/b" {
			t.Errorf("directories %q and %q, want %q and /b; %v", cfg.Apps[0].Dir, cfg.Apps[1].Dir, want, err)
		}
	}
}

// All nodes reckon from one time, and the job has lasted until the last end, whichever node reports first.
func TestOneTimeForAllNodes(t *testing.T) {
	var seen *Stats
	keep := func(o *Options, _ *fake) {
		o.Stats = func(s *Stats) ([]byte, error) { seen = s; return nil, nil }
	}
	inPair(t, 2, keep, func(p *play, b *fake) {
		b.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}, At: 3 * time.Second}
		synctest.Wait()
		p.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 0}, At: 2 * time.Second}
		<-p.done
		if a, b := p.began, b.began; !a.Equal(p.begin) || !b.Equal(p.begin) {
			t.Errorf("the nodes reckon from %v and %v, want %v, when the job began", a, b, p.begin)
		}
		if seen == nil || seen.Wall != 3*time.Second {
			t.Errorf("the job has lasted %+v, want 3 s", seen)
		}
	})
}

// Nodes say where their PEs run. The front end shows it in the order of PEs, with the names of hosts.
func TestBindingsOfNodes(t *testing.T) {
	inPair(t, 4, func(o *Options, b *fake) {
		o.Binding = daemon.Binding{Report: true}
		b.report.Bindings = []daemon.Bound{{PE: 1, Text: "PE 1 is here"}, {PE: 3, Text: "PE 3 is there"}}
	}, func(p *play, b *fake) {
		for pe := range 4 {
			p.reports(b, daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: pe}})
		}
		<-p.done
		want := "[b:1001] PE 1 is here\n[b:1003] PE 3 is there\n" // host a says nothing
		if got := p.errs.String(); p.status != StatusOK || got != want {
			p.t.Errorf("status %d, said %q, want %q", p.status, got, want)
		}
	})
}
