package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Flags of TestNodeFaults.
var (
	nodeFaults    = flag.Int("node-faults", 12, "how many times TestNodeFaults makes nodes or PEs of a job on emulated nodes fail, each in a job of its own")
	nodeFaultSeed = flag.Uint64("node-fault-seed", 0, "the seed of the faults of TestNodeFaults; 0: another one each time")
)

const (
	allNodeFaults    = 400 // from how many samples on there are some of each kind in each phase
	mostNodeFailures = 10  // after so many samples that have failed, no more are made
)

// What the PEs of TestNodeFaults do when nodes fail.
const (
	phaseStart     = "start-up" // Init
	phaseFence     = "fence"
	phaseQuiet     = "quiet"
	phaseBarrier   = "barrier"
	phaseBroadcast = "broadcast"
	phaseReduce    = "allreduce"
	phaseMixed     = "mixed"    // all of these in turn
	phaseFinalize  = "finalize" // all PEs but one of each node are in Finalize
	phaseLeave     = "leave"    // all PEs come to Finalize and end
)

var nodeFaultPhases = []string{phaseStart, phaseFence, phaseQuiet, phaseBarrier, phaseBroadcast, phaseReduce, phaseMixed, phaseFinalize, phaseLeave}

// nodeFault is a job some nodes or PEs of which fail.
type nodeFault struct {
	*faultJob
	sample int
	many   int    // nodes
	tier   string // of heartbeats; empty: the best
	phase  string
	holds  int // the PE that holds back from Init, or -1
	kinds  []string

	holderPID int
	cutOff    []string        // interfaces of nodes whose processes go on
	emptied   map[string]bool // nodes that are lost when all their PEs may be known to have ended
	struck    time.Time       // when the last fault was made
	took      time.Duration   // from then until the last survivor has known of all deaths

	heard, called map[int][]int // by PE: whom it takes for dead, by the page and by its callback; guarded by mu
	verdicts      map[int]*nodeFaultReport
}

// Whatever nodes and PEs fail, and whenever, each PE that survives learns of exactly these: by the failure page, by its callback
// and by its calls. No call hangs, oshrun names exactly the lost nodes, its status is right, and nothing of the job is left.
func TestNodeFaults(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	seed, total := *nodeFaultSeed, *nodeFaults
	if seed == 0 {
		seed = rand.Uint64()
	}
	if testing.Short() {
		total = min(total, 4)
	}
	t.Logf("seed %d", seed)
	tally := nodeFaultTally{made: map[string]int{}}
	for i := 0; i < total && tally.failed < mostNodeFailures; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			f := newNodeFault(seed, i)
			f.t = t
			defer func() {
				tally.add(f)
				f.tellRepeat(seed)
			}()
			f.test()
		})
	}
	tally.tell(t, total)
}

// newNodeFault chooses a job. It depends on the seed and the number of the sample alone, so that each sample can be repeated.
func newNodeFault(seed uint64, sample int) *nodeFault {
	rng := rand.New(rand.NewPCG(seed, uint64(sample)))
	f := &nodeFault{
		faultJob: newFaultJob(rng, false), sample: sample, holds: -1,
		emptied: map[string]bool{}, heard: map[int][]int{}, called: map[int][]int{}, verdicts: map[int]*nodeFaultReport{},
	}
	f.other = f.take
	f.phase = nodeFaultPhases[sample%len(nodeFaultPhases)]
	f.many, f.apart, f.radix = []int{4, 8}[rng.IntN(2)], rng.IntN(2) == 0, []int{2, 32}[rng.IntN(2)]
	f.apart = f.apart && canCut()
	f.n = f.many + rng.IntN(f.many+1)
	if f.phase == phaseFinalize {
		f.n = 2 * f.many
	}
	if f.phase == phaseStart && rng.IntN(2) == 0 {
		f.holds = rng.IntN(f.n)
	}
	switch rng.IntN(8) {
	case 0:
		f.tier = "user"
	case 1:
		f.tier = map[bool]string{true: "process", false: "user"}[os.Geteuid() == 0] // for SCHED_FIFO
	}
	return f
}

// tellRepeat says of a sample that has failed how it can be repeated, and what it was.
func (f *nodeFault) tellRepeat(seed uint64) {
	if !f.t.Failed() {
		return
	}
	networks := ""
	if f.apart {
		networks = ":netns"
	}
	f.t.Logf("repeat: go test ./internal/cli -run 'TestNodeFaults$/^%d$' -node-faults %d -node-fault-seed %d # --emulate %d%s, %d PEs, radix %d, tier %q, %s, PE %d holds back, %v",
		f.sample, f.sample+1, seed, f.many, networks, f.n, f.radix, f.tier, f.phase, f.holds, f.said)
	if f.job != nil {
		f.t.Logf("stderr:\n%s\noutput:\n%s", &f.stderr, &f.stdout)
	}
}

// test makes the faults.
func (f *nodeFault) test() {
	networks := networksHere(f.t)
	f.start()
	sockets := f.sockets(f.t)
	if f.phase == phaseLeave {
		f.write(nodeFaultStop)
	}
	for _, strike := range f.chooseStrikes() {
		<-time.After(strike.after) // any moment will do
		f.strike(strike)
	}
	if f.holds >= 0 {
		f.write(nodeFaultGo)
	}
	if f.phase != phaseLeave {
		f.await(faultHeard, "all survivors know exactly who is dead", f.allKnow)
		f.took = time.Since(f.struck)
	}
	f.heal()
	f.write(nodeFaultStop)
	f.await(faultStops, "all PEs that live have left", func() bool {
		return !slices.ContainsFunc(f.living(""), func(pe int) bool { return !f.left[pe] })
	})
	f.over(faultStops, func() { <-f.taken })
	f.judge()
	untilDead(f.t, slices.AppendSeq(slices.Collect(maps.Values(f.agents)), maps.Values(f.daemons)))
	f.expectNothingLeft(f.t, false, sockets)
	if after := networksHere(f.t); !slices.Equal(after, networks) {
		f.t.Errorf("interfaces and named networks are %v, and were %v", after, networks)
	}
}

// write makes an empty file for the PEs.
func (f *nodeFault) write(name string) {
	check(f.t, os.WriteFile(filepath.Join(f.dir, name), nil, 0o600))
}

// start starts the job, and returns when all PEs are in their phase.
func (f *nodeFault) start() {
	f.dir = f.t.TempDir()
	where := fmt.Sprint(f.many)
	if f.apart {
		where += ":netns"
	}
	args := []string{"--recover", "--heartbeat-period", "100ms", "--emulate", where, "--launch-radix", fmt.Sprint(f.radix), "-n", fmt.Sprint(f.n)}
	if f.tier != "" {
		args = append(args, "--heartbeat-tier", f.tier)
	}
	f.job = start(f.t, append(args, "t-node-faults", f.dir, f.phase, fmt.Sprint(f.holds))...)
	f.listen()
	f.await(faultBegin, "all PEs are in their phase", func() bool {
		return len(f.pids) == f.n && (f.phase == phaseStart || len(f.busy) == f.n)
	})
	if f.t.Failed() {
		f.t.FailNow()
	}
	f.findNodes()
}

// take takes a line of output. The caller holds the lock.
func (f *nodeFault) take(what string, pe int, rest string) {
	var pes []int
	switch what {
	case "heard", "called":
		if err := json.Unmarshal([]byte(rest), &pes); err != nil {
			f.t.Errorf("%v: PE %d: %s %q", err, pe, what, rest)
		}
		for _, dead := range pes {
			if !f.dead[dead] {
				f.t.Errorf("PE %d takes PE %d for dead (%s), which no fault has killed", pe, dead, what)
			}
		}
		if what == "heard" {
			f.heard[pe] = pes
		} else {
			f.called[pe] = pes
		}
	case "verdict":
		r := new(nodeFaultReport)
		if err := json.Unmarshal([]byte(rest), r); err != nil {
			f.t.Errorf("%v: PE %d: %s %q", err, pe, what, rest)
			return
		}
		f.verdicts[pe] = r
	}
}

// isRefused says whether Init has failed at a PE, which so has no callback.
func (f *nodeFault) isRefused(pe int) bool { return f.phase == phaseStart && !f.busy[pe] }

// isFinalizing says whether a PE is in Finalize when the faults come, and so does not look at the page.
func (f *nodeFault) isFinalizing(pe int) bool {
	return f.phase == phaseFinalize && pe > 0 && f.nodes[pe] == f.nodes[pe-1]
}

// allKnow says whether all PEs that live take exactly those for dead that are. The caller holds the lock.
func (f *nodeFault) allKnow() bool {
	dead := f.allDead()
	for _, pe := range f.living("") {
		page := f.isFinalizing(pe) || slices.Equal(f.heard[pe], dead)
		call := f.isRefused(pe) || slices.Equal(f.called[pe], dead)
		if !page || !call {
			return false
		}
	}
	return true
}

// allDead returns the PEs that faults have killed.
func (f *nodeFault) allDead() []int { return slices.Sorted(maps.Keys(f.dead)) }

// isRight says whether some PEs are exactly those that are dead. While PEs leave, some of the dead need not be known.
func (f *nodeFault) isRight(pes []int) bool {
	if f.phase != phaseLeave {
		return slices.Equal(pes, f.allDead())
	}
	return !slices.ContainsFunc(pes, func(pe int) bool { return !f.dead[pe] })
}

// judge checks what the PEs and oshrun say of the deaths.
func (f *nodeFault) judge() {
	for _, pe := range f.living("") {
		r := f.verdicts[pe]
		if r == nil {
			f.t.Errorf("PE %d has not reported", pe)
			continue
		}
		if len(r.Wrong) > 0 {
			f.t.Errorf("PE %d: %s", pe, strings.Join(r.Wrong, "\n"))
		}
		if !f.isFinalizing(pe) && !f.isRight(r.Failed) {
			f.t.Errorf("the page of PE %d has the dead %v, want %v", pe, r.Failed, f.allDead())
		}
		if !f.isRefused(pe) && !f.isRight(r.Called) {
			f.t.Errorf("the callback of PE %d was called with %v, want %v", pe, r.Called, f.allDead())
		}
		if least := f.n - len(f.dead); !f.isRefused(pe) && r.Least < least {
			f.t.Errorf("a reduction of PE %d has counted %d PEs, want %d at least", pe, r.Least, least)
		}
		if i := slices.IndexFunc(r.Accused, func(dead int) bool { return !f.dead[dead] }); i >= 0 {
			f.t.Errorf("errors of PE %d name the dead %v, want some of %v", pe, r.Accused, f.allDead())
		}
	}
	f.judgeWords()
}

// What oshrun says of losses and deaths.
var (
	lossOfNode  = regexp.MustCompile(`(?m)^oshrun: node (\S+) is lost with `)
	deathOfPE   = regexp.MustCompile(`(?m)^oshrun:\s+PE (\d+) \(pid [^)]*\) (?:was|exited|ended|is stopped)\b.*`)
	countOfDead = regexp.MustCompile(`(?m)^oshrun: (\d+) of (\d+) PEs failed:$`)
)

// judgeWords checks oshrun's words and status.
func (f *nodeFault) judgeWords() {
	said, status := f.stderr.String(), f.cmd.ProcessState.ExitCode()
	for node := range f.emptied { // nothing waits for it, so the job may be over before its loss is noticed
		if early := "node " + node + " is lost with "; !strings.Contains(said, early) {
			said = strings.ReplaceAll(said, "node "+node+" is lost, whose PEs had failed before", early+"no PE that runs")
		}
	}
	var lost []string
	for _, found := range lossOfNode.FindAllStringSubmatch(said, -1) {
		lost = append(lost, found[1])
	}
	slices.Sort(lost)
	want := slices.Sorted(maps.Keys(f.lost))
	isSome := f.phase == phaseLeave && !slices.ContainsFunc(lost, func(node string) bool { return !f.lost[node] })
	if !isSome && !slices.Equal(lost, want) {
		f.t.Errorf("oshrun names the lost nodes %v, want %v", lost, want)
	}
	for _, found := range deathOfPE.FindAllStringSubmatch(said, -1) {
		if !f.dead[number(found[1])] {
			f.t.Errorf("oshrun says %q of PE %s, which no fault has killed", found[0], found[1])
		}
	}
	if f.phase == phaseLeave {
		if status != 0 && status != 1 && status != 3 {
			f.t.Errorf("status %d, want 0, 1 or 3", status)
		}
		return
	}
	for _, words := range f.expected() {
		if !strings.Contains(said, words) {
			f.t.Errorf("oshrun does not say %q", words)
		}
	}
	if strings.Contains(said, "is lost before it has said that all output had come") && len(f.emptied) > 0 {
		if status != 1 {
			f.t.Errorf("status %d, want 1", status)
		}
		return
	}
	if status != 3 {
		f.t.Errorf("status %d, want 3", status)
	}
	count := countOfDead.FindStringSubmatch(said)
	if count == nil || number(count[1]) != len(f.dead) || number(count[2]) != f.n {
		f.t.Errorf("oshrun says %q at the end, want %d of %d PEs", count, len(f.dead), f.n)
	}
}

// nodeFaultTally counts what TestNodeFaults has done.
type nodeFaultTally struct {
	made   map[string]int // by phase, by kind, and by both
	failed int
	all    int
	times  []time.Duration
}

// add counts a sample.
func (a *nodeFaultTally) add(f *nodeFault) {
	a.all++
	if f.t.Failed() {
		a.failed++
	}
	where := fmt.Sprintf("%d nodes", f.many)
	if f.apart {
		where += " with networks"
	}
	a.made[where]++
	a.made[f.phase]++
	for _, kind := range f.kinds {
		a.made[kind]++
	}
	for pe := range f.verdicts {
		if f.isRefused(pe) {
			a.made["PEs whose Init has failed"]++
		}
	}
	if f.took > 0 {
		a.times = append(a.times, f.took)
	}
}

// tell says what was done. Many samples have to be of all kinds.
func (a *nodeFaultTally) tell(t *testing.T, total int) {
	t.Helper()
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(a.made)) {
		fmt.Fprintf(&text, "\n%5d %s", a.made[what], what)
	}
	slices.Sort(a.times)
	if n := len(a.times); n > 0 {
		fmt.Fprintf(&text, "\nfrom the last fault until all survivors know: median %v, 99 of 100 %v, at most %v", a.times[n/2], a.times[n*99/100], a.times[n-1])
	}
	t.Logf("%d samples, %d failed:%s", a.all, a.failed, &text)
	if total < allNodeFaults || t.Failed() || a.all < total {
		return
	}
	for i := range nodeFaultKinds {
		if k := &nodeFaultKinds[i]; a.made[k.name] == 0 && (canCut() || !k.apart) {
			t.Errorf("of %d samples, none is %q", total, k.name)
		}
	}
}
