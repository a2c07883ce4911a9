package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// on returns hosts for nodes.
func on(names ...string) (hosts []plan.Node) {
	for _, name := range names {
		hosts = append(hosts, plan.Node{Host: plan.Host{Name: name}})
	}
	return hosts
}

// growing starts a job of two nodes that may get more.
func growing(t *testing.T, agent Agent) (*job, launch.Adder) {
	t.Helper()
	j := newJob(t, 2, agent)
	j.layout.Grows = true
	j.begin()
	return j, j.member(0)
}

// add adds nodes, which are closed at the end of the test.
func (j *job) add(to launch.Adder, hosts ...string) []launch.Node {
	j.t.Helper()
	added, err := to.AddNodes(j.t.Context(), on(hosts...))
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() {
		for _, n := range added {
			_ = n.Close() // tests that want no error look for themselves
		}
	})
	return added
}

// Nodes are added to a job, run a further job with the others, and end.
func TestAddNodes(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]Agent{"local": LocalAgent(oshrun(t)), "all": allAgent(t, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, to := growing(t, agent)
			added := append(j.add(to, "more0", "more1"), j.add(to, "last")...)
			all := append(j.nodes[:2:2], added...)
			further := daemon.FurtherJob{
				Number: 1, Key: [16]byte{1}, Homes: []int{4, 1}, Hosts: []string{"node0", "node1", "more0", "more1", "last"},
				Apps: []daemon.SpawnApp{{App: daemon.App{NPEs: 2, Program: "/bin/true", Name: "true"}}},
			}
			addJob(t, all, further)
			for _, i := range further.Homes {
				if err := all[i].StartJob(1); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
				for e := (daemon.Event{}); e.Kind != daemon.Exited; {
					select {
					case e = <-all[i].Events():
					case <-time.After(patience):
						t.Fatalf("node %d does not tell of the end of its PE", i)
					}
				}
			}
			for i, n := range all {
				if err := n.Close(); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// Nodes that are added have the radix of the others, also where the first one is in this process.
func TestAddedNodesHaveTheRadix(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprint("local ", local), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, 1, LocalAgent(oshrun(t)))
			j.layout.Grows, j.layout.Local, j.cfg.CollRadix = true, local, 7
			j.begin()
			to, ok := j.nodes[0].(launch.Adder)
			if !ok {
				t.Fatalf("the node is a %T, want one that adds others", j.nodes[0])
			}
			j.add(to, "more0")
			for _, host := range []string{"node0", "more0"} { // each says it before its step begins
				if said := await(t, j.log, "tree of nodes"); !strings.Contains(said, `"radix":7`) || !strings.Contains(said, host) {
					t.Errorf("said %s, want radix 7 of %s", said, host)
				}
			}
		})
	}
}

// If one daemon fails, the job keeps the nodes that it had, and the host may be tried again.
func TestAddNodesFails(t *testing.T) {
	t.Parallel()
	j, to := growing(t, shellAgent(t, `case {host} in bad) exit 9;; esac; exec "$@"`))
	nodes, err := to.AddNodes(t.Context(), on("good", "bad"))
	if nodes != nil || err == nil || !strings.Contains(err.Error(), "daemon on bad") || !strings.Contains(err.Error(), "exit status 9") {
		t.Errorf("nodes %v, error %v, want none and the error of host bad", nodes, err)
	}
	added := j.add(to, "good")
	if i := added[0].(*member).index; i != 2 { //nolint:forcetypeassert // all are
		t.Errorf("the next node has index %d, want 2", i)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the job is over")
	cancel(over)
	if nodes, err := to.AddNodes(ctx, on("late")); nodes != nil || !errors.Is(err, over) {
		t.Errorf("nodes %v, error %v, want none and %v", nodes, err, over)
	}
}

// New nodes hear of nodes that were lost, and a new node that is lost is lost to all.
func TestAddedNodeIsLost(t *testing.T) {
	t.Parallel()
	j, to := growing(t, LocalAgent(oshrun(t)))
	added := j.add(to, "more0")
	m, ok := added[0].(*member)
	if !ok {
		t.Fatalf("a node is a %T", added[0])
	}
	m.agent.kill()
	for e := (daemon.Event{}); e.Kind != daemon.NodeLost; {
		select {
		case e = <-m.Events():
		case <-time.After(patience):
			t.Fatal("nobody tells of the loss")
		}
	}
	j.add(to, "more1")
	nodes, err := to.AddNodes(t.Context(), on("more0"))
	if err == nil || len(nodes) != 1 || !strings.Contains(err.Error(), "different names") {
		t.Fatalf("nodes %v, error %v: want one that its step refuses, as it has the name of another", nodes, err)
	}
	refused := nodes[0]
	select {
	case e := <-refused.Events():
		if e.Kind != daemon.NodeLost {
			t.Errorf("the refused node tells of %v, want its loss", e.Kind)
		}
	case <-time.After(patience):
		t.Error("nobody tells of the loss of a refused node")
	}
	_ = refused.Close() // it says that the node is lost
}

// A job whose nodes have ended gets none.
func TestAddNodesTooLate(t *testing.T) {
	t.Parallel()
	j, to := growing(t, LocalAgent(oshrun(t)))
	for _, n := range j.nodes {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if nodes, err := to.AddNodes(t.Context(), on("late")); nodes != nil || !errors.Is(err, errOver) {
		t.Errorf("nodes %v, error %v, want none and %v", nodes, err, errOver)
	}
}

// addJob makes a job known on nodes.
func addJob(t *testing.T, nodes []launch.Node, j daemon.FurtherJob) {
	t.Helper()
	for i, n := range nodes {
		if err := n.AddJob(j); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

// A job begins in this process, without a daemon, and gets nodes all the same.
func TestAddNodesToLocal(t *testing.T) {
	t.Parallel()
	j := newJob(t, 1, LocalAgent(oshrun(t)))
	j.layout.Grows, j.layout.Local = true, true
	j.begin()
	to, ok := j.nodes[0].(launch.Adder)
	if !ok {
		t.Fatalf("the node is a %T, want one that adds others", j.nodes[0])
	}
	all := append(j.nodes[:1:1], j.add(to, "more0", "more1")...)
	further := daemon.FurtherJob{
		Number: 1, Key: [16]byte{1}, Homes: []int{0, 2}, Hosts: []string{"node0", "more0", "more1"},
		Apps: []daemon.SpawnApp{{App: daemon.App{NPEs: 2, Program: "/bin/true", Name: "true"}}},
	}
	addJob(t, all, further)
	for _, i := range further.Homes {
		if err := all[i].StartJob(1); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	for i, n := range all {
		if err := n.Close(); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	if nodes, err := to.AddNodes(t.Context(), on("late")); nodes != nil || !errors.Is(err, errOver) {
		t.Errorf("nodes %v, error %v, want none and %v", nodes, err, errOver)
	}
}

// holderLine returns both ends of the line between the front end and the holder of a network.
func holderLine(t *testing.T) (here, there *os.File) {
	t.Helper()
	here, there, err := xunix.PacketPair()
	if err != nil {
		t.Skipf("no socket pairs: %v", err)
	}
	t.Cleanup(func() { _ = errors.Join(here.Close(), there.Close()) })
	return here, there
}

// A spawn waits for a silent holder for the given time only. The holder's late answer is not taken for that of the next
// host.
func TestSilentHolder(t *testing.T) {
	t.Parallel()
	here, there := holderLine(t)
	n := &network{conn: here}
	if _, err := n.addHost([]byte("handover"), 10*time.Millisecond); !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "10ms (--launch-timeout)") {
		t.Errorf("got %v, want %v, and within what time", err, errSilent)
	}
	n.answers = make(chan []byte, 1)
	go n.hear()
	(&holder{conn: there}).say(holderAdded, "")
	if _, err := n.addHost([]byte("handover"), patience); !errors.Is(err, errSilent) {
		t.Errorf("got %v after the late answer, want %v", err, errSilent)
	}
}

// The start ends when a daemon has ended that had not connected yet, though the holder goes on with others.
func TestEarlyEndInNetwork(t *testing.T) {
	t.Parallel()
	here, there := holderLine(t)
	n := &network{conn: here, holder: newAgentProcess("here", []string{"oshrun"}), answers: make(chan []byte, 1)}
	go n.hear()
	from := &holder{conn: there}
	from.say(holderEnded, "1 signal: killed")
	from.say(holderEnded, "2 exit status 1")
	from.say(holderRefused, "node3: no room")
	if _, err := n.addHost([]byte("handover"), patience); err == nil || err.Error() != "node3: no room" {
		t.Errorf("got %v, want the holder's error", err)
	}
	joined := make(chan struct{})
	close(joined)
	for _, x := range []struct {
		m    *member
		want string
	}{
		{&member{index: 1, host: "node1", joined: make(chan struct{})}, `daemon on node1, started by "oshrun": signal: killed`},
		{&member{index: 2, host: "node2", joined: make(chan struct{})}, `daemon on node2, started by "oshrun": exit status 1`},
	} {
		if err := x.m.awaitDaemon(t.Context(), n.holder, patience); err == nil || err.Error() != x.want {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
	if !(&member{joined: joined}).hasJoined() {
		t.Error("a daemon that has reported itself has not joined")
	}
}
