package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/ftco"
	"github.com/goshmem/goshmem/sim/logp"
)

// rows are the published data as in their file, read independently of sim/ftco.
type rows struct {
	Line   map[string]map[string]float64                       `json:"figure7_published_best"`
	Best   map[string]map[string]float64                       `json:"figure7_best"`
	Table2 map[string]map[string][]float64                     `json:"table2"`
	Faults map[string]map[string]map[string]map[string]float64 `json:"figures8_to_10"`
}

func publishedRows(t *testing.T) *rows {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "sim", "ftco", "testdata", "published.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r rows
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func publishedData(t *testing.T) *ftco.Data {
	t.Helper()
	d, err := ftco.PublishedData()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// small returns options that take seconds: up to 1024 nodes, and means over 240 runs, which are close enough.
func small() Options {
	return Options{Nodes: 1024, Runs: 240, Spread: 0, Seed: 1, Parallel: 2}
}

// one computes the figure with a name.
func one(t *testing.T, o Options, name string, data *ftco.Data) computed {
	t.Helper()
	o.Only = name
	all, err := o.compute(data)
	if err != nil || len(all) != 1 || all[0].name != name {
		t.Fatalf("%s: %d figures, %v", name, len(all), err)
	}
	return all[0]
}

// point is a point that a series must have. The published value is exact, ours has a tolerance.
type point struct {
	series    string
	x, y      float64
	tolerance float64
}

// wrong compares a figure with the wanted points and returns the differences, including points too many. A series can
// have several points with the same X.
func wrong(f *plot.Figure, want []point) (list []string) {
	type xy struct{ x, y float64 }
	left := map[string][]xy{}
	for _, s := range f.Series {
		for i := range s.X {
			left[s.Name] = append(left[s.Name], xy{s.X[i], s.Y[i]})
		}
	}
	for _, p := range want {
		have := left[p.series]
		at := slices.IndexFunc(have, func(q xy) bool {
			return q.x == p.x && math.Abs(q.y-p.y) <= p.tolerance*math.Abs(p.y)+1e-9
		})
		if at < 0 {
			list = append(list, fmt.Sprintf("%s: %v at %v is missing among %v", p.series, p.y, p.x, have))
			continue
		}
		left[p.series] = slices.Delete(have, at, at+1)
	}
	for name, points := range left {
		if len(points) > 0 {
			list = append(list, fmt.Sprintf("%s: %v are not wanted", name, points))
		}
	}
	return list
}

// hold requires the points of a figure, and checks that each is compared: wrong must report any change of one.
func hold(t *testing.T, f *plot.Figure, want []point) {
	t.Helper()
	for _, w := range wrong(f, want) {
		t.Errorf("%s: %s", f.Title, w)
	}
	for _, s := range f.Series {
		for i, y := range s.Y {
			for _, bad := range []float64{3*y + 0.1, -y - 0.1, math.NaN()} {
				if s.Y[i] = bad; len(wrong(f, want)) == 0 {
					t.Errorf("%s: %s: wrong does not report %v instead of %v at %v", f.Title, s.Name, bad, y, s.X[i])
				}
			}
			s.Y[i] = y
		}
	}
}

// All points of figure 7 are exact.
func TestFigure7(t *testing.T) {
	t.Parallel()
	pub := publishedRows(t)
	var want []point
	for n, row := range pub.Line {
		if x := number(t, n); x <= 1024 {
			want = append(want, point{"published, k roots", x, row["steps"], 0}, point{"k-nomial, k roots", x, row["steps"], 0})
		}
	}
	for n, row := range pub.Best {
		x := number(t, n)
		if x > 1024 {
			continue
		}
		for series, column := range map[string]string{"k-ary, one root": "kary_single", "k-nomial, one root": "lat_single", "k-ary, k roots": "kary_multi"} {
			want = append(want, point{series, x, row[column], 0})
		}
		want = append(want, point{"optimum of the LogP model", x, 2 * fastest(x), 0})
	}
	c := one(t, small(), "ftco-figure-7", publishedData(t))
	hold(t, c.figure, want)
	if !strings.Contains(c.says, "all 10 points exact; ") || !strings.HasSuffix(c.says, "all 30 points exact") {
		t.Errorf("figure says %q, want all points exact", c.says)
	}
}

// fastest returns the earliest time at which the last of n nodes can have a message. Each node that has the message
// sends it on in each step, and a message takes o + L + o = 12 steps.
func fastest(n float64) float64 {
	reached := []float64{1}
	for reached[len(reached)-1] < n {
		t := len(reached)
		next := reached[t-1]
		if t >= 12 {
			next += reached[t-12]
		}
		reached = append(reached, next)
	}
	return float64(len(reached) - 1)
}

// Figures 8 to 10 are within the tolerances of docs/ftco.md. Those are the tolerances of latency and work, whose
// differences the penalties are.
func TestFigures8To10(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("means over many runs take too long for -short")
	}
	pub := publishedRows(t)
	latency := map[int]float64{1: 0.03, 10: 0.12, 100: 0.15}
	work := map[int]float64{1: 0.05, 10: 0.12, 100: 0.15}
	base := pub.Line["1024"]
	for _, f := range []struct {
		name, column string
		kinds        []string
		tolerance    map[int]float64
		base         float64 // for penalties: the value without failures, which is subtracted
	}{
		{"ftco-figure-8", "latency", []string{"inactive"}, latency, base["steps"]},
		{"ftco-figure-9", "work", []string{"inactive"}, work, base["msgs"] / 1024},
		{"ftco-figure-10", "latency", []string{"inactive", "online"}, latency, 0},
	} {
		var want []point
		for _, count := range []int{1, 10, 100} {
			for _, kind := range f.kinds {
				whole := pub.Faults["1024"][kind][strconv.Itoa(count)][f.column]
				ours := point{strconv.Itoa(count) + " " + map[string]string{"inactive": "inactive", "online": "run-time"}[kind], 1024, whole, f.tolerance[count]}
				if f.base > 0 {
					ours.y = (whole - f.base) / float64(count)
					ours.tolerance *= whole / (whole - f.base)
					ours.x = 0 // the first group of bars
				}
				theirs := point{"published", ours.x, ours.y, 0}
				if f.base > 0 {
					theirs.x = plot.Beside(0, len(want)/2, 3)
				}
				want = append(want, ours, theirs)
			}
		}
		c := one(t, small(), f.name, publishedData(t))
		hold(t, c.figure, want)
		if points := strconv.Itoa(3*len(f.kinds)) + " points, "; !strings.Contains(c.says, "1024 to 1024 nodes, 240 to 240 runs each: "+points) {
			t.Errorf("%s says %q, want %q", f.name, c.says, points)
		}
	}
}

// In table 2, the row without spread is exact, and all published rows are present.
func TestTable2(t *testing.T) {
	t.Parallel()
	pub := publishedRows(t)
	o := small()
	o.Nodes = table2Nodes
	for name, columns := range map[string]map[string]int{
		"ftco-table-2-latency": {"latency": 0, "output spread": 2},
		"ftco-table-2-work":    {"work": 1},
	} {
		var want []point
		c := one(t, o, name, publishedData(t))
		for column, at := range columns {
			for dist, table := range pub.Table2 {
				if len(c.figure.Names) != len(table) {
					t.Errorf("%s: spreads %v, want %d", name, c.figure.Names, len(table))
				}
				for i, spread := range c.figure.Names {
					want = append(want, point{"published", float64(i), table[spread][at], 0})
				}
				want = append(want, point{column + ", " + dist, 0, table["0"][at], 1e-4}) // the paper rounds
			}
		}
		hold(t, c.figure, want)
	}
}

// Figure 2 of the agreement paper: "within 3% of the baseline performance" at 512 processes. The linear tree needs n
// steps up and n steps down, one by one.
func TestAgreementFailureFree(t *testing.T) {
	t.Parallel()
	o := small()
	o.Nodes = 512
	c := one(t, o, "agreement-figure-2a", publishedData(t))
	var want []point
	for n := 2.0; n <= 512; n *= 2 {
		hops := math.Log2(n)
		want = append(want, point{"two-phase commit, linear", n, 2*(n-2) + 24, 0},
			point{"two-phase commit, log", n, 24 * hops, 0.03}, point{"early-returning", n, 24 * hops, 0.03}, point{"allreduce", n, 24 * hops, 0})
	}
	want = append(want, point{"published for log: 3 % over the allreduce at most", 512, 1.03 * 24 * 9, 0})
	hold(t, c.figure, want)
}

// "2.6 times slower at 256 failures"; rebalanced "at worst 6% slower (at 64 failures)".
func TestAgreementWithFailures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 7 s, and the race detector finds in it what it finds in the other figures")
	}
	o := small()
	o.Runs = 3
	c := one(t, o, "agreement-figure-2b", publishedData(t))
	want := []point{{"published, not rebalanced", 256, 2.6, 0}, {"published, rebalanced (its worst)", 64, 1.06, 0}}
	// sim/agree.TestFailuresBefore has the limits, and the reasons why the other figures differ.
	inner := []float64{1, 1, 1, 1, 1.1, 1.6, 2.2, 2.8, 2.75}
	for i := range inner {
		x := float64(int(1) << i)
		want = append(want, point{"not rebalanced, nodes with most below dead", x, inner[i], 0.1},
			point{"not rebalanced, dead drawn", x, 1, 0.15}, point{"rebalanced, either", x, 1.03, 0.03})
	}
	hold(t, c.figure, want)
}

// TestWrongDataIsSaid: the text below a figure reports each number that is not as published, wherever it is.
func TestWrongDataIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(d *ftco.Data)
		says   string
	}{
		"ftco-figure-7": {func(d *ftco.Data) {
			b := d.Best["256"]
			b.MultiKnomial *= 2
			d.Best["256"] = b
		}, "10 points, the farthest -50.0 % (k-nomial, k roots, 256 nodes)"},
		"ftco-figure-10": {func(d *ftco.Data) {
			d.Faults["1024"]["online"]["10"] = ftco.FaultRow{Latency: 1e6}
		}, "the farthest -100.0 % (10 run-time of 1024 nodes)"},
		"ftco-figure-9": {func(d *ftco.Data) {
			d.Faults["1024"]["inactive"]["1"] = ftco.FaultRow{Work: math.NaN()}
		}, "the farthest +NaN % (1 inactive of 1024 nodes)"},
	} {
		d := publishedData(t)
		c.change(d)
		o := small()
		o.Runs = 2
		if got := one(t, o, name, d); !strings.Contains(got.says, c.says) {
			t.Errorf("%s says %q, want %q", name, got.says, c.says)
		}
	}
}

// TestDraw: every figure of the papers' simulations can be drawn.
func TestDraw(t *testing.T) {
	t.Parallel()
	want := []string{
		"ftco-figure-7", "ftco-figure-8", "ftco-figure-9", "ftco-figure-10", "ftco-table-2-latency", "ftco-table-2-work",
		"agreement-figure-2a", "agreement-figure-2b",
	}
	if !slices.Equal(Names(), want) {
		t.Errorf("names are %q, want %q", Names(), want)
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	o := Options{Nodes: 1024, Runs: 1, Seed: 1, Parallel: 2}
	done, all := 0, 0
	o.Progress = func(d, a int) { done, all = max(done, d), a }
	drawn, err := Draw(dir, o)
	if err != nil || len(drawn) != len(want) {
		t.Fatalf("%d figures, %v, want %d", len(drawn), err, len(want))
	}
	if done != all || all == 0 {
		t.Errorf("progress ends at %d of %d experiments", done, all)
	}
	for i, d := range drawn {
		svg := filepath.Join(dir, want[i]+".svg")
		if d.Figure != want[i] || d.Says == "" || !slices.Equal(d.Files, []string{svg}) {
			t.Errorf("drawn %+v, want %s", d, svg)
		}
		text, err := os.ReadFile(svg)
		if err != nil || !strings.Contains(string(text), ">published") {
			t.Errorf("%s: %v, want published points in its legend", svg, err)
		}
	}
}

// TestDistribution counts each run once, in its bar.
func TestDistribution(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		latency []int32
		names   []string
		runs    []float64
	}{
		{[]int32{7}, []string{"14"}, []float64{1}},
		{[]int32{12, 10, 12, 13}, []string{"20", "22", "24", "26"}, []float64{1, 0, 2, 1}},
		{[]int32{100, 101, 139}, nil, []float64{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
	} {
		var results []logp.Result
		for _, l := range c.latency {
			results = append(results, logp.Result{Latency: l})
		}
		o := ftco.Defaults()
		o.Overhead = 2
		f := Distribution(results, o)
		if c.names == nil {
			if f.Names[0] != "200+" || f.Names[19] != "276+" || !strings.Contains(f.XLabel, "3 more") {
				t.Errorf("%v: bars %q, %q, want each from a number to 3 more", c.latency, f.Names, f.XLabel)
			}
		} else if !slices.Equal(f.Names, c.names) {
			t.Errorf("%v: bars %q, want %q", c.latency, f.Names, c.names)
		}
		if len(f.Series) != 1 || !slices.Equal(f.Series[0].Y, c.runs) || len(f.Series[0].X) != len(c.runs) {
			t.Errorf("%v: %+v, want %v", c.latency, f.Series, c.runs)
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
