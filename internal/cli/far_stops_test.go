package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// farStop is what TestFarStopsInCollectives stops of a node, and for how long.
type farStop struct {
	name   string
	what   func(k *farKilling, daemon int) []int // the processes, in the order in which they are stopped and go on
	lasts  time.Duration
	fenced bool     // the others lose the node
	flags  []string // of oshrun
	long   bool     // not in short runs
}

func agentOf(_ *farKilling, daemon int) []int { return childrenThatRun(daemon, "agent") }

// nodeOf returns the PEs of a node, its agent and its daemon. If they go on in this order, PEs and the agent do not know yet that the node
// is lost.
func nodeOf(k *farKilling, daemon int) (pids []int) {
	for _, pe := range k.pesOf(daemon) {
		pids = append(pids, k.pids[pe])
	}
	return append(append(pids, agentOf(k, daemon)...), daemon)
}

var farStops = []farStop{
	{name: "agent", what: agentOf, lasts: 2 * time.Second},
	{name: "node past the lease", what: nodeOf, lasts: faultLong, fenced: true, flags: []string{"--lease", faultLease.String()}},
	{name: "daemon past the lease", what: func(_ *farKilling, daemon int) []int { return []int{daemon} }, lasts: faultLong, fenced: true, flags: []string{"--lease", faultLease.String()}, long: true},
	{name: "agent until it is hung", what: agentOf, lasts: faultHung, fenced: true, long: true},
}

// TestFarStopsInCollectives stops processes of a node while PEs run collectives among nodes, under --recover. A node that goes on in time
// delays the others and nothing else. One that does not is lost: the others go on, and have the same results of the same contributors. When
// it goes on at last, its PEs end, and none of them comes to a result.
func TestFarStopsInCollectives(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for i, s := range farStops {
		if s.long && testing.Short() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			k := farKilling{killing: killing{t: t, rng: rand.New(rand.NewPCG(seed, uint64(i)))}, nodes: 3}
			k.n = k.nodes + k.rng.IntN(k.nodes+1)
			k.runStopped(i, s)
			t.Logf("seed %d: %d PEs on %d nodes, %v", seed, k.n, k.nodes, k.done)
		})
	}
}

// runStopped runs the job.
func (k *farKilling) runStopped(seed int, s farStop) {
	j, daemons, input := k.launch(seed, s.flags...)
	said := new(speech)
	over := make(chan struct{})
	go func() { _, _ = io.Copy(said, j.out); close(over) }()
	spin(time.Duration(k.rng.IntN(4000)) * time.Microsecond)
	node := k.rng.IntN(k.nodes)
	pids, pes := s.what(k, daemons[node]), k.pesOf(daemons[node])
	k.note("stop %s of node %d with PEs %v", s.name, node, pes)
	for _, pid := range pids {
		check(k.t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range pids {
		for began := time.Now(); !isStopped(pid); <-time.After(time.Millisecond) {
			if time.Since(began) > testPatience {
				k.t.Fatalf("process %d does not stop", pid)
			}
		}
	}
	timer := time.After(s.lasts)
	if s.fenced {
		k.dead = pes
		k.awaitLoss(j, node)
	} else {
		check(k.t, input.Close()) // the PEs would end
	}
	<-timer
	if text := said.String(); strings.Contains(text, " saw ") {
		k.t.Errorf("PEs have ended without those of node %d:\n%s", node, text)
	}
	k.note("%d of %d processes go on", len(slices.DeleteFunc(slices.Clone(pids), isDead)), len(pids))
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !isDead(pid) {
			k.t.Errorf("process %d does not go on: %v", pid, err)
		}
	}
	if s.fenced {
		for _, pe := range pes {
			k.awaitEnd(k.pids[pe])
		}
		check(k.t, input.Close())
	}
	status, stderr := j.endedAfter(testPatience, func() { <-over })
	k.judgeAll(said.String(), stderr, status)
	for _, pe := range k.dead {
		if strings.Contains(said.String(), fmt.Sprintf("PE %d ", pe)) {
			k.t.Errorf("PE %d, of the lost node, has come to a result:\n%s", pe, said)
		}
	}
	if lost := strings.Count(stderr, " is lost"); !s.fenced && lost > 0 {
		k.t.Errorf("a node is lost:\n%s", stderr)
	}
}

// awaitLoss waits until oshrun says that a node is lost.
func (k *farKilling) awaitLoss(j *job, node int) {
	words := fmt.Sprintf("node node%d is lost with ", node)
	select {
	case <-j.stderr.says(words):
	case <-time.After(testPatience):
		k.t.Fatalf("oshrun does not say %q:\n%s", words, &j.stderr)
	}
}

// awaitEnd waits until a process has ended.
func (k *farKilling) awaitEnd(pid int) {
	for began := time.Now(); !isDead(pid); <-time.After(time.Millisecond) {
		if time.Since(began) > testPatience {
			k.t.Fatalf("process %d of a lost node does not end", pid)
		}
	}
}

// launch starts the job, and returns when all PEs are in their collectives: the daemons in the order of the nodes, and what to close so that
// PEs end.
func (k *farKilling) launch(seed int, flags ...string) (j *job, daemons []int, input *os.File) {
	nodes := fmt.Sprint(k.nodes)
	if k.apart {
		nodes += ":netns"
	}
	args := slices.Concat(flags, []string{"--emulate", nodes, "-n", fmt.Sprint(k.n), "--recover", "--stdin", "all", "t-coll", fmt.Sprint(seed)})
	if k.large {
		args = append(args, "large")
	}
	j = prepare(k.t, args...)
	theirs, input, err := os.Pipe()
	check(k.t, err)
	j.cmd.Stdin, j.theirs = theirs, append(j.theirs, theirs)
	j.begin()
	k.await(j, k.n)
	daemons = daemonsBelow(j.cmd.Process.Pid)
	slices.SortFunc(daemons, func(a, b int) int { return k.firstOf(a) - k.firstOf(b) })
	return j, daemons, input
}
