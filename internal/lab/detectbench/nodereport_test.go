package detectbench

import (
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// sawNodes returns what a survivor saw of the failure of PEs 2 and 3 at 1 s, after these delays.
func sawNodes(stored, returned, called time.Duration) *nodeSeen {
	return &nodeSeen{
		Stored: time.Second + stored, Returned: time.Second + returned, Called: time.Second + called,
		Failed: []int{2, 3}, Told: []int{2, 3}, Page: []int{2, 3},
	}
}

// goodNodeTrial returns a trial in which node1 with PEs 2 and 3 fails, and node0 with two PEs and node2 with one survive.
func goodNodeTrial() *nodeTrial {
	return &nodeTrial{
		nodes: []int{0, 0, 1, 1, 2}, dead: []int{2, 3}, lost: []int{1}, injected: time.Second, acted: time.Second + 50*us, said: time.Second + 900*us,
		seen: []*nodeSeen{sawNodes(100*us, 300*us, 500*us), sawNodes(100*us, 200*us, 400*us), nil, nil, sawNodes(150*us, 600*us, 700*us)},
	}
}

// TestNodeResult: each time goes to its own column; a page counts once.
func TestNodeResult(t *testing.T) {
	t.Parallel()
	r := Result{}
	r.addNodes(goodNodeTrial())
	r.fillSpreads()
	for what, c := range map[string]struct {
		got  *sample.Spread
		want sample.Spread
	}{
		"stored": {r.Stored, sample.Spread{Min: 0.1, P50: 0.125, Max: 0.15}},
		"first":  {r.First, sample.Spread{Min: 0.2, P50: 0.2, Max: 0.2}}, "last": {r.Last, sample.Spread{Min: 0.6, P50: 0.6, Max: 0.6}},
		"returned": {r.Returned, sample.Spread{Min: 0.2, P50: 0.3, Max: 0.6}}, "called": {r.Called, sample.Spread{Min: 0.4, P50: 0.5, Max: 0.7}},
		"said": {r.Said, sample.Spread{Min: 0.9, P50: 0.9, Max: 0.9}}, "inject": {r.Injected, sample.Spread{Min: 0.05, P50: 0.05, Max: 0.05}},
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s %v, want %v", what, c.got, c.want)
		}
	}
	if r.False+r.Missed != 0 || r.Samples != 1 || len(r.stored) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestNodeResultOfPE: survivors beside the victim count, but their times do not.
func TestNodeResultOfPE(t *testing.T) {
	t.Parallel()
	trial := goodNodeTrial()
	trial.dead, trial.lost = []int{3}, nil
	trial.seen[2] = sawNodes(10*us, 20*us, 30*us)
	for _, s := range trial.seen {
		if s != nil {
			s.Failed, s.Told, s.Page = []int{3}, []int{3}, []int{3}
		}
	}
	r := Result{}
	r.addNodes(trial)
	r.fillSpreads()
	if r.First.Min != 0.2 || len(r.stored) != 2 || r.False+r.Missed != 0 {
		t.Errorf("first %v, %d pages, %d false, %d missed, want only times of other nodes", r.First, len(r.stored), r.False, r.Missed)
	}
	trial.seen[2] = nil
	r = Result{}
	if r.addNodes(trial); r.Missed != 1 {
		t.Errorf("%d missed, want the PE beside the victim", r.Missed)
	}
}

func TestNodeResultCountsWrongs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change       func(t *nodeTrial)
		falsely, not int
		returned     int
	}{
		"a survivor says nothing":          {func(t *nodeTrial) { t.seen[0] = nil }, 0, 1, 2},
		"the call names one of two":        {func(t *nodeTrial) { t.seen[0].Failed = []int{2} }, 0, 1, 2},
		"the callback does not run":        {func(t *nodeTrial) { t.seen[0].Told = nil }, 0, 1, 2},
		"the call names a living PE":       {func(t *nodeTrial) { t.seen[0].Failed = []int{2, 3, 4} }, 1, 0, 3},
		"the callback names a living PE":   {func(t *nodeTrial) { t.seen[4].Told = []int{0, 2, 3} }, 1, 0, 3},
		"a living PE is on the page later": {func(t *nodeTrial) { t.seen[4].Page = []int{0, 2, 3} }, 1, 0, 3},
		"stored before it was":             {func(t *nodeTrial) { t.seen[0].Stored = time.Millisecond }, 1, 0, 2},
		"oshrun has lost a living node":    {func(t *nodeTrial) { t.accused = 1 }, 1, 0, 3},
	} {
		r := Result{Case: "c", Detector: ownDetector, Tier: "user"}
		trial := goodNodeTrial()
		c.change(trial)
		r.addNodes(trial)
		r.fillSpreads()
		if r.False != c.falsely || r.Missed != c.not || len(r.returned) != c.returned {
			t.Errorf("%s: %d false, %d missed, %d calls, want %d, %d, %d", name, r.False, r.Missed, len(r.returned), c.falsely, c.not, c.returned)
		}
		if err := (&Report{Cases: []*Result{{}, &r}}).Failures(); err == nil || !strings.Contains(err.Error(), "c, oshrun, tier user: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nodeReport returns a report of two cases with two settings, and of one case that could not be measured.
func nodeReport() *Report {
	r := &Report{Head: measure.Head{Program: programName, Version: reportVersion, Seed: 1}, Emulate: "3", Clock: oneClock}
	for _, name := range []string{"node", "random:2"} {
		for _, s := range []setting{{"", 0}, {"user", 50 * time.Millisecond}} {
			res := &Result{Case: name, Detector: ownDetector, Tier: s.name(), Period: measure.Milliseconds(s.period), PEs: 5, Nodes: 3}
			res.addNodes(goodNodeTrial())
			res.fillSpreads()
			r.Cases = append(r.Cases, res)
		}
	}
	r.Cases = append(r.Cases, &Result{Case: "cut", Detector: ownDetector, Tier: "default", NotHere: "no root"})
	return r
}

// TestNodeReportJSON checks the JSON names that other programs read.
func TestNodeReportJSON(t *testing.T) {
	t.Parallel()
	labtest.HasJSON(
		t, nodeReport(),
		`"emulate":"3"`, `"clock":"one clock: emulated"`, `"case":"random:2"`, `"nodes":3`, `"pes":5`, `"detector":"oshrun"`, `"period_ms":50`, `"tier":"user"`,
		`"samples":1`, `"first_ms":{"min":0.2,`, `"last_ms":{"min":0.6,`, `"kernel_ms":null`, `"stored_ms":{"min":0.1,`, `"inject_ms":{"min":0.05,`,
		`"false_reports":0`, `"missed":0`, `"not_available":"no root"`,
	)
}

// TestNodePicture: each case and setting that was measured has a point, and each setting a series.
func TestNodePicture(t *testing.T) {
	t.Parallel()
	f := nodeReport().Picture()
	if strings.Join(f.Names, " ") != "node random:2" || len(f.Series) != 2 || !f.LogY {
		t.Fatalf("names %v, %d series, want node and random:2 in two settings", f.Names, len(f.Series))
	}
	if s := f.Series[1]; s.Name != "oshrun, tier user, 50 ms" || len(s.Y) != 2 || s.Y[0] != 0.6 {
		t.Errorf("series %+v, want 0.6 ms", s)
	}
	labtest.Draws(t, f, "other nodes")
}

// TestHybridResult: mpi's time has a column of its own; a PE that mpi has not told has missed the failure, and models that
// do not see each other are counted.
func TestHybridResult(t *testing.T) {
	t.Parallel()
	both := []string{"MPI", "OpenSHMEM"}
	trial := goodNodeTrial()
	for i, s := range trial.seen {
		if s != nil {
			s.MPI, s.Models = time.Second+time.Duration(i+1)*us, both
		}
	}
	r := Result{Hybrid: true}
	r.addNodes(trial)
	r.fillSpreads()
	if want := (sample.Spread{Min: 0.001, P50: 0.002, Max: 0.005}); r.MPI == nil || *r.MPI != want || r.Missed+r.False+r.Unseen != 0 {
		t.Errorf("%+v, mpi %v, want %v", r, r.MPI, want)
	}
	trial.seen[0].MPI, trial.seen[1].Models, trial.seen[4].Differs = 0, both[:1], true
	r = Result{Hybrid: true}
	r.addNodes(trial)
	if r.Missed != 1 || r.Unseen != 2 {
		t.Errorf("%d missed, %d unseen, want 1 and 2", r.Missed, r.Unseen)
	}
	if err := (&Report{Cases: []*Result{&r}}).Failures(); err == nil || !strings.Contains(err.Error(), "2 PEs whose models do not see each other") {
		t.Errorf("failures: %v", err)
	}
}
