package ring

import "math"

// trips is what a member knows of round trips to its target.
type trips struct {
	count    float64
	mean     float64
	variance float64
}

// memory is the number of round trips after which one counts for little.
const memory = 64

// add adds a round trip. longest bounds what one of them counts for: a machine that stood still for a minute is no reason
// to wait for minutes in the next ones.
func (t *trips) add(trip, longest int64) {
	x := float64(min(max(trip, 0), longest))
	t.count = min(t.count+1, memory)
	weight := 1 / t.count
	d := x - t.mean
	t.mean += weight * d
	t.variance = (1 - weight) * (t.variance + weight*d*d)
}

// patience returns how long after its ping an answer is late.
func (t *trips) patience(margin int64) int64 {
	return int64(t.mean) + max(int64(4*math.Sqrt(t.variance)), margin)
}
