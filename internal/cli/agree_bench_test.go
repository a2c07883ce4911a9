package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/agreebench"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Real jobs with killed PEs: the survivors agree on who is dead and combine their own votes, with every algorithm.
func TestAgreeBench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	picture := filepath.Join(t.TempDir(), "agree")
	for _, who := range agreebench.Victims {
		args := fmt.Sprintf("agree-bench -n 2,5 --dead 0,2 --who %s --jobs 2 --samples 3 --calls 5 --seed 9 --json --plot %s.svg --plot-dead %s-2.svg", who, picture, picture)
		r := experimentJSON[agreebench.Report](t, 0, strings.Fields(args)...)
		if r.Seed != 9 || r.Who != who || r.Jobs != 2 || r.Samples != 3 || r.Calls != 5 || r.CPUs < 1 {
			t.Errorf("%+v", r)
		}
		var cells []string
		for _, c := range r.Results {
			cells = append(cells, fmt.Sprintf("%d/%d %s", c.Dead, c.PEs, c.Variant))
			if c.Samples != 6 || len(c.Victims) != c.Dead || slices.Contains(c.Victims, 0) || c.Wrong+c.Differed != 0 || c.Times <= 0 {
				t.Errorf("%s: %+v", cells[len(cells)-1], c)
			}
			if c.Dead > 0 && who == agreebench.Inner && fmt.Sprint(c.Victims) != "[1 2]" {
				t.Errorf("victims %v, want those with a PE below them", c.Victims)
			}
			if k, a := c.Coordinator, c.All; k == nil || a == nil || k.Min <= 0 || k.P50 < k.Min || k.Max < k.P50 || a.Min < k.Min || a.P50 < k.P50 || a.Max < k.Max {
				t.Errorf("%s: coordinator %+v, all %+v", cells[len(cells)-1], k, a)
			}
		}
		const want = "0/2 allreduce; 0/2 linear; 0/2 log; 0/2 early; 0/5 allreduce; 0/5 linear; 0/5 log; 0/5 early; " +
			"2/5 allreduce, rebalanced; 2/5 linear; 2/5 linear, rebalanced; 2/5 log; 2/5 log, rebalanced; 2/5 early; 2/5 early, rebalanced"
		if got := strings.Join(cells, "; "); got != want {
			t.Errorf("results %s, want %s", got, want)
		}
		drawn(t, picture)
	}
}

func TestAgreeTable(t *testing.T) {
	s := &sample.Spread{Min: 71.2, P50: 250, Max: 1234.5}
	text := string(agreeTable(&agreebench.Report{
		Head: measure.Head{Seed: 5}, Machine: measure.Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}}, Who: "inner", Jobs: 2, Samples: 3, Calls: 7,
		Results: []*agreebench.Result{
			{PEs: 4, Variant: agreebench.Variant{Algorithm: "log"}, Coordinator: s, All: s, Times: 1.5},
			{PEs: 4, Dead: 2, Variant: agreebench.Variant{Algorithm: "log"}, Coordinator: s, All: s},
			{PEs: 4, Dead: 2, Variant: agreebench.Variant{Algorithm: "log", Rebalanced: true}, Coordinator: s, All: s, Wrong: 8, Differed: 9},
		},
	}))
	for _, want := range []string{
		"of 6 samples of 7; dead: inner; seed 5, 2 processors, load 1 2 3 before, 4 5 6 after", "X ALLREDUCE",
		"4    0     log        whole       250 (71.2 to 1234)  250 (71.2 to 1234)  1.50         0      0",
		"with holes  250", "-            0      0", "rebalanced  250", "8      9",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestAgreeBenchRefuses(t *testing.T) {
	refuses(t, "agree-bench", map[string]string{
		"--samples 0":           "--samples: 0, want 1",
		"--jobs 0":              "--jobs: 0, want 1",
		"--calls -3":            "--calls: -3, want 1",
		"-n 1":                  "--sizes: 1, want 2",
		"-n four":               "--sizes",
		"-n 4 --dead 3":         "--dead: [3] is more than half",
		"--algorithms log,fire": `--algorithms: "fire", want some of allreduce, linear`,
		"--who root":            `--who: "root", want some of inner, random`,
		"--plot x.jpg":          `--plot: "x.jpg"`,
		"--plot-dead x.jpg":     `--plot-dead: "x.jpg"`,
		"more":                  `argument "more", want none`,
	})
}

// An interrupt ends the current job and the command.
func TestAgreeBenchInterrupted(t *testing.T) {
	interrupts(t, "agree-bench -n 2 --dead 0 --jobs 1000 --samples 10000")
}

// The program of its PEs is hidden from users.
func TestAgreeProgramIsHidden(t *testing.T) {
	hides(t, agreePE, "agree-bench")
}
