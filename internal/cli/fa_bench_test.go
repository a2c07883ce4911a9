package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/fabench"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Real jobs, on one node and on two: each case has all its samples, phases that follow each other, and the result of the runs without deaths.
func TestFABench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	for args, want := range map[string][]string{
		"-n 3 --samples 1": {
			"none 3 1 0", "fault-free 3 1 0", "first 3 1 1", "first-2 3 1 2", "mid 3 1 1", "last 3 1 1", "first-rebuild 3 1 1",
		},
		"-n 4 --emulate 2 --cases node,first-rebuild --samples 2": {"first-rebuild 4 2 1", "node 4 2 1"},
	} {
		picture := t.TempDir() + "/fa"
		args += " --plot " + picture + ".svg," + picture + "-2.svg"
		r := experimentJSON[fabench.Report](t, 0, strings.Fields("fa-bench --apps minife --size 6 --iterations 12 --seed 9 --json "+args)...)
		drawn(t, picture)
		if r.Seed != 9 || r.Samples < 1 || r.Iterations != 12 || r.PEs < 3 || r.Nodes < 1 || r.CPUs < 1 {
			t.Errorf("%s: %+v", args, r)
		}
		var got []string
		for _, c := range r.Cases {
			got = append(got, fmt.Sprintf("%s %d %d %d", c.Case, c.PEs, c.Nodes, c.Dead))
			if c.App != "minife" || c.Size != 6 || c.Samples != r.Samples || !c.Equal || c.FaultFree == nil || c.FaultFree.Min <= 0 || c.Total == nil || c.Total.Min <= 0 {
				t.Errorf("%s: %+v", c.Case, c)
			}
			if c.Dead > 0 != (c.Restart != nil) || c.Dead > 0 != (len(c.Phases) == len(fabench.Phases)) || c.Dead > 0 != (c.Recoveries > 0) {
				t.Errorf("%s: phases %v, restart %v, %d recoveries", c.Case, c.Phases, c.Restart, c.Recoveries)
			}
			sum := 0.0
			for name, p := range c.Phases {
				if p == nil || p.Min < 0 || p.P50 < p.Min || p.Max < p.P50 || name == "spawn" && p.Min == 0 {
					t.Errorf("%s: phase %s %+v", c.Case, name, p)
					continue
				}
				sum += p.Min
			}
			if c.Dead > 0 && (c.Recovery == nil || c.Recovery.Min < sum-1e-9) || sum >= c.Total.Max {
				t.Errorf("%s: phases of %v s in a recovery of %+v s and a job of %v s", c.Case, sum, c.Recovery, c.Total.Max)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: cases %q, want %q", args, got, want)
		}
	}
}

func TestFATable(t *testing.T) {
	phases := map[string]*sample.Spread{}
	for i, name := range fabench.Phases {
		ms := float64(i + 1)
		phases[name] = &sample.Spread{Min: ms / 2000, P50: ms / 1000, Max: ms / 500}
	}
	text := string(faTable(&fabench.Report{
		Head: measure.Head{Seed: 5}, Machine: measure.Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}}, PEs: 4, Nodes: 2, Iterations: 200,
		Cases: []*fabench.Result{
			{App: "minife", Case: "none", Samples: 3, FaultFree: &sample.Spread{Min: 1, P50: 2, Max: 3}, Total: &sample.Spread{Min: 1, P50: 1.5, Max: 3}, Added: -0.5, Equal: true},
			{App: "minife", Case: "mid", Samples: 3, FaultFree: &sample.Spread{Min: 1, P50: 2, Max: 3}, Total: &sample.Spread{Min: 2, P50: 2.25, Max: 3}, Added: 0.25, Restart: &sample.Spread{Min: 3, P50: 4, Max: 5}, Phases: phases, Recovery: &sample.Spread{Min: 0.01, P50: 0.02, Max: 0.03}},
		},
	}))
	for _, want := range []string{
		"median (least to most); 4 ranks, 2 nodes, 200 iterations; seed 5, 2 processors, load 1 2 3 before, 4 5 6 after",
		"minife  none  3        2 (1 to 3)     1.5 (1 to 3)   -0.50     -           yes",
		"minife  mid   3        2 (1 to 3)     2.25 (2 to 3)  +0.25     4 (3 to 5)  no",
		"minife  mid   1 (0.5 to 2)  2 (1 to 4)  3 (1.5 to 6)  4 (2 to 8)  5 (2.5 to 10)  6 (3 to 12)  20 (10 to 30)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestFABenchRefuses(t *testing.T) {
	refuses(t, "fa-bench", map[string]string{
		"--apps hpl":                       `--apps: "hpl", want some of minife`,
		"--cases first,fire":               `--cases: "fire", want some of none, fault-free`,
		"--cases=":                         `--cases: nothing, want some of none`,
		"-n 1":                             "-n: 1, want 2",
		"-n four":                          "-n",
		"-n 2 --cases first-2":             `--cases: "first-2" kills two of 2 ranks, want -n 3 or more`,
		"--cases node":                     `--cases: "node" kills a whole node and others go on, want --emulate 2 or more`,
		"--cases node --emulate 1":         "want --emulate 2 or more",
		"--emulate 0":                      "--emulate: 0, want 1 or more nodes",
		"--emulate 5":                      "--emulate: 5 nodes for 4 ranks, want a rank on each node",
		"--samples 0":                      "--samples: 0, want 1",
		"--iterations 3":                   "--iterations: 3, want 4",
		"--size 1":                         "--size: 1, want 2",
		"-n 4 --size 3 --apps minife":      "-n: 4 ranks, want 2 to 3 of minife with --size 3",
		"--timeout -1s":                    "--timeout: -1s, want more than 0",
		"--plot figure.png --cases none":   "want a name that ends in .svg",
		"--plot no/such/dir.svg --cases=a": "--cases",
		"more":                             `argument "more", want none`,
	})
}

// A job that takes too long is ended, and is an error.
func TestFABenchTimeout(t *testing.T) {
	j := start(t, strings.Fields("fa-bench --apps minife --cases none --samples 1 --timeout 10ms")...)
	j.expect(1, "fa-bench: minife, ", "the job has not ended after 10ms")
}

// An interrupt ends the current job and the command.
func TestFABenchInterrupted(t *testing.T) {
	interrupts(t, "fa-bench -n 2 --apps minife --cases first --iterations 100000 --samples 1000")
}

// The program of its ranks is hidden from users.
func TestFAProgramIsHidden(t *testing.T) {
	hides(t, faPE, "fa-bench")
}
