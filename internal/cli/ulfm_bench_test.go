package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
	"github.com/goshmem/goshmem/internal/lab/ulfmbench"
)

// Real jobs, on one node and on two: all cases have all their samples, and no call gives a wrong result.
func TestULFMBench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	for args, want := range map[string][]string{
		"-n 3 --dead 0,1 --jobs 2": {
			"agree steady 0: 6", "agree first 1: 2", "agree steady 1: 6", "iagree steady 0: 6", "iagree first 1: 2", "iagree steady 1: 6",
			"shrink steady 0: 6", "shrink first 1: 2", "shrink steady 1: 6", "ishrink steady 0: 6", "ishrink first 1: 2", "ishrink steady 1: 6",
			"revoke recv 0: 6", "revoke barrier 0: 6", "barrier death 1: 4", "recvany death 1: 4",
			"respawn death 1: 4", "respawn shrink 1: 2", "respawn spawn 1: 2", "respawn merge 1: 2", "respawn whole 1: 2",
		},
		"-n 4 --dead 2 --jobs 1 --nodes 2 --cases ishrink,revoke,recvany,respawn": {
			"ishrink first 2: 1", "ishrink steady 2: 3", "revoke recv 0: 3", "revoke barrier 0: 3", "recvany death 1: 3",
			"respawn death 1: 3", "respawn shrink 1: 1", "respawn spawn 1: 1", "respawn merge 1: 1", "respawn whole 1: 1",
		},
	} {
		r := experimentJSON[ulfmbench.Report](t, 0, strings.Fields("ulfm-bench --samples 3 --calls 2 --seed 9 --json "+args)...)
		if r.Seed != 9 || r.Samples != 3 || r.Calls != 2 || r.Jobs < 1 || r.Nodes < 1 || r.CPUs < 1 {
			t.Errorf("%s: %+v", args, r)
		}
		var got []string
		for _, c := range r.Results {
			got = append(got, fmt.Sprintf("%s %s %d: %d", c.Case, c.Phase, c.Dead, c.Samples))
			s, isCall := c.Time, c.Phase == ulfmbench.Steady || c.Phase == ulfmbench.First
			if c.Wrong != 0 || s == nil || s.Min <= 0 || s.P50 < s.Min || s.Max < s.P50 || isCall != (c.Times > 0) || isCall != (c.Allreduce != nil) {
				t.Errorf("%s: %+v", got[len(got)-1], c)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: results %q, want %q", args, got, want)
		}
	}
}

func TestULFMTable(t *testing.T) {
	text := string(ulfmTable(&ulfmbench.Report{
		Head: measure.Head{Seed: 5}, Machine: measure.Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}}, Nodes: 1, Jobs: 2, Samples: 3, Calls: 7,
		Results: []*ulfmbench.Result{
			{Case: "agree", Phase: "first", Ranks: 4, Dead: 1, Samples: 2, Time: &sample.Spread{Min: 71.25, P50: 250.4, Max: 1234.5}, Allreduce: &sample.Spread{P50: 1.5}, Times: 167},
			{Case: "revoke", Phase: "recv", Ranks: 8, Samples: 6, Time: &sample.Spread{Min: 1, P50: 2, Max: 3}, Wrong: 9},
			{Case: "barrier", Phase: "death", Ranks: 8},
		},
	}))
	for _, want := range []string{
		"us; 2 jobs of each kind, 3 samples of 7 calls in each; nodes: 1; seed 5, 2 processors, load 1 2 3 before, 4 5 6 after", "X ALLREDUCE",
		"agree    first  4      1     2        250     71.2  1234  1.5        167.00       0",
		"revoke   recv   8      0     6        2       1     3     -          -            9",
		"barrier  death  8      0     0        0       0     0     -",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestULFMBenchRefuses(t *testing.T) {
	refuses(t, "ulfm-bench", map[string]string{
		"--cases agree,fire":          `--cases: "fire", want some of agree, iagree`,
		"-n 1":                        "--sizes: 1, want 2",
		"-n four":                     "--sizes",
		"--cases agree -n 4 --dead 3": "--dead: [3] is more than half",
		"--dead -1":                   "--dead: -1, want 0",
		"--nodes 0":                   "--nodes: 0, want 1",
		"-n 8,2 --nodes 4":            "--sizes: 2 ranks on 4 nodes",
		"--jobs 0":                    "--jobs: 0, want 1",
		"--samples 0":                 "--samples: 0, want 1",
		"--calls -3":                  "--calls: -3, want 1",
		"more":                        `argument "more", want none`,
	})
}

// An interrupt ends the current job and the command.
func TestULFMBenchInterrupted(t *testing.T) {
	interrupts(t, "ulfm-bench -n 2 --dead 0 --cases agree --jobs 1000 --samples 10000")
}

// The program of its ranks is hidden from users.
func TestULFMProgramIsHidden(t *testing.T) {
	hides(t, ulfmPE, "ulfm-bench")
}
