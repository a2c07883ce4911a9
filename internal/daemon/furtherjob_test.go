package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// startRooted starts a cluster whose requests for further jobs go to the test.
func startRooted(t *testing.T, apps []App, homes []int) (*testCluster, chan SpawnRequest) {
	t.Helper()
	asked := make(chan SpawnRequest, 8)
	c := startCluster(t, apps, homes, func(s *settings) { s.Spawn = func(r SpawnRequest) { asked <- r } })
	c.launch()
	return c, asked
}

// askFor has PE 0 ask for a job, and returns what the root gets.
func (c *testCluster) askFor(asked chan SpawnRequest, a ...server.SpawnApp) SpawnRequest {
	c.t.Helper()
	from := pmix.Proc{Nspace: c.steps[0].table.job(0).nspace}
	pmixHost{c.steps[0].clients}.Spawn(&server.SpawnRequest{From: from, Apps: a})
	return receive(c.t, "request for a job", asked)
}

// each calls f for all steps and joins the errors.
func (c *testCluster) each(f func(s *Step) error) error {
	var errs []error
	for _, s := range c.steps {
		errs = append(errs, f(s))
	}
	return errors.Join(errs...)
}

// layOut is a job of a request with the same homes as the first job's.
func (c *testCluster) layOut(number int, r *SpawnRequest) FurtherJob {
	return FurtherJob{Number: number, Key: [16]byte{byte(number)}, Parent: r.From, Homes: c.homes, Apps: r.Apps, Preput: r.Preput}
}

// awaitGone waits until no step has a job any more.
func (c *testCluster) awaitGone(number int) {
	c.t.Helper()
	for _, s := range c.steps {
		for begin := time.Now(); s.table.job(number) != nil; time.Sleep(time.Millisecond) {
			if time.Since(begin) > deadline {
				c.t.Fatalf("job %d still exists on node %d", number, s.cfg.Share.Node)
			}
		}
	}
}

// The PEs of a further job find each other on all nodes, and know their parent's environment. The job is there until the
// root ends it.
func TestFurtherJob(t *testing.T) {
	sleeper := shell(2, "exec sleep 1000")
	sleeper.Env = append(sleeper.Env, "COLOR=red", roleEnv+"=exchange")
	c, asked := startRooted(t, []App{sleeper}, []int{0, 1})
	r := c.askFor(asked, server.SpawnApp{Cmd: os.Args[0], MaxProcs: 2, Env: []string{"CHILD=own"}, Infos: []pmix.Info{
		{Key: pmix.KeyHost, Value: pmix.StringValue("host1")}, {Key: pmix.KeyPPR, Value: pmix.StringValue("1:node")},
	}})
	if a := r.Apps[0]; a.Placing != (Placing{Hosts: "host1", MapBy: "ppr:1:node"}) || !slices.Contains(a.Env, "COLOR=red") || !slices.Contains(a.Env, "CHILD=own") {
		t.Errorf("request %+v, want the hosts, and the environment of the parent and the own one", a)
	}
	j := c.layOut(3, &r)
	if err := errors.Join(c.each(func(s *Step) error { return s.AddJob(j) }), c.each(func(s *Step) error { return s.StartJob(3) })); err != nil {
		t.Fatal(err)
	}
	c.steps[0].AnswerSpawn(SpawnAnswer{ID: r.ID, Number: 3})
	c.steps[0].AnswerSpawn(SpawnAnswer{ID: r.ID, Number: 3}) // nobody waits for it any more
	c.wantLines("3.0: sum 3 late 10 node 0 local rank 0 peers [0]", "3.1: sum 3 late 0 node 1 local rank 0 peers [1]")
	for node, s := range c.steps {
		if e := nextOf(t, s, Exited); e.ID != (ID{3, node}) || e.End.Code != 0 {
			t.Errorf("event %+v, want the good end of PE 3.%d", e, node)
		}
		further := s.table.job(3)
		if further == nil || further.nodes() != 2 {
			t.Fatalf("node %d does not know the job: its PEs may connect to it as long as the root has not ended it", node)
		}
		if home, ok := s.HomeOf(pmix.Proc{Nspace: further.nspace, Rank: 1}); home != 1 || !ok {
			t.Errorf("PE 3.1 is on node %d, %t, want node 1", home, ok)
		}
		if err := s.FarFailed(FarFailure{Job: 3, PEs: []int{1 - node}, NodeLost: true}); err != nil {
			t.Error(err)
		}
		s.EndJob(3)
		s.EndJob(3)
	}
	c.awaitGone(3)
	for _, s := range c.steps {
		if err := errors.Join(s.FarFailed(FarFailure{Job: 3, PEs: []int{0}}), s.DropJob(3)); err != nil {
			t.Errorf("a job that is over: %v", err)
		}
		if _, ok := s.HomeOf(pmix.Proc{Nspace: j.Parent.Nspace + "-3"}); ok {
			t.Error("the step knows processes of a job that is over")
		}
	}
}

// Requests by PMI-1 go the same way. What the spawner stores for the job comes to all nodes.
func TestFurtherJobByPMI(t *testing.T) {
	c, asked := startRooted(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1})
	from := pmix.Proc{Nspace: c.steps[1].table.job(0).nspace, Rank: 1}
	pmiHost{c.steps[1].clients}.Spawn(&pmi1.SpawnRequest{
		From: from, Preput: []pmi1.Pair{{Key: "k", Value: "v"}}, Apps: []pmi1.SpawnApp{{Cmd: "true", MaxProcs: 2, Infos: []pmi1.Pair{{Key: "path", Value: "/bin"}}}},
	})
	r := receive(t, "request for a job", asked)
	if r.Node != 1 || r.From != from || len(r.Preput) != 1 || r.Apps[0].Search != "/bin" {
		t.Errorf("request %+v, want what node 1 asks for", r)
	}
	j := c.layOut(1, &r)
	if err := errors.Join(c.each(func(s *Step) error { return s.AddJob(j) }), c.each(func(s *Step) error { return s.StartJob(1) })); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.steps {
		if e := nextOf(t, s, Exited); e.Job != 1 || e.End.Code != 0 {
			t.Errorf("event %+v, want the good end of a PE of job 1", e)
		}
		s.EndJob(1)
	}
	c.awaitGone(1)
}

// A further job whose PEs are on one node is known on the others, too.
func TestFurtherJobOnOneNode(t *testing.T) {
	c, asked := startRooted(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1})
	r := c.askFor(asked, server.SpawnApp{Cmd: "sh", Args: []string{"sh", "-c", "echo $PMIX_HOSTNAME; exec sleep 1000"}, MaxProcs: 2})
	j := c.layOut(1, &r)
	j.Homes = []int{1, 1}
	if err := errors.Join(c.each(func(s *Step) error { return s.AddJob(j) }), c.each(func(s *Step) error { return s.StartJob(1) })); err != nil {
		t.Fatal(err)
	}
	c.wantLines("1.0: host1", "1.1: host1")
	if far := c.steps[0].table.job(1); len(far.near) != 0 || far.nodes() != 1 {
		t.Errorf("the first node has PEs %v of a job of %d nodes, want none of 1", far.near, far.nodes())
	}
	if err := c.each(func(s *Step) error { return s.DropJob(1) }); err != nil {
		t.Error(err)
	}
	c.awaitGone(1)
}

// A further job that cannot be added or started leaves nothing on its node.
func TestFurtherJobFails(t *testing.T) {
	garbage := script(t, t.TempDir(), "garbage", "no program\n")
	c, asked := startRooted(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1})
	s := c.steps[0]
	r := c.askFor(asked, server.SpawnApp{Cmd: "sleep", Args: []string{"sleep", "1000"}, MaxProcs: 1}, server.SpawnApp{Cmd: garbage, MaxProcs: 1})
	good := c.layOut(1, &r)
	for want, change := range map[string]func(j *FurtherJob){
		"further job 0 has":                         func(j *FurtherJob) { j.Number = 0 },
		"2 PEs and 1 homes":                         func(j *FurtherJob) { j.Homes = []int{0} },
		"PE 1 is on node 2":                         func(j *FurtherJob) { j.Homes = []int{0, 2} },
		"a number from 1, a key":                    func(j *FurtherJob) { j.Key = [16]byte{} },
		"-1 PEs of sleep":                           func(j *FurtherJob) { j.Apps[0].NPEs, j.Apps[1].NPEs = -1, 3 },
		`program "no such program" is not`:          func(j *FurtherJob) { j.Apps[0].Program = "no such program" },
		`working directory "no such dir"`:           func(j *FurtherJob) { j.Apps[0].WrittenDir, j.Apps[0].Dir = "no such dir", "/no such dir" },
		"further job 1 has 9 PEs on host0, want at": func(j *FurtherJob) { j.Apps, j.Homes = programsOf(9), make([]int, 9) },
	} {
		j := good
		j.Apps = slices.Clone(good.Apps)
		change(&j)
		if err := s.AddJob(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("added: %v, want an error with %q", err, want)
		}
		if s.table.job(1) != nil {
			t.Errorf("%s: the job is there", want)
		}
	}
	good.Homes = []int{0, 0}
	if err := s.AddJob(good); err != nil {
		t.Fatal(err)
	}
	if err := s.AddJob(good); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("added twice: %v", err)
	}
	if err := s.StartJob(2); err == nil || !strings.Contains(err.Error(), "job 2 is not there") {
		t.Errorf("started: %v, want that the job is not there", err)
	}
	if err := s.StartJob(1); err == nil || !strings.Contains(err.Error(), "start PE 1.1") {
		t.Errorf("started: %v, want an error about PE 1.1", err)
	}
	started := s.table.job(1).procs[0]
	if err := s.DropJob(1); err != nil {
		t.Fatal(err)
	}
	if !started.life.Ended() {
		t.Error("PE 1.0 still runs")
	}
	c.awaitGone(1)
	s.AnswerSpawn(SpawnAnswer{ID: r.ID, Failed: "host1: no program"})
	if got := receive(t, "notice", c.said); got != "spawn for PE 0: host1: no program" {
		t.Errorf("the user is told %q", got)
	}
	s.Refuse(false)
	if err := s.AddJob(c.layOut(2, &r)); err != errEnding { //nolint:errorlint // AddJob returns it unwrapped
		t.Errorf("added while the job ends: %v, want %v", err, errEnding)
	}
}

// guestJob is a further job of three PEs. Two are on the first node, with indices 2 and 3 of its agent.
func (c *testCluster) guestJob() FurtherJob {
	return FurtherJob{
		Number: 1, Key: [16]byte{1}, Parent: pmix.Proc{Nspace: c.steps[0].table.job(0).nspace}, Homes: []int{0, 1, 0}, Bases: []int{2, 2},
		Apps: []SpawnApp{{App: App{NPEs: 3, Program: "sleep", Args: []string{"1000"}, Env: []string{"PATH=" + os.Getenv("PATH")}}}},
	}
}

// The agent hears that a further job is over, or is dropped, and looks no more at its PEs.
func TestAgentHearsOfFurtherEnd(t *testing.T) {
	for _, drop := range []bool{true, false} {
		gate := filepath.Join(t.TempDir(), "pe")
		c := startCluster(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1}, byAgent("ended "+gate))
		c.launch()
		s := c.steps[0]
		if err := s.AddJob(c.guestJob()); err != nil {
			t.Fatal(err)
		}
		if drop {
			if err := s.DropJob(1); err != nil {
				t.Fatal(err)
			}
		} else {
			s.EndJob(1)
		}
		awaitAsked(t, gate+"2")
		awaitAsked(t, gate+"3")
		c.awaitGone(1)
	}
}

// A further job whose PEs the agent cannot serve is refused. The agent and the PEs of the node go on.
func TestFurtherJobRefusedByAgent(t *testing.T) {
	c := startCluster(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1}, byAgent("full"))
	c.launch()
	s, j := c.steps[0], c.guestJob()
	if err := s.AddJob(j); err == nil || !strings.Contains(err.Error(), "the agent of the node cannot serve the job: no memory is left") {
		t.Errorf("added: %v, want the agent's error", err)
	}
	c.awaitGone(1)
	if runs, _ := s.agent.isServing(); !runs {
		t.Error("the agent has ended")
	}
	s.agent.queue.Lock()
	defer s.agent.queue.Unlock()
	if len(s.agent.refused) > 0 {
		t.Errorf("%d errors of the agent are kept", len(s.agent.refused))
	}
}

// programsOf returns a program of n PEs.
func programsOf(n int) []SpawnApp { return []SpawnApp{{App: App{NPEs: n, Program: "true"}}} }

// A request that the root does not answer ends with the step.
func TestUnansweredSpawn(t *testing.T) {
	closing := make(chan struct{})
	l := &rootLine{call: func(SpawnRequest) { close(closing) }, closing: closing}
	if _, err := l.ask(SpawnRequest{}); err != errEnding { //nolint:errorlint // ask returns it unwrapped
		t.Errorf("%v, want %v", err, errEnding)
	}
}

// Directives are words of Placing.
func TestPlacingOf(t *testing.T) {
	text := func(key, value string) pmix.Info { return pmix.Info{Key: key, Value: pmix.StringValue(value)} }
	got := placingOf([]pmix.Info{
		text(pmix.KeyHost, "a"),
		text(pmix.KeyAddHost, "b,c"), text(pmix.KeyMapBy, "node"), text(pmix.KeyRankBy, "slot"),
		{Key: pmix.KeyMapBy, Value: pmix.BoolValue(true)},
		text(pmix.KeyPPR, "2:n"),
		text(pmix.KeyHost, "d"), text(pmix.KeyHostfile, "some"), text(pmix.KeyAddHostfile, "more"),
	})
	want := Placing{Hosts: "d", More: "b,c", File: PlacingFile{Name: "some"}, MoreFile: PlacingFile{Name: "more"}, MapBy: "ppr:2:node", RankBy: "slot"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
