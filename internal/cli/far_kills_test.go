package cli

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// farKills is how many kills TestFarKillsInCollectives makes.
var farKills = flag.Int("far-kills", 12, "kills of PEs, agents and daemons in TestFarKillsInCollectives")

// TestFarKillsInCollectives kills PEs, agents and daemons at random moments of random collectives among nodes, under --recover. Others
// are stopped for a while. All survivors see the same results of the same contributors, each contribution is in a result
// exactly once, every survivor's is in, and no PE hangs. Who is only stopped is not lost.
func TestFarKillsInCollectives(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	apart := testenv.Has(networkRights())
	most, made := *farKills, 0
	if testing.Short() {
		most = min(most, 4)
	}
	for job := 0; made < most && !t.Failed(); job++ {
		t.Run(fmt.Sprint(job), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(job)))
			k := farKilling{killing: killing{t: t, rng: rng}, nodes: 2 + rng.IntN(3), apart: apart && rng.IntN(2) == 0, large: rng.IntN(2) == 0}
			k.n = k.nodes + rng.IntN(2*k.nodes+1)
			if k.run(job); t.Failed() {
				t.Logf("job %d of seed %d: %d PEs on %d nodes, large %t, %v", job, seed, k.n, k.nodes, k.large, k.done)
			}
			made += k.kills
		})
	}
	t.Logf("%d kills", made)
}

// farKilling is a job on several nodes, processes of which are killed.
type farKilling struct {
	killing
	nodes int
	apart bool
	large bool // among the collectives are such of large data
	kills int
	done  []string // what was done
	dead  []int    // PEs
	heals sync.WaitGroup
}

// run runs the job.
func (k *farKilling) run(seed int) {
	j, daemons, input := k.launch(seed)
	over := j.rest()
	for range 1 + k.rng.IntN(3) {
		spin(time.Duration(k.rng.IntN(4000)) * time.Microsecond)
		k.act(daemons)
	}
	spin(time.Duration(k.rng.IntN(3000)) * time.Microsecond)
	k.heals.Wait() // who is stopped takes part in the last agreement
	check(k.t, input.Close())
	status, stderr := j.endedAfter(testPatience, func() { <-over })
	k.judgeAll(j.stdout.String(), stderr, status)
}

// firstOf returns the lowest PE that a daemon has started, or n.
func (k *farKilling) firstOf(daemon int) int {
	first := k.n
	for _, pe := range k.pesOf(daemon) {
		first = min(first, pe)
	}
	return first
}

// pesOf returns the PEs that a daemon has started and that have not been waited for.
func (k *farKilling) pesOf(daemon int) (pes []int) {
	for _, pid := range childrenOf(daemon) {
		for pe, other := range k.pids {
			if pid == other {
				pes = append(pes, pe)
			}
		}
	}
	return pes
}

// act kills or stops something.
func (k *farKilling) act(daemons []int) {
	node := k.rng.IntN(len(daemons))
	agents := childrenThatRun(daemons[node], "agent")
	switch what := k.rng.IntN(5); {
	case what <= 1:
		pe := k.rng.IntN(k.n)
		if len(k.dead) >= k.n-1 && !slices.Contains(k.dead, pe) {
			return // one has to survive
		}
		k.note("kill PE %d", pe)
		if !slices.Contains(k.dead, pe) {
			k.dead = append(k.dead, pe)
		}
		k.signal(pe, os.Kill) // it may be dead
		k.kills++
	case what == 4 && len(agents) == 1:
		k.note("stop the agent of node %d", node)
		k.stop(agents[0])
	default:
		pes := k.pesOf(daemons[node])
		lost := append(slices.Clone(k.dead), pes...)
		slices.Sort(lost)
		lost = slices.Compact(lost)
		if len(agents) != 1 || len(lost) == k.n || len(lost) == len(k.dead) { // of a node without PEs, only output would be lost
			return
		}
		k.dead = lost
		pid := daemons[node]
		if what == 2 {
			pid = agents[0]
		}
		k.note("kill the %s of node %d with PEs %v", map[bool]string{true: "agent", false: "daemon"}[what == 2], node, pes)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		k.kills++
	}
}

func (k *farKilling) note(format string, args ...any) {
	k.done = append(k.done, fmt.Sprintf(format, args...))
}

// stop stops a process for a moment, if it still runs.
func (k *farKilling) stop(pid int) {
	k.t.Helper()
	process, err := os.FindProcess(pid)
	check(k.t, err)
	if process.Signal(syscall.SIGSTOP) != nil {
		return
	}
	d := time.Duration(k.rng.IntN(400)) * time.Millisecond
	if k.rng.IntN(8) == 0 {
		d = 2 * time.Second
	}
	k.heals.Go(func() {
		<-time.After(d)
		_ = process.Signal(syscall.SIGCONT) // it may have been killed meanwhile
	})
}

// judgeAll compares what the survivors have printed.
func (k *farKilling) judgeAll(said, stderr string, status int) {
	k.t.Helper()
	want := 3
	switch {
	case len(k.dead) == 0:
		want = 0
	case strings.Contains(stderr, "before it has said that all output had come"): // a node without PEs that run
		want = 1
	}
	if status != want || strings.Contains(said, " error ") {
		k.t.Errorf("%v: status %d, want %d\n%s\n%s", k.done, status, want, said, stderr)
	}
	first := ""
	for pe := range k.n {
		if slices.Contains(k.dead, pe) {
			continue
		}
		saw, _ := after(said, fmt.Sprintf("PE %d saw ", pe))
		left, _ := after(said, fmt.Sprintf("PE %d left ", pe))
		if first == "" {
			first = saw
		}
		if saw == "" || saw != first || left != "<nil>" {
			k.t.Errorf("%v: PE %d saw %q, another one %q, and left %q\n%s\n%s", k.done, pe, saw, first, left, said, stderr)
		}
	}
}
