package match

// Any stands for every source, or every tag, in the envelope of a receive.
const Any = -1

// Envelope is what receives and messages are matched by.
type Envelope struct {
	Src int32 // rank of the sender
	Tag int32
}

// The kinds of envelopes, by what is Any.
const (
	anyTag = 1 << iota
	anySrc
	kinds = 1 << iota
)

// kind returns which of its parts are Any.
func (e Envelope) kind() (k int) {
	if e.Tag == Any {
		k |= anyTag
	}
	if e.Src == Any {
		k |= anySrc
	}
	return k
}

// as returns the envelope of a kind that fits messages with this one.
func (e Envelope) as(kind int) Envelope {
	if kind&anyTag != 0 {
		e.Tag = Any
	}
	if kind&anySrc != 0 {
		e.Src = Any
	}
	return e
}

// Fits says whether a receive for e takes a message m.
func (e Envelope) Fits(m Envelope) bool { return m.as(e.kind()) == e }

// Queue matches receives, each of which is an R, with messages, each an M. The zero
// Queue is empty. It is not for concurrent use.
type Queue[R, M any] struct {
	posted   store[R]
	messages store[M]
}

// Ref names a receive that was posted.
type Ref struct{ node, gen uint32 }

// Take is for a receive: it removes and returns the earliest message that fits.
func (q *Queue[R, M]) Take(e Envelope) (m M, ok bool) {
	i := q.messages.earliest(e)
	if i == none {
		return m, false
	}
	return q.messages.remove(i), true
}

// Peek is Take without removing.
func (q *Queue[R, M]) Peek(e Envelope) (m M, ok bool) {
	i := q.messages.earliest(e)
	if i == none {
		return m, false
	}
	return q.messages.nodes[i].item, true
}

// Post adds a receive that Take had nothing for.
func (q *Queue[R, M]) Post(e Envelope, r R) Ref {
	i := q.posted.add(e, r, false)
	return Ref{node: uint32(i), gen: q.posted.nodes[i].gen}
}

// Arrive is for a message, whose envelope is without Any: it removes and returns
// the earliest receive that it fits.
func (q *Queue[R, M]) Arrive(e Envelope) (r R, ok bool) {
	if i := q.posted.lone(); i != none {
		if q.posted.nodes[i].env.Fits(e) {
			return q.posted.remove(i), true
		}
		return r, false
	}
	best, order := int32(none), uint64(0)
	for k, n := range &q.posted.kinds {
		if n == 0 {
			continue
		}
		if i := q.posted.first(e.as(k)); i != none && (best == none || q.posted.nodes[i].order < order) {
			best, order = i, q.posted.nodes[i].order
		}
	}
	if best == none {
		return r, false
	}
	return q.posted.remove(best), true
}

// Keep adds a message that Arrive had nothing for.
func (q *Queue[R, M]) Keep(e Envelope, m M) {
	q.messages.add(e, m, true)
}

// Posted returns the envelope of a receive that waits, and false for one that does not.
func (q *Queue[R, M]) Posted(ref Ref) (e Envelope, ok bool) {
	if int(ref.node) >= len(q.posted.nodes) {
		return e, false
	}
	if n := &q.posted.nodes[ref.node]; n.gen == ref.gen && n.live {
		return n.env, true
	}
	return e, false
}

// Withdraw removes a receive, and says whether it was still there.
func (q *Queue[R, M]) Withdraw(ref Ref) bool {
	if _, ok := q.Posted(ref); !ok {
		return false
	}
	q.posted.remove(int32(ref.node))
	return true
}

// Sweep removes the receives for which f says so, in no particular order. It looks
// at everything that was ever posted at one time: for failures.
func (q *Queue[R, M]) Sweep(f func(e Envelope, r R) bool) {
	for i := range q.posted.nodes {
		if n := &q.posted.nodes[i]; n.live && f(n.env, n.item) {
			q.posted.remove(int32(i))
		}
	}
}

// Waiting returns how many receives and how many messages wait.
func (q *Queue[R, M]) Waiting() (receives, messages int) { return q.posted.n, q.messages.n }
