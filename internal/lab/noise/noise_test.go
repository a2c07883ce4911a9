package noise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// synthetic is a runner of a program with known figures.
type synthetic struct {
	values map[bool][]float64 // of each run, by whether detection is on
	calls  []string           // the watchdog of each run
}

func (s *synthetic) run(_ context.Context, watchdog string) ([]Figure, error) {
	on := watchdog != off
	s.calls = append(s.calls, watchdog)
	v := s.values[on][0]
	s.values[on] = s.values[on][1:]
	return []Figure{
		{Name: "put 8", Test: "put", Bytes: 8, Unit: "us", Value: v},
		{Name: "put 16", Test: "put", Bytes: 16, Unit: "us", Value: 2 * v},
		{Name: "wall", Test: "wall", Unit: "s", Value: 1, aside: true},
	}, nil
}

// TestMeasure compares with figures worked out by hand. Without detection they are 9, 10, 11 (mean 10, deviation 1);
// with it they are greater by 1, and by 0.3 in the last run.
func TestMeasure(t *testing.T) {
	t.Parallel()
	s := &synthetic{values: map[bool][]float64{false: {99, 9, 10, 11}, true: {99, 10, 11, 11.7}}}
	o := Options{Program: []string{"bench", "put"}, PEs: 2, Samples: 3, Warmup: 1, Seed: 7, Watchdog: "pidfd"}
	var last, all int
	o.Progress = func(done, of int) { last, all = done, of }
	r, err := o.measure(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	if last != 4 || all != 4 {
		t.Errorf("progress ends at %d of %d, want 4 of 4", last, all)
	}
	// Differences of 10, 10 and 7 % of the mean: mean 9, deviation sqrt 3, standard
	// error 1; t(0.975) and t(0.80) of 2 degrees of freedom are 4.302653 and 1.060660.
	for _, row := range []Row{r.Rows[0], r.Rows[1], r.All} {
		for name, c := range map[string][2]float64{
			"overhead": {row.Overhead, 9}, "band": {row.Band, 10}, "low": {row.Low, 9 - 4.302653},
			"high": {row.High, 9 + 4.302653}, "detectable": {row.Detectable, 4.302653 + 1.060660},
			"maxima": {row.Maxima, 100 * (11.7 - 11) / 11},
		} {
			if math.Abs(c[0]-c[1]) > 1e-5 {
				t.Errorf("%s: %s %v, want %v", row.Name, name, c[0], c[1])
			}
		}
	}
	if r.Rows[1].Off.Mean != 20 || r.Rows[1].Off.Deviation != 2 || len(r.Rows[1].On.Samples) != 3 {
		t.Errorf("row %+v, %+v, want the warm-up left out", r.Rows[1].Off, r.Rows[1].On)
	}
	if wall := r.Rows[2]; wall.Overhead != 0 || wall.Detectable != 0 {
		t.Errorf("a figure that never changes: %+v", wall)
	}
	said := strings.Join(r.Verdict(), "\n")
	for _, want := range []string{"overhead +9.00 %, within the band of natural variability of 10.00 %", "would have shown: 5.36 %"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

// TestOrder: each pair has one run with detection and one without. Which comes first is random, and the same for the
// same seed.
func TestOrder(t *testing.T) {
	t.Parallel()
	orders := map[uint64]string{}
	for _, seed := range []uint64{1, 1, 2} {
		s := &synthetic{values: map[bool][]float64{}}
		for range 40 {
			s.values[true] = append(s.values[true], 1)
			s.values[false] = append(s.values[false], 1)
		}
		o := Options{Program: []string{"p"}, PEs: 1, Samples: 40, Seed: seed, Watchdog: "bpf"}
		if _, err := o.measure(t.Context(), s.run); err != nil {
			t.Fatal(err)
		}
		first := 0
		for i := 0; i < len(s.calls); i += 2 {
			if s.calls[i] == s.calls[i+1] {
				t.Errorf("both runs of pair %d are %s", i/2, s.calls[i])
			}
			if s.calls[i] == off {
				first++
			}
		}
		if first < 8 || first > 32 {
			t.Errorf("seed %d: off comes first in %d of 40 pairs", seed, first)
		}
		calls := strings.Join(s.calls, " ")
		if before, ok := orders[seed]; ok && before != calls {
			t.Errorf("seed %d gives two different orders:\n%s\n%s", seed, before, calls)
		}
		orders[seed] = calls
	}
	if orders[1] == orders[2] {
		t.Error("two seeds give the same order")
	}
}

// TestControl: a hog is found if the interval of the mean of all rows is above 0, and not if it reaches below 0.
func TestControl(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on    []float64
		found bool
		says  string
	}{
		{[]float64{10.4, 10.5, 10.6}, true, "was found"},
		{[]float64{9, 10, 12.5}, false, "was NOT found"},
		{[]float64{9.4, 9.5, 9.6}, false, "was NOT found"}, // faster with a hog
	} {
		s := &synthetic{values: map[bool][]float64{false: {10, 10.01, 9.99}, true: c.on}}
		o := Options{Program: []string{"p"}, PEs: 1, Samples: 3, Control: true}
		r, err := o.measure(t.Context(), s.run)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(r.Verdict(), "\n"); r.Control.Found != c.found || !strings.Contains(said, c.says) || !strings.Contains(said, "would have shown") {
			t.Errorf("%v: found %v, want %v, %q", c.on, r.Control.Found, c.found, said)
		}
	}
}

// TestMeasureFails: the first run that fails ends the measurement, with an error that names the run. So does the end of
// the context.
func TestMeasureFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such thing")
	o := Options{Program: []string{"p"}, PEs: 1, Samples: 3, Warmup: 1}
	calls := 0
	_, err := o.measure(t.Context(), func(context.Context, string) ([]Figure, error) {
		if calls++; calls == 4 {
			return nil, bad
		}
		return []Figure{{Name: "wall", Value: 1}}, nil
	})
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "pair 2 of 4, detection ") || calls != 4 {
		t.Errorf("after %d runs: %v", calls, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = o.measure(ctx, func(context.Context, string) ([]Figure, error) {
		cancel(bad)
		return nil, context.Canceled
	})
	if !errors.Is(err, bad) {
		t.Errorf("interrupted: %v, want its cause", err)
	}
	for name, figures := range map[string][]Figure{
		"mean 0":      {{Name: "x", Value: 0}},
		"no number":   {{Name: "x", Value: math.NaN()}},
		"not so much": {{Name: "x", Value: math.Inf(1)}},
	} {
		if _, err := o.measure(t.Context(), func(context.Context, string) ([]Figure, error) { return figures, nil }); err == nil || !strings.Contains(err.Error(), "want a positive figure") {
			t.Errorf("%s: %v, want an error about the figure", name, err)
		}
	}
	n := 0
	if _, err := o.measure(t.Context(), func(context.Context, string) ([]Figure, error) {
		n++
		return []Figure{{Name: string(rune('a' + n)), Value: 1}}, nil
	}); err == nil || !strings.Contains(err.Error(), "measured different figures") {
		t.Errorf("figures that change: %v, want an error", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := Options{Program: []string{"bench", "put"}, PEs: 2, Samples: 2, Tiers: []string{"bpf", "pidfd"}, Watchdog: "pidfd"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(o *Options){
		"no program":                  func(o *Options) { o.Program = nil },
		"-n: 0":                       func(o *Options) { o.PEs = 0 },
		"--samples: 1, want 2":        func(o *Options) { o.Samples = 1 },
		"--samples: 10001":            func(o *Options) { o.Samples = 10001 },
		"--warmup: -1":                func(o *Options) { o.Warmup = -1 },
		`"off", want one of bpf, pid`: func(o *Options) { o.Watchdog = "off" },
		"bench --json=x":              func(o *Options) { o.Program = []string{"bench", "put", "--json=x"} },
		"graph500 -json":              func(o *Options) { o.Program = []string{"graph500", "-json", "x"} },
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good.Emulate, good.Periods = "4", []string{"1ms", "10ms", off}
	if err := good.Check(); err != nil {
		t.Errorf("periods: %v", err)
	}
	for want, change := range map[string]func(o *Options){
		"want --emulate 2 or more":                 func(o *Options) { o.Emulate = "" },
		"between nodes, want --emulate 2":          func(o *Options) { o.Emulate = "1:netns" },
		`"soon", want off, or periods`:             func(o *Options) { o.Periods = []string{"1ms", "soon"} },
		`"0s", want off, or periods`:               func(o *Options) { o.Periods = []string{"0s"} },
		`"-1ms", want off, or periods`:             func(o *Options) { o.Periods = []string{"-1ms"} },
		`"", want off, or periods`:                 func(o *Options) { o.Periods = []string{""} },
		"nothing, want off, or periods":            func(o *Options) { o.Periods = []string{} },
		`"1000us" twice`:                           func(o *Options) { o.Periods = []string{"1ms", "1000us"} },
		`"off" twice`:                              func(o *Options) { o.Periods = []string{off, "1ms", off} },
		"--heartbeat-period has no period but off": func(o *Options) { o.Periods, o.Control = []string{off}, true },
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	other := Options{Program: []string{"./mine", "--json", "x"}, PEs: 2, Samples: 2}
	if err := other.Check(); err != nil {
		t.Errorf("--json of another program: %v", err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	o := Options{Program: []string{"bench", "put"}, PEs: 3}
	if got, want := strings.Join(o.command(off), " "), "-n 3 --watchdog off -- bench put --json -"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	o.Program = []string{"./mine", "-v"}
	if got, want := strings.Join(o.command(""), " "), "-n 3 -- ./mine -v"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	o.Emulate = "4:netns"
	if got, want := strings.Join(o.command(off), " "), "-n 3 --emulate 4:netns --watchdog off -- ./mine -v"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	o.Periods = []string{"10ms"}
	if got, want := strings.Join(o.command("10ms"), " "), "-n 3 --emulate 4:netns --heartbeat-period 10ms -- ./mine -v"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	o.Watchdog = "pidfd"
	if got, want := strings.Join(o.command(off), " "), "-n 3 --emulate 4:netns --heartbeat-period off --watchdog pidfd -- ./mine -v"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
}

// TestPeriods compares with figures worked out by hand. Without heartbeats they are 9, 10, 11; a period of 1 ms adds 1 to
// each. The second run without heartbeats has what the first has.
func TestPeriods(t *testing.T) {
	t.Parallel()
	values := map[string][]float64{off: {9, 10, 11}, "1ms": {10, 11, 12}}
	o := Options{Program: []string{"p"}, PEs: 1, Emulate: "2", Samples: 3, Periods: []string{"1ms", "off"}, Seed: 1}
	var calls []string
	r, err := o.measure(t.Context(), func(_ context.Context, period string) ([]Figure, error) {
		calls = append(calls, period)
		return []Figure{{Name: "wall", Test: "wall", Unit: "s", Value: values[period][(len(calls)-1)/3]}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(calls); i += 3 {
		if got := slices.Sorted(slices.Values(calls[i : i+3])); !slices.Equal(got, []string{"1ms", off, off}) {
			t.Errorf("round %d has runs with %v, want 1ms, off and off", i/3, got)
		}
	}
	if len(calls) != 9 || r.Comparison != nil || len(r.Periods) != 2 || len(r.Comparisons()) != 2 {
		t.Fatalf("%d runs, report %+v", len(calls), r)
	}
	ms, again := r.Periods[0], r.Periods[1]
	if ms.Period != "1ms" || len(ms.Rows) != 1 || len(ms.Rows[0].Off.Samples) != 3 || math.Abs(ms.All.Band-10) > 1e-9 || math.Abs(ms.All.Overhead-10) > 1e-9 {
		t.Errorf("1ms: %+v", ms)
	}
	if again.Period != off || math.Abs(again.All.Overhead) > 1e-9 || math.Abs(again.All.Band-10) > 1e-9 {
		t.Errorf("off against off: %+v, want no effect and the same band", again.All)
	}
	said := strings.Join(r.Verdict(), "\n")
	for _, want := range []string{"period 1ms: overhead ", "off against off: overhead +0.00 %, within the band"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	_, err = o.measure(t.Context(), func(context.Context, string) ([]Figure, error) { return nil, errors.New("broken") })
	if err == nil || !strings.Contains(err.Error(), "round 1 of 3, heartbeat period ") {
		t.Errorf("a run that fails: %v", err)
	}
}

// TestPeriodsControl: the hog runs beside each period but off, and has to be found in each.
func TestPeriodsControl(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slow  float64 // figure of the second period; that of the first is 11
		found bool
	}{"both": {12, true}, "one of two": {10, false}} {
		o := Options{Program: []string{"p"}, PEs: 1, Emulate: "2", Samples: 3, Periods: []string{"1ms", "off", "10ms"}, Control: true}
		r, err := o.measure(t.Context(), func(_ context.Context, period string) ([]Figure, error) {
			return []Figure{{Name: "wall", Value: map[string]float64{off: 10, "1ms": 11, "10ms": c.slow}[period]}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Control.Found != c.found {
			t.Errorf("%s: found %v, want %v", name, r.Control.Found, c.found)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := readBench([]byte(`{"rows": [{"test":"put","bytes":1024,"avg_us":2.5},{"test":"atomics","op":"shmem_fadd","avg_us":0.1},{"test":"barrier","avg_us":1}]}`))
	if err != nil || len(got) != 3 || got[0] != (Figure{Name: "put 1K", Test: "put", Bytes: 1024, Unit: "us", Value: 2.5}) || got[1].Name != "atomics shmem_fadd" || got[2].Name != "barrier" {
		t.Errorf("read %+v, %v", got, err)
	}
	got, err = readGraph500([]byte("SCALE: 10\nNBFS: 2\n{\n \"construction_s\": 0.5, \"bfs_mean_time\": 0.25, \"bfs_mean_validate\": 0.125}\n"))
	if err != nil || len(got) != 3 || got[1].Value != 0.25 || got[2].Name != "validation" {
		t.Errorf("read %+v, %v", got, err)
	}
	if got, err = readGraph500([]byte("\n{\"construction_s\": 0.5, \"bfs_mean_time\": 0.25}")); err != nil || len(got) != 2 {
		t.Errorf("without validation: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "nothing", `{"rows":[]}`, "\n{", "\n{}x"} {
		if _, err := readBench([]byte(bad)); err == nil {
			t.Errorf("bench accepted %q", bad)
		}
		if _, err := readGraph500([]byte(bad)); err == nil && bad != `{"rows":[]}` {
			t.Errorf("graph500 accepted %q", bad)
		}
	}
}

// TestHog: the hog takes about the wanted share, never much more, and reports its share.
func TestHog(t *testing.T) { // not beside others: it is this process's time that it counts
	const share, least, most = 0.2, 0.1, 0.3
	var c Control
	begin, taken := time.Now(), xunix.ProcessTime()
	h := startHog(share)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C { // a busy machine may withhold the share for a while
		wall := time.Since(begin)
		if (xunix.ProcessTime()-taken).Seconds() > (least+share)/2*wall.Seconds() && wall > 300*time.Millisecond || wall > 30*time.Second {
			tick.Stop()
			break
		}
	}
	before := xunix.ProcessTime()
	h.end(&c)
	if c.Percent < 100*least || c.Percent > 100*most {
		t.Errorf("the hog took %.1f %%, want about %.0f", c.Percent, 100*share)
	}
	<-time.After(50 * time.Millisecond)
	if used := xunix.ProcessTime() - before; used > 25*time.Millisecond {
		t.Errorf("the hog used %v of processor time after its end", used)
	}
}

// rows returns a report with rows of several tests.
func rows(tests, sizes int) *Report {
	rng := rand.New(rand.NewPCG(1, 1))
	r := &Report{Program: []string{"bench", "all"}, PEs: 2, Watchdog: "best", Comparison: &Comparison{}}
	for i := range tests {
		for size := range sizes {
			row := Row{Name: string(rune('a' + i)), Test: string(rune('a' + i)), Bytes: 1 << size}
			for range 5 {
				row.off, row.diff = append(row.off, 1+rng.NormFloat64()/50), append(row.diff, rng.NormFloat64()/50)
			}
			row.computeStatistics()
			r.Rows = append(r.Rows, row)
		}
	}
	r.Rows = append(r.Rows, Row{Name: "wall", Test: "wall", off: []float64{1, 1}, diff: []float64{0, 0}, aside: true})
	r.All = combine("all", r.countedRows())
	return r
}

// TestPicture draws each form of the picture and checks its content.
func TestPicture(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		r      *Report
		points int
		log    bool
	}{
		{"sizes of one test", rows(1, 20), 20, true},
		{"few rows by name", rows(3, 2), 7, false}, // and wall
		{"many rows by test", rows(5, 20), 5, false},
		{"one row", rows(1, 1), 2, false},
	} {
		f := c.r.Picture()
		if len(f.Series) != 2 || len(f.Series[1].X) != c.points || f.LogX != c.log || (f.Names == nil) != c.log {
			t.Errorf("%s: %d points, names %v, want %d", c.name, len(f.Series[1].X), f.Names, c.points)
		}
		for i, row := range f.Series[0].High {
			if row <= 0 && f.Names != nil && f.Names[i] != "wall" || f.Series[0].Low[i] != -row {
				t.Errorf("%s: band %v to %v", c.name, f.Series[0].Low[i], row)
			}
		}
		file := filepath.Join(t.TempDir(), "noise.svg")
		if err := f.Write(file); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte("natural variability")) {
			t.Errorf("%s: no legend in the file, %v", c.name, err)
		}
	}
}

// TestPicturePeriods: a picture of periods has a series for each, and one band.
func TestPicturePeriods(t *testing.T) {
	t.Parallel()
	for _, sizes := range []int{1, 4} {
		r := rows(1, sizes)
		first, second := r.Comparison, rows(1, sizes).Comparison
		first.Period, second.Period = "1ms", off
		r.Emulate, r.Comparison, r.Periods = "2", nil, []*Comparison{first, second}
		f := r.Picture()
		if len(f.Series) != 3 || len(f.Series[0].X) != len(f.Series[2].X) || f.Series[1].Name != "period 1ms, 95 % interval" || f.Series[2].Name != "off again, 95 % interval" {
			t.Errorf("series %+v", f.Series)
		}
		if !strings.Contains(f.Title, "--emulate 2") || f.LogX != (sizes > 1) {
			t.Errorf("title %s, logarithmic %v", f.Title, f.LogX)
		}
		if err := f.Write(filepath.Join(t.TempDir(), "noise.svg")); err != nil {
			t.Error(err)
		}
	}
}

// TestReportJSON checks the JSON names that other programs read.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(rows(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"control":null`, `"overhead_percent":`, `"band_percent":`, `"low_percent":`, `"high_percent":`, `"detectable_percent":`, `"all":{`, `"bytes":2`, `"seed":`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("JSON lacks %s: %s", want, text)
		}
	}
	text, err = json.Marshal(&Report{Emulate: "4", Periods: []*Comparison{{Period: "1ms"}}})
	if err != nil || !strings.Contains(string(text), `"periods":[{"heartbeat_period":"1ms","rows":null,"all":{`) || !strings.Contains(string(text), `"emulate":"4"`) || strings.Count(string(text), `"rows"`) != 1 {
		t.Errorf("JSON %s, %v, want rows in the periods only", text, err)
	}
}

// TestMaxima: equation (1) of the paper's section 5.3 takes the largest value of all PEs and all runs.
func TestMaxima(t *testing.T) {
	t.Parallel()
	side := func(values ...float64) (all [][]Figure) {
		for _, v := range values {
			all = append(all, []Figure{{Name: "barrier", Test: "barrier", Unit: "us", Value: 1, Worst: v}, {Name: "put", Test: "put", Unit: "us", Value: v}})
		}
		return all
	}
	var c Comparison
	if err := c.evaluate(side(10, 20, 15), side(25, 12, 11)); err != nil {
		t.Fatal(err)
	}
	for _, row := range append(c.ByTest(), c.All) {
		if math.Abs(row.Maxima-25) > 1e-9 {
			t.Errorf("%s: %v %%, want 25: the largest are 25 and 20", row.Name, row.Maxima)
		}
	}
}
