package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance
}

// TestStudentQuantile compares with the printed tables of Student's t.
func TestStudentQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    float64
		df   int
		want float64
	}{
		{0.975, 1, 12.7062047},
		{0.975, 2, 4.3026527},
		{0.975, 5, 2.5705818},
		{0.975, 9, 2.2621572},
		{0.975, 29, 2.0452296},
		{0.975, 120, 1.9799304},
		{0.975, 1000000, 1.9599664},
		{0.80, 1, 1.3763819},
		{0.80, 9, 0.8834039},
		{0.80, 29, 0.8541916},
		{0.995, 4, 4.6040949},
		{0.9995, 1, 636.6192488},
		{0.9, 3, 1.6377444},
		{0.5, 7, 0},
		{0.025, 9, -2.2621572},
	} {
		if got := StudentQuantile(c.p, c.df); !near(got, c.want, 1e-6*math.Max(1, math.Abs(c.want))) {
			t.Errorf("quantile %v of t with %d: %v, want %v", c.p, c.df, got, c.want)
		}
	}
	for _, c := range []struct {
		p  float64
		df int
	}{{0, 3}, {1, 3}, {math.NaN(), 3}, {0.9, 0}} {
		if got := StudentQuantile(c.p, c.df); !math.IsNaN(got) {
			t.Errorf("quantile %v of t with %d: %v, want NaN", c.p, c.df, got)
		}
	}
}

func TestMeanAndDeviation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x          []float64
		mean, want float64
	}{
		{nil, 0, 0},
		{[]float64{7}, 7, 0},
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32.0 / 7)},
		{[]float64{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, 1e9 + 10, math.Sqrt(30)}, // no cancellation
	} {
		if mean, sd := Mean(c.x), Deviation(c.x); !near(mean, c.mean, 1e-9) || !near(sd, c.want, 1e-9) {
			t.Errorf("%v: mean %v, deviation %v, want %v, %v", c.x, mean, sd, c.mean, c.want)
		}
	}
}

func TestSpreadOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x    []float64
		want Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 1}, Spread{1, 2.5, 4}},
		{[]float64{9, 1, 2}, Spread{1, 2, 9}},
		{[]float64{4, 3, 2, 1}, Spread{1, 2.5, 4}},
	} {
		if got := SpreadOf(c.x); *got != c.want {
			t.Errorf("%v: %v, want %v", c.x, *got, c.want)
		}
	}
	if got := SpreadOf(nil); got != nil {
		t.Errorf("spread of no values: %v", *got)
	}
}

// TestPaired uses Student's own example: how many more hours ten patients slept with one drug than with another
// (Biometrika 6, 1908). Mean 1.58, standard error 0.3889587, interval 0.70 to 2.46.
func TestPaired(t *testing.T) {
	t.Parallel()
	got := Paired([]float64{1.2, 2.4, 1.3, 1.3, 0, 1.0, 1.8, 0.8, 4.6, 1.4})
	const s = 0.3889587
	if !near(got.Mean, 1.58, 1e-9) || !near(got.Low, 0.7001142, 1e-6) || !near(got.High, 2.4598858, 1e-6) {
		t.Errorf("Student's sleep data: %+v", got)
	}
	if want := (2.2621572 + 0.8834039) * s; !near(got.Detectable, want, 1e-5) {
		t.Errorf("smallest detectable effect %v, want %v", got.Detectable, want)
	}
	if got := Paired([]float64{1}); !math.IsInf(got.Detectable, 1) || !math.IsInf(got.High, 1) || got.Mean != 1 {
		t.Errorf("one pair: %+v, want the mean and infinite bounds", got)
	}
}

// TestDetectableIsDetected: an effect of the detectable size shows in 80 % of many samples. Without an effect, 5 % of
// the samples show one.
func TestDetectableIsDetected(t *testing.T) {
	t.Parallel()
	const n, rounds = 10, 5000
	rng := rand.New(rand.NewPCG(1, 0)).NormFloat64
	// The smallest detectable effect of a population with deviation 1.
	effect := (StudentQuantile((1+Confidence)/2, n-1) + StudentQuantile(Power, n-1)) / math.Sqrt(n)
	found, false1 := 0, 0
	d := make([]float64, n)
	for range rounds {
		for i := range d {
			d[i] = rng()
		}
		if e := Paired(d); e.Low > 0 || e.High < 0 {
			false1++
		}
		for i := range d {
			d[i] += effect
		}
		if Paired(d).Low > 0 {
			found++
		}
	}
	// Bloom's multiple of the standard error is an approximation, accurate to 3 %.
	if share := float64(found) / rounds; !near(share, Power, 0.03) {
		t.Errorf("found in %.3f of the samples, want %v", share, Power)
	}
	if share := float64(false1) / rounds; !near(share, 1-Confidence, 0.012) {
		t.Errorf("found without an effect in %.3f of the samples, want %v", share, 1-Confidence)
	}
}

// TestFitLog2: points on a curve give the curve, and points around it the one between them.
func TestFitLog2(t *testing.T) {
	t.Parallel()
	for _, y := range [][]float64{{5, 8, 11}, {5.5, 7, 11.5}} {
		if a, b := FitLog2([]float64{2, 4, 8}, y); math.Abs(a-3) > 1e-9 || math.Abs(b-2) > 1e-9 {
			t.Errorf("%v: %v log2 x + %v, want 3 and 2", y, a, b)
		}
	}
}
