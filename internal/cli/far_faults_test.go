package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// Bounds of TestFarFaults. A machine with other work needs them; most jobs take a tenth.
const (
	faultBegin = 60 * time.Second // until all PEs have joined and work
	faultHeard = 20 * time.Second // until oshrun tells of a death, after the last fault
	faultStops = 40 * time.Second // until all PEs that live have stopped, and then until all have reported, and the job is over
)

// faultJob is a job on four nodes that suffers faults.
type faultJob struct {
	*job
	t        *testing.T
	rng      *rand.Rand
	n        int
	apart    bool
	express  bool // PEs get express sockets
	cyclic   bool // one PE on each node in turn
	radix    int  // of the start
	recovers bool
	calm     bool // nobody dies, and the PEs meet
	early    bool // faults come when the PEs begin, and connections open
	dir      string
	holder   string                                 // how nsenter names the network that connects the nodes
	heals    sync.WaitGroup                         // faults that end by themselves
	taken    chan struct{}                          // closed when the job has ended, and all that it has said is taken
	other    func(what string, pe int, rest string) // takes lines of other programs; nil: there are none

	mu      sync.Mutex // guards what follows
	pids    map[int]int
	nodes   map[int]string
	busy    map[int]bool
	stopped map[int]bool
	buried  map[int][]int // by PE: whom it has called dead when it stopped
	left    map[int]bool
	reports map[int]*faultReport
	cuts    map[[2]string]int // by from and to

	daemons, agents map[string]int
	dead            map[int]bool // what follows is the test's own
	lost            map[string]bool
	maybe           map[string]bool // nodes that may be lost, or not
	words           map[int]string  // by PE: what oshrun says of its death
	status          int             // of the first death
	said            []string        // the faults
}

// newFaultJob returns a job that is still to be started.
func newFaultJob(rng *rand.Rand, apart bool) *faultJob {
	return &faultJob{
		rng: rng, apart: apart, recovers: true, express: true, radix: 2,
		pids: map[int]int{}, nodes: map[int]string{}, busy: map[int]bool{}, stopped: map[int]bool{}, buried: map[int][]int{}, left: map[int]bool{}, reports: map[int]*faultReport{}, cuts: map[[2]string]int{},
		daemons: map[string]int{}, agents: map[string]int{}, dead: map[int]bool{}, lost: map[string]bool{}, maybe: map[string]bool{}, words: map[int]string{},
	}
}

// canCut says whether nodes of this machine's own can be cut off.
func canCut() bool {
	for _, program := range []string{"nsenter", "ip", "ss"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return testenv.Has(testenv.Root) && testenv.Has(testenv.Namespaces)
}

// Two nodes that do not reach each other give each other up. Others go on.
func TestFarFaultOfPair(t *testing.T) {
	t.Parallel()
	if *farFaults < longFaults || !canCut() {
		t.Skipf("takes %v, root and ip: -far-faults %d", faultApart, longFaults)
	}
	f := newFaultJob(rand.New(rand.NewPCG(1, 2)), true)
	f.n = 8
	f.test(t, []*faultKind{{name: "part pair", lasts: faultApart, apart: true, parts: true, make: func(f *faultJob, kind *faultKind) {
		f.cutPair("node1", "node3", kind)
	}}})
	if said := f.stderr.String(); len(f.lost) == 0 || !strings.Contains(said, "while PEs waited for it") {
		t.Errorf("%d nodes are lost, and oshrun says:\n%s\nwant one or two, and why", len(f.lost), said)
	}
}

// The loss of a node whose daemon has started those of others takes none of these, though they write messages that go by it.
func TestFarFaultOfStarter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kill agent", "kill daemon"} {
		t.Run(name, func(t *testing.T) {
			f := newFaultJob(rand.New(rand.NewPCG(1, 2)), false)
			f.n = 4
			f.test(t, []*faultKind{{name: name, kills: true, make: func(f *faultJob, kind *faultKind) { f.killNode("node0", kind) }}})
		})
	}
}

// A node is lost whose PEs have all died before: those of other nodes that wait for it do not wait for ever.
func TestFarFaultOfEmptyNode(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kill agent", "kill daemon"} {
		t.Run(name, func(t *testing.T) {
			f := newFaultJob(rand.New(rand.NewPCG(1, 2)), false)
			f.n = 5 // two on node0
			f.test(t, []*faultKind{{name: "kill PEs", kills: true, make: func(f *faultJob, _ *faultKind) {
				for _, pe := range f.living("node3") {
					f.kill(pe)
				}
			}}, {name: name, kills: true, make: func(f *faultJob, kind *faultKind) { f.killNode("node3", kind) }}})
		})
	}
}

// The last words of a job that has ended count, also if they come after a look at them.
func TestLastWordsOfFaultJob(t *testing.T) {
	t.Parallel()
	f := newFaultJob(nil, false)
	f.t, f.job = t, start(t, "-n", "1", "sh", "-c", "echo left 0; echo the end >&2")
	f.listen()
	looks := 0
	f.await(testPatience, "PE 0 has left, and the end is said", func() bool {
		if looks++; looks == 1 {
			f.mu.Unlock()
			<-f.taken
			f.mu.Lock()
			return false // as a look at what was taken before
		}
		return f.left[0] && strings.Contains(f.stderr.String(), "the end")
	})
	f.over(faultStops, func() {})
}

// test makes the faults.
func (f *faultJob) test(t *testing.T, faults []*faultKind) {
	t.Helper()
	f.t = t
	defer f.tell()
	networks := networksHere(f.t)
	f.t.Cleanup(f.heals.Wait) // behind the end of oshrun: what has stopped goes on then, and ends
	f.launch(faults[0].lasts > 0)
	sockets := f.sockets(f.t)
	for _, kind := range faults {
		if !f.early || f.rng.IntN(2) == 0 {
			<-time.After(time.Duration(f.rng.Int64N(int64(150 * time.Millisecond)))) // any moment will do
		}
		kind.make(f, kind)
		if f.rng.IntN(2) == 0 {
			f.heals.Wait()
		} // otherwise the next one comes in the midst of it
	}
	f.heals.Wait()
	for _, words := range f.expected() {
		select {
		case <-f.stderr.says(words):
		case <-f.taken: // judge finds words that are missing
		case <-time.After(faultHeard):
			f.fail("oshrun does not say %q", words)
		}
	}
	if f.recovers {
		f.gather()
	}
	f.over(faultStops, func() { <-f.taken })
	f.judge()
	untilDead(f.t, slices.AppendSeq(slices.Collect(maps.Values(f.agents)), maps.Values(f.daemons)))
	f.expectNothingLeft(f.t, false, sockets)
	if after := networksHere(f.t); !slices.Equal(after, networks) {
		f.t.Errorf("interfaces and named networks are %v, and were %v", after, networks)
	}
}

// tell says what a job that has failed was, and what it has said.
func (f *faultJob) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.t.Failed() && f.job != nil {
		f.t.Logf("%d PEs, %s, --recover: %t, early: %t, calm: %t, faults: %v; stderr:\n%s\noutput:\n%s", f.n, f.way(), f.recovers, f.early, f.calm, f.said, &f.stderr, &f.stdout)
	}
}

// launch starts the job, and returns when all PEs work.
func (f *faultJob) launch(long bool) {
	f.dir = f.t.TempDir()
	where := "4"
	if f.apart {
		where = "4:netns"
	}
	args := []string{"--emulate", where, "--launch-radix", fmt.Sprint(f.radix), "-n", fmt.Sprint(f.n), "t-faults", f.dir}
	if f.cyclic {
		args = append([]string{"--map-by", "node"}, args...)
	}
	if f.calm {
		args = append(args, "calm")
	}
	if long {
		args = append([]string{"--lease", faultLease.String()}, args...)
	}
	if f.recovers {
		args = append([]string{"--recover"}, args...)
	}
	f.job = prepare(f.t, args...)
	f.cmd.Env = append(f.cmd.Env, envvar.Express+"="+map[bool]string{false: "off", true: "on"}[f.express])
	f.begin()
	f.listen()
	f.await(faultBegin, "all PEs work", func() bool { return len(f.pids) == f.n && (f.early || len(f.busy) == f.n) })
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

// listen takes the output, and then the end of the job.
func (f *faultJob) listen() {
	f.taken = make(chan struct{})
	go func() {
		defer close(f.taken)
		lines := bufio.NewScanner(f.out)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			f.hear(lines.Text())
		}
		_ = f.cmd.Wait() // which takes what it says on stderr; over and judge look at how it has ended
	}()
}

// isTaken says whether all that the job says is taken.
func (f *faultJob) isTaken() bool {
	select {
	case <-f.taken:
		return true
	default:
		return false
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
		_, list, _ := strings.Cut(rest, " ")
		var dead []int
		if err := json.Unmarshal([]byte(list), &dead); err != nil {
			f.t.Errorf("%v: %q", err, line)
		}
		f.buried[pe] = dead
	case what == "left":
		f.left[pe] = true
	case what == "report":
		r := new(faultReport)
		if err := json.Unmarshal([]byte(rest), r); err != nil {
			f.t.Errorf("%v: %q", err, line)
			return
		}
		f.reports[r.PE] = r
	case f.other != nil && n > 0:
		_, rest, _ = strings.Cut(rest, " ")
		f.other(what, pe, rest)
	}
}

// await waits until something is so, and says what is not if that takes too long, or the job has ended.
func (f *faultJob) await(within time.Duration, what string, is func() bool) {
	f.t.Helper()
	for began := time.Now(); ; <-time.After(time.Millisecond) {
		last := f.isTaken() || time.Since(began) > within // before the look, which so finds the job's last words
		f.mu.Lock()
		yes := is()
		f.mu.Unlock()
		switch {
		case yes:
			return
		case last:
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

// nodeBeside returns another node, with a PE that lives if there is one.
func (f *faultJob) nodeBeside(node string) string {
	var others []string
	for _, pe := range f.living("") {
		if other := f.nodes[pe]; other != node {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return node
	}
	return others[f.rng.IntN(len(others))]
}

// note notes what a fault does.
func (f *faultJob) note(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// die notes the deaths of some PEs, and the words and the status that they lead to.
func (f *faultJob) die(pes []int, status int, words string) {
	for _, pe := range pes {
		f.dead[pe], f.words[pe] = true, words
	}
	if f.status == 0 {
		f.status = status
	}
}

// expected returns what oshrun says.
func (f *faultJob) expected() []string {
	return slices.Compact(slices.Sorted(maps.Values(f.words)))
}

// lose notes the loss of a node. If it comes soon, nobody hears how PEs of the node have died before.
func (f *faultJob) lose(node string) {
	f.lost[node] = true
	words := fmt.Sprintf("node %s is lost with ", node)
	f.die(f.living(node), 1, words)
	for pe := range f.words {
		if f.nodes[pe] == node {
			f.words[pe] = words
		}
	}
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
	f.await(faultStops, "all PEs that live have stopped", func() bool {
		f.noteLost()
		return all(f.stopped)() && !slices.ContainsFunc(f.living(""), f.knowsMore)
	})
	for pe := range f.dead { // the PEs of nodes that might be lost are known now: none of them waits any more
		if !slices.Contains(dead, pe) {
			dead = append(dead, pe)
		}
	}
	slices.Sort(dead)
	write("check", dead)
	f.await(faultStops, "all PEs that live have left", all(f.left))
}

// knowsMore says whether a PE has learnt of the loss of a node that may be lost before this test has: oshrun's words come by
// another way. It has stopped.
func (f *faultJob) knowsMore(pe int) bool {
	return slices.ContainsFunc(f.buried[pe], func(dead int) bool { return f.maybe[f.nodes[dead]] && !f.dead[dead] })
}

// noteLost notes the loss of nodes that may be lost.
func (f *faultJob) noteLost() {
	for node := range f.maybe {
		if !f.lost[node] && strings.Contains(f.stderr.String(), "node "+node+" is lost with ") {
			f.lose(node)
		}
	}
}

// dump has the processes of the job say where they are.
func (f *faultJob) dump() {
	var table strings.Builder
	f.mu.Lock()
	for pe := range f.n {
		fmt.Fprintf(&table, "PE %d on %s: dead: %t, stopped: %t, left: %t\n", pe, f.nodes[pe], f.dead[pe], f.stopped[pe], f.left[pe])
	}
	pids := maps.Clone(f.pids)
	f.mu.Unlock()
	f.t.Logf("%s", &table)
	for pe, pid := range pids {
		if !f.dead[pe] && !isDead(pid) {
			_ = syscall.Kill(pid, syscall.SIGQUIT) // Go's runtime prints all goroutines
		}
	}
	<-time.After(time.Second) // for what they say
}

// judge checks the end of the job and the reports.
func (f *faultJob) judge() {
	said, want := f.stderr.String(), f.status
	switch {
	case strings.Contains(said, "is lost before it has said that all output had come"):
		want = 1
	case f.recovers && len(f.dead) > 0:
		want = 3
	}
	if status := f.cmd.ProcessState.ExitCode(); status != want {
		f.t.Errorf("status %d, want %d", status, want)
	}
	for _, words := range f.expected() {
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
	locked := uint64(0)
	for _, r := range f.reports {
		locked += r.Locked
	}
	if r := f.reports[0]; f.calm && r != nil && r.Counted != locked {
		f.t.Errorf("PEs have had the lock %d times, and counted %d", locked, r.Counted)
	}
	for _, pe := range f.living("") {
		r := f.reports[pe]
		if r == nil {
			f.t.Errorf("PE %d has not reported", pe)
			continue
		}
		f.t.Logf("PE %d: %d rounds, %d round trips by express sockets, an operation took %v at most, Quiet %v", pe, r.Rounds, r.Trips, r.Longest.Round(time.Millisecond), r.LongestQuiet.Round(time.Millisecond))
		if r.Trips > 0 && !f.express {
			f.t.Errorf("PE %d has made %d round trips by express sockets, of which it has none", pe, r.Trips)
		}
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
