package match

// Any stands for every source, or every tag, in the envelope of a receive.
const Any = -1

// Envelope is what matches receives with messages.
type Envelope struct {
	Src int32 // rank of the sender; Any in a receive from any source
	Tag int32 // Any in a receive of any tag
}

// Kinds of envelopes: the fields that are Any.
const (
	anyTag = 1 << iota
	anySrc
	kinds = 1 << iota
)

// kind returns the kind of an envelope.
func (e Envelope) kind() (k int) {
	if e.Tag == Any {
		k |= anyTag
	}
	if e.Src == Any {
		k |= anySrc
	}
	return k
}

// as returns the envelope of a kind that fits messages with envelope e.
func (e Envelope) as(kind int) Envelope {
	if kind&anyTag != 0 {
		e.Tag = Any
	}
	if kind&anySrc != 0 {
		e.Src = Any
	}
	return e
}

// Fits reports whether a receive for e can get a message with envelope m.
func (e Envelope) Fits(m Envelope) bool { return m.as(e.kind()) == e }

// Queue matches receives with messages. R and M are the caller's items of a receive and of a message. The
// zero Queue is empty.
//
//   - Concurrent calls: not allowed.
type Queue[R, M any] struct {
	posted   receives[R]
	messages messages[M]
}

// Ref refers to a posted receive. The zero Ref refers to none.
type Ref[R any] struct {
	node *node[R]
	gen  uint32
}

// Take removes and returns the earliest message that fits a receive for e, with its own envelope.
func (q *Queue[R, M]) Take(e Envelope) (m M, from Envelope, ok bool) {
	n := q.messages.earliest(e)
	if n == 0 {
		return m, from, false
	}
	m, from = q.messages.remove(n)
	return m, from, true
}

// Peek returns what Take would, and removes nothing.
func (q *Queue[R, M]) Peek(e Envelope) (m M, from Envelope, ok bool) {
	n := q.messages.earliest(e)
	if n == 0 {
		return m, from, false
	}
	x := q.messages.entries.At(n)
	return x.item, x.env, true
}

// Post adds a receive for which Take has found no message.
func (q *Queue[R, M]) Post(e Envelope, r R) Ref[R] {
	n := q.posted.add(e, r)
	return Ref[R]{n, n.gen}
}

// Arrive removes and returns the earliest receive that a message with envelope e fits. e has no Any.
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

// WouldMeet reports whether Arrive would find a receive.
func (q *Queue[R, M]) WouldMeet(e Envelope) bool {
	if n := q.posted.lone; n != nil {
		return n.env.Fits(e)
	}
	for k, n := range &q.posted.kinds {
		if n != 0 && q.posted.first(e.as(k)) != nil {
			return true
		}
	}
	return false
}

// Keep adds a message for which Arrive has found no receive.
func (q *Queue[R, M]) Keep(e Envelope, m M) {
	q.messages.add(e, m)
}

// Posted returns the envelope of a receive, and false if the receive waits no more.
func (q *Queue[R, M]) Posted(ref Ref[R]) (e Envelope, ok bool) {
	if n := ref.node; n != nil && n.gen == ref.gen && n.live {
		return n.env, true
	}
	return e, false
}

// Withdraw removes a receive, and reports whether it was waiting.
func (q *Queue[R, M]) Withdraw(ref Ref[R]) bool {
	if _, ok := q.Posted(ref); !ok {
		return false
	}
	q.posted.remove(ref.node)
	return true
}

// Sweep removes the receives for which f returns true, in no particular order. It is for failures.
//
//   - Cost: it visits as many nodes as receives ever waited at one time.
func (q *Queue[R, M]) Sweep(f func(e Envelope, r R) bool) {
	for n := range q.posted.all {
		if f(n.env, n.item) {
			q.posted.remove(n)
		}
	}
}

// Messages is an iterator over the waiting messages and their envelopes, in the order of arrival. The loop must not change the queue.
func (q *Queue[R, M]) Messages(yield func(e Envelope, m M) bool) { q.messages.all(yield) }

// Waiting returns how many receives and how many messages wait.
func (q *Queue[R, M]) Waiting() (receives, messages int) { return q.posted.n, q.messages.n }
