package bmg

import "slices"

// Roster is what a member knows of the incarnations of all members. It holds only what differs from the beginning, in
// which all live. A member is dead if its current incarnation, or a later one, is known to be dead.
type Roster struct {
	n     Node
	incs  []uint32 // at the beginning, shared by all; nil: all 1
	facts []fact   // by member
}

// fact is what is known of one member.
type fact struct {
	node        Node
	inc, failed uint32 // the current incarnation, and the latest dead one
	reported    uint32 // the latest incarnation whose death has come as a payload
}

// NewRoster returns the roster of n members that all live.
func NewRoster(n int, incs []uint32) Roster { return Roster{n: Node(n), incs: incs} }

// Reset returns to the beginning. It keeps the memory.
func (r *Roster) Reset() { r.facts = r.facts[:0] }

// Has reports whether p is a member.
func (r *Roster) Has(p Node) bool { return p >= 0 && p < r.n }

// first returns the incarnation with which p has begun.
func (r *Roster) first(p Node) uint32 {
	if r.incs == nil {
		return 1
	}
	return r.incs[p]
}

// find returns the index of p's fact. Every message asks for its sender, so this is not left to a general search, which
// takes twice as long.
func (r *Roster) find(p Node) (int, bool) {
	low, high := 0, len(r.facts)
	for low < high {
		if middle := int(uint(low+high) / 2); r.facts[middle].node < p {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(r.facts) && r.facts[low].node == p
}

// factOf returns p's fact, to be changed.
func (r *Roster) factOf(p Node) *fact {
	i, ok := r.find(p)
	if !ok {
		r.facts = slices.Insert(r.facts, i, fact{node: p, inc: r.first(p)})
	}
	return &r.facts[i]
}

// Incarnation returns the current incarnation of p.
func (r *Roster) Incarnation(p Node) uint32 {
	if i, ok := r.find(p); ok {
		return r.facts[i].inc
	}
	return r.first(p)
}

// IsDead reports whether p is dead.
func (r *Roster) IsDead(p Node) bool {
	if len(r.facts) == 0 {
		return false
	}
	i, ok := r.find(p)
	return ok && r.facts[i].isDead()
}

func (f *fact) isDead() bool { return f.failed >= f.inc }

// IsCurrent reports whether inc is the current incarnation of p, and alive.
func (r *Roster) IsCurrent(p Node, inc uint32) bool {
	if !r.Has(p) {
		return false
	}
	if i, ok := r.find(p); ok {
		return r.facts[i].inc == inc && !r.facts[i].isDead()
	}
	return r.first(p) == inc
}

// Fail notes that incarnation inc of p is dead. It reports whether p lived before.
func (r *Roster) Fail(p Node, inc uint32) bool {
	if !r.Has(p) || inc == 0 {
		return false
	}
	f := r.factOf(p)
	was := f.isDead()
	f.failed = max(f.failed, inc)
	return !was && f.isDead()
}

// report notes that a payload says that incarnation inc of p is dead. It reports whether that is new.
func (r *Roster) report(p Node, inc uint32) bool {
	f := r.factOf(p)
	if f.reported >= inc {
		return false
	}
	f.reported = inc
	return true
}

// Join notes that p is now incarnation inc. It reports whether a new incarnation lives.
func (r *Roster) Join(p Node, inc uint32) bool {
	if !r.Has(p) || inc <= r.Incarnation(p) {
		return false
	}
	f := r.factOf(p)
	f.inc = inc
	return !f.isDead()
}
