package graph500

import (
	"math"
	"testing"
)

// The quartiles of the reference are means of two neighbors in sorted order, by integer division.
func TestStatisticsFollowReferenceFormulas(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Statistics
	}{
		{nil, Statistics{}},
		{[]float64{5}, Statistics{5, 5, 5, 5, 5, 5, 0}},
		{[]float64{3, 1}, Statistics{1, 1, 2, 3, 3, 2, math.Sqrt(2)}},
		{[]float64{4, 1, 3, 2}, Statistics{1, 1.5, 2.5, 3.5, 4, 2.5, math.Sqrt(5. / 3)}},
		{[]float64{5, 4, 3, 2, 1}, Statistics{1, 2, 3, 4, 5, 3, math.Sqrt(2.5)}},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1}, Statistics{1, 2.5, 4.5, 6.5, 8, 4.5, math.Sqrt(6)}},
	} {
		if got := statisticsOf(c.values); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestRatesAreInverseStatistics(t *testing.T) {
	seconds, edges := []float64{1, 2, 4, 8}, []float64{100, 100, 100, 100}
	got := ratesOf(seconds, edges)
	mean := (0.01 + 0.02 + 0.04 + 0.08) / 4
	deviation := sampleDeviation([]float64{0.01, 0.02, 0.04, 0.08}, mean)
	want := Rates{
		Min: 12.5, FirstQuartile: 1 / 0.06, Median: 1 / 0.03, ThirdQuartile: 1 / 0.015, Max: 100,
		HarmonicMean: 1 / mean, HarmonicStdDev: deviation / (mean * mean * math.Sqrt(3)),
	}
	for _, pair := range [][2]float64{
		{got.Min, want.Min},
		{got.FirstQuartile, want.FirstQuartile},
		{got.Median, want.Median},
		{got.ThirdQuartile, want.ThirdQuartile},
		{got.Max, want.Max},
		{got.HarmonicMean, want.HarmonicMean},
		{got.HarmonicStdDev, want.HarmonicStdDev},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9*pair[1] {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if r := ratesOf([]float64{2}, []float64{10}); r.HarmonicMean != 5 || r.HarmonicStdDev != 0 {
		t.Errorf("one search: got %+v", r)
	}
}

// Numbers are printed as C's %.6g prints them.
func TestShortNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 100000: "100000", 999999.5: "1e+06", 1234567: "1.23457e+06", 2.5e9: "2.5e+09",
		0.0001: "0.0001", 0.00001: "1e-05", 0.00436524: "0.00436524", 16: "16", 120: "120",
	} {
		if got := short(x, 6); got != want {
			t.Errorf("%v: got %q, want %q", x, got, want)
		}
	}
	if got := short(16775818, 11); got != "16775818" {
		t.Errorf("nedge: %q", got)
	}
}
