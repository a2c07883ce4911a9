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
type Ref[R any] struct {
	node *node[R]
	gen  uint32
}

// Take is for a receive: it removes and returns the earliest message that fits.
func (q *Queue[R, M]) Take(e Envelope) (m M, ok bool) {
	n := q.messages.earliest(e)
	if n == nil {
		return m, false
	}
	return q.messages.remove(n), true
}

// Peek is Take without removing.
func (q *Queue[R, M]) Peek(e Envelope) (m M, ok bool) {
	n := q.messages.earliest(e)
	if n == nil {
		return m, false
	}
	return n.item, true
}

// Post adds a receive that Take had nothing for.
func (q *Queue[R, M]) Post(e Envelope, r R) Ref[R] {
	n := q.posted.add(e, r, false)
	return Ref[R]{n, n.gen}
}

// Arrive is for a message, whose envelope is without Any: it removes and returns
// the earliest receive that it fits.
func (q *Queue[R, M]) Arrive(e Envelope) (r R, ok bool) {
	if n := q.posted.lone; n != nil {
		if n.env.Fits(e) {
			return q.posted.remove(n), true
		}
		return r, false
	}
	var best *node[R]
	for k, n := range &q.posted.kinds {
		if n == 0 {
			continue
		}
		if n := q.posted.first(e.as(k)); n != nil && (best == nil || n.order < best.order) {
			best = n
		}
	}
	if best == nil {
		return r, false
	}
	return q.posted.remove(best), true
}

// Keep adds a message that Arrive had nothing for.
func (q *Queue[R, M]) Keep(e Envelope, m M) {
	q.messages.add(e, m, true)
}

// Posted returns the envelope of a receive that waits, and false for one that does not.
func (q *Queue[R, M]) Posted(ref Ref[R]) (e Envelope, ok bool) {
	if n := ref.node; n != nil && n.gen == ref.gen && n.live {
		return n.env, true
	}
	return e, false
}

// Withdraw removes a receive, and says whether it was still there.
func (q *Queue[R, M]) Withdraw(ref Ref[R]) bool {
	if _, ok := q.Posted(ref); !ok {
		return false
	}
	q.posted.remove(ref.node)
	return true
}

// Sweep removes the receives for which f says so, in no particular order. It looks
// at everything that was ever posted at one time: for failures.
func (q *Queue[R, M]) Sweep(f func(e Envelope, r R) bool) {
	for n := range q.posted.all {
		if f(n.env, n.item) {
			q.posted.remove(n)
		}
	}
}

// Messages goes through the messages, in no particular order.
func (q *Queue[R, M]) Messages(yield func(m M) bool) {
	for n := range q.messages.all {
		if !yield(n.item) {
			return
		}
	}
}

// Waiting returns how many receives and how many messages wait.
func (q *Queue[R, M]) Waiting() (receives, messages int) { return q.posted.n, q.messages.n }
