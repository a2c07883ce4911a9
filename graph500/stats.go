package graph500

import (
	"math"
	"slices"
)

// Statistics summarizes one quantity over all searches, as the reference code does.
type Statistics struct {
	Min, FirstQuartile, Median, ThirdQuartile, Max, Mean, StdDev float64
}

// statisticsOf computes the quartiles (means of the two nearest values), the mean and the sample deviation.
func statisticsOf(values []float64) Statistics {
	n := len(values)
	if n == 0 {
		return Statistics{}
	}
	x := slices.Sorted(slices.Values(values))
	var sum float64
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(n)
	return Statistics{
		Min:           x[0],
		FirstQuartile: (x[(n-1)/4] + x[n/4]) / 2,
		Median:        (x[(n-1)/2] + x[n/2]) / 2,
		ThirdQuartile: (x[n-1-(n-1)/4] + x[n-1-n/4]) / 2,
		Max:           x[n-1],
		Mean:          mean,
		StdDev:        sampleDeviation(x, mean),
	}
}

// sampleDeviation returns the standard deviation with n-1 in the denominator, or 0 for a single value.
func sampleDeviation(x []float64, mean float64) float64 {
	if len(x) < 2 {
		return 0
	}
	var squares float64
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(x)-1))
}

// Rates summarizes traversed edges per second. Their mean is the harmonic one.
type Rates struct {
	Min, FirstQuartile, Median, ThirdQuartile, Max, HarmonicMean, HarmonicStdDev float64
}

// ratesOf inverts the statistics of seconds per edge, so that the slowest search gives the smallest rate
// (Graph500 3.0, section "Output").
func ratesOf(seconds, edges []float64) Rates {
	n := len(seconds)
	if n == 0 {
		return Rates{}
	}
	perEdge := make([]float64, n)
	for i := range perEdge {
		perEdge[i] = seconds[i] / edges[i]
	}
	s := statisticsOf(perEdge)
	r := Rates{
		Min:           1 / s.Max,
		FirstQuartile: 1 / s.ThirdQuartile,
		Median:        1 / s.Median,
		ThirdQuartile: 1 / s.FirstQuartile,
		Max:           1 / s.Min,
		HarmonicMean:  1 / s.Mean,
	}
	if n > 1 {
		r.HarmonicStdDev = s.StdDev / (s.Mean * s.Mean * math.Sqrt(float64(n-1)))
	}
	return r
}
