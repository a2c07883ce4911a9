package ftcobench

import (
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// rounds returns a job without faults: round i takes PE p 1 + i + p/100 ms.
func rounds(pes int) *trial {
	t := &trial{seen: make([]*seen, pes)}
	for p := range pes {
		t.rounds = append(t.rounds, []time.Duration{
			time.Millisecond + time.Duration(p)*10*time.Microsecond, 2*time.Millisecond + time.Duration(p)*10*time.Microsecond,
		})
	}
	return t
}

// at is a time, in ms after the first call.
func at(ms float64) time.Duration { return time.Second + time.Duration(ms*float64(time.Millisecond)) }

// survived returns a job whose last PE has died before the reduction, which is called at 0 ms. PE p calls p/10 ms later.
func survived(pes int) *trial {
	t := &trial{seen: make([]*seen, pes), dead: []int{pes - 1}, silent: []int{pes - 1}, killed: at(0.5)}
	for p := range pes - 1 {
		t.seen[p] = &seen{Called: at(float64(p) / 10), News: at(4), Returned: at(6), Contributors: allBelow(pes - 1)}
	}
	return t
}

func equal(s *sample.Spread, want float64) bool {
	return s != nil && s.P50 > want-1e-9 && s.P50 < want+1e-9
}

// TestResult: the longest time of a survivor counts, with the steps of the same one.
func TestResult(t *testing.T) {
	t.Parallel()
	r := newResult(Case{Nodes: 1, PEs: 4, Way: Tolerant, Faults: "one", When: Before})
	r.add(survived(4))
	r.fillSpreads()
	if !equal(r.Longest, 6) || r.Mean != r.Longest.P50 || !equal(r.Lead, 0.5) || !equal(r.News, 4) || !equal(r.Resumed, 2) {
		t.Errorf("longest %v, lead %v, news %v, resumed %v, want 6, 0.5, 4, 2", r.Longest, r.Lead, r.News, r.Resumed)
	}
	if r.Failed != nil || r.Samples != 1 || r.LeftOut != 1 || r.Wrong+r.Missed != 0 {
		t.Errorf("%+v", r)
	}
	strict := newResult(Case{Nodes: 1, PEs: 4, Way: Strict, Faults: "one", When: Before})
	x := survived(4)
	for _, s := range x.seen[:3] {
		s.Failed, s.Shrunk = at(4.25), at(5)
	}
	strict.add(x)
	strict.fillSpreads()
	if !equal(strict.Longest, 6) || !equal(strict.News, 4) || strict.Resumed != nil || !equal(strict.Failed, 4.25) || !equal(strict.Shrunk, 0.75) || !equal(strict.Retried, 1) {
		t.Errorf("failed %v, shrunk %v, retried %v, want 4.25, 0.75, 1", strict.Failed, strict.Shrunk, strict.Retried)
	}
	none := newResult(Case{Nodes: 1, PEs: 4, Way: Strict, Faults: "none"})
	none.add(rounds(4))
	none.fillSpreads()
	if none.Samples != 1 || none.Longest == nil || none.Longest.Min != 1.03 || none.Longest.Max != 2.03 || none.News != nil {
		t.Errorf("%+v, want 1.03 to 2.03 ms", none.Longest)
	}
}

// A result that is there before the news has no steps, and whoever has died may be in it.
func TestResultBeforeNews(t *testing.T) {
	t.Parallel()
	x := survived(4)
	x.silent = nil
	for _, s := range x.seen[:3] {
		s.News, s.Contributors = 0, allBelow(4)
	}
	r := newResult(Case{Nodes: 1, PEs: 4, Way: Tolerant, Faults: "one", When: During})
	r.add(x)
	r.fillSpreads()
	if r.LeftOut != 0 || r.News != nil || r.Resumed != nil || r.Wrong+r.Missed != 0 || !equal(r.Longest, 6) {
		t.Errorf("%+v", r)
	}
}

func TestResultCountsWrongs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		change        func(x *trial)
		wrong, missed int
		says          string
	}{
		{"a survivor says nothing", func(x *trial) { x.seen[1] = nil }, 0, 1, "PE 1 has not reported"},
		{"nobody says anything", func(x *trial) { clear(x.seen) }, 0, 3, "PE 0 has not reported"},
		{"a call fails", func(x *trial) { x.seen[2] = &seen{Error: "odd"} }, 0, 1, "PE 2: odd"},
		{"a sum is wrong", func(x *trial) { x.seen[1].Wrong = "element 0" }, 1, 0, "PE 1: element 0"},
		{"a survivor is left out", func(x *trial) { x.seen[1].Contributors = []int{0, 2} }, 2, 0, "lacks PE 1, which lives"},
		{"a dead PE is in", func(x *trial) { x.seen[1].Contributors = allBelow(4) }, 2, 0, "has PE 3, which has not reduced"},
		{"results differ", func(x *trial) { x.silent, x.seen[2].Contributors = nil, allBelow(4) }, 1, 0, "PE 2 has the result of PEs [0 1 2 3], and another survivor that of [0 1 2]"},
		{"a PE is in twice", func(x *trial) { x.seen[0].Contributors = []int{0, 1, 2, 2} }, 3, 0, "want ascending numbers"},
		{"a PE that is none", func(x *trial) { x.seen[2].Contributors = []int{0, 1, 2, 4} }, 2, 0, "want ascending numbers of 4 PEs"},
	} {
		r := newResult(Case{Nodes: 1, PEs: 4, Way: Tolerant, Faults: "one", When: Before})
		x := survived(4)
		c.change(x)
		r.add(x)
		r.fillSpreads()
		if r.Wrong != c.wrong || r.Missed != c.missed || !strings.Contains(r.Problem, c.says) {
			t.Errorf("%s: %d wrong, %d missed, %q, want %d, %d and %q", c.name, r.Wrong, r.Missed, r.Problem, c.wrong, c.missed, c.says)
		}
		all := &Report{Cases: []*Result{{}, r}}
		if err := all.Failures(); err == nil || !strings.Contains(err.Error(), c.says) || len(all.Notes()) != 1 {
			t.Errorf("%s: %v, notes %q", c.name, err, all.Notes())
		}
	}
	if err := (&Report{Cases: []*Result{{}}}).Failures(); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
}

// report returns a report of two sizes and two ways with all faults, at the start.
func report(t *testing.T, parts ...string) *Report {
	t.Helper()
	o := options()
	o.Parts, o.When, o.NoticeDelay, o.PEs = parts, []string{Before}, 2*time.Second, []int{4, 8}
	r, err := (&machine{}).measure(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReportJSON checks the JSON names that other programs read.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	r := report(t, PartNames()...)
	r.Cases[0].NotHere, r.Cases[1].Problem = "no teams", "odd"
	labtest.HasJSON(
		t, r,
		`"program":"goshmem ftco-bench"`, `"version":1`, `"notice_delay_ms":2000`, `"watchdog":"pidfd"`, `"nodes":1`, `"pes":4`, `"members":4`, `"doubles":64`, `"way":"strict"`,
		`"faults":"mixed"`, `"when":"before"`, `"samples":3`, `"longest_ms":{"min":6,"p50":6,"max":6}`, `"longest_mean_ms":6`, `"lead_ms":{`, `"news_ms":{"min":4,`,
		`"resumed_ms":{`, `"failed_ms":null`, `"shrunk_ms":null`, `"retried_ms":null`, `"left_out":3`, `"wrong":0`, `"missed":0`, `"problem":"odd"`, `"not_available":"no teams"`,
	)
}

// TestPictures: each part has its own picture, with the paper's values where they can be compared.
func TestPictures(t *testing.T) {
	t.Parallel()
	f := report(t, PartNames()...).Picture()
	if got := strings.Join(f.Names, "; "); got != "4, 1; 4, 64; 8, 1; 8, 64" || len(f.Series) != 4 || !f.LogY {
		t.Fatalf("names %q, %d series, want the teams with both sizes in two ways with and without a fault", got, len(f.Series))
	}
	if s := f.Series[3]; s.Name != "strict, shrink, retry, one fault" || len(s.Y) != 4 || s.Y[0] != 6 {
		t.Errorf("series %+v, want 6 ms", s)
	}
	if names := []string{(Group{4, 64}).short(), (Group{4, 64}).String(), (Group{1, 8}).String()}; strings.Join(names, "; ") != "64 (4); 64 PEs on 4 nodes; 8 PEs" {
		t.Errorf("groups are named %q", names)
	}
	only := report(t, Table1)
	table := only.Picture()
	if strings.Join(table.Names, " ") != "none one parallel series mixed" || len(table.Series) != 3 {
		t.Fatalf("names %v, %d series, want all faults, the two teams and the paper", table.Names, len(table.Series))
	}
	if s := table.Series[2]; s.Name != "paper: 64 processes" || s.Y[3] != 4019.4 {
		t.Errorf("series %+v, want the paper's", s)
	}
	only.NoticeDelay = 0
	if n := len(only.Picture().Series); n != 2 {
		t.Errorf("%d series without the paper's timeout, want those of the teams alone", n)
	}
	labtest.Draws(t, table, "paper: 64 processes")
}
