package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// stressed are the families of calls in which PEs are killed. Each is one round, which a PE repeats until it hears of a
// death.
var stressed = map[string]func(*stressPE) error{
	"startup":  nil, // while the PEs join
	"finalize": nil, // while they leave
	"fence": func(p *stressPE) error {
		if err := p.w.Ctx().Fence(); err != nil {
			return err
		}
		return p.w.Ctx().Quiet()
	},
	"put": func(p *stressPE) error {
		for pe := range p.w.NPEs() {
			if err := shmem.Put(p.w.Ctx(), p.x, p.private, pe); err != nil {
				return err
			}
		}
		return nil
	},
	"get": func(p *stressPE) error {
		for pe := range p.w.NPEs() {
			if err := shmem.Get(p.w.Ctx(), p.private, p.x, pe); err != nil {
				return err
			}
		}
		return nil
	},
	"wait": func(p *stressPE) error { // in a ring
		p.round++
		next := (p.w.MyPE() + 1) % p.w.NPEs()
		if err := shmem.AtomicSet(p.w.Ctx(), p.turn, p.round, next); err != nil {
			return err
		}
		return shmem.WaitUntil(p.w.Ctx(), p.turn, shmem.GE, p.round)
	},
	"barrier": func(p *stressPE) error { return p.w.Barrier() },
	"broadcast": func(p *stressPE) error {
		p.round++
		return shmem.Broadcast(p.w.Team(), p.y, p.x, int(p.round)%p.w.NPEs())
	},
	"reduce": func(p *stressPE) error { return shmem.Reduce(p.w.Team(), p.y, p.x, shmem.Sum) },
	"reduce value": func(p *stressPE) error {
		_, err := shmem.ReduceValue(p.w.Team(), p.round, shmem.Max)
		return err
	},
	"broadcast value": func(p *stressPE) error {
		p.round++
		_, err := shmem.BroadcastValue(p.w.Team(), p.round, int(p.round)%p.w.NPEs())
		return err
	},
	"alloc": func(p *stressPE) error {
		z, err := shmem.Alloc[int64](p.w, 1000)
		if err != nil {
			return err
		}
		return shmem.Free(p.w, z)
	},
}

// stressPE is a PE of TestKillsEverywhere.
type stressPE struct {
	w       *shmem.World
	x, y    shmem.Sym[int64]
	turn    shmem.Sym[int64]
	private []int64
	round   int64
}

// begin allocates what the rounds need.
func (p *stressPE) begin() (err error) {
	const n = 3000
	p.private = make([]int64, n)
	if p.x, err = shmem.Calloc[int64](p.w, n); err == nil {
		p.y, err = shmem.Calloc[int64](p.w, n)
	}
	if err == nil {
		p.turn, err = shmem.Calloc[int64](p.w, 1)
	}
	return err
}

// testStress is the program of the PEs. It prints when it is ready and which PEs an error names. When its input ends,
// it prints which PEs have failed and which failures it was told of.
func testStress(args []string, stdout, stderr io.Writer) int {
	fmt.Fprintf(stdout, "began %s %d\n", os.Getenv("PMIX_RANK"), os.Getpid())
	p := &stressPE{}
	w, err := shmem.Init(shmem.WorldMode(shmem.ModeStrict)) // so that a loop ends at the first death
	if err == nil {
		p.w = w
		err = p.begin()
	}
	if err != nil {
		fmt.Fprintf(stdout, "PE %s unready %s\n", os.Getenv("PMIX_RANK"), named(err))
		_, _ = io.Copy(io.Discard, os.Stdin)
		if w != nil {
			err = w.Finalize()
			fmt.Fprintf(stdout, "PE %s left %v\n", os.Getenv("PMIX_RANK"), err)
		}
		return 0
	}
	me := w.MyPE()
	fmt.Fprintf(stdout, "ready %d\n", me)
	told := newToldOf()
	w.OnFailure(told.add)
	if step := stressed[args[0]]; step != nil {
		for err == nil && len(w.Failed()) == 0 {
			err = step(p)
		}
		if err != nil {
			fmt.Fprintf(stdout, "PE %d error %s\n", me, named(err))
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		dead := w.Failed()
		told.await(len(dead))
		fmt.Fprintf(stdout, "PE %d failed %v\nPE %d told %v\n", me, dead, me, told.all())
	}
	if args[0] == "startup" { // a PE that left now could end before it is killed
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if err = w.Finalize(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "PE %d left <nil>\n", me)
	return 0
}

// named returns the PEs that an error names, or the text of another error.
func named(err error) string {
	if dead := (*shmem.PEError)(nil); errors.As(err, &dead) {
		return fmt.Sprint(dead.PEs)
	}
	return fmt.Sprintf("no PEError: %v", err)
}

// toldOf collects the failures that a callback is told of.
type toldOf struct {
	mu   sync.Mutex
	pes  []int
	more sync.Cond
}

func newToldOf() *toldOf {
	o := &toldOf{}
	o.more.L = &o.mu
	return o
}

func (o *toldOf) add(f shmem.Failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pes = append(o.pes, f.PEs...)
	o.more.Broadcast()
}

func (o *toldOf) await(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pes) < n {
		o.more.Wait()
	}
}

func (o *toldOf) all() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.pes))
}

var killsAsked = flag.Int("kills", 0, "jobs of TestKillsEverywhere and TestKillsInCollectives, and kills of TestKillsInMixedPrograms; 0: a few")

// killsOr returns how many kills or jobs a test makes: the number that was asked for, n by default, and few in short
// tests.
func killsOr(n int) int {
	if *killsAsked > 0 {
		n = *killsAsked
	}
	if testing.Short() {
		n = min(n, 40)
	}
	return n
}

// TestKillsEverywhere kills PEs at random moments of every family of calls under --recover. Each survivor reports the
// PEs that were killed and no others, and leaves with status 0.
func TestKillsEverywhere(t *testing.T) {
	t.Parallel()
	jobs := killsOr(200)
	var families []string
	for name := range stressed {
		families = append(families, name)
	}
	slices.Sort(families)
	seed := uint64(time.Now().UnixNano())
	const streams = 3 // which run independently
	for stream := range streams {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(stream)))
			for i := stream; i < jobs; i += streams {
				k := killing{t: t, rng: rng, family: families[i%len(families)], n: 2 + rng.IntN(4)}
				if k.run(); t.Failed() {
					t.Fatalf("in job %d of seed %d, %d: %d PEs in %s", i, seed, stream, k.n, k.family)
				}
			}
		})
	}
}

// killing is a job some of whose PEs are killed.
type killing struct {
	t      *testing.T
	rng    *rand.Rand
	family string
	n      int
	pids   map[int]int // by PE
	// A process keeps its handle when its number has gone to another one, so no signal reaches a stranger.
	processes map[int]*os.Process // by PE
}

// signal sends a signal to a PE. The PE may have ended, with status 0 too.
func (k *killing) signal(pe int, s os.Signal) {
	k.t.Helper()
	if err := k.processes[pe].Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		k.t.Errorf("signal %v to PE %d: %v", s, pe, err)
	}
}

func (k *killing) run() {
	j := prepare(k.t, "-n", fmt.Sprint(k.n), "--recover", "--stdin", "all", "t-stress", k.family)
	theirs, input, err := os.Pipe()
	check(k.t, err)
	j.cmd.Stdin, j.theirs = theirs, append(j.theirs, theirs)
	j.begin()
	ready := k.n
	if k.family == "startup" {
		ready = 0
	}
	k.await(j, ready)
	victims, over := k.kill(j)
	check(k.t, input.Close())
	status, said := j.endedAfter(testPatience, func() { <-over })
	slices.Sort(victims)
	k.judge(j.stdout.String(), said, status, victims)
}

// kill kills some PEs, one after another. It returns the victims when oshrun has reported them, or has ended. It reads
// the rest of the output; over is closed when the output has ended.
func (k *killing) kill(j *job) (victims []int, over <-chan struct{}) {
	spin(time.Duration(k.rng.IntN(3000)) * time.Microsecond)
	victims = k.rng.Perm(k.n)[:1+k.rng.IntN(k.n-1)]
	for _, pe := range victims {
		k.signal(pe, os.Kill)
		spin(time.Duration(k.rng.IntN(500)) * time.Microsecond)
	}
	over = j.rest()
	if k.family == "finalize" {
		return victims, over
	}
	for _, pe := range victims {
		select {
		case <-j.stderr.says(k.death(pe)):
		case <-over: // judge reports messages that are missing
		}
	}
	return victims, over
}

// death is oshrun's message on a PE that was killed.
func (k *killing) death(pe int) string {
	return fmt.Sprintf("PE %d (pid %d) was killed by signal 9 (SIGKILL)", pe, k.pids[pe])
}

// await reads the PEs' output until all have begun and some are ready.
func (k *killing) await(j *job, ready int) {
	k.pids, k.processes = map[int]int{}, map[int]*os.Process{}
	for len(k.pids) < k.n || ready > 0 {
		line, err := j.out.ReadString('\n')
		j.stdout.WriteString(line)
		if err != nil {
			status, said := j.endedAfter(testPatience, func() {})
			k.t.Fatalf("the output has ended (%v) with %d of %d PEs begun and %d not ready yet, status %d\n%s\n%s",
				err, len(k.pids), k.n, ready, status, &j.stdout, said)
		}
		var pe, pid int
		if n, _ := fmt.Sscanf(line, "began %d %d", &pe, &pid); n == 2 {
			process, err := os.FindProcess(pid)
			check(k.t, err)
			k.pids[pe], k.processes[pe] = pid, process
		}
		if strings.HasPrefix(line, "ready ") {
			ready--
		}
	}
}

// judge compares what the survivors have printed with what happened.
func (k *killing) judge(said, stderr string, status int, victims []int) {
	k.t.Helper()
	truth := fmt.Sprint(victims)
	if k.family == "finalize" { // victims may have ended before they were killed
		victims = slices.DeleteFunc(victims, func(pe int) bool {
			return !strings.Contains(stderr, k.death(pe))
		})
		truth = fmt.Sprint(victims)
	}
	want := 3
	if len(victims) == 0 {
		want = 0
	}
	bad := func(format string, args ...any) {
		k.t.Errorf("killed %s: %s\nstatus %d, output:\n%s\n%s", truth, fmt.Sprintf(format, args...), status, said, stderr)
	}
	for _, pe := range victims {
		if !strings.Contains(stderr, k.death(pe)) {
			bad("oshrun did not say %q", k.death(pe))
		}
	}
	if status != want {
		bad("status %d, want %d", status, want)
	}
	for pe := range k.n {
		dead := slices.Contains(victims, pe)
		for what, exact := range map[string]string{"failed": truth, "told": truth, "left": "<nil>"} {
			got, said := after(said, fmt.Sprintf("PE %d %s ", pe, what))
			if said && !dead && got != exact || !said && !dead && k.expected(what) {
				bad("PE %d %s %q, want %q", pe, what, got, exact)
			}
		}
		for _, what := range []string{"error", "unready"} {
			if got, said := after(said, fmt.Sprintf("PE %d %s ", pe, what)); said && !among(got, victims) {
				bad("PE %d has %s %s", pe, what, got)
			}
		}
	}
}

// expected says whether a survivor must have printed something.
func (k *killing) expected(what string) bool {
	return k.family != "startup" && (what == "left" || k.family != "finalize")
}

// after returns the rest of the line that begins with the given words.
func after(text, words string) (rest string, found bool) {
	for line := range strings.Lines(text) {
		if rest, found = strings.CutPrefix(line, words); found {
			return strings.TrimSuffix(rest, "\n"), true
		}
	}
	return "", false
}

// among says whether a list, as fmt prints it, is not empty and has no other members.
func among(list string, members []int) bool {
	fields := strings.Fields(strings.Trim(list, "[]"))
	for _, f := range fields {
		if !slices.ContainsFunc(members, func(pe int) bool { return fmt.Sprint(pe) == f }) {
			return false
		}
	}
	return len(fields) > 0
}

// spin passes time in a loop, for durations too short for a timer.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}
