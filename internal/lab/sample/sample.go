// Package sample says what few measurements can tell: means and deviations, how
// far the truth may be from them, and which effect they would have shown.
package sample

import (
	"math"
	"slices"
)

// What a statement is worth: an effect is claimed with this confidence, two
// sided, and one of the smallest detectable size is found with this power.
const (
	Confidence = 0.95
	Power      = 0.80
)

// Mean returns the arithmetic mean, 0 of nothing.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Deviation returns the standard deviation of the population that x was drawn
// from (n-1 in the denominator), 0 of fewer than two values.
func Deviation(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, sum := Mean(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// Spread is the least, the middle and the greatest value of a sample.
type Spread struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// SpreadOf returns the spread of x, nil of nothing. The middle of an even number
// of values is the mean of the two.
func SpreadOf(x []float64) *Spread {
	if len(x) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return &Spread{Min: s[0], P50: (s[(n-1)/2] + s[n/2]) / 2, Max: s[n-1]}
}

// Effect is what the differences of pairs tell.
type Effect struct {
	Mean       float64
	Low, High  float64 // the interval that holds the truth, with Confidence
	Detectable float64 // the smallest effect that would be found, with Power
}

// Paired returns the effect in differences of at least two pairs.
//
// With s their standard error and n-1 degrees of freedom, the interval is the
// mean -+ t(0.975) s, and the smallest detectable effect
// (t(0.975) + t(0.80)) s: H. S. Bloom, Minimum Detectable Effects, Evaluation
// Review 19(5), 1995.
func Paired(d []float64) Effect {
	mean := Mean(d)
	if len(d) < 2 {
		return Effect{Mean: mean, Low: math.Inf(-1), High: math.Inf(1), Detectable: math.Inf(1)}
	}
	s := Deviation(d) / math.Sqrt(float64(len(d)))
	t := StudentQuantile((1+Confidence)/2, len(d)-1)
	return Effect{
		Mean: mean, Low: mean - t*s, High: mean + t*s,
		Detectable: (t + StudentQuantile(Power, len(d)-1)) * s,
	}
}

// StudentQuantile returns the value below which Student's t of df degrees of
// freedom lies with probability p, 0 < p < 1 and df >= 1; NaN for others.
func StudentQuantile(p float64, df int) float64 {
	switch {
	case !(p > 0 && p < 1) || df < 1:
		return math.NaN()
	case p < 0.5:
		return -StudentQuantile(1-p, df)
	case p == 0.5:
		return 0
	}
	low, high := 0.0, 1.0
	for studentCDF(high, df) < p {
		low, high = high, 2*high
	}
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if studentCDF(mid, df) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// studentCDF is the probability of a value below t, t >= 0.
func studentCDF(t float64, df int) float64 {
	n := float64(df)
	return 1 - incompleteBeta(n/(n+t*t), n/2, 0.5)/2
}

// incompleteBeta is the regularized incomplete beta function I_x(a, b), by its
// continued fraction (Abramowitz and Stegun 26.5.8).
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges slowly
		return 1 - incompleteBeta(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front / fraction(x, a, b)
}

// fraction evaluates 1 + d1 x/(1 + d2 x/(1 + ...)) of the incomplete beta
// function from the front, as a quotient of two recurrences.
func fraction(x, a, b float64) float64 {
	const tiny = 1e-300
	value, c, d := 1.0, 1.0, 0.0
	for i := 1; i <= 1000; i++ {
		m := float64(i / 2)
		coefficient := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		if i%2 == 1 {
			coefficient = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + coefficient*d; math.Abs(d) < tiny {
			d = tiny
		}
		if c = 1 + coefficient/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		value *= c * d
		if math.Abs(c*d-1) < 1e-15 {
			break
		}
	}
	return value
}
