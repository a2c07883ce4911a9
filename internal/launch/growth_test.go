package launch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// adder is a node that adds others.
type adder struct {
	*fake
	add func(ctx context.Context, hosts []plan.Node) ([]Node, error)
}

// AddNodes does what the test says.
func (a adder) AddNodes(ctx context.Context, hosts []plan.Node) ([]Node, error) {
	names := ""
	for i := range hosts {
		names += " " + hosts[i].Host.Name
	}
	a.note("add nodes%s", names)
	return a.add(ctx, hosts)
}

// oneOfThree is node a with a PE and a slot, in an allocation with b and c, which have two slots each.
var oneOfThree = &plan.Layout{
	Nodes: []plan.Node{{Host: plan.Host{Name: "a", Slots: 1}, PEs: []int{0}}}, Homes: []int{0},
	Spare: []plan.Node{{Host: plan.Host{Name: "b", Slots: 2}}, {Host: plan.Host{Name: "c", Slots: 2}}},
}

// newGrowing returns a run of one node that gets b and then c when it needs them.
func newGrowing(t *testing.T, recovers bool, add func(ctx context.Context, hosts []plan.Node) ([]Node, error)) (s *spawning, c *fake) {
	t.Helper()
	p := newPlay(t, 1, func(o *Options) { o.Layout, o.Recover = oneOfThree, recovers })
	s = &spawning{T: t, a: newFake(0, 1), b: newFake(0, 0), further: &spawns{o: &p.o, mostOnNode: 8}}
	s.a.answered = make(chan daemon.SpawnAnswer, 8)
	c = newFake(0, 0)
	if add == nil {
		nodes := map[string]Node{"b": s.b, "c": c}
		add = func(_ context.Context, hosts []plan.Node) (added []Node, err error) {
			for i := range hosts {
				added = append(added, nodes[hosts[i].Host.Name])
			}
			return added, nil
		}
	}
	cluster := NewCluster([]Node{adder{s.a, add}}, []int{0})
	startGrowth(cluster, p.o.span(), p.o.spare())
	s.begin(p, cluster)
	return s, c
}

// A job gets nodes when it needs them, each once.
func TestGrowth(t *testing.T) {
	s, c := newGrowing(t, false, nil)
	s.ask(1, 2)
	if a := s.answer(); a.Number != 1 {
		t.Errorf("answer %+v, want job 1", a)
	}
	s.ask(2, 1)
	if a := s.answer(); a.Number != 2 {
		t.Errorf("answer %+v, want job 2", a)
	}
	if got, want := s.a.noted(), []string{"add nodes b", "add 1, homes [1 1]", "answer 1: job 1, \"\"", "add nodes c", "add 2, homes [2]", "answer 2: job 2, \"\""}; !slices.Equal(got, want) {
		t.Errorf("calls of the first node %q, want %q", got, want)
	}
	if got, want := c.noted(), []string{"add 1, homes [1 1]", "add 2, homes [2]", "start 2"}; !slices.Equal(got, want) {
		t.Errorf("calls of the last node %q, want %q", got, want)
	}
	s.end(s.b, daemon.ID{Job: 1})
	s.end(s.b, daemon.ID{Job: 1, PE: 1})
	s.ask(3, 2) // there is room again
	s.answer()
	if got := s.a.noted(); slices.Contains(got[6:], "add nodes b") || !slices.Contains(got, "end 1") || !slices.Contains(got, "add 3, homes [1 1]") {
		t.Errorf("calls of the first node %q, want job 3 on the node that is there", got)
	}
}

// A new node is told what it has missed, and nothing of jobs that are over.
func TestGrowthTellsThePast(t *testing.T) {
	s, c := newGrowing(t, true, nil)
	s.run.cluster.Resize(xunix.Window{Rows: 9})
	for id := range uint64(2) {
		s.ask(id, 1)
		s.answer()
	}
	s.end(s.b, daemon.ID{Job: 1})
	s.b.events <- daemon.Event{Kind: daemon.Failed, ID: daemon.ID{Job: 2}, End: ending.End{Signal: 9}}
	s.handle(daemon.Failed)
	s.ask(2, 3)
	s.answer()
	got := strings.Join(c.noted(), "; ")
	if want := "add 2, homes [1]; resize 9, 0; far failed [0] false of job 2; add 3, homes "; !strings.HasPrefix(got, want) {
		t.Errorf("calls of the new node %s, want first %s", got, want)
	}
}

// If a node cannot be started, the spawn fails and the job goes on. The next spawn tries again.
func TestGrowthFails(t *testing.T) {
	s, _ := newGrowing(t, false, func(context.Context, []plan.Node) ([]Node, error) { return nil, errors.New("no route") })
	for id := range uint64(2) {
		s.further.take(daemon.SpawnRequest{ID: id, Apps: programs(2)})
		if a := s.answer(); a.Failed != "start a daemon for the spawned job: no route" {
			t.Errorf("answer %+v, want the error", a)
		}
	}
	if s.run.left != 1 || s.run.ending {
		t.Errorf("%d PEs left, ending: %t, want the job to go on", s.run.left, s.run.ending)
	}
}

// Close ends the start of nodes. Nodes that come all the same are closed.
func TestGrowthWhileClosing(t *testing.T) {
	for _, comes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			late := newFake(0, 0)
			s, _ := newGrowing(t, false, func(ctx context.Context, _ []plan.Node) ([]Node, error) {
				<-ctx.Done()
				if comes {
					return []Node{late}, nil
				}
				return nil, context.Cause(ctx)
			})
			s.further.take(daemon.SpawnRequest{ID: 1, Apps: programs(2)})
			synctest.Wait()
			if err := s.run.cluster.Close(); err != nil {
				t.Error(err)
			}
			if a := s.answer(); a.Failed != errEnding.Error() {
				t.Errorf("answer %+v, want that the job is ending", a)
			}
			if comes != slices.Contains(late.noted(), "close") {
				t.Errorf("calls of the late node %q: it comes: %t", late.noted(), comes)
			}
			s.run.cluster = NewCluster([]Node{newFake(0, 1)}, nil) // for the clean-up
		})
	}
}

// The loss of an added node ends the job only if PEs run there. While its job starts, the spawn fails instead.
func TestAddedNodeIsLost(t *testing.T) {
	s, _ := newGrowing(t, false, nil)
	s.ask(1, 2)
	s.answer()
	s.end(s.b, daemon.ID{Job: 1})
	s.end(s.b, daemon.ID{Job: 1, PE: 1})
	s.b.events <- daemon.Event{Kind: daemon.NodeLost, Msg: "cut"}
	s.handle(daemon.NodeLost)
	if s.run.ending || s.run.lostNodes[1] {
		t.Errorf("ending: %t, output counted as complete: %t, want neither", s.run.ending, s.run.lostNodes[1])
	}
	s.ask(2, 2)
	if a := s.answer(); a.Number != 2 || !slices.Contains(s.a.noted(), "add 2, homes [2 2]") {
		t.Errorf("answer %+v, calls %q, want job 2 on the last node", a, s.a.noted())
	}
}

func TestAddedNodeIsLostWithPEs(t *testing.T) {
	for _, started := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newGrowing(t, false, nil)
			s.further.take(daemon.SpawnRequest{ID: 1, Apps: programs(2)})
			synctest.Wait() // it is laid out, and the run has yet to receive that
			if started {
				s.handle(daemon.Spawned)
				s.answer()
			} else {
				s.run.cluster.noteLost(1)
				s.handle(daemon.Spawned)
			}
			s.run.reportLostNode(daemon.Event{Kind: daemon.NodeLost, ID: daemon.ID{PE: 1}, Msg: "cut"})
			if s.run.ending != started {
				t.Errorf("ending: %t, want it if the job had started: %t", s.run.ending, started)
			}
			if !started {
				s.handle(daemon.Dropped)
				if a := s.answer(); a.Failed != "b: the node is lost" || s.run.left != 1 {
					t.Errorf("answer %+v, %d PEs left: want an error, and one", a, s.run.left)
				}
			}
		})
	}
}

// Requests bring hosts along, but none that Slurm has not allocated.
func TestRequestBringsHosts(t *testing.T) {
	s, _ := newGrowing(t, false, nil)
	more := []daemon.SpawnApp{{Placing: daemon.Placing{More: "B,d:3", MoreFile: daemon.PlacingFile{Name: "file", Text: "e slots=2\n"}}}}
	hosts, used, nodes, err := s.further.hosts(s.run.cluster, more)
	var got []string
	for i := range hosts {
		got = append(got, hosts[i].Host.Name)
	}
	if want := []string{"a", "b", "c", "d", "e"}; err != nil || nodes != 1 || !slices.Equal(got, want) || !slices.Equal(used, []int{1, 0, 0, 0, 0}) || hosts[3].Host.Slots != 3 {
		t.Errorf("hosts %v with %v PEs, %d nodes, %v, want %v with 1 PE, and one node", got, used, nodes, err, want)
	}
	slurm := *oneOfThree
	slurm.Allocation.From = plan.SlurmName
	s.further.o.Layout = &slurm
	if _, _, _, err := s.further.hosts(s.run.cluster, more); err == nil || !strings.Contains(err.Error(), "host d is not in Slurm's allocation") {
		t.Errorf("error %v, want one with host d", err)
	}
	for _, bad := range []daemon.Placing{{More: "d:none"}, {MoreFile: daemon.PlacingFile{Name: "file", Text: "e f\n"}}} {
		if _, _, _, err := s.further.hosts(s.run.cluster, []daemon.SpawnApp{{Placing: bad}}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
