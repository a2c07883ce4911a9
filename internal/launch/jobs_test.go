package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
)

func (f *fake) AddJob(j daemon.FurtherJob) error {
	f.note("add %d, homes %v", j.Number, j.Homes)
	return f.added
}

func (f *fake) StartJob(number int) error {
	f.note("start %d", number)
	return f.started
}

func (f *fake) DropJob(number int) error {
	f.note("drop %d", number)
	return nil
}

func (f *fake) EndJob(number int) { f.note("end %d", number) }

func (f *fake) AnswerSpawn(a daemon.SpawnAnswer) {
	f.note("answer %d: job %d, %q", a.ID, a.Number, a.Failed)
	if f.answered != nil {
		f.answered <- a
	}
}

// twoHosts are nodes a and b with a PE and two slots each.
var twoHosts = &plan.Layout{
	Nodes: []plan.Node{{Host: plan.Host{Name: "a", Slots: 2}, PEs: []int{0}}, {Host: plan.Host{Name: "b", Slots: 2}, PEs: []int{1}}}, Homes: []int{0, 1},
}

// programs returns programs with some PEs each.
func programs(pes ...int) (apps []daemon.SpawnApp) {
	for _, n := range pes {
		apps = append(apps, daemon.SpawnApp{App: daemon.App{NPEs: n, Program: "child"}})
	}
	return apps
}

// PEs of further jobs fill free slots, go where the request says, and not to lost hosts.
func TestPlaceApps(t *testing.T) {
	hosts := []plan.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 2}, {Name: "c", Slots: 1}}
	on := func(placing daemon.Placing, pes ...int) []daemon.SpawnApp {
		apps := programs(pes...)
		apps[0].Placing = placing
		return apps
	}
	for _, x := range []struct {
		apps []daemon.SpawnApp
		used []int
		want []int
		err  string
	}{
		{programs(2), []int{1, 1, 1}, []int{0, 1}, ""},
		{programs(3), []int{1, 1, 1}, []int{0, 0, 1}, ""},
		{programs(4), []int{2, 2, 1}, []int{0, 0, 1, 1}, ""},
		{programs(1, 1, 1), []int{3, 4, 2}, []int{0, 0, 0}, ""},
		{programs(1, 1), []int{4, 3, 2}, []int{1, 0}, ""},
		{programs(1), []int{20, 20, 9}, []int{2}, ""},
		{programs(2), []int{-1, 1, 0}, []int{1, 2}, ""},
		{on(daemon.Placing{Hosts: "c,b"}, 2), []int{0, 0, 0}, []int{2, 1}, ""},
		{programs(1, 1), []int{1, 1, 1}, []int{0, 1}, ""},
		{on(daemon.Placing{Hosts: "b:2"}, 4), []int{1, 1, 1}, []int{1, 1, 1, 1}, ""},
		{on(daemon.Placing{MapBy: "node"}, 3), []int{0, 0, 0}, []int{0, 1, 2}, ""},
		{on(daemon.Placing{MapBy: "ppr:1:node"}, 2), []int{0, 0, 0}, []int{0, 1}, ""},
		{on(daemon.Placing{RankBy: "node"}, 4), []int{0, 0, 0}, []int{0, 1, 0, 1}, ""},
		{on(daemon.Placing{Hosts: "a"}, 1), []int{-1, 0, 0}, nil, `host a, want one of the hosts of this job: b, c`},
		{on(daemon.Placing{Hosts: "d"}, 1), []int{0, 0, 0}, nil, `host d, want one of the hosts of this job: a, b, c`},
		{on(daemon.Placing{Hosts: "a,,b"}, 1), []int{0, 0, 0}, nil, "want hosts such as a:4,b"},
		{on(daemon.Placing{MapBy: "ppr:2:socket"}, 2), []int{0, 0, 0}, nil, "want ppr:N:node"},
		{on(daemon.Placing{MapBy: "moon"}, 2), []int{0, 0, 0}, nil, `map by "moon"`},
		{on(daemon.Placing{MapBy: "slot:nooversubscribe"}, 2), []int{2, 2, 1}, nil, "not enough slots"},
		{on(daemon.Placing{RankBy: "moon"}, 2), []int{0, 0, 0}, nil, "rank by "},
		{programs(40), []int{0, 0, 0}, nil, "want at most 8"},
	} {
		got, err := placeApps(x.apps, hosts, x.used, nil, 8)
		if !slices.Equal(got, x.want) || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%+v beside %v: on %v, %v, want %v, %s", x.apps, x.used, got, err, x.want, x.err)
		}
	}
	two := programs(1, 1)
	two[0].Placing, two[1].Placing = daemon.Placing{MapBy: "node"}, daemon.Placing{MapBy: "slot"}
	if _, err := placeApps(two, hosts, []int{0, 0, 0}, nil, 8); err == nil || !strings.Contains(err.Error(), "want one order") {
		t.Errorf("two orders: %v, want an error", err)
	}
}

// spawning is a run of two nodes whose events the test handles.
type spawning struct {
	*testing.T
	a, b    *fake
	run     *run
	further *spawns
}

func newSpawning(t *testing.T) *spawning {
	t.Helper()
	p := newPlay(t, 2, func(o *Options) { o.Layout, o.Recover = twoHosts, true })
	s := &spawning{T: t, a: newFake(0, 1), b: newFake(1, 1), further: &spawns{o: &p.o, mostOnNode: 8}}
	s.a.answered = make(chan daemon.SpawnAnswer, 8)
	c := NewCluster([]Node{s.a, s.b}, []int{0, 1})
	s.begin(p, c)
	return s
}

// begin begins the run of a cluster, and ends it with the test.
func (s *spawning) begin(p *play, c *Cluster) {
	s.Helper()
	out, err := newPrinter(&p.o)
	if err != nil {
		s.Fatal(err)
	}
	s.run = newRun(&p.o, c, out)
	s.further.begin(c)
	s.Cleanup(func() {
		_ = s.run.cluster.Close() // fakes have no errors
		_ = out.close()
	})
}

// ask asks for a job of n PEs on behalf of node 0, and handles the event of the run.
func (s *spawning) ask(id uint64, n int) {
	s.further.take(daemon.SpawnRequest{ID: id, Apps: programs(n)})
	s.handle(daemon.Spawned)
}

// handle handles the next event, which is of a kind.
func (s *spawning) handle(kind daemon.Kind) {
	s.Helper()
	select {
	case e := <-s.run.cluster.Events():
		if e.Kind != kind {
			s.Fatalf("event %+v, want one of kind %d", e, kind)
		}
		s.run.event(e)
	case <-time.After(patience):
		s.Fatalf("no event of kind %d", kind)
	}
}

// answer returns the next answer.
func (s *spawning) answer() daemon.SpawnAnswer {
	s.Helper()
	select {
	case a := <-s.a.answered:
		return a
	case <-time.After(patience):
		s.Fatal("no answer")
		return daemon.SpawnAnswer{}
	}
}

// end handles the good end of a PE that a node reports.
func (s *spawning) end(n *fake, id daemon.ID) {
	s.Helper()
	n.events <- daemon.Event{Kind: daemon.Exited, ID: id}
	s.handle(daemon.Exited)
}

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// A further job is added to all nodes, then started, and ended on all nodes when its last PE has ended.
func TestFurtherJob(t *testing.T) {
	s := newSpawning(t)
	s.ask(7, 2)
	if a := s.answer(); a != (daemon.SpawnAnswer{ID: 7, Number: 1}) {
		t.Errorf("answer %+v, want job 1", a)
	}
	if s.run.left != 4 || s.run.cluster.home(daemon.ID{Job: 1, PE: 1}) != 1 {
		t.Errorf("%d PEs are left, want 4, and PE 1.1 on the second node", s.run.left)
	}
	s.end(s.b, daemon.ID{Job: 1, PE: 1})
	s.end(s.a, daemon.ID{Job: 1, PE: 0})
	if used := s.run.cluster.used(); !slices.Equal(used, []int{1, 1}) || s.run.left != 2 {
		t.Errorf("%v PEs on the nodes and %d left, want 1 on each and 2", used, s.run.left)
	}
	want := []string{"add 1, homes [0 1]", "start 1"}
	if got := s.b.noted(); !slices.Equal(got, append(want, "end 1")) {
		t.Errorf("calls of the second node %q, want %q and its end", got, want)
	}
	s.ask(8, 1)
	if a := s.answer(); a.Number != 2 {
		t.Errorf("answer %+v, want job 2", a)
	}
}

// If a node cannot add or start a job, all nodes drop it. Ends of its PEs that are told after that, or were told before,
// change nothing.
func TestFurtherJobFails(t *testing.T) {
	for _, change := range []func(f *fake){
		func(f *fake) { f.added = errors.New("no such program") },
		func(f *fake) { f.started = errors.New("no such program") },
	} {
		s := newSpawning(t)
		change(s.b)
		s.further.take(daemon.SpawnRequest{ID: 1, Apps: programs(2)})
		s.handle(daemon.Spawned)
		s.a.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{Job: 1}}
		for range 2 { // in any order
			e := <-s.run.cluster.Events()
			s.run.event(e)
		}
		if a := s.answer(); a.Failed != "b: no such program" {
			t.Errorf("answer %+v, want the error with its host", a)
		}
		if s.run.left != 2 || s.run.gone[1] != nil || !slices.Equal(s.run.cluster.used(), []int{1, 1}) {
			t.Errorf("%d PEs left, want the 2 of the first job", s.run.left)
		}
		if !slices.Contains(s.a.noted(), "drop 1") || !slices.Contains(s.b.noted(), "drop 1") {
			t.Errorf("calls %q and %q, want both nodes to drop the job", s.a.noted(), s.b.noted())
		}
	}
}

// A lost node gets no further PEs. The PEs of a further job that it had are lost with it, and the others hear of it.
func TestFurtherJobLosesNode(t *testing.T) {
	s := newSpawning(t)
	s.ask(1, 2)
	s.answer()
	s.b.events <- daemon.Event{Kind: daemon.NodeLost, Msg: "cut"}
	s.handle(daemon.NodeLost)
	if s.run.left != 2 {
		t.Errorf("%d PEs left, want the 2 of the first node", s.run.left)
	}
	if got := s.a.noted(); !slices.Contains(got, "far failed [1] true of job 1") || !slices.Contains(got, "far failed [1] true") {
		t.Errorf("calls %q, want the loss of both jobs' PEs", got)
	}
	s.ask(2, 2)
	if a := s.answer(); a.Number != 2 || !slices.Contains(s.a.noted(), "add 2, homes [0 0]") || slices.Contains(s.b.noted(), "add 2, homes [0 0]") {
		t.Errorf("answer %+v, calls %q and %q, want job 2 on the first node alone", a, s.a.noted(), s.b.noted())
	}
	s.end(s.a, daemon.ID{Job: 1})
	if !slices.Contains(s.a.noted(), "end 1") {
		t.Errorf("calls %q, want the end of job 1", s.a.noted())
	}
}

// A job whose node is lost before it is started there fails: nobody would ever tell of its PEs.
func TestFurtherJobOnLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpawning(t)
		s.further.take(daemon.SpawnRequest{ID: 1, Apps: programs(2)})
		synctest.Wait() // it is laid out, and the run has yet to receive that
		s.run.cluster.noteLost(1)
		s.handle(daemon.Spawned)
		s.handle(daemon.Dropped)
		if a := s.answer(); a.Failed != "b: the node is lost" {
			t.Errorf("answer %+v, want an error", a)
		}
	})
}

// A PE that fails in a further job is made known on the other nodes.
func TestFurtherFailureIsTold(t *testing.T) {
	s := newSpawning(t)
	s.ask(1, 2)
	s.answer()
	s.b.events <- daemon.Event{Kind: daemon.Failed, ID: daemon.ID{Job: 1, PE: 1}, End: ending.End{Signal: 9}}
	s.handle(daemon.Failed)
	if got := s.a.noted(); !slices.Contains(got, "far failed [1] false of job 1") || slices.Contains(s.b.noted(), "far failed [1] false of job 1") {
		t.Errorf("calls %q and %q, want the failure on the first node", got, s.b.noted())
	}
}

// Requests that come when the nodes are closed begin nothing, and Close waits for those under way.
func TestSpawnWhileClosing(t *testing.T) {
	s := newSpawning(t)
	s.further.take(daemon.SpawnRequest{ID: 1, Apps: programs(1)}) // nobody receives its event
	if err := s.run.cluster.Close(); err != nil {
		t.Fatal(err)
	}
	if a := s.answer(); a.Failed != errEnding.Error() {
		t.Errorf("answer %+v, want that the job is ending", a)
	}
	s.further.take(daemon.SpawnRequest{ID: 2, Apps: programs(1)})
	if len(s.a.answered) > 0 {
		t.Error("a request is answered after Close")
	}
	s.run.cluster = NewCluster([]Node{newFake(0, 1)}, nil) // for the clean-up
}
