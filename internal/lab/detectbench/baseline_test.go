package detectbench

import (
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
)

// TestBaselines: the literal machine stands beside each case and period, labeled as simulated, and needs a timeout for
// each PE of a node.
func TestBaselines(t *testing.T) {
	t.Parallel()
	o := nodeOptions()
	o.Cases, o.Nodes, o.PEs = []string{"pe", "agent", "daemon", "contiguous:2"}, 8, 16
	o.Baselines, o.HeartbeatPeriods = []string{"literal", "prrte"}, []time.Duration{100 * time.Millisecond, time.Second}
	r, err := (&nodeMachine{}).measure(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := 3 * 4 * 2; len(r.Cases) != want { // one row of jobs for each of two
		t.Fatalf("%d rows, want %d", len(r.Cases), want)
	}
	rows := map[string]*Result{}
	for _, c := range r.Cases[8:] {
		rows[c.Detector+" "+c.Case] = c // the longer period comes last
		switch {
		case !c.Simulated || c.Tier != c.Detector+", simulated" || c.Nodes != 8 || c.PEs != 16:
			t.Errorf("%+v, want a simulated row of 16 PEs", c)
		case c.Case == "agent" != (c.NotHere != ""):
			t.Errorf("%s: not here %q", c.Case, c.NotHere)
		case c.NotHere == "" && (c.Samples != 3 || c.First == nil || c.Last == nil || c.Last.Min < c.First.Min):
			t.Errorf("%+v, want times", c)
		}
	}
	if last := rows["literal pe"].Last; last.Max > 1 {
		t.Errorf("a PE's death takes %v ms, want a broadcast alone", last.Max)
	}
	// Two PEs a node: two timeouts of two periods, or of twice as many with PRRTE's mending, from within a period.
	for name, want := range map[string]float64{"literal daemon": 3000, "literal contiguous:2": 5000, "prrte daemon": 4000} {
		if last := rows[name].Last; last.Max < want || last.Max > 2*want {
			t.Errorf("%s takes %v ms, want %v or somewhat more", name, last.Max, want)
		}
	}
	labtest.HasJSON(t, r, `"detector":"literal"`, `"tier":"literal, simulated"`, `"simulated":true`)
	labtest.Draws(t, r.Picture(), "literal, simulated, 100 ms")
}

func TestCheckBaselines(t *testing.T) {
	t.Parallel()
	o := nodeOptions()
	for name, want := range map[string]string{"swim": "--swim sets it beside", "moon": `--baseline: "moon", want some of literal`, "literal": ""} {
		o.Baselines = []string{name}
		if err := o.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
