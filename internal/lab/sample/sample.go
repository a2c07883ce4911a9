// Package sample has the statistics of small samples: mean, deviation, confidence interval, and the smallest
// effect that a sample can show.
package sample

import (
	"math"
	"slices"
)

// Probabilities of the statistics.
const (
	Confidence = 0.95 // two-sided confidence of an interval
	Power      = 0.80 // probability that an effect of the smallest detectable size is found
)

// Mean returns the arithmetic mean, or 0 for an empty sample.
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

// Deviation returns the sample standard deviation (n-1 in the denominator), or 0 for fewer than two values.
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

// Spread has the minimum, the median and the maximum of a sample.
type Spread struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// SpreadOf returns the spread of x, or nil for an empty sample. The median of an even number of values is the
// mean of the middle two.
func SpreadOf(x []float64) *Spread {
	if len(x) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return &Spread{Min: s[0], P50: (s[(n-1)/2] + s[n/2]) / 2, Max: s[n-1]}
}

// Effect is the effect that the differences of pairs show.
type Effect struct {
	Mean       float64
	Low, High  float64 // confidence interval of the mean
	Detectable float64 // the smallest effect that would be found with probability Power
}

// Paired returns the effect in the differences of pairs. Fewer than two pairs have an infinite interval.
//
//   - Interval: mean -+ t(0.975) s, with s the standard error and n-1 degrees of freedom.
//   - Smallest detectable effect: (t(0.975) + t(0.80)) s.
//   - Source: H. S. Bloom, Minimum Detectable Effects, Evaluation Review 19(5), 1995.
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

// StudentQuantile returns the p-quantile of Student's t distribution with df degrees of freedom. It returns NaN
// unless 0 < p < 1 and df >= 1.
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

// studentCDF returns the probability of a value below t, for t >= 0.
func studentCDF(t float64, df int) float64 {
	n := float64(df)
	return 1 - incompleteBeta(n/(n+t*t), n/2, 0.5)/2
}

// incompleteBeta returns the regularized incomplete beta function I_x(a, b). It evaluates the continued
// fraction (Abramowitz and Stegun 26.5.8).
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // the fraction converges slowly here
		return 1 - incompleteBeta(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front / fraction(x, a, b)
}

// fraction evaluates the continued fraction 1 + d1 x/(1 + d2 x/(1 + ...)) of the incomplete beta function. It
// runs from the front, as a quotient of two recurrences.
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

// FitLog2 returns the curve y = a log2 x + b with the least squares, for at least two different x above 0.
func FitLog2(x, y []float64) (a, b float64) {
	logs := make([]float64, len(x))
	for i := range x {
		logs[i] = math.Log2(x[i])
	}
	meanX, meanY := Mean(logs), Mean(y)
	var xy, xx float64
	for i := range logs {
		xy += (logs[i] - meanX) * (y[i] - meanY)
		xx += (logs[i] - meanX) * (logs[i] - meanX)
	}
	a = xy / xx
	return a, meanY - a*meanX
}
