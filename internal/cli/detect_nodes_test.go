package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/lab/detectbench"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// checkNodeCases checks that the report has the cases, in this order, with samples each, and that all times are there and
// in the right order.
func checkNodeCases(t *testing.T, r *detectbench.Report, nodes, pes, samples int, cases ...string) {
	t.Helper()
	if r.Clock != "one clock: emulated" {
		t.Errorf("clock %q", r.Clock)
	}
	var got []string
	for _, c := range r.Cases {
		got = append(got, c.Case)
		if c.NotHere != "" || c.Samples != samples || c.Nodes != nodes || c.PEs != pes || c.False != 0 || c.Missed != 0 || c.Tier != "default" || c.Detector != "oshrun" || c.Period != 0 {
			t.Errorf("%s: %+v", c.Case, c)
		}
		for name, s := range map[string]*sample.Spread{
			"first": c.First, "last": c.Last, "stored": c.Stored, "returned": c.Returned, "called": c.Called, "said": c.Said, "inject": c.Injected,
		} {
			if s == nil || s.Min <= 0 || s.P50 < s.Min || s.Max < s.P50 {
				t.Fatalf("%s: %s %+v", c.Case, name, s)
			}
		}
		if c.Stored.Min > c.First.Min || c.First.P50 > c.Last.P50 || c.Returned.Max != c.Last.Max || c.Returned.Min != c.First.Min || c.Called.Min < c.Stored.Min {
			t.Errorf("%s: out of order: first %v, last %v, stored %v, returned %v, called %v", c.Case, *c.First, *c.Last, *c.Stored, *c.Returned, *c.Called)
		}
	}
	if !slices.Equal(got, cases) {
		t.Errorf("cases %q, want %q", got, cases)
	}
}

// Real failures between nodes: every survivor on another node hears of each one, and of no other.
func TestDetectBenchNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // its name has no comma
	for i, cases := range []string{"pe,daemon,agent", "node,contiguous:1,random:2"} {
		t.Run(cases, func(t *testing.T) {
			picture := filepath.Join(dir, fmt.Sprintf("detect%d", i))
			args := "detect-bench --emulate 3 -n 4 --samples 1 --seed 9 --json --cases " + cases + " --plot " + picture + ".svg," + picture + "-2.svg"
			r := experimentJSON[detectbench.Report](t, 0, strings.Fields(args)...)
			if r.Seed != 9 || r.Emulate != "3" || r.CPUs < 1 || r.Watchdog != "" {
				t.Errorf("%+v", r)
			}
			checkNodeCases(t, &r, 3, 4, 1, strings.Split(cases, ",")...)
			drawn(t, picture)
		})
	}
}

// PEs that use shmem and mpi side by side: both learn of a death on every node, and each sees what the other one declares.
func TestDetectBenchHybrid(t *testing.T) {
	t.Parallel()
	r := experimentJSON[detectbench.Report](t, 0, strings.Fields("detect-bench --emulate 2 -n 4 --samples 1 --cases pe,daemon --hybrid --json")...)
	for _, c := range r.Cases {
		if !c.Hybrid || c.Unseen+c.Missed+c.False > 0 || c.MPI == nil || c.MPI.Min < c.Stored.Min {
			t.Errorf("%+v, mpi %+v", c, c.MPI)
		}
	}
}

// PEs that put data to each other all the time are not reported, and those that die are.
func TestDetectBenchTraffic(t *testing.T) {
	t.Parallel()
	r := experimentJSON[detectbench.Report](t, 0, strings.Fields("detect-bench --emulate 2 --samples 1 --cases none,pe --heartbeat-period 50ms --traffic --json")...)
	for _, c := range r.Cases {
		if c.Samples != 1 || c.Missed+c.False > 0 || (c.Case == "none") != (c.Last == nil) {
			t.Errorf("%+v", c)
		}
	}
}

// On nodes with networks, the loss of a node that only is silent is known, too: after the lease, unless something else finds
// it before.
func TestDetectBenchCut(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Root, testenv.Namespaces)
	before := networksHere(t)
	for _, cases := range []string{"cut,node", "daemon,pe"} {
		t.Run(cases, func(t *testing.T) {
			args := "detect-bench --emulate 3:netns --lease 1 --samples 1 --watchdog pidfd --json --cases " + cases
			r := experimentJSON[detectbench.Report](t, 0, strings.Fields(args)...)
			if r.Emulate != "3:netns" || r.Watchdog != "pidfd" {
				t.Errorf("%+v", r)
			}
			checkNodeCases(t, &r, 3, 3, 1, strings.Split(cases, ",")...)
		})
	}
	if after := networksHere(t); !slices.Equal(after, before) {
		t.Errorf("interfaces and named networks are %v, and were %v", after, before)
	}
}

// Without the right to take interfaces down, cases that need it say so, and the others are measured.
func TestDetectBenchNodesAsUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("is for users other than root")
	}
	needNetworks(t)
	j := start(t, strings.Fields("detect-bench --emulate 2:netns --samples 1 --cases cut,node,pe")...)
	j.expect(0)
	for _, want := range []string{"one clock: emulated", "not available here: case cut, tier default: takes an interface down", "not available here: case node", "\npe    2      2    default"} {
		if !strings.Contains(j.stdout.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, &j.stdout)
		}
	}
}

// Options for heartbeats go to the jobs as they are given. A job that does not have them, or the tier, ends the measurement
// with its own words.
func TestDetectBenchPassesOn(t *testing.T) {
	t.Parallel()
	j := start(t, strings.Fields("detect-bench --emulate 2 --samples 1 --cases pe --watchdog pidfd --heartbeat-period 20ms --heartbeat-tier user --lease 3")...)
	status, said := j.ended(testPatience)
	if status == 0 {
		if !strings.Contains(j.stdout.String(), "\npe    2      2    user  20") {
			t.Errorf("table lacks the case:\n%s", &j.stdout)
		}
		return
	}
	want := "oshrun -n 2 --emulate 2 --launch-flat --recover --heap-size 16777216 --heartbeat-tier user --heartbeat-period 20ms --watchdog pidfd --lease 3s detect-pe nodes 33s pe:"
	if !strings.Contains(said, want) || !strings.Contains(said, "case pe, oshrun, tier user, 20 ms: ") {
		t.Errorf("said %q, want %q", said, want)
	}
}

func TestDetectNodesTable(t *testing.T) {
	s := &sample.Spread{Min: 0.0712, P50: 0.25, Max: 12.345}
	text := string(detectNodesTable(&detectbench.Report{
		Head: measure.Head{Seed: 5}, Emulate: "8:netns", Clock: "one clock: emulated", Machine: measure.Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}},
		Cases: []*detectbench.Result{
			{Case: "random:3", Tier: "user", Period: 20, Nodes: 8, PEs: 16, Samples: 10, First: s, Last: s, Stored: s, Called: s, False: 1, Missed: 2},
			{Case: "pe", Tier: "default", Nodes: 8, PEs: 16, Samples: 10},
			{Case: "cut", Tier: "kernel", NotHere: "takes root"},
			{Case: "node", Tier: "user", Nodes: 8, PEs: 16, Samples: 1, Said: &sample.Spread{Min: 999.4, P50: 1000.2, Max: 10300}},
		},
	}))
	for _, want := range []string{
		"--emulate 8:netns, one clock: emulated; seed 5, 2 processors, load 1 2 3 before, 4 5 6 after", "RETURNED, LAST",
		"random:3  8      16   user     20      10       0.25 (0.0712 to 12.3)", "pe        8      16   default  -       10       -",
		"not available here: case cut, tier kernel: takes root", "1000 (999 to 10300)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestDetectNodesRefuses(t *testing.T) {
	refuses(t, "detect-bench", map[string]string{
		"--emulate 0":                             `--emulate: "0", want a number of nodes from 1 to 64`,
		"--emulate 1":                             "--emulate: 1, want 2 to 64 nodes",
		"--emulate 2:net":                         `--emulate: "2:net", want`,
		"--emulate=":                              `--emulate: "", want`,
		"--emulate 4 -n 3":                        "-n: 3 PEs on 4 nodes, want a PE on each node",
		"--emulate 4 --samples 0":                 "--samples: 0, want 1",
		"--emulate 4 --size 1M":                   "--size: 1M, want nothing with --emulate",
		"--emulate 4 --cases small":               `--cases: "small" is of one node, want some of pe, daemon`,
		"--emulate 4 --cases fire":                `--cases: "fire", want some of pe, daemon`,
		"--emulate 4 --cases node:2":              `--cases: "node:2", want node`,
		"--emulate 4 --cases random":              `--cases: "random", want random:K`,
		"--emulate 4 --cases random:4":            `--cases: "random:4", want a number of nodes from 1 to 3`,
		"--emulate 4 --cases contiguous:x":        `--cases: "contiguous:x", want a number of nodes from 1 to 3`,
		"--emulate 4 --cases cut":                 `--cases: "cut" takes the interface of a node down, want --emulate 4:netns`,
		"--emulate 4 --watchdog all":              `--watchdog: "all", want best or bpf`,
		"--emulate 4 --heartbeat-tier fpga":       `--heartbeat-tier: "fpga", want some of kernel, process, user`,
		"--emulate 4 --heartbeat-period never":    `--heartbeat-period: "never", want`,
		"--emulate 4 --heartbeat-period 100ms,-1": `--heartbeat-period: "-1", want`,
		"--emulate 4 --heartbeat-period 1h":       "--heartbeat-period: 1h0m0s, want more than 0 and at most 10s",
		"--emulate 4 --lease 0.5":                 "--lease: 500ms, want at least 1s",
		"--emulate 4 --lease 1h":                  "--lease: 1h0m0s, want at most 10m0s",
		"--emulate 4 --plot x.jpg":                `--plot: "x.jpg"`,
		"--heartbeat-period 1s":                   "--heartbeat-period: [1s], want --emulate N with it",
		"--heartbeat-tier user":                   "--heartbeat-tier: [user], want --emulate N with it",
		"--lease 3":                               "--lease: 3, want --emulate N with it",
		"--traffic":                               "--traffic: true, want --emulate N with it",
		"--hybrid":                                "--hybrid: true, want --emulate N with it",
		"--baseline literal":                      "--baseline: [literal], want --emulate N with it",
		"--emulate 4 --baseline swim":             "--baseline: \"swim\", want literal or prrte",
		"--cases small,random:2":                  `--cases: "random:2" is of several nodes, want --emulate N with it`,
	})
}

// An interrupt ends the current job and the command.
func TestDetectNodesInterrupted(t *testing.T) {
	t.Parallel()
	interrupts(t, "detect-bench --emulate 2 --samples 100000 --cases pe")
}

// Values are completed: cases of the kind of measurement that is asked for.
func TestDetectNodesComplete(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"detect-bench", "--heartbeat-tier", ""}, detectbench.HeartbeatTierNames},
		{[]string{"detect-bench", "--heartbeat-tier", "user,k"}, []string{"user,kernel"}},
		{[]string{"detect-bench", "--emulate", "4", "--cases", "pe,"}, []string{"pe,daemon", "pe,agent", "pe,node", "pe,cut", "pe,none", "pe,contiguous:", "pe,random:"}},
		{[]string{"detect-bench", "--cases", "s"}, []string{"small", "segv", "stop"}},
		{[]string{"detect-bench", "--emulate", ""}, []string{"4", "4:netns"}},
		{[]string{"detect-bench", "--lease", ""}, nil},
		{[]string{"detect-bench", "--baseline", ""}, detectbench.BaselineNames},
	} {
		status, text, said := execute(t, append([]string{"__complete"}, c.args...)...)
		if status != 0 {
			t.Errorf("complete %q: status %d, %s", c.args, status, said)
		}
		checkCompletion(t, c.args, text, c.want)
	}
}
