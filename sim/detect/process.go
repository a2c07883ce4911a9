package detect

// deathPE is the value of Options.Death for the death of one PE of each victim. Its node lives on, and knows at once: the
// kernel has told the daemon. So the ring has no part in it, and a sample shows the broadcast alone.
const deathPE = "pe"

// deadPerNode returns how many members die with each victim.
func (o *Options) deadPerNode() int {
	if o.Death == deathPE {
		return 1
	}
	return o.members() / o.Nodes
}

// diePEs lets a PE of each victim die and its node report it. With the literal algorithm, each PE is a member: the next PE
// of the same node reports it, which has noticed in shared memory.
func (w *world) diePEs() {
	per := w.o.members() / w.o.Nodes
	for v := range w.victim {
		if !w.victim[v] {
			continue
		}
		by := int32(v)
		if w.o.isLiteral() {
			w.gone[v] = true
			by = int32(v + 1)
			if per == 1 { // nobody else is on the node
				by = w.member(int64(v) + 1)
			}
		}
		w.spreadPE(int32(v), by)
	}
}

// spreadPE runs the broadcast of the death of a PE that member v is, or that runs on it.
func (w *world) spreadPE(v, by int32) {
	w.result.reports++
	w.reported[v] = true
	w.result.copies += w.flood.run(by, []int32{v}, w.gone)
	first, last := int64(0), int64(0)
	for to, step := range w.flood.arrived {
		at := int64(step) * int64(w.o.Overhead)
		switch {
		case w.gone[to]:
		case step == never:
			w.knownAt[v] = -1
			return
		case int32(to) == by: // it knows before all others
		default:
			if first == 0 || at < first {
				first = at
			}
			last = max(last, at)
		}
	}
	w.knownAt[v] = w.now + last
	w.unknown--
	if w.result.first == 0 || first < w.result.first {
		w.result.first = first
	}
	w.result.last = max(w.result.last, last)
}
