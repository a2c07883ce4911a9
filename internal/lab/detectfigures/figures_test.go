package detectfigures

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/noise"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

func options() Options {
	o := Defaults()
	o.Samples, o.SimSamples, o.Program = 3, 2, "detect-pe"
	return o
}

const swimText = `{"program": "swimbench", "rows": [
	{"config": "tuned", "members": 8, "period_ms": 500, "idle_s": 0, "samples": 5, "first_ms": {"min": 1, "p50": 2, "max": 3}, "last_ms": {"min": 4000, "p50": 5000, "max": 6000}},
	{"config": "tuned", "members": 256, "period_ms": 100, "idle_s": 0, "samples": 5, "last_ms": {"min": 4, "p50": 5, "max": 6}},
	{"config": "tuned", "members": 256, "period_ms": 500, "idle_s": 60, "samples": 5}]}`

// fileOf writes a text into a new file and returns its name.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, options, (*Options).Check, map[string]func(o *Options){
		"--nodes: 1, want 2 to 64 nodes":                    func(o *Options) { o.Nodes = []int{4, 1} },
		"--nodes: nothing":                                  func(o *Options) { o.Nodes = nil },
		"--sim-nodes: 65537":                                func(o *Options) { o.SimNodes = []int{65537} },
		"--iterations: 0":                                   func(o *Options) { o.Iterations = 0 },
		"--time: -1s, want 0s to 1h":                        func(o *Options) { o.Time = -time.Second },
		"--samples: 0":                                      func(o *Options) { o.Samples = 0 },
		"--sim-samples: 0":                                  func(o *Options) { o.SimSamples = 0 },
		"--periods: nothing":                                func(o *Options) { o.Periods = nil },
		"--periods: 1µs, want 1ms to 10s":                   func(o *Options) { o.Periods = []time.Duration{time.Second, time.Microsecond} },
		`--figure: "6", want some of 7, 8, 8-loss, 9, 10`:   func(o *Options) { o.Figures = []string{"9", "6"} },
		"--swim: open ":                                     func(o *Options) { o.SWIM = []string{"none"} },
		"want the output of swimbench --json":               func(o *Options) { o.SWIM = []string{fileOf(t, "{")} },
		"a report of another program, want":                 func(o *Options) { o.SWIM = []string{fileOf(t, `{"program": "x"}`)} },
		"has no rows in which a member is killed":           func(o *Options) { o.SWIM = []string{fileOf(t, `{"program": "swimbench"}`)} },
		"--doc: open ":                                      func(o *Options) { o.Doc = "none" },
		`lacks the lines "<!-- detect-figures 7: begin -->`: func(o *Options) { o.Doc = fileOf(t, "<!-- detect-figures 10: begin -->\n") },
	})
}

// player plays experiments.
type player struct {
	calls []string
	err   error
}

func (p *player) emulate(_ context.Context, e *experiment, _ uint64) (*trial, error) {
	p.calls = append(p.calls, fmt.Sprint(e.fails, " ", e.nodes, " ", e.period))
	if p.err != nil && e.fails == "contiguous:2" {
		return nil, p.err
	}
	t := &trial{tier: "default"}
	for range e.rows() {
		t.views = append(t.views, view{1, float64(len(p.calls))})
	}
	if e.fails == "random:2" {
		t.falseReports, t.missed = 1, 2
	}
	return t, nil
}

func simulated(e *experiment, row *Row) error {
	row.Samples, row.Tier = 2, e.detector
	row.First = &sample.Spread{Min: 1, P50: 1, Max: 1}
	row.Last = &sample.Spread{Min: 1, P50: float64(row.members()), Max: 5000}
	return nil
}

// quiet is a benchmark whose figures heartbeats do not change.
func quiet(context.Context) (*noise.Report, error) {
	row := noise.Row{Name: "barrier", Test: "barrier", Overhead: 1.25, Band: 4, Low: -2, High: 3, Maxima: 2.5, Off: &noise.Side{}, On: &noise.Side{}}
	return &noise.Report{Program: []string{"bench", "barrier"}, PEs: 8, Samples: 3, Periods: []*noise.Comparison{{Period: "1ms", Rows: []noise.Row{row}, All: row}}}, nil
}

func makeReport(t *testing.T, o Options, p *player) *Report {
	t.Helper()
	r, err := o.make(t.Context(), runners{emulate: p.emulate, simulate: simulated, noise: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMake: all figures have rows of each kind, share experiments, are drawn, and have the published values.
func TestMake(t *testing.T) {
	t.Parallel()
	o := options()
	o.Dir, o.SWIM = filepath.Join(t.TempDir(), "new"), []string{fileOf(t, swimText)}
	p := &player{}
	r := makeReport(t, o, p)
	if len(r.Figures) != len(Names()) {
		t.Fatalf("%d figures, want %v", len(r.Figures), Names())
	}
	rows := map[string]*Figure{}
	for _, f := range r.Figures {
		rows[f.Name] = f
		var kinds []string
		for _, row := range f.Rows {
			if kinds = append(kinds, row.How); row.Samples == 0 || row.Last == nil {
				t.Errorf("figure %s: %+v without times", f.Name, row)
			}
		}
		hasEmulated, hasSimulated := f.Name != "12", f.Name != "16" && f.Name != "8"
		if f.Name == "7" {
			if text := fmt.Sprint(f.Table()); f.Noise == nil || !strings.Contains(text, "[emulated 1ms barrier") || !strings.Contains(text, "+2.5]") || !strings.Contains(text, "below 8; band of 4") {
				t.Errorf("figure 7: %s", text)
			}
			continue
		}
		if slices.Contains(kinds, Simulated) != hasSimulated || slices.Contains(kinds, Emulated) != hasEmulated || len(f.Paper) == 0 && f.Name != "8-loss" {
			t.Errorf("figure %s has rows %v and %d published ones", f.Name, kinds, len(f.Paper))
		}
		picture, err := os.ReadFile(f.File)
		if err != nil || !strings.Contains(string(picture), "Figure "+f.Name[:1]) {
			t.Errorf("figure %s, file %s: %v", f.Name, f.File, err)
		}
		if text := fmt.Sprint(f.Table()); !strings.Contains(text, "paper, ") && f.Name != "8-loss" {
			t.Errorf("figure %s: no published rows in %s", f.Name, text)
		}
	}
	if f := rows["16"]; len(f.Rows) != 3*4 || f.Rows[2].Detector != "mpi, call" || !strings.Contains(strings.Join(f.Notes(), ""), "declarations: 0 of the survivors of 12 jobs") {
		t.Errorf("figure 16 has %d rows, %+v, and says %q", len(f.Rows), f.Rows[2], f.Notes())
	}
	// 10 and 13 have the same emulated rows. 14 shares the longest period with them.
	if want := o.Samples * (3 + 4 + 3 + 2 + 2*2 + 4 + 2*6 + 7); len(p.calls) != want {
		t.Errorf("%d emulated failures, want %d", len(p.calls), want)
	}
	if rows["10"].Rows[0] != rows["13"].Rows[0] {
		t.Error("figures 10 and 13 have emulated rows of their own, want the same")
	}
	for name, want := range map[string]int{"9": 1, "10": 1, "14": 0} {
		n := 0
		for _, row := range rows[name].Rows {
			if row.Detector == "swim tuned" && row.How == Measured {
				n++
			}
		}
		if n != want {
			t.Errorf("figure %s has %d rows of SWIM, want %d", name, n, want)
		}
	}
	if fits := rows["11"].Fits; len(fits) != 3 || fits[2].Of != "PEs" || fits[0].Points != 3 || fits[0].How != Emulated {
		t.Errorf("fits %+v, want those of the jobs, and of two simulated detectors", fits)
	}
	if err := r.Failures(); err == nil || !strings.Contains(err.Error(), "figure 15, random:2, 8 nodes, 500 ms: 3 false reports, 6 missed, 0 jobs failed, 0 PEs with models") {
		t.Errorf("failures: %v", err)
	}
	labtest.HasJSON(t, r, `"how":"simulated"`, `"detector":"literal, PE members"`, `"case":"pe"`, `"nodes":64,"pes":768`, `"period_ms":30`, `"first_ms":{`, `"section":"5.6"`)
}

// TestFailedJobs: a job that ends in an unexpected way is a failure, and the others go on.
func TestFailedJobs(t *testing.T) {
	t.Parallel()
	o := options()
	o.Figures = []string{"15"}
	r := makeReport(t, o, &player{err: errors.New("no more memory")})
	if err := r.Failures(); err == nil || !strings.Contains(err.Error(), "contiguous:2, 8 nodes, 500 ms: 0 false reports, 0 missed, 3 jobs failed") {
		t.Errorf("failures: %v", err)
	}
	if notes := strings.Join(r.Figures[0].Notes(), "\n"); !strings.Contains(notes, "3 jobs failed: contiguous:2, 8 nodes, 500 ms: no more memory") {
		t.Errorf("notes: %s", notes)
	}
}

// TestOrder: the seed gives the order of the emulated failures.
func TestOrder(t *testing.T) {
	t.Parallel()
	labtest.SeedOrders(t, func(seed uint64) []string {
		o, p := options(), &player{}
		o.Seed = seed
		makeReport(t, o, p)
		return p.calls
	})
}

// TestSimulate: simulated rows come from the simulator, and agree with the paper where it says how long its algorithm takes.
func TestSimulate(t *testing.T) {
	t.Parallel()
	o := options()
	o.Seed, o.Parallel, o.SimSamples = 1, 2, 4
	for _, c := range []struct {
		e           experiment
		least, most float64
	}{
		{experiment{how: Simulated, detector: literal, fails: "node", nodes: 64, pes: 12, period: 500 * time.Millisecond}, 500, 1001},
		{experiment{how: Simulated, detector: ours, fails: "node", nodes: 64, pes: 12, period: 500 * time.Millisecond}, 20, 535},
		{experiment{how: Simulated, detector: perPE, fails: "node", nodes: 16, pes: 4, period: 100 * time.Millisecond}, 700, 810},
		{experiment{how: Simulated, detector: literal, fails: "contiguous:4", nodes: 64, pes: 1, period: 100 * time.Millisecond}, 700, 801},
		{experiment{how: Simulated, detector: ours, fails: processDeath, nodes: 64, pes: 12, period: 0}, 0.01, 1},
	} {
		row := c.e.rows()[0]
		if err := o.simulate(&c.e, row); err != nil {
			t.Fatal(err)
		}
		if row.Last == nil || row.Last.Min < c.least || row.Last.Max > c.most || row.Samples != 4 || row.False+row.Missed > 0 {
			t.Errorf("%+v: %+v, last %+v; want %v to %v ms", c.e, row, row.Last, c.least, c.most)
		}
	}
	if err := o.simulate(&experiment{how: Simulated, detector: ours, fails: "fire", nodes: 64, pes: 1, period: 0}, &Row{}); err == nil {
		t.Error("an unknown case is simulated")
	}
}

// TestDocument: tables stand between their markers, and the rest of the document stays.
func TestDocument(t *testing.T) {
	t.Parallel()
	o := options()
	begin, end := markers("14")
	o.Figures, o.Doc = []string{"14"}, fileOf(t, "before\n"+begin+"old\n"+end+"after\n")
	r := makeReport(t, o, &player{})
	for range 2 {
		if err := r.UpdateDocument(o.Doc); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(o.Doc)
	doc := string(text)
	if err != nil || !strings.HasPrefix(doc, "before\n"+begin+"\n| how | detector |") || !strings.HasSuffix(doc, "\n"+end+"after\n") || strings.Contains(doc, "old") {
		t.Errorf("%v\n%s", err, doc)
	}
	for _, want := range []string{"| simulated | literal | node | 64 | 64 | 500 |", "| paper, 5.6 | RDAEMON# | node | 64 | 768 | 500 | - | - | 500 to 1000 | - | - |", "\n- median (least to most); seed 0"} {
		if !strings.Contains(doc, want) {
			t.Errorf("document lacks %q:\n%s", want, doc)
		}
	}
	for line := range strings.SplitSeq(wrap("- "+strings.Repeat("word ", 60)), "\n") {
		if len(line) > docWidth {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
}

// TestBounds: published values are printed as the paper says them.
func TestBounds(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Published{
		"below 5": {Most: 5}, "more than 5000": {Least: 5000}, "about 10": {Least: 10, Most: 10}, "2 to 3": {Least: 2, Most: 3}, "grows": {Most: 5, Says: "grows"},
	} {
		if got := p.bounds(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
