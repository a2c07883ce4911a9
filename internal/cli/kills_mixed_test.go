package cli

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	mixedSeed = flag.Uint64("killseed", 0, "the first job's seed in TestKillsInMixedPrograms; 0: the time")
	busyLoops = flag.Int("busy", 2, "busy loops beside TestKillsInMixedPrograms")
)

// mixedPatience limits a job of mixed steps under any load. After that, oshrun prints where its PEs are and ends it.
const mixedPatience = 90 * time.Second

// mixedHang is the time without a step after which a PE is reported as hung, which must not happen.
const mixedHang = 5 * time.Second

// testBusy uses a processor until its input ends.
func testBusy([]string, io.Writer, io.Writer) int {
	go spin(math.MaxInt64)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// beBusy starts busy loops that end with the test, even if the test is killed.
func beBusy(t *testing.T, loops int) {
	t.Helper()
	for range loops {
		cmd := exec.Command(self(t), "pe", "t-busy")
		cmd.Env = append(os.Environ(), asOshrun+"=1", "GOMAXPROCS=2")
		input, err := cmd.StdinPipe()
		check(t, err)
		check(t, startChild(cmd))
		t.Cleanup(func() { _ = input.Close(); _ = cmd.Wait() })
	}
}

// TestKillsInMixedPrograms kills PEs of programs that mix all families: one-sided operations, signals, collectives,
// messages, locks, teams and allocation, beside busy loops. No PE hangs, all results are right, and no living PE is
// reported as dead. To repeat a job: -killseed with the seed that it prints, and -kills 1.
func TestKillsInMixedPrograms(t *testing.T) {
	beBusy(t, *busyLoops)
	seed := *mixedSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	kills := int64(killsOr(40))
	tiers := usableTiers(t)
	var next, made, steps atomic.Int64
	t.Run("jobs", func(t *testing.T) {
		const streams = 3 // which run independently
		for stream := range streams {
			t.Run(fmt.Sprint(stream), func(t *testing.T) {
				t.Parallel()
				for made.Load() < kills && !t.Failed() {
					m := newMixing(t, seed+uint64(next.Add(1)-1), tiers)
					made.Add(int64(m.run()))
					steps.Add(int64(m.steps))
				}
			})
		}
	})
	t.Logf("%d kills in %d jobs of %d steps from seed %d onward", made.Load(), next.Load(), steps.Load(), seed)
}

// mixing is a job of mixed steps, some of whose PEs are killed.
type mixing struct {
	killing
	seed    uint64
	phase   string // the phase in which PEs are killed
	tier    string
	victims []int
	held    []int // PEs that are stopped and continued
	steps   int   // steps that a PE has made
}

// The phases of a job.
const (
	atStart = "start"
	amidst  = "midst"
	atEnd   = "end"
)

func newMixing(t *testing.T, seed uint64, tiers []string) *mixing {
	t.Helper()
	m := &mixing{killing: killing{t: t, rng: rand.New(rand.NewPCG(seed, 0))}, seed: seed}
	m.n = 2 + m.rng.IntN(15)
	m.phase = []string{atStart, atEnd, amidst, amidst, amidst, amidst}[m.rng.IntN(6)]
	m.tier = tiers[m.rng.IntN(len(tiers))]
	return m
}

// run runs the job, checks its results, and returns how many PEs were killed.
func (m *mixing) run() int {
	m.t.Helper()
	j := prepare(m.t, "-n", fmt.Sprint(m.n), "--recover", "--stdin", "all", "--watchdog", m.tier,
		"--stacks", "--timeout", mixedPatience.String(), "--hang-timeout", mixedHang.String(), "t-mixed", fmt.Sprint(m.seed))
	theirs, input, err := os.Pipe()
	check(m.t, err)
	j.cmd.Stdin, j.theirs = theirs, append(j.theirs, theirs)
	j.begin()
	ready := m.n
	if m.phase == atStart {
		ready = 0
	}
	m.await(j, ready)
	over := j.rest()
	m.pick()
	if m.phase == atEnd {
		check(m.t, input.Close())
	}
	m.strike()
	if m.phase == amidst {
		m.told(j, over)
	}
	if m.phase != atEnd {
		check(m.t, input.Close())
	}
	status, stderr := j.endedAfter(mixedPatience+testPatience, func() { <-over })
	m.judge(j.stdout.String(), stderr, status)
	if m.t.Failed() {
		m.t.Logf("again: -killseed %d -kills 1 -busy %d: %d PEs, killed %v at the %s, held %v, --watchdog %s",
			m.seed, *busyLoops, m.n, m.victims, m.phase, m.held, m.tier)
	}
	return len(m.victims)
}

// pick chooses the PEs to kill, and some of the others to stop for a while.
func (m *mixing) pick() {
	order := m.rng.Perm(m.n)
	k := 1 + m.rng.IntN(m.n-1)
	if m.rng.IntN(2) == 0 {
		k = 1 + m.rng.IntN(min(3, m.n-1))
	}
	m.victims = order[:k]
	for _, pe := range order {
		if m.rng.IntN(4) == 0 {
			m.held = append(m.held, pe)
		}
	}
}

// strike stops and kills PEs: all victims at once, or one after another.
func (m *mixing) strike() {
	within := []int64{3e5, 3e6, 3e7, 3e8}[m.rng.IntN(4)]
	pause := func() { // to hit a random moment
		if d := time.Duration(m.rng.Int64N(within)); d > time.Millisecond {
			time.Sleep(d)
		} else {
			spin(d)
		}
	}
	pause()
	for _, pe := range m.held {
		m.signal(pe, syscall.SIGSTOP)
	}
	together := m.rng.IntN(2) == 0
	for _, pe := range m.victims {
		if !together {
			pause()
		}
		m.signal(pe, syscall.SIGKILL)
	}
	pause()
	for _, pe := range m.held {
		m.signal(pe, syscall.SIGCONT)
	}
	slices.Sort(m.victims)
}

// told returns when oshrun has reported all victims as killed, or has ended.
func (m *mixing) told(j *job, over <-chan struct{}) {
	for _, pe := range m.victims {
		select {
		case <-j.stderr.says(m.death(pe)):
		case <-over:
		}
	}
}

// judge compares the messages of oshrun and of the survivors with what happened.
func (m *mixing) judge(said, stderr string, status int) {
	m.t.Helper()
	bad := func(format string, args ...any) {
		m.t.Errorf("%s\n%s\n%s", fmt.Sprintf(format, args...), said, stderr)
	}
	if m.phase != amidst { // victims may have ended before they were killed
		m.victims = slices.DeleteFunc(m.victims, func(pe int) bool { return !strings.Contains(stderr, m.death(pe)) })
	}
	want := 3
	if len(m.victims) == 0 {
		want = 0
	}
	if status != want {
		bad("status %d, want %d", status, want)
	}
	if wrong := m.falseWords(stderr); len(wrong) > 0 {
		bad("oshrun said falsely %q", wrong)
	}
	met := map[string]string{}
	for line := range strings.Lines(said) {
		var pe int
		if n, _ := fmt.Sscanf(line, "PE %d ", &pe); n != 1 || slices.Contains(m.victims, pe) {
			continue
		}
		_, words, _ := strings.Cut(strings.TrimSpace(line), fmt.Sprintf("PE %d ", pe))
		what, rest, _ := strings.Cut(words, " ")
		switch what {
		case "error":
			bad("%s", line)
		case "accused", "failed", "told", "unready":
			exact := what != "accused" && what != "unready" && m.phase == amidst
			if truth := fmt.Sprint(m.victims); exact && rest != truth || rest != "[]" && !among(rest, m.victims) {
				bad("%s, want of %s", line, truth)
			}
		case "left":
			if rest != "<nil>" {
				bad("%s", line)
			}
		case "made":
			_, _ = fmt.Sscan(rest, &m.steps)
		case "met":
			group, hash, _ := strings.Cut(rest, ": ")
			if met[group] == "" {
				met[group] = hash
			}
			if met[group] != hash && m.phase != atEnd {
				bad("%s, others %s", line, met[group])
			}
		}
	}
	for pe := range m.n {
		_, ended := after(said, fmt.Sprintf("PE %d left ", pe))
		if m.phase == atStart && !ended {
			_, ended = after(said, fmt.Sprintf("PE %d unready ", pe))
		}
		if !ended && !slices.Contains(m.victims, pe) {
			bad("PE %d has not come to its end", pe)
		}
	}
}

// falseWords returns the messages of oshrun that are wrong. On a machine under load, any PE may be without a processor
// for a while, or wait for a disk. With --watchdog off, oshrun does not see that, so the PE counts as hung. judge
// checks that each survivor ends nevertheless.
func (m *mixing) falseWords(stderr string) (wrong []string) {
	state := regexp.MustCompile(`^oshrun: PE (\d+) \(pid (\d+)\) (is stopped|goes on|gets no processor \(it could run\)|is stuck in the kernel \(uninterruptible sleep\)|runs again|hangs: no call of the library but Put for 5s)\n$`)
	count := regexp.MustCompile(`^oshrun: (\d+) of (\d+) PEs failed:\n$`)
	hung := map[int]bool{}
	for line := range strings.Lines(stderr) {
		words := strings.TrimPrefix(strings.TrimPrefix(line, "oshrun:"), "  ")
		isTrue := slices.ContainsFunc(m.victims, func(pe int) bool { return strings.Contains(words, m.death(pe)) })
		if f := state.FindStringSubmatch(line); f != nil {
			pe := number(f[1])
			may := slices.Contains(m.held, pe)
			switch words := f[3]; {
			case strings.HasPrefix(words, "hangs"):
				may = m.tier == watchdogOff
				hung[pe] = true
			case words == "goes on":
				may = may || hung[pe]
			case words != "is stopped":
				may = true
			}
			isTrue = fmt.Sprint(m.pids[pe]) == f[2] && may
		}
		if f := count.FindStringSubmatch(line); f != nil {
			isTrue = number(f[1]) == len(m.victims) && number(f[2]) == m.n
		}
		if !isTrue {
			wrong = append(wrong, line)
		}
	}
	return wrong
}
