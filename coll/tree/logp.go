package tree

// LogP has the parameters of the model in which the published trees are compared, in steps. A message
// sent in step t can be handled in step t+Latency+Overhead at the earliest. Handling or sending a
// message takes Overhead.
type LogP struct{ Latency, Overhead int }

// hop returns the number of steps from the beginning of a send to the end of its handling.
func (p LogP) hop() int { return p.Latency + 2*p.Overhead }

// OptimalBcast returns the least number of steps in which any tree broadcasts to n nodes. After t steps
// f(t) = f(t-o) + f(t-L-2o) nodes hold the message, because each node that holds it sends all the
// time.
func (p LogP) OptimalBcast(n int) int {
	o, hop := max(1, p.Overhead), p.hop()
	have := []int{1} // nodes that hold the message after each step
	for t := 0; have[t] < n; t++ {
		now := 1
		if t+1 >= o {
			now = have[t+1-o]
		}
		if t+1 >= hop {
			now += have[t+1-hop]
		}
		have = append(have, now)
	}
	return len(have) - 1
}

// Bcast returns the number of steps of a broadcast from the root of a single-root tree in which each
// node forwards the message to its children one after another.
func (p LogP) Bcast(t *Levels) int {
	at := make([]int32, t.Len()) // when each node has handled the message
	last := int32(0)
	for v := range int32(t.Len()) {
		send := at[v]
		for _, c := range t.Children(v) {
			at[c] = send + int32(p.hop())
			send += int32(p.Overhead)
		}
		last = max(last, at[v])
	}
	return int(last)
}

// BestRadix returns the k from 2 to most with which a single-root tree of a shape broadcasts to n nodes
// in the fewest steps, and that number of steps. Of several it returns the smallest k. A reduction is
// the mirror image of a broadcast, and an allreduce is both, so k is the best for them too.
func (p LogP) BestRadix(n int, shape Shape, most int) (k, steps int, err error) {
	for c := 2; c <= min(most, max(2, n)); c++ {
		t, err := NewLevels(LevelsConfig{N: n, K: c, Shape: shape})
		if err != nil {
			return 0, 0, err
		}
		if s := p.Bcast(t); k == 0 || s < steps {
			k, steps = c, s
		}
	}
	return k, steps, nil
}
