package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	shared "github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// testFar puts, adds and gets on the PEs of all other nodes, and checks what those have done here. With an argument, PE 0
// spoils what it shares with its agent, and the others do nothing.
func testFar(args []string, _, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	j, err := shared.Acquire(ctx)
	if err == nil && len(args) > 0 {
		if j.PE == 0 {
			err = spoilFar(ctx, j)
		}
		if err == nil {
			<-ctx.Done() // until the end of PE 0 ends the job
		}
	}
	if err == nil {
		err = errors.Join(operateFar(ctx, j), j.Release(ctx))
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// The words of testFar in each heap: one for each PE, and a counter.
const (
	farWords   = layout.HeapOffset
	farCounter = layout.HeapOffset + 1<<16
	farSource  = farCounter + 64
	farResult  = farCounter + 128
	farRounds  = 100
)

// spoilFar puts to the last PE by a block that names no node of the job.
func spoilFar(ctx context.Context, j *shared.Job) error {
	var touched far.Touched
	heap, last := rma.Target{Segment: j.Map.Segment(j.Local)}, layout.PE(j.NPEs-1)
	err := errors.Join(j.Far.Put(ctx, &touched, last, farWords, heap.At(farSource), 8), j.Far.Quiet(ctx, &touched))
	blocks := &j.Map.Wire(j.Local).Blocks
	for i := range blocks {
		blocks[i].Node = layout.WireNodes
	}
	return errors.Join(err, j.Far.Put(ctx, &touched, last, farWords, heap.At(farSource), 8))
}

// operateFar is testFar in a job.
func operateFar(ctx context.Context, j *shared.Job) error {
	if j.Far == nil {
		return errors.New("the job has no far.Port")
	}
	var touched far.Touched
	heap := rma.Target{Segment: j.Map.Segment(j.Local)}
	own := farWords + 8*uint64(j.PE)
	isFar := func(pe layout.PE) bool { _, near := j.Place.Local(pe); return !near }
	for i := uint64(1); i <= farRounds; i++ {
		for pe := range layout.PE(j.NPEs) {
			if !isFar(pe) {
				continue
			}
			v := uint64(j.PE)<<32 | i
			rma.AtomicStore(heap.At(farSource), v)
			err := j.Far.Put(ctx, &touched, pe, own, heap.At(farSource), 8)
			if err == nil {
				_, err = j.Far.Fetch(ctx, &touched, pe, farCounter, record.AtomicAdd, 8, 1, 0)
			}
			if err == nil {
				err = j.Far.Get(ctx, &touched, pe, own, heap.At(farResult), 8)
			}
			if got := rma.AtomicLoad[uint64](heap.At(farResult)); err == nil && got != v {
				err = fmt.Errorf("PE %d reads %#x of PE %d, want %#x", j.PE, got, pe, v)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := errors.Join(j.Far.Quiet(ctx, &touched), j.Fence(ctx)); err != nil {
		return err
	}
	word := func(off uint64) uint64 { return rma.AtomicLoad[uint64](heap.At(off)) }
	others := uint64(0)
	for pe := range layout.PE(j.NPEs) {
		if !isFar(pe) {
			continue
		}
		others++
		if got, want := word(farWords+8*uint64(pe)), uint64(pe)<<32|farRounds; got != want {
			return fmt.Errorf("PE %d has %#x of PE %d, want %#x", j.PE, got, pe, want)
		}
	}
	if got := word(farCounter); got != others*farRounds {
		return fmt.Errorf("the counter of PE %d is %d, want %d", j.PE, got, others*farRounds)
	}
	return nil
}

// PEs of emulated nodes reach each other's memory.
func TestEmulatedFar(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"2", "-n", "2"}, {"2", "-n", "5"}, {"3", "-n", "6"}} {
		start(t, slices.Concat([]string{"--emulate"}, args, []string{"t-far"})...).expect(0)
	}
}

// So do PEs of nodes with networks of their own.
func TestNetworksFar(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	start(t, "--emulate", "2:netns", "-n", "4", "t-far").expect(0)
}

// A PE that spoils what it shares with its agent is killed, and the user learns why.
func TestEmulatedFault(t *testing.T) {
	t.Parallel()
	start(t, "--emulate", "2", "-n", "2", "t-far", "spoil").expect(137, "PE 0 is killed: what it shares with the agent of its node is spoiled: ", "PE 0 ")
}

// agents returns the agents of a job.
func (j *job) agents() (all []int) {
	for _, daemon := range daemonsBelow(j.cmd.Process.Pid) {
		all = append(all, childrenThatRun(daemon, "agent")...)
	}
	return all
}

// Each node with others has an agent, whose command line and environment say nothing. It ends with the job. A job of one
// node has none.
func TestEmulatedAgents(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[string]int{"1": 0, "2": 2, "3": 3} {
		gate := filepath.Join(t.TempDir(), "gate")
		j := start(t, "--emulate", nodes, "-n", "3", "sh", "-c", waiter, gate)
		j.ready(3)
		agents := j.agents()
		if len(agents) != want {
			t.Errorf("%s nodes have %d agents, want %d", nodes, len(agents), want)
		}
		for _, pid := range agents {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(text) > 0 {
				t.Errorf("environment of an agent: %q, %v, want none", text, err)
			}
		}
		check(t, os.WriteFile(gate, nil, 0o600))
		j.expect(0)
		for _, pid := range agents {
			if !isDead(pid) {
				t.Errorf("agent %d runs after its job", pid)
			}
		}
	}
}

// Whoever of a used agent and the daemon is killed takes the node: nothing of it runs on, what its PEs have started included.
func TestEmulatedAgentKills(t *testing.T) {
	t.Parallel()
	for _, recovers := range []bool{false, true} {
		for _, victim := range []string{"agent", "daemon"} {
			t.Run(fmt.Sprintf("%s, --recover: %t", victim, recovers), func(t *testing.T) {
				gate := filepath.Join(t.TempDir(), "gate")
				args := []string{"--emulate", "2", "-n", "4", "sh", "-c", "(" + waiter + ") & wait; true", gate}
				if victim == "agent" { // programs of shmem use it
					args = []string{"--emulate", "2", "-n", "4", "sh", "-c", `"$0" pe t-pe wait & wait; true`, self(t)}
				}
				if recovers {
					args = append([]string{"--recover"}, args...)
				}
				j := start(t, args...)
				j.ready(4)
				daemon := daemonsBelow(j.cmd.Process.Pid)[0]
				node := processesBelow(daemon)
				pid := daemon
				if victim == "agent" {
					pid = childrenThatRun(daemon, "agent")[0]
				}
				check(t, syscall.Kill(pid, syscall.SIGKILL))
				began := time.Now()
				for _, pid := range node {
					for !isDead(pid) {
						if time.Since(began) > testPatience {
							t.Fatalf("process %d runs after the death of the %s", pid, victim)
						}
						<-time.After(time.Millisecond)
					}
				}
				t.Logf("all processes of the node were over %v after the death of its %s", time.Since(began), victim)
				words := "is lost with 2 PEs"
				if victim == "agent" {
					j.endedWith(words)
					return
				}
				if recovers {
					<-j.stderr.says(words)
					check(t, os.WriteFile(gate, nil, 0o600))
					j.expect(3, words)
					return
				}
				j.expect(1, words)
			})
		}
	}
}

// The user learns why a node is lost, also if its daemon's messages come by nothing but its connection.
func TestNetworkAgentKill(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	j := start(t, "--recover", "--emulate", "2:netns", "-n", "2", "t-pe", "wait")
	j.ready(2)
	check(t, syscall.Kill(childrenThatRun(daemonsBelow(j.cmd.Process.Pid)[0], "agent")[0], syscall.SIGKILL))
	j.endedWith(" is lost with PE ")
	if said := j.stderr.String(); !strings.Contains(said, ": the agent of the node has failed: signal: killed; 1 PE goes on") {
		t.Errorf("said %q, want why the node is lost", said)
	}
}

// The end of an agent takes its own node alone. Nodes that its daemon has started go on.
func TestEmulatedAgentOfStarter(t *testing.T) {
	t.Parallel()
	j := start(t, "--recover", "--launch-radix", "1", "--emulate", "3", "-n", "3", "t-pe", "wait")
	j.ready(3)
	starter := childrenThatRun(j.cmd.Process.Pid, "daemon", "--stdin")
	if len(starter) != 1 || len(daemonsBelow(starter[0])) != 2 {
		t.Fatalf("oshrun has started the daemons %v, want one that has started the others", starter)
	}
	check(t, syscall.Kill(childrenThatRun(starter[0], "agent")[0], syscall.SIGKILL))
	said := j.endedWith("node node0 is lost with PE 0: ")
	if strings.Contains(said, "node node1 is lost") || strings.Contains(said, "node node2 is lost") {
		t.Errorf("another node is lost, too; stderr:\n%s", said)
	}
}

// endedWith waits for some words of oshrun, and ends the job if it goes on. It returns what oshrun has said.
func (j *job) endedWith(words string) (said string) {
	j.t.Helper()
	j.awaitWord(words)
	_ = j.cmd.Process.Signal(syscall.SIGTERM) // it may have ended: PEs do not wait for those of a lost node
	_, said = j.ended(testPatience)
	return said
}

// The end of agents that no PE uses ends nothing. When a program of shmem begins afterwards, its node is lost, and oshrun says why.
func TestEmulatedUnusedAgentKills(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		then   string // what the PEs do after the end of the agents
		status int
		words  []string
	}{
		{"true", 0, nil},
		{`exec "$1" pe t-shmem`, 1, []string{"the agent of the node has failed: signal: killed"}},
	} {
		t.Run(x.then, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			j := start(t, "--emulate", "2", "-n", "2", "sh", "-c", waiter+x.then, gate, self(t))
			j.ready(2)
			agents := j.agents()
			if len(agents) != 2 {
				t.Fatalf("agents %v, want 2", agents)
			}
			for _, pid := range agents {
				check(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			for _, pid := range agents {
				for began := time.Now(); syscall.Kill(pid, 0) == nil; <-time.After(time.Millisecond) { // until its daemon has reaped it
					if time.Since(began) > testPatience {
						t.Fatalf("agent %d runs after its death", pid)
					}
				}
			}
			check(t, os.WriteFile(gate, nil, 0o600))
			j.expect(x.status, x.words...)
		})
	}
}

// PEs that wait for those of a node do not wait for ever when its agent ends: their team is tolerant, so the barrier ends without
// these, but for the error of a PE whose own operations were under way to that node. The program leaves without Finalize.
func TestEmulatedAgentWaits(t *testing.T) {
	t.Parallel()
	j := start(t, "--recover", "--emulate", "2", "-n", "4", "t-pe", "barrier") // the last PE does not come to the barrier
	j.ready(4)
	daemons := daemonsBelow(j.cmd.Process.Pid)
	last := slices.IndexFunc(daemons, func(pid int) bool {
		return hasVariable(childrenThatRun(pid, "t-pe", "barrier")[0], "PMIX_HOSTNAME=node1")
	})
	check(t, syscall.Kill(childrenThatRun(daemons[last], "agent")[0], syscall.SIGKILL))
	j.expect(1, "node node1 is lost with 2 PEs, 2 to 3: ", "; no PE goes on")
}
