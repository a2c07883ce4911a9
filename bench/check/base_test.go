package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

// Of 11 values the interval leaves out one at each end, as the second of each end is outside in 1.2 % of all samples.
func TestInterval(t *testing.T) {
	for _, x := range []struct {
		values    []float64
		low, high float64
	}{
		{nil, 0, 0},
		{[]float64{7}, 7, 7},
		{[]float64{3, 1, 2}, 1, 3},
		{[]float64{6, 5, 4, 3, 2, 1}, 1, 6},
		{[]float64{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 2, 10},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 6, 15},
	} {
		if low, high := interval(x.values); low != x.low || high != x.high {
			t.Errorf("%v: %v..%v, want %v..%v", x.values, low, high, x.low, x.high)
		}
	}
}

// A row is worse if it is slower in the median and in the whole interval.
func TestBaseVerdicts(t *testing.T) {
	one := []float64{1, 1, 1, 1, 1, 1}
	for _, x := range []struct {
		name, row   string
		now, before []float64
		want        string
	}{
		{"as before", "p/8", []float64{1, 1, 1, 1, 1, 1}, one, verdictOK},
		{"a little slower", "p/8", []float64{1.04, 1.04, 1.04, 1.04, 1.04, 1.04}, one, verdictOK},
		{"slower", "p/8", []float64{1.06, 1.06, 1.06, 1.06, 1.06, 1.06}, one, verdictMiss},
		{"slower in most rounds", "p/8", []float64{1.5, 1.5, 1.5, 1.5, 1.5, 0.9}, one, verdictOK},
		{"more MTEPS", rowTEPS, []float64{2, 2, 2, 2, 2, 2}, one, verdictOK},
		{"fewer MTEPS", rowTEPS, []float64{0.9, 0.9, 0.9, 0.9, 0.9, 0.9}, one, verdictMiss},
		{"none, as before", rowAllocations, []float64{0}, []float64{0}, verdictOK},
		{"new row", "p/8", one, nil, ""},
	} {
		got := baseLines(values{goshmem: {x.row: x.now}}, values{goshmem: {x.row: x.before}})
		if len(got) != 1 || got[0].Verdict != x.want {
			t.Errorf("%s: %+v, want one line with the verdict %q", x.name, got, x.want)
		}
	}
	if got := baseLines(values{strict: {"2pe/ft_barrier": one}}, values{strict: {"2pe/ft_barrier": one}}); len(got) != 1 || got[0].Row != "2pe/ft_barrier (strict)" {
		t.Errorf("%+v, want one line of the row 2pe/ft_barrier (strict)", got)
	}
}

// A report has nothing but the value in a row that the other version lacks.
func TestReportOfNewRow(t *testing.T) {
	lines := baseLines(values{goshmem: {"p/8": {2}, "get/8": {3}}}, values{goshmem: {"get/8": {3}}})
	text := (&report{Lines: lines}).baseMarkdown()
	cells := map[string]string{} // rows without blanks
	for row := range strings.Lines(text) {
		row = strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(row), " ", ""), "|")
		if name, rest, ok := strings.Cut(row, "|"); ok {
			cells[name] = rest
		}
	}
	if got, want := cells["p/8"], "ns|2.00|2.00..2.00|||||||"; got != want {
		t.Errorf("new row: %q, want %q in\n%s", got, want, text)
	}
	if got, want := cells["get/8"], "ns|3.00|3.00..3.00|3.00|3.00..3.00|1.000|1.000..1.000|<=1.05|ok|"; got != want {
		t.Errorf("row of both: %q, want %q in\n%s", got, want, text)
	}
	if !strings.Contains(text, "mean of 1 ratios: 1.000") {
		t.Errorf("a new row counts:\n%s", text)
	}
}

// Both versions are measured in each round, and either one begins.
func TestBothByTurns(t *testing.T) {
	var turns string
	saved := groups
	defer func() { groups = saved }()
	name := map[string]string{"now": "n", "before": "b"}
	groups = []group{{limits: []limit{{row: "x"}}, rounds: 1, run: func(_ context.Context, b *bed) error {
		turns += name[b.dir] + b.pe
		return nil
	}}}
	var beds []*bed
	for _, dir := range []string{"now", "before"} {
		beds = append(beds, &bed{dir: dir, rounds: 3, rows: regexp.MustCompile(""), log: io.Discard, layouts: 2, pes: []string{"1", "2"}})
	}
	if err := measureBoth(t.Context(), beds...); err != nil || turns != "n1b1b2n2n1b1" {
		t.Errorf("turns %q, %v, want n1b1b2n2n1b1", turns, err)
	}
}

func TestBaseIsAnotherVersion(t *testing.T) {
	if _, err := newBase(&bed{dir: t.TempDir()}, t.TempDir()); !errors.Is(err, errUsage) {
		t.Errorf("--base of an empty folder: %v, want %v", err, errUsage)
	}
	if _, err := newBase(&bed{dir: t.TempDir()}, "../.."); err != nil {
		t.Errorf("--base of this module: %v", err)
	}
	if _, err := parse([]string{"--base", "x", "--doc", "y"}, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("--base and --doc: %v, want %v", err, errUsage)
	}
}
