package tree

// LogP has the parameters of the model in which trees are compared, in any one unit: the published trees
// in steps, those of a job in nanoseconds. A message sent in step t can be handled in step
// t+Latency+Overhead at the earliest. Handling or sending a message takes Overhead.
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

// The radixes that collectives between nodes may have.
const (
	LeastRadix = 2
	MostRadix  = 64
	// DefaultRadix is that of jobs for which nothing better is known. It gives a tree of depth 5 over 1,000
	// nodes, in which no node has more than 15 children.
	DefaultRadix = 4
)

// BcastKnomial returns how long a broadcast from the root of t takes, in the units of p. Each node
// forwards the message to its children one after another, those with the widest subtrees first. That is
// what machines of coll/ftco do.
//
//   - Cost: 8 bytes and some nanoseconds a node.
func (p LogP) BcastKnomial(t Knomial) int {
	at := make([]int, t.Len()) // when each node has handled the message
	last := 0
	for v := range int32(t.Len()) { // in preorder, in which a parent comes before its children
		send := at[v]
		for i := t.Degree(v) - 1; i >= 0; i-- {
			at[t.Child(v, i)] = send + p.hop()
			send += p.Overhead
		}
		last = max(last, at[v])
	}
	return last
}

// BestKnomial returns the k from 2 to most with which a [Knomial] over n nodes broadcasts in the least time,
// and that time. Of several it returns the smallest k. It is [LogP.BestRadix] for the trees that programs
// use: these number their nodes in preorder, so a tree that is not full lacks other nodes than one of
// [Levels].
//
//   - Cost: up to most broadcasts, see [LogP.BcastKnomial].
//   - Errors: a number of nodes that no tree has.
func (p LogP) BestKnomial(n, most int) (k, time int, err error) {
	for c := LeastRadix; c <= min(most, max(LeastRadix, n)); c++ {
		t, err := NewKnomial(n, c)
		if err != nil {
			return 0, 0, err
		}
		if s := p.BcastKnomial(t); k == 0 || s < time {
			k, time = c, s
		}
	}
	return k, time, nil
}
