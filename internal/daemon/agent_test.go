package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/symheap/layout"
)

// agentRole is the argument by which this test program acts as an agent; what the agent does is the next one.
const agentRole = "test-agent"

// playAgent acts as an agent, as its mode says.
func playAgent(mode string) error {
	if mode == "ends" {
		os.Exit(3)
	}
	line, err := xunix.PacketConn(3)
	if err != nil {
		return err
	}
	ready := wire.AgentReady{Addr: "127.0.0.1:1"}
	if mode == "fails" {
		ready = wire.AgentReady{Err: "no port is free"}
	}
	// The descriptor stands for the event descriptor of an agent.
	if err := xunix.SendFDs(line, ready.Append(nil), []int{int(line.Fd())}); err != nil {
		return err
	}
	if mode == "deaf" {
		time.Sleep(time.Hour)
	}
	for {
		packet, fds, err := xunix.RecvFDs(line, wire.AgentPacket, wire.MaxSegments)
		if err != nil {
			return err
		}
		xunix.CloseFDs(fds)
		var m wire.AgentDrop
		answer := wire.AgentDropped{}
		var guest wire.AgentGuest
		if guest.Parse(packet) == nil && guest.Last {
			m.Number, m.Node = guest.Number, -1
			if mode == "full" {
				answer.Err = "no memory is left"
			}
		} else if m.Parse(packet) != nil || m.Number == 0 {
			if gate, noted := strings.CutPrefix(mode, "ended "); noted && m.Ended {
				if err := os.WriteFile(fmt.Sprintf("%s%d.asked", gate, m.PE), nil, 0o600); err != nil {
					return err
				}
			}
			continue
		}
		if mode == "quits" {
			fmt.Fprintln(os.Stderr, "oshrun: something is wrong")
			os.Exit(3)
		}
		if gate, held := strings.CutPrefix(mode, "held "); held && m.Node >= 0 {
			if err := awaitGate(gate); err != nil {
				return err
			}
		}
		answer.Number = m.Number
		if err := xunix.SendFDs(line, answer.Append(nil), nil); err != nil {
			return err
		}
	}
}

// awaitGate says by a file that somebody waits for another file, and returns when that is there.
func awaitGate(gate string) error {
	if err := os.WriteFile(gate+".asked", nil, 0o600); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < deadline; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(gate); err == nil {
			return nil
		}
	}
	return errors.New("the gate stays closed")
}

// byAgent gives a step an agent that is this test program.
func byAgent(mode string) func(*settings) {
	return func(s *settings) { s.Agent = &AgentCommand{Argv: []string{os.Args[0], agentRole, mode}} }
}

// The parts of nodes are blocks of PEs, in any order of the nodes. If the PEs of some node have gaps, they are places in a list.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		homes []int
		want  []layout.NodePart
		list  []layout.PE
	}{
		{[]int{0, 0, 1}, []layout.NodePart{{First: 0, Count: 2}, {First: 2, Count: 1}, {}}, nil},
		{[]int{2, 2, 0, 1}, []layout.NodePart{{First: 2, Count: 1}, {First: 3, Count: 1}, {First: 0, Count: 2}}, nil},
		{[]int{0, 1, 0}, []layout.NodePart{{First: 0, Count: 2}, {First: 2, Count: 1}, {}}, []layout.PE{0, 2, 1}},
		{[]int{2, 0, 0, 2, 0}, []layout.NodePart{{First: 0, Count: 3}, {}, {First: 3, Count: 2}}, []layout.PE{1, 2, 4, 0, 3}},
	} {
		s := Share{Name: "goshmem-a", Hosts: []string{"a", "b", "c"}, Homes: test.homes}
		if got, list := s.parts(); !slices.Equal(got, test.want) || !slices.Equal(list, test.list) {
			t.Errorf("homes %v: parts %v, list %v, want %v and %v", test.homes, got, list, test.want, test.list)
		}
	}
}

// A node has an agent if it has PEs of a job of several nodes, whose PEs agents can serve.
func TestAgentIsWanted(t *testing.T) {
	command := &AgentCommand{Argv: []string{"agent"}}
	var many []int // by PE
	for node := range layout.UpperNodes + 1 {
		many = append(many, node)
	}
	for _, x := range []struct {
		hosts   int
		homes   []int
		node    int
		command *AgentCommand
		lack    string // empty: there is an agent, unless there is one host
	}{
		{1, []int{0}, 0, command, ""},
		{2, []int{0, 1}, 1, command, ""},
		{3, []int{0, 1}, 2, command, "no PE of the first job"},
		{2, []int{0, 1, 0}, 0, command, ""},
		{len(many) - 1, many[:len(many)-1], 0, command, ""},
		{len(many), many[:len(many)-1], 0, command, ""},
		{len(many), many, 0, command, "PEs on 129 nodes, want at most 128"},
		{layout.WireNodes + 1, []int{0, 1}, 0, command, "1025 nodes, want at most 1024"},
		{2, []int{0, 1}, 0, nil, "oshrun starts none"},
		{2, []int{0, 1}, 0, &AgentCommand{Lack: errors.New("no address")}, "no address"},
	} {
		cfg := settings{Config: Config{Share: Share{Homes: x.homes, Node: x.node}}, Hooks: Hooks{Agent: x.command}}
		for i := range x.hosts {
			cfg.Share.Hosts = append(cfg.Share.Hosts, fmt.Sprint("host", i))
		}
		var a nodeAgent
		a.configure(&cfg)
		if has := a.command != nil; has != (x.lack == "" && x.hosts > 1) || (a.lack != nil) != (x.lack != "") || a.lack != nil && !strings.Contains(a.lack.Error(), x.lack) {
			t.Errorf("%d hosts, %d PEs, node %d: an agent: %t, why not: %v, want %q", x.hosts, len(x.homes), x.node, has, a.lack, x.lack)
		}
	}
}

// wantLack checks why a step has no agent.
func wantLack(t *testing.T, s *Step, want string) {
	t.Helper()
	if fds, lack := s.agent.lend(); len(fds) > 0 || lack == nil || !strings.Contains(lack.Error(), want) {
		t.Errorf("%d descriptors, lack %v, want %q", len(fds), lack, want)
	}
}

// If the agent does not start, the job goes on, and PEs that need it learn why.
func TestAgentDoesNotStart(t *testing.T) {
	for mode, want := range map[string]string{"fails": "no port is free", "ends": "exit status 3", "": "no such file or directory"} {
		t.Run(mode, func(t *testing.T) {
			c := startCluster(t, []App{shell(2, "true")}, []int{0, 1}, byAgent(mode), func(s *settings) {
				if mode == "" {
					s.Agent.Argv[0] = "/nonexistent/agent"
				}
			})
			for _, s := range c.steps {
				if addr := s.Report().Agent; addr != "" {
					t.Errorf("address %q, want none", addr)
				}
				wantLack(t, s, want)
				if got := receive(t, "notice", c.said); !strings.Contains(got, ": the agent of the node has not started: ") || !strings.Contains(got, want) {
					t.Errorf("the user is told %q, want why", got)
				}
			}
			c.launch()
			c.wantWell()
		})
	}
}

// If one node has no agent, the others do not use theirs.
func TestAgentOfOtherNodeIsMissing(t *testing.T) {
	c := startCluster(t, []App{shell(2, "true")}, []int{0, 1}, byAgent("serves"))
	for _, s := range c.steps {
		if err := s.SetAgents([]string{"127.0.0.1:1", ""}); err != nil {
			t.Error(err)
		}
		wantLack(t, s, "host1 has none")
	}
	c.launch()
	c.wantWell()
}

// The end of an agent is that of its node once a PE has its descriptors, and not before.
func TestAgentEnds(t *testing.T) {
	c := startCluster(t, []App{shell(2, "sleep 1000")}, []int{0, 1}, byAgent("serves"))
	c.launch()
	unused, used := c.steps[0], c.steps[1]
	if fds, lack := used.agent.lend(); len(fds) != 2 || lack != nil {
		t.Fatalf("%d descriptors, lack %v, want 2", len(fds), lack)
	}
	for _, s := range c.steps {
		kill(t, s.agent.process().pid, syscall.SIGKILL)
		receive(t, "end of an agent", s.agent.ended)
	}
	if e := nextOf(t, used, Failed); e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("the PE has ended by %+v, want SIGKILL", e.End)
	}
	wantLack(t, unused, "signal: killed")
	if unused.table.refusing || look(unused.PID(ID{})) == (process{}) {
		t.Error("the PE that has not used its agent is killed")
	}
	if got := receive(t, "notice", c.said); !strings.Contains(got, "host1: the agent of the node has failed: signal: killed: its PEs are killed") {
		t.Errorf("the user is told %q", got)
	}
}

// The last words of an agent that ends itself say why.
func TestLastWordsOfAgent(t *testing.T) {
	c := startCluster(t, []App{shell(2, "sleep 1000")}, []int{0, 1}, byAgent("quits"))
	c.launch()
	s := c.steps[0]
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	if err := s.FarFailed(FarFailure{PEs: []int{1}, End: ending.End{Signal: 9}}); err != nil {
		t.Error(err)
	}
	if got := receive(t, "notice", c.said); !strings.Contains(got, "host0: the agent of the node has failed: exit status 3: something is wrong: its PEs are killed") {
		t.Errorf("the user is told %q", got)
	}
}

// empty is the place of a step that reaches no other one.
type empty struct{ seat }

// Fence takes a part, and does not end the fence.
func (empty) Fence(server.FencePart) {}

// A node without PEs of the first job has no agent, and hears of failures of that job without one.
func TestNodeWithoutPEsHearsOfFailures(t *testing.T) {
	cfg := sleepers(t, 2, byAgent("serves"), func(s *settings) {
		s.Share = testShare("goshmem-testfree", []int{0, 1}, 0)
		s.Share.Hosts, s.Share.Node, s.Remote = append(s.Share.Hosts, "host2"), 2, empty{}
	})
	s, err := cfg.start()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, f := range []FarFailure{{PEs: []int{0}, End: ending.End{Signal: 9}}, {PEs: []int{1}, NodeLost: true}, {PEs: []int{0}, NodeLost: true, Before: true}} {
		if err := s.FarFailed(f); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > hungAfter/2 || s.Report().Agent != "" {
		t.Errorf("the news took %v, agent at %q, want no agent, and nobody who waits for it", took, s.Report().Agent)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An agent that does not take what it is told, or does not answer, is killed.
func TestAgentIsHung(t *testing.T) {
	for name, tell := range map[string]func(s *Step){
		"answer": func(s *Step) { _ = s.FarFailed(FarFailure{PEs: []int{1}, End: ending.End{Signal: 9}}) },
		"deaths": func(s *Step) {
			a, j := s.agent, s.table.job(0)
			kept := func() int {
				a.queue.Lock() // the watch of processes may tell as well, when the agent is killed
				defer a.queue.Unlock()
				return len(a.deaths)
			}
			for kept() == 0 { // until its socket is full
				a.noteDeath(j, 0)
			}
			a.noteDeath(j, 0)
			a.tellDeaths()
			if kept() > 0 {
				t.Error("deaths are kept for an agent that is killed")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, []App{shell(2, "sleep 1000")}, []int{0, 1}, byAgent("deaf"))
			c.launch()
			s := c.steps[0]
			s.agent.hungAfter = 50 * time.Millisecond
			if _, lack := s.agent.lend(); lack != nil {
				t.Fatal(lack)
			}
			tell(s)
			if got := receive(t, "notice", c.said); !strings.Contains(got, "host0: the agent of the node has not answered within 50ms, and is killed") {
				t.Errorf("the user is told %q", got)
			}
			receive(t, "end of the agent", s.agent.ended)
		})
	}
}

// Only an agent of which a PE has the descriptors is waited for.
func TestUnusedAgentIsNotAwaited(t *testing.T) {
	c := startCluster(t, []App{shell(2, "true")}, []int{0, 1}, byAgent("deaf"))
	began := time.Now()
	if err := c.steps[0].FarFailed(FarFailure{PEs: []int{1}, End: ending.End{Signal: 9}}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > hungAfter/2 {
		t.Errorf("the news took %v", took)
	}
}

// The agent is told of the death of a near PE before the lock of the table is released, and so no later than PEs.
func TestAgentHearsOfNearDeath(t *testing.T) {
	here, there, err := xunix.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(here.Close(), there.Close()) }()
	for _, x := range []struct {
		homes []int
		pe    int
		want  wire.AgentDrop
	}{
		{[]int{0, 1, 1}, 2, wire.AgentDrop{Node: 1, PE: 1, Incarnation: incarnation}},
		{[]int{1, 0, 1, 1}, 2, wire.AgentDrop{Node: 1, PE: 1, Incarnation: incarnation}}, // the PEs of node 1 have a gap
		{[]int{1, 0, 1, 0}, 3, wire.AgentDrop{Node: 0, PE: 1, Incarnation: incarnation}},
	} {
		share := Share{Name: "goshmem-a", Key: [16]byte{1}, Hosts: []string{"a", "b"}, Homes: x.homes, Node: 1}
		a := &nodeAgent{line: here, runs: true}
		a.parts, a.list = share.parts()
		a.noteDeath(newLocalJob([]App{{NPEs: len(x.homes)}}, &share), x.pe)
		b := make([]byte, wire.AgentPacket)
		n, err := xunix.RecvAtOnce(there, b)
		var m wire.AgentDrop
		if err == nil {
			err = m.Parse(b[:n])
		}
		if err != nil || m != x.want || len(a.deaths) > 0 {
			t.Errorf("homes %v: the agent is told %+v, %v, want %+v", x.homes, m, err, x.want)
		}
	}
}

// The page, the launcher and PMIx clients hear of the death of a near PE when the agent has answered that nothing of it has an
// effect any more, and not before. What happens to other PEs meanwhile comes afterwards.
func TestNearDeathWaitsForAgent(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	c := startCluster(t, []App{shell(4, "sleep 1000")}, []int{0, 0, 0, 1}, byAgent("held "+gate))
	c.launch()
	s := c.steps[0]
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	j := s.table.job(0)
	view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, 4)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, s.PID(ID{PE: 1}), syscall.SIGKILL)
	awaitAsked(t, gate)
	kill(t, s.PID(ID{PE: 0}), syscall.SIGKILL)
	if epoch := view.Epoch(); epoch != 0 {
		t.Errorf("epoch %d before the agent has answered", epoch)
	}
	select {
	case e := <-s.Events():
		t.Errorf("event %+v before the agent has answered", e)
	default:
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, pe := range []int{1, 0} {
		e := nextFailure(t, s)
		if f, ok := view.Failure(pe); e.PE != pe || !ok || f.Epoch != uint64(i+1) {
			t.Errorf("event %+v, the page has %+v, want PE %d in epoch %d", e, f, pe, i+1)
		}
	}
}

// awaitAsked returns when the agent is told of a death, and waits for its gate.
func awaitAsked(t *testing.T, gate string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(gate + ".asked"); err == nil {
			return
		}
		if time.Since(began) > deadline {
			t.Fatal("the agent is not told of the death")
		}
	}
}

// The death of the last PE of a node waits for the agent as well, which sends the last messages of the PE to other nodes.
func TestLastDeathWaitsForMessages(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	c := startCluster(t, []App{shell(2, "sleep 1000")}, []int{0, 1}, byAgent("held "+gate))
	c.launch()
	s := c.steps[0]
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	kill(t, s.PID(ID{}), syscall.SIGKILL)
	awaitAsked(t, gate)
	for early := time.After(lastMessagesMost / 8); ; {
		select {
		case e := <-s.Events():
			if e.Kind == Failed {
				t.Fatalf("event %+v before the agent has answered", e)
			}
			continue
		case <-early:
		}
		break
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := nextFailure(t, s); e.PE != 0 {
		t.Errorf("event %+v, want the end of PE 0", e)
	}
}

// nextFailure returns the next event of kind Failed.
func nextFailure(t *testing.T, s *Step) Event {
	t.Helper()
	for {
		if e := receive(t, "event", s.Events()); e.Kind == Failed {
			return e
		}
	}
}

// When no PE of the node lives any more, little waits for an agent that is hung: the job ends soon after its PEs.
func TestLastDeathsDoNotWaitForAgent(t *testing.T) {
	c := startCluster(t, []App{shell(3, "sleep 1000")}, []int{0, 0, 1}, byAgent("serves"))
	c.launch()
	s := c.steps[0]
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	kill(t, s.agent.process().pid, syscall.SIGSTOP)
	began := time.Now()
	kill(t, s.PID(ID{PE: 0}), syscall.SIGKILL)
	kill(t, s.PID(ID{PE: 1}), syscall.SIGKILL)
	for range 2 {
		if e := nextFailure(t, s); e.End.Signal != int(syscall.SIGKILL) {
			t.Errorf("event %+v, want an end by SIGKILL", e)
		}
	}
	if took := time.Since(began); took > hungAfter/2 {
		t.Errorf("the ends were told after %v", took)
	}
}

// If the agent is hung, it is killed, and then the page tells of the death of a near PE.
func TestNearDeathWithHungAgent(t *testing.T) {
	c := startCluster(t, []App{shell(3, "sleep 1000")}, []int{0, 0, 1}, byAgent("deaf"))
	c.launch()
	s := c.steps[0]
	s.agent.hungAfter = 100 * time.Millisecond
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	kill(t, s.PID(ID{}), syscall.SIGKILL)
	if e := nextFailure(t, s); e.PE != 0 || e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("event %+v, want the end of PE 0 by SIGKILL", e)
	}
	receive(t, "end of the agent", s.agent.ended)
}

// An agent that does not answer is killed also if nobody has died.
func TestHungAgentIsFound(t *testing.T) {
	c := startCluster(t, []App{shell(2, "sleep 1000")}, []int{0, 1}, byAgent("serves"))
	c.launch()
	s := c.steps[1]
	s.agent.hungAfter = 100 * time.Millisecond
	if _, lack := s.agent.lend(); lack != nil {
		t.Fatal(lack)
	}
	kill(t, s.agent.process().pid, syscall.SIGSTOP)
	if got := receive(t, "notice", c.said); !strings.Contains(got, "host1: the agent of the node has not answered within 100ms, and is killed") {
		t.Errorf("the user is told %q", got)
	}
	receive(t, "end of the agent", s.agent.ended)
	if e := nextFailure(t, s); e.PE != 1 {
		t.Errorf("event %+v, want the end of PE 1", e)
	}
}

// The loss of a node whose PEs had ended before is on the page of nodes with an agent, and PMIx clients do not hear of it. Who tells
// of it may not know of those ends.
func TestLossAfterEnds(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("before ", before), func(t *testing.T) { testLossAfterEnds(t, before) })
	}
}

func testLossAfterEnds(t *testing.T, before bool) {
	c := startCluster(t, []App{shell(3, "sleep 1000")}, []int{0, 1, 1}, byAgent("serves"))
	s := c.steps[0]
	j := s.table.job(0)
	view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		far  FarFailure
		want map[int]failure.Cause
	}{
		{FarFailure{PEs: []int{1}, End: ending.End{Signal: 9, Unfinished: true}}, map[int]failure.Cause{1: failure.BySignal(9, false, false)}},
		{FarFailure{PEs: []int{1}, NodeLost: true, Before: before}, map[int]failure.Cause{1: failure.Of(failure.NodeLost)}},
		{FarFailure{PEs: []int{1, 2}, NodeLost: true, Before: true}, map[int]failure.Cause{1: failure.Of(failure.NodeLost), 2: failure.Of(failure.NodeLost)}},
	} {
		if err := s.FarFailed(x.far); err != nil {
			t.Error(err)
		}
		for pe, cause := range x.want {
			if f, ok := view.Failure(pe); !ok || f.Cause != cause || view.Epoch() != uint64(i+1) {
				t.Errorf("news %d: the page has %+v in epoch %d, want %v in epoch %d", i, f, view.Epoch(), cause, i+1)
			}
		}
	}
	if err := s.FarFailed(FarFailure{PEs: []int{0}, NodeLost: true, Before: true}); err == nil {
		t.Error("the loss of this node is accepted")
	}
}
