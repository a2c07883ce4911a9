package detectbench

import (
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

const us = time.Microsecond

// saw returns what a survivor saw of the failure of PE 2 at 1 s, after these delays.
func saw(stored, returned, called time.Duration) *seen {
	return &seen{
		Kernel: time.Second + stored/2, Stored: time.Second + stored, Returned: time.Second + returned, Called: time.Second + called,
		Failed: []int{2}, Told: []int{2},
	}
}

// TestResult: each time goes to its own column, measured from the right moment. What must not happen is counted as such.
func TestResult(t *testing.T) {
	t.Parallel()
	good := &trial{victim: 2, injected: time.Second, said: time.Second + 900*us, seen: []*seen{saw(100*us, 300*us, 500*us), saw(100*us, 200*us, 400*us), nil}}
	own := &trial{victim: 2, seen: []*seen{saw(100*us, 300*us, 500*us), saw(100*us, 200*us, 400*us), nil}}
	for _, s := range own.seen[:2] {
		s.Injected = time.Second
	}
	for name, trial := range map[string]*trial{"by the injector": good, "by the victim": own} {
		r := Result{}
		r.add(trial)
		r.fillSpreads()
		for what, c := range map[string]struct {
			got  *sample.Spread
			want sample.Spread
		}{
			"kernel": {r.Kernel, sample.Spread{Min: 0.05, P50: 0.05, Max: 0.05}},
			"stored": {r.Stored, sample.Spread{Min: 0.1, P50: 0.1, Max: 0.1}},
			"first":  {r.First, sample.Spread{Min: 0.2, P50: 0.2, Max: 0.2}}, "last": {r.Last, sample.Spread{Min: 0.3, P50: 0.3, Max: 0.3}},
			"returned": {r.Returned, sample.Spread{Min: 0.2, P50: 0.25, Max: 0.3}}, "called": {r.Called, sample.Spread{Min: 0.4, P50: 0.45, Max: 0.5}},
		} {
			if c.got == nil || *c.got != c.want {
				t.Errorf("%s: %s %v, want %v", name, what, c.got, c.want)
			}
		}
		if r.False+r.Missed != 0 || r.Samples != 1 || (r.Said == nil) != (trial.said == 0) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestResultCountsWrongs(t *testing.T) {
	t.Parallel()
	change := func(f func(s *seen)) *seen {
		s := saw(100*us, 300*us, 500*us)
		f(s)
		return s
	}
	fine := saw(100*us, 200*us, 400*us)
	for _, c := range []struct {
		name         string
		trial        trial
		falsely, not int
		samples      int // of returned calls
	}{
		{"a survivor says nothing", trial{seen: []*seen{fine, nil, nil}}, 0, 1, 1},
		{"nobody says anything", trial{seen: []*seen{nil, nil, nil}}, 0, 2, 0},
		{"the call does not return", trial{seen: []*seen{fine, change(func(s *seen) { s.Failed, s.Returned = nil, 0 }), nil}}, 0, 1, 1},
		{"the callback does not run", trial{seen: []*seen{fine, change(func(s *seen) { s.Told, s.Called = nil, 0 }), nil}}, 0, 1, 1},
		{"somebody else is named", trial{seen: []*seen{fine, change(func(s *seen) { s.Failed = []int{0, 2} }), nil}}, 1, 0, 2},
		{"only somebody else is named", trial{seen: []*seen{fine, change(func(s *seen) { s.Told = []int{1} }), nil}}, 1, 1, 1},
		{"stored before it was", trial{seen: []*seen{fine, change(func(s *seen) { s.Stored = time.Millisecond }), nil}}, 1, 0, 1},
		{"stopped, and nobody says so", trial{stops: true, seen: []*seen{{}, {}, nil}}, 0, 1, 0},
		{"stopped, and held for dead", trial{stops: true, said: 2 * time.Second, seen: []*seen{{Told: []int{2}}, {Failed: []int{2}}, nil}}, 2, 0, 0},
		{"stopped, all well", trial{stops: true, said: 2 * time.Second, seen: []*seen{{}, {}, nil}}, 0, 0, 0},
	} {
		r := Result{Case: "c", Tier: "pidfd"}
		c.trial.victim, c.trial.injected = 2, time.Second
		r.add(&c.trial)
		r.fillSpreads()
		if r.False != c.falsely || r.Missed != c.not || len(r.returned) != c.samples {
			t.Errorf("%s: %d false, %d missed, %d calls, want %d, %d, %d", c.name, r.False, r.Missed, len(r.returned), c.falsely, c.not, c.samples)
		}
		err := (&Report{Cases: []*Result{{}, &r}}).Failures()
		if bad := c.falsely+c.not > 0; (err != nil) != bad || bad && !strings.Contains(err.Error(), "c, pidfd: ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// report returns a report of two cases in two tiers, and of one case that could not be measured.
func report() *Report {
	r := &Report{Head: measure.Head{Program: programName, Version: reportVersion, Seed: 1}}
	for _, c := range []Case{Cases[0], Cases[5]} {
		for i, tier := range []string{"bpf", "sigchld"} {
			res := &Result{Case: c.Name, Tier: tier, PEs: 3, Nodes: 1, of: c}
			at := time.Duration(1+i) * 100 * us
			res.add(&trial{
				victim: 2, injected: time.Second, stops: c.stops, said: time.Second + at,
				seen: []*seen{saw(at, 2*at, 3*at), saw(at, 3*at, 4*at), nil},
			})
			res.fillSpreads()
			r.Cases = append(r.Cases, res)
		}
	}
	r.Cases = append(r.Cases, &Result{Case: "oom", Tier: "bpf", NotHere: "no group"})
	return r
}

// TestReportJSON checks the JSON names that other programs read.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	labtest.HasJSON(
		t, report(),
		`"case":"small"`, `"nodes":1`, `"pes":3`, `"period_ms":0`, `"tier":"bpf"`, `"samples":1`,
		`"first_ms":{"min":0.2,"p50":0.2,"max":0.2}`, `"last_ms":{"min":0.3,`, `"kernel_ms":{`, `"stored_ms":{"min":0.1,`, `"returned_ms":{`, `"called_ms":{`,
		`"said_ms":{`, `"false_reports":0`, `"missed":0`, `"last_ms":null`, `"not_available":"no group"`,
	)
}

// TestPicture: each case and tier that was measured has a point. The case of a stopped PE is plotted by oshrun's message.
func TestPicture(t *testing.T) {
	t.Parallel()
	f := report().Picture()
	if strings.Join(f.Names, " ") != "small stop" || len(f.Series) != 3 || !f.LogY {
		t.Fatalf("names %v, %d series, want small and stop in two tiers and the paper's", f.Names, len(f.Series))
	}
	if s := f.Series[1]; s.Name != "sigchld" || len(s.Y) != 2 || s.Y[0] != 0.6 || s.Y[1] != 0.2 {
		t.Errorf("series %+v, want 0.6 and 0.2 ms", s)
	}
	labtest.Draws(t, f, "paper: below 5 ms")
}
