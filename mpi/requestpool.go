package mpi

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/wait"
)

// requestPool remembers the requests that were given out, the oldest first, and gives them out again. A
// request that has ended has another generation: the pool sees that, and no call gives it back. Guarded by
// the engine's lock.
type requestPool struct {
	lock *wait.Lock // the engine's, which all its requests have
	ring []issue    // its length is a power of two
	next uint       // index of the oldest issue, modulo the length
}

// issue is a request and the generation with which it was given out.
type issue struct {
	r   *request
	gen uint64
}

const (
	poolLeast     = 16
	poolRequests  = 4096 // requests that are remembered at most
	poolLooksMost = 4    // remembered requests that get looks at before it makes a new one
)

// get returns a request that is not in use.
func (p *requestPool) get() *request {
	for range min(poolLooksMost, len(p.ring)) {
		i := &p.ring[p.next&uint(len(p.ring)-1)]
		p.next++
		if i.r == nil {
			i.r = p.make()
			return i.r
		}
		switch use := atomic.LoadUint64(&i.r.use); {
		case use&useKept != 0: // its handles return its error from now on
			i.r, i.gen = p.make(), 0
			return i.r
		case use&^(useGen-1) != i.gen: // it has ended
			i.gen = use
			return i.r
		}
	}
	if len(p.ring) == poolRequests {
		return p.make()
	}
	at := len(p.ring)
	p.ring = append(p.ring, make([]issue, max(poolLeast, at))...)
	p.next = uint(at + 1)
	p.ring[at].r = p.make()
	return p.ring[at].r
}

// make returns a request that no call has had.
func (p *requestPool) make() *request { return &request{lock: p.lock} }

// newRequest returns a request for the bytes of a buffer. The caller has the engine's lock.
func (g *group) newRequest(op string, s span) *request {
	r := g.e.requests.get()
	r.g, r.op, r.buf, r.size, r.elem, r.status = g, op, s.at, s.bytes, s.elem, emptyStatus
	return r
}

// directRequest returns the request of a receive that was complete at once: only its status is used. The caller has
// the engine's lock.
func (g *group) directRequest(s Status) *request {
	r := g.e.requests.get()
	r.g, r.direct, r.done, r.status = g, true, 1, s
	return r
}
