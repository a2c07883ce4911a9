package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-losses"] = testLosses
	}
}

// testLosses is the program of PEs that say when they hear that others are dead, until a file is there.
func testLosses(args []string, stdout, stderr io.Writer) int {
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	me := w.MyPE()
	fmt.Fprintf(stdout, "began %d %d %s\n", me, os.Getpid(), os.Getenv("PMIX_HOSTNAME"))
	over := func() bool { _, err := os.Stat(args[0]); return err == nil }
	for known := 0; !over(); {
		for until := time.Now().Add(50 * time.Millisecond); len(w.Failed()) == known && time.Now().Before(until); {
			<-time.After(500 * time.Microsecond)
		}
		if failed := w.Failed(); len(failed) > known {
			known = len(failed)
			fmt.Fprintf(stdout, "heard %d %d %v\n", me, time.Now().UnixNano(), failed)
		}
	}
	if err := w.Finalize(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// losses is a job of testLosses.
type losses struct {
	*job
	t       *testing.T
	n       int
	file    string // lets the PEs end
	taken   chan struct{}
	daemons map[string]int // by node

	mu    sync.Mutex
	pids  map[int]int
	nodes map[int]string
	heard map[int]time.Time // by PE: when it has heard of the last loss
	dead  map[int]string    // by PE: whom it takes for dead, as printed
}

// startLosses starts a job of n PEs.
func startLosses(t *testing.T, n int, flags ...string) *losses {
	t.Helper()
	return startWatched(t, "t-losses", n, flags...)
}

// startWatched does the same with another program, whose PEs say that they have begun as those of testLosses do.
func startWatched(t *testing.T, program string, n int, flags ...string) *losses {
	t.Helper()
	flags = append([]string{"--heartbeat-period", "100ms"}, flags...) // the last value counts
	f := &losses{
		t: t, n: n, file: filepath.Join(t.TempDir(), "file"), taken: make(chan struct{}), daemons: map[string]int{},
		pids: map[int]int{}, nodes: map[int]string{}, heard: map[int]time.Time{}, dead: map[int]string{},
	}
	f.job = start(t, slices.Concat(flags, []string{"-n", fmt.Sprint(n), program, f.file})...)
	go f.listen()
	f.await("all PEs have begun", func() bool { return len(f.pids) == n })
	for pe, pid := range f.pids {
		f.daemons[f.nodes[pe]] = parentOf(t, pid)
	}
	return f
}

// listen takes the output.
func (f *losses) listen() {
	defer close(f.taken)
	for lines := bufio.NewScanner(f.out); lines.Scan(); {
		f.mu.Lock()
		var pe, pid int
		var node string
		var at int64
		switch line := lines.Text(); {
		case scan(line, "began %d %d %s", &pe, &pid, &node):
			f.pids[pe], f.nodes[pe] = pid, node
		case scan(line, "heard %d %d", &pe, &at):
			f.heard[pe], f.dead[pe] = time.Unix(0, at), line[strings.Index(line, "["):]
		}
		f.mu.Unlock()
	}
}

// scan says whether a line has a form, and takes its values.
func scan(line, form string, values ...any) bool {
	n, _ := fmt.Sscanf(line, form, values...)
	return n == len(values)
}

// await waits until something is so.
func (f *losses) await(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(testPatience); ; <-time.After(time.Millisecond) {
		f.mu.Lock()
		yes := is()
		f.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-f.taken:
			f.t.Fatalf("the job has ended before: %s; stderr:\n%s", what, &f.stderr)
		default:
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("not yet: %s; stderr:\n%s", what, &f.stderr)
		}
	}
}

// on returns the PEs of a node.
func (f *losses) on(node string) (pes []int) {
	for pe := range f.n {
		if f.nodes[pe] == node {
			pes = append(pes, pe)
		}
	}
	return pes
}

// awaitLoss waits until all PEs of other nodes have heard of the loss of a node, and returns how long the last has taken.
func (f *losses) awaitLoss(node string, since time.Time) (last time.Duration) {
	f.t.Helper()
	want := fmt.Sprint(f.on(node))
	f.await("all others know of the loss of "+node, func() bool {
		for pe := range f.n {
			if f.nodes[pe] != node && f.dead[pe] != want {
				return false
			}
		}
		return true
	})
	for pe := range f.n {
		if f.nodes[pe] != node {
			last = max(last, f.heard[pe].Sub(since))
		}
	}
	f.t.Logf("the last PE has heard of the loss of %s after %v", node, last)
	return last
}

// over lets the PEs end, and checks status and words.
func (f *losses) expect(status int, words ...string) {
	f.t.Helper()
	check(f.t, os.WriteFile(f.file, nil, 0o600))
	got, said := f.endedAfter(testPatience, func() { <-f.taken })
	f.check(got, said, status, words)
	if status == 0 && strings.Contains(said, "is lost") {
		f.t.Errorf("a node is lost for no reason; stderr:\n%s", said)
	}
}

// bridge says how nsenter names the network that connects the nodes.
func (f *losses) bridge() string {
	return fmt.Sprintf("--net=/proc/%d/ns/net", childrenThatRun(f.cmd.Process.Pid, "daemon", "--network")[0])
}

// network runs a command in a network.
func (f *losses) network(where string, args ...string) {
	f.t.Helper()
	if text, err := exec.Command("nsenter", slices.Concat([]string{where}, args)...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %v: %s", args, err, text)
	}
}

// A daemon that is killed is known to be lost in milliseconds on all nodes.
func TestHeartbeatKill(t *testing.T) {
	for _, tier := range []string{"best", "process", "user"} {
		t.Run(tier, func(t *testing.T) {
			if tier == "process" {
				testenv.Need(t, testenv.Root) // for SCHED_FIFO
			}
			f := startLosses(t, 8, "--recover", "--emulate", "4", "--heartbeat-tier", tier)
			began := time.Now()
			check(t, syscall.Kill(f.daemons["node2"], syscall.SIGKILL))
			if took := f.awaitLoss("node2", began); took > time.Second {
				t.Errorf("the loss is known after %v, want 1 s at most", took)
			}
			f.expect(3, "node node2 is lost with 2 PEs, 4 to 5: ")
		})
	}
}

// The death of a PE is known on all nodes, with its cause in oshrun's words.
func TestHeartbeatKillPE(t *testing.T) {
	t.Parallel()
	f := startLosses(t, 8, "--recover", "--emulate", "4")
	began := time.Now()
	check(t, syscall.Kill(f.pids[5], syscall.SIGKILL))
	f.await("all others know of the death of PE 5", func() bool { return f.allKnow(5) })
	t.Logf("that has taken %v", time.Since(began))
	f.expect(3, fmt.Sprintf("PE 5 (pid %d) was killed by signal 9 (SIGKILL)", f.pids[5]))
}

// Without --recover the same loss ends the job.
func TestHeartbeatKillEnds(t *testing.T) {
	t.Parallel()
	f := startLosses(t, 8, "--emulate", "4")
	check(t, syscall.Kill(f.daemons["node2"], syscall.SIGKILL))
	got, said := f.endedAfter(testPatience, func() { <-f.taken })
	f.check(got, said, 1, []string{"node node2 is lost with 2 PEs, 4 to 5: "})
}

// needCuts skips the test unless nodes of this machine's own can be cut off.
func needCuts(t *testing.T) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Namespaces, testenv.SSH) // for ip
	if !canCut() {
		t.Skip("nsenter, ip or ss is missing")
	}
}

// A node that is cut off is known to be lost in a second, also if its job has only one more. It ends itself by its lease.
func TestHeartbeatCut(t *testing.T) {
	needCuts(t)
	for _, x := range []struct {
		nodes, n int
		words    string
	}{{4, 8, "node node2 is lost with 2 PEs, 4 to 5: it does not answer"}, {2, 2, "node node1 is lost with PE 1: it does not answer"}} {
		t.Run(fmt.Sprint(x.nodes), func(t *testing.T) {
			f := startLosses(t, x.n, "--recover", "--lease", "3", "--emulate", fmt.Sprintf("%d:netns", x.nodes))
			node := fmt.Sprintf("node%d", x.nodes/2)
			bridge := f.bridge()
			began := time.Now()
			f.network(bridge, "ip", "link", "set", "port"+strings.TrimPrefix(node, "node"), "down")
			if took := f.awaitLoss(node, began); took > time.Second {
				t.Errorf("the loss is known after %v, want 1 s at most", took)
			}
			for _, pe := range f.on(node) {
				until(t, fmt.Sprintf("the end of PE %d", pe), func() bool { return isDead(f.pids[pe]) })
			}
			t.Logf("its PEs have ended after %v", time.Since(began).Round(time.Millisecond))
			f.expect(3, x.words)
		})
	}
}

// Of two nodes that reach the front end and not each other, one goes, also if others reach both of them.
func TestHeartbeatPair(t *testing.T) {
	needCuts(t)
	for _, x := range []struct {
		nodes, a, b int // in a ring of so many nodes, the first of these watches the second
		oneWay      bool
	}{{2, 0, 1, false}, {4, 2, 1, false}, {4, 2, 1, true}, {5, 0, 2, false}} {
		t.Run(fmt.Sprint(x.nodes, x.oneWay), func(t *testing.T) {
			f := startLosses(t, x.nodes, "--recover", "--emulate", fmt.Sprintf("%d:netns", x.nodes))
			began := time.Now()
			f.misdirect(x.a, x.b)
			if !x.oneWay {
				f.misdirect(x.b, x.a)
			}
			f.await("all but one of the two know of the loss of that one", func() bool { return f.allKnow(x.a) || f.allKnow(x.b) })
			t.Logf("that has taken %v", time.Since(began))
			f.expect(3, " is lost with PE ", ": the network between it and node")
			if said := f.stderr.String(); strings.Count(said, " is lost with PE ") != 1 {
				t.Errorf("not one of both nodes is lost:\n%s", said)
			}
		})
	}
}

// misdirect has what one node sends to another one lost on the way.
func (f *losses) misdirect(from, to int) {
	f.t.Helper()
	f.network(fmt.Sprintf("--net=/proc/%d/ns/net", f.daemons[fmt.Sprintf("node%d", from)]),
		"ip", "neigh", "replace", addressOf(fmt.Sprintf("node%d", to)), "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")
}

// allKnow says whether each PE but one knows of the loss of that one, and of no other.
func (f *losses) allKnow(lost int) bool {
	for pe := range f.n {
		if pe != lost && f.dead[pe] != fmt.Sprintf("[%d]", lost) {
			return false
		}
	}
	return true
}

// A front end that reaches less than half of the nodes ends the job, unless it is to go on.
func TestHeartbeatMajority(t *testing.T) {
	needCuts(t)
	for _, x := range []struct {
		flag   string
		status int
		words  []string
	}{
		{"end", 1, []string{"node1, node2 and node3 do not answer; the front end and 1 other node are 2 of 5 votes, which is no majority"}},
		{"continue", 3, []string{"node node1 is lost with PE 1", "node node2 is lost with PE 2", "node node3 is lost with PE 3", "3 of 4 PEs failed"}},
	} {
		t.Run(x.flag, func(t *testing.T) {
			f := startLosses(t, 4, "--recover", "--lease", "3", "--partition", x.flag, "--emulate", "4:netns")
			f.network(f.bridge(), "sh", "-c", `printf "link set port%d down\n" 1 2 3 | ip -batch -`)
			for _, words := range x.words[:1] {
				select {
				case <-f.stderr.says(words):
				case <-time.After(testPatience):
					t.Errorf("oshrun does not say %q", words)
				}
			}
			if x.status == 3 {
				f.await("PE 0 knows of all losses", func() bool { return f.dead[0] == "[1 2 3]" })
			}
			f.expect(x.status, x.words...)
		})
	}
}

// A daemon that stands still for a while is not lost: the kernel answers for it.
func TestHeartbeatOfStoppedDaemon(t *testing.T) {
	t.Parallel()
	f := startLosses(t, 8, "-v", "--recover", "--emulate", "4")
	if !strings.Contains(f.stderr.String(), "heartbeat: kernel, every 100ms") {
		t.Skip("the kernel does not answer here")
	}
	check(t, syscall.Kill(f.daemons["node2"], syscall.SIGSTOP))
	<-time.After(3 * time.Second) // what is tested is that this is no reason
	check(t, syscall.Kill(f.daemons["node2"], syscall.SIGCONT))
	f.expect(0)
}

// A front end that the user stops for a while loses no node.
func TestHeartbeatOfStoppedJob(t *testing.T) {
	t.Parallel()
	for _, nodes := range []string{"4", "4:netns"} {
		t.Run(nodes, func(t *testing.T) {
			t.Parallel()
			if nodes != "4" {
				needNetworks(t)
			}
			f := startLosses(t, 8, "--recover", "--emulate", nodes)
			check(t, f.cmd.Process.Signal(syscall.SIGTSTP))
			inState(t, "T", f.cmd.Process.Pid)
			<-time.After(3 * time.Second) // what is tested is that this is no reason
			check(t, f.cmd.Process.Signal(syscall.SIGCONT))
			f.expect(0)
		})
	}
}

// Without a heartbeat, a loss is known by the links alone.
func TestHeartbeatOff(t *testing.T) {
	t.Parallel()
	f := startLosses(t, 8, "-v", "--recover", "--heartbeat-period", "off", "--emulate", "4")
	if said := f.stderr.String(); strings.Contains(said, "heartbeat") {
		t.Errorf("said %q, want nothing of heartbeats", said)
	}
	began := time.Now()
	check(t, syscall.Kill(f.daemons["node2"], syscall.SIGKILL))
	f.awaitLoss("node2", began)
	f.expect(3, "node node2 is lost with 2 PEs, 4 to 5: ")
}

// Values that make no sense are refused, also in jobs of one node.
func TestHeartbeatFlags(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ flag, value, says string }{
		{"--heartbeat-period", "fast", `--heartbeat-period: "fast", want off or a duration from 1ms to 1m0s`},
		{"--heartbeat-period", "10us", `--heartbeat-period: "10us", want off or a duration from 1ms`},
		{"--heartbeat-period", "-1s", `--heartbeat-period: "-1s", want off or a duration from 1ms`},
		{"--heartbeat-period", "", `--heartbeat-period: "", want off or a duration`},
		{"--heartbeat-tier", "moon", `--heartbeat-tier: "moon", want best, kernel, process, user`},
		{"--partition", "stop", `--partition: "stop", want end or continue`},
	} {
		t.Run(x.flag+" "+x.value, func(t *testing.T) {
			start(t, x.flag, x.value, "-n", "1", "true").expect(2, x.says)
			start(t, x.flag, x.value, "--emulate", "2", "-n", "2", "true").expect(2, x.says)
		})
	}
}
