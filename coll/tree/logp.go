package tree

// LogP are the parameters of the model in which the published trees are
// compared, in steps: a message sent in step t can be handled in step
// t+Latency+Overhead at the earliest, and handling or sending one takes Overhead.
type LogP struct{ Latency, Overhead int }

// hop is the number of steps from the beginning of a send until the receiver has
// handled the message.
func (p LogP) hop() int { return p.Latency + 2*p.Overhead }

// OptimalBcast is the least number of steps in which any tree can broadcast to n
// nodes: the number of nodes that hold the message after t steps is
// f(t) = f(t-o) + f(t-L-2o), because everybody who holds it sends all the time.
func (p LogP) OptimalBcast(n int) int {
	o, hop := max(1, p.Overhead), p.hop()
	have := []int{1} // after each step
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

// Bcast is the number of steps that a broadcast from the root of a single-root
// tree takes if everybody forwards it to its children one after another.
func (p LogP) Bcast(t *Levels) int {
	at := make([]int32, t.Len()) // handled
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

// BestRadix is the k from 2 to most, the smallest of several, with which a
// single-root tree of the shape broadcasts to n nodes soonest. Reduce is its
// mirror image and an allreduce both.
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
