package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
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
)

// farFaults is how many faults TestFarFaults makes.
var (
	farFaults    = flag.Int("far-faults", 8, "how many faults TestFarFaults makes in jobs that put, add and get between nodes; from 20 on, some are longer than the lease")
	farFaultSeed = flag.Uint64("far-fault-seed", 0, "the seed of the faults of TestFarFaults; 0: another one each time")
)

// Bounds of TestFarFaults. A machine with other work needs them; most jobs take a tenth.
const (
	faultBegin = 60 * time.Second // until all PEs have joined and work
	faultHeard = 20 * time.Second // until oshrun tells of a death, after the last fault
	faultStops = 40 * time.Second // until all PEs that live have stopped, and then until all have reported, and the job is over
)

// How long faults last.
const (
	faultLease     = 3 * time.Second // of jobs with long faults
	faultShort     = 800 * time.Millisecond
	faultLong      = faultLease + 2*time.Second
	faultAgentHung = 14 * time.Second // its daemon takes 10 s to find that an agent is hung
)

// faultKind is a kind of fault.
type faultKind struct {
	name  string
	apart bool // it needs nodes with networks of their own
	kills bool // somebody dies
	long  bool // it lasts longer than somebody is patient
	make  func(f *faultJob, kind *faultKind)
}

// faultKinds are all kinds. The long ones are rare, because they take long.
var faultKinds = []faultKind{
	{name: "kill PE", kills: true, make: (*faultJob).killPE},
	{name: "kill agent", kills: true, make: (*faultJob).killNode},
	{name: "kill daemon", kills: true, make: (*faultJob).killNode},
	{name: "stop PE", make: (*faultJob).stopPE},
	{name: "stop agent", make: (*faultJob).stopNode},
	{name: "stop daemon", make: (*faultJob).stopNode},
	{name: "cut node", apart: true, make: (*faultJob).cutNode},
	{name: "cut pair", apart: true, make: (*faultJob).cutPair},
	{name: "stop PE", long: true, make: (*faultJob).stopPE},
	{name: "stop agent", long: true, kills: true, make: (*faultJob).stopNode},
	{name: "stop daemon", long: true, kills: true, make: (*faultJob).stopNode},
	{name: "cut node", apart: true, long: true, kills: true, make: (*faultJob).cutNode},
}

// faultJob is a job on four nodes that suffers faults.
type faultJob struct {
	*job
	t        *testing.T
	rng      *rand.Rand
	n        int
	apart    bool
	recovers bool
	dir      string
	holder   string         // how nsenter names the network that connects the nodes
	heals    sync.WaitGroup // faults that end by themselves
	output   sync.WaitGroup // the reader of the output

	mu      sync.Mutex // guards what follows
	pids    map[int]int
	nodes   map[int]string
	busy    map[int]bool
	stopped map[int]bool
	left    map[int]bool
	reports map[int]*faultReport

	daemons, agents map[string]int
	dead            map[int]bool // what follows is the test's own
	lost            map[string]bool
	words           []string // that oshrun says of the deaths
	status          int      // of the first death
	said            []string // the faults
}

// Whatever fails, and whenever, PEs that put, add and get on other nodes hang nowhere, read and execute nothing wrong, and have errors
// only of PEs that have died.
func TestFarFaults(t *testing.T) {
	t.Parallel()
	seed := *farFaultSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	total := *farFaults
	if testing.Short() {
		total = min(total, 3)
	}
	_, noNsenter := exec.LookPath("nsenter")
	_, noIP := exec.LookPath("ip")
	apart := testenv.Has(testenv.Root) && testenv.Has(testenv.Namespaces) && noNsenter == nil && noIP == nil
	made := map[string]int{}
	for done, i := 0, 0; done < total && !t.Failed(); i++ {
		f := &faultJob{
			t: t, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), apart: apart && i%2 == 1,
			pids: map[int]int{}, nodes: map[int]string{}, busy: map[int]bool{}, stopped: map[int]bool{}, left: map[int]bool{},
			reports: map[int]*faultReport{}, daemons: map[string]int{}, agents: map[string]int{}, dead: map[int]bool{}, lost: map[string]bool{},
		}
		faults := f.choose(min(3, total-done), total >= 20 && i%8 == 7)
		done += len(faults)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			f.t = t
			f.test(faults)
		})
		for _, kind := range faults {
			made[kind.title()]++
		}
	}
	t.Logf("faults: %v", made)
}

// title returns the name of a kind and whether it is long.
func (k *faultKind) title() string {
	if k.long {
		return "long " + k.name
	}
	return k.name
}

// choose chooses up to most faults for a job.
func (f *faultJob) choose(most int, long bool) (faults []*faultKind) {
	f.n, f.recovers = 4+f.rng.IntN(5), true
	for range 1 + f.rng.IntN(most) {
		for {
			kind := &faultKinds[f.rng.IntN(len(faultKinds))]
			if kind.apart && !f.apart || kind.long != (long && len(faults) == 0) {
				continue
			}
			faults = append(faults, kind)
			break
		}
	}
	if len(faults) == 1 && faults[0].kills {
		f.recovers = f.rng.IntN(3) > 0
	}
	return faults
}

// test makes the faults.
func (f *faultJob) test(faults []*faultKind) {
	networks := networksHere(f.t)
	f.launch(faults[0].long)
	sockets := f.sockets(f.t)
	for _, kind := range faults {
		<-time.After(time.Duration(f.rng.Int64N(int64(150 * time.Millisecond)))) // any moment will do
		kind.make(f, kind)
		if f.rng.IntN(2) == 0 {
			f.heals.Wait()
		} // otherwise the next one comes in the midst of it
	}
	f.heals.Wait()
	for _, words := range f.words {
		select {
		case <-f.stderr.says(words):
		case <-time.After(faultHeard):
			f.fail("oshrun does not say %q", words)
		}
	}
	if f.recovers {
		f.gather()
	}
	f.over(faultStops, f.output.Wait)
	f.judge()
	f.expectNothingLeft(f.t, false, sockets)
	for node, pid := range f.agents {
		if !isDead(pid) {
			f.t.Errorf("the agent %d of %s runs after the job", pid, node)
		}
	}
	if after := networksHere(f.t); !slices.Equal(after, networks) {
		f.t.Errorf("interfaces and named networks are %v, and were %v", after, networks)
	}
	if f.t.Failed() {
		f.t.Logf("%d PEs, networks: %t, --recover: %t, faults: %v; stderr:\n%s\noutput:\n%s", f.n, f.apart, f.recovers, f.said, &f.stderr, &f.stdout)
	}
}

// launch starts the job, and returns when all PEs work.
func (f *faultJob) launch(long bool) {
	f.dir = f.t.TempDir()
	where := "4"
	if f.apart {
		where = "4:netns"
	}
	args := []string{"--emulate", where, "-n", fmt.Sprint(f.n), "t-faults", f.dir}
	if long {
		args = append([]string{"--lease", faultLease.String()}, args...)
	}
	if f.recovers {
		args = append([]string{"--recover"}, args...)
	}
	f.job = start(f.t, args...)
	f.output.Go(f.read)
	f.await(faultBegin, "all PEs work", func() bool { return len(f.busy) == f.n })
	if f.t.Failed() {
		f.t.FailNow()
	}
	for pe, pid := range f.pids {
		node := f.nodes[pe]
		if f.daemons[node] == 0 {
			f.daemons[node] = parentOf(f.t, pid)
			f.agents[node] = childrenThatRun(f.daemons[node], "agent")[0]
		}
	}
	if f.apart {
		f.holder = fmt.Sprintf("--net=/proc/%d/ns/net", childrenThatRun(f.cmd.Process.Pid, "daemon", "--network")[0])
	}
}

// parentOf returns the parent of a process.
func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	_, rest, _ := bytes.Cut(text, []byte(") "))
	var state string
	_, err = fmt.Sscan(string(rest), &state, &parent)
	check(t, err)
	return parent
}

// read takes the output.
func (f *faultJob) read() {
	lines := bufio.NewScanner(f.out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		f.hear(lines.Text())
	}
}

// hear takes a line of output.
func (f *faultJob) hear(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stdout.WriteString(line + "\n")
	what, rest, _ := strings.Cut(line, " ")
	var pe, pid int
	var node string
	n, _ := fmt.Sscan(rest, &pe, &pid, &node) // lines have one to three of them, or are a report
	switch {
	case what == "began" && n == 3:
		f.pids[pe], f.nodes[pe] = pid, node
	case what == "busy":
		f.busy[pe] = true
	case what == "stopped":
		f.stopped[pe] = true
	case what == "left":
		f.left[pe] = true
	case what == "report":
		r := new(faultReport)
		if err := json.Unmarshal([]byte(rest), r); err != nil {
			f.t.Errorf("%v: %q", err, line)
			return
		}
		f.reports[r.PE] = r
	}
}

// await waits until something is so, and says what is not if that takes too long.
func (f *faultJob) await(within time.Duration, what string, is func() bool) {
	f.t.Helper()
	for began := time.Now(); ; <-time.After(time.Millisecond) {
		f.mu.Lock()
		yes := is()
		f.mu.Unlock()
		switch {
		case yes:
			return
		case time.Since(began) > within || isDead(f.cmd.Process.Pid):
			f.t.Errorf("after %v, not yet: %s", time.Since(began).Round(time.Millisecond), what)
			f.dump()
			return
		}
	}
}

// living returns the PEs of a node, or of all if it is empty, that no fault has killed.
func (f *faultJob) living(node string) (pes []int) {
	for pe := range f.n {
		if !f.dead[pe] && (node == "" || f.nodes[pe] == node) {
			pes = append(pes, pe)
		}
	}
	return pes
}

// somePE returns a PE that lives, and someNode a node with one. Some are left in the end.
func (f *faultJob) somePE() int {
	pes := f.living("")
	return pes[f.rng.IntN(len(pes))]
}

func (f *faultJob) someNode() string { return f.nodes[f.somePE()] }

// note notes what a fault does.
func (f *faultJob) note(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// die notes the deaths of some PEs, and the words and the status that they lead to.
func (f *faultJob) die(pes []int, status int, words string) {
	for _, pe := range pes {
		f.dead[pe] = true
	}
	if f.words = append(f.words, words); f.status == 0 {
		f.status = status
	}
}

// lose notes the loss of a node.
func (f *faultJob) lose(node string) {
	f.lost[node] = true
	f.die(f.living(node), 1, fmt.Sprintf("node %s is lost with ", node))
}

// lasting returns how long a fault lasts.
func (f *faultJob) lasting(kind *faultKind, long time.Duration) time.Duration {
	if kind.long {
		return long
	}
	return time.Duration(f.rng.Int64N(int64(faultShort)))
}

func (f *faultJob) killPE(*faultKind) {
	pe := f.somePE()
	f.note("kill PE %d", pe)
	f.die([]int{pe}, 128+int(syscall.SIGKILL), fmt.Sprintf("PE %d (pid %d) was killed by signal 9 (SIGKILL)", pe, f.pids[pe]))
	check(f.t, syscall.Kill(f.pids[pe], syscall.SIGKILL))
}

func (f *faultJob) killNode(kind *faultKind) {
	node := f.someNode()
	pid, what := f.processOf(node, kind)
	f.note("kill %s of %s", what, node)
	f.lose(node)
	check(f.t, syscall.Kill(pid, syscall.SIGKILL))
}

// processOf returns the process of a node that a kind is about.
func (f *faultJob) processOf(node string, kind *faultKind) (pid int, what string) {
	if strings.HasSuffix(kind.name, "agent") {
		return f.agents[node], "agent"
	}
	return f.daemons[node], "daemon"
}

func (f *faultJob) stopPE(kind *faultKind) {
	pe := f.somePE()
	f.stop(fmt.Sprintf("PE %d", pe), f.pids[pe], f.lasting(kind, faultLong))
}

func (f *faultJob) stopNode(kind *faultKind) {
	node := f.someNode()
	pid, what := f.processOf(node, kind)
	long := faultLong
	if what == "agent" {
		long = faultAgentHung
	}
	if kind.long {
		f.lose(node)
	}
	f.stop(what+" of "+node, pid, f.lasting(kind, long))
}

// stop stops a process for some time. It may be killed meanwhile.
func (f *faultJob) stop(what string, pid int, d time.Duration) {
	f.note("stop %s for %v", what, d)
	check(f.t, syscall.Kill(pid, syscall.SIGSTOP))
	f.later(d, func() error {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !isDead(pid) {
			return err
		}
		return nil
	})
}

// later heals after some time.
func (f *faultJob) later(d time.Duration, heal func() error) {
	f.heals.Go(func() {
		<-time.After(d)
		if err := heal(); err != nil {
			f.t.Errorf("end of a fault: %v", err)
		}
	})
}

// cutNode takes the interface of a node down.
func (f *faultJob) cutNode(kind *faultKind) {
	node, d := f.someNode(), f.lasting(kind, faultLong)
	f.note("cut %s for %v", node, d)
	if kind.long {
		f.lose(node)
	}
	port := "port" + strings.TrimPrefix(node, "node")
	lost := f.lost[node]
	check(f.t, f.inNetwork(f.holder, "link", "set", port, "down"))
	f.later(d, func() error {
		if err := f.inNetwork(f.holder, "link", "set", port, "up"); err != nil && !lost && !isDead(f.daemons[node]) {
			return err
		}
		return nil
	})
}

// cutPair makes two nodes send each other packets to an address that nobody has.
func (f *faultJob) cutPair(kind *faultKind) {
	a, b := f.someNode(), f.someNode()
	d := f.lasting(kind, faultLong)
	f.note("cut %s from %s for %v", a, b, d)
	if a == b {
		return
	}
	for _, way := range [][2]string{{a, b}, {b, a}} {
		from := fmt.Sprintf("--net=/proc/%d/ns/net", f.daemons[way[0]])
		to := fmt.Sprintf("10.0.0.%d", 1+number(strings.TrimPrefix(way[1], "node")))
		check(f.t, f.inNetwork(from, "neigh", "replace", to, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"))
		f.later(d, func() error {
			if err := f.inNetwork(from, "neigh", "del", to, "dev", "eth0"); err != nil && !isDead(f.daemons[way[0]]) {
				return err
			}
			return nil
		})
	}
}

// inNetwork runs ip in a network.
func (f *faultJob) inNetwork(network string, args ...string) error {
	if text, err := exec.Command("nsenter", slices.Concat([]string{network, "ip"}, args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, text)
	}
	return nil
}

// gather stops the PEs that live, and then takes their reports.
func (f *faultJob) gather() {
	write := func(name string, what any) {
		text, err := json.Marshal(what)
		check(f.t, err)
		check(f.t, os.WriteFile(filepath.Join(f.dir, name+".new"), text, 0o600))
		check(f.t, os.Rename(filepath.Join(f.dir, name+".new"), filepath.Join(f.dir, name)))
	}
	dead := slices.AppendSeq([]int{}, maps.Keys(f.dead))
	slices.Sort(dead)
	all := func(have map[int]bool) func() bool {
		return func() bool {
			return !slices.ContainsFunc(f.living(""), func(pe int) bool { return !have[pe] })
		}
	}
	write("stop", nil)
	f.await(faultStops, "all PEs that live have stopped", all(f.stopped))
	write("check", dead)
	f.await(faultStops, "all PEs that live have left", all(f.left))
}

// dump has the processes of the job say where they are.
func (f *faultJob) dump() {
	var table strings.Builder
	for pe := range f.n {
		fmt.Fprintf(&table, "PE %d on %s: dead: %t, stopped: %t, left: %t\n", pe, f.nodes[pe], f.dead[pe], f.stopped[pe], f.left[pe])
	}
	f.t.Logf("%s", &table)
	for pe, pid := range f.pids {
		if !f.dead[pe] && !isDead(pid) {
			_ = syscall.Kill(pid, syscall.SIGQUIT) // Go's runtime prints all goroutines
		}
	}
	<-time.After(time.Second) // for what they say
}

// judge checks the end of the job and the reports.
func (f *faultJob) judge() {
	want := f.status
	if f.recovers && len(f.dead) > 0 {
		want = 3
	}
	if status := f.cmd.ProcessState.ExitCode(); status != want {
		f.t.Errorf("status %d, want %d", status, want)
	}
	said := f.stderr.String()
	for _, words := range f.words {
		if !strings.Contains(said, words) {
			f.t.Errorf("oshrun does not say %q", words)
		}
	}
	for node := range f.daemons {
		if !f.lost[node] && strings.Contains(said, "node "+node+" is lost") {
			f.t.Errorf("%s is lost, for no reason", node)
		}
	}
	if !f.recovers {
		return
	}
	dead := slices.Sorted(maps.Keys(f.dead))
	for _, pe := range f.living("") {
		r := f.reports[pe]
		if r == nil {
			f.t.Errorf("PE %d has not reported", pe)
			continue
		}
		f.t.Logf("PE %d: %d rounds, an operation took %v at most, Quiet %v", pe, r.Rounds, r.Longest.Round(time.Millisecond), r.LongestQuiet.Round(time.Millisecond))
		if len(r.Wrong) > 0 {
			f.t.Errorf("PE %d: %s", pe, strings.Join(r.Wrong, "\n"))
		}
		if !slices.Equal(r.Failed, dead) {
			f.t.Errorf("the page of PE %d has the dead %v, want %v", pe, r.Failed, dead)
		}
		sum := uint64(0)
		for from := range f.n {
			sum += r.Single[from]
			if from == pe || f.dead[from] || f.reports[from] == nil {
				continue
			}
			if other := f.reports[from]; r.Single[from] != other.Fetched[pe] || r.Plain[from] != other.Added[pe] {
				f.t.Errorf("PE %d has added %d and %d on PE %d, which has %d and %d", from, other.Fetched[pe], other.Added[pe], pe, r.Single[from], r.Plain[from])
			}
		}
		if r.Shared < sum || r.Shared > sum+uint64(len(dead)) {
			f.t.Errorf("all have added %d on PE %d, where they have added %d to the element of all, want as much, or up to %d more", sum, pe, r.Shared, len(dead))
		}
	}
}

// fail notes a failure, and where the PEs are.
func (f *faultJob) fail(format string, args ...any) {
	f.t.Errorf(format, args...)
	f.dump()
}
