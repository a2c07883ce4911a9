package mpi

import (
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/rma"
)

// Messages of a process to itself. They are copied in any case, so that the send never waits
// for the receive. Long ones are copied without the lock, so that nobody waits for the copy.

const (
	lockedMost = 64 << 10 // bytes that are copied under the lock
	carryPart  = 1 << 20  // bytes between two looks at whether the receive was given up
)

// local sends a short message to this process itself.
func (e *engine) local(g *group, env match.Envelope, data unsafe.Pointer, n int) {
	if r, ok := g.q.Arrive(env); ok {
		e.fill(r, env, data, n)
		return
	}
	m := e.newMessage(n)
	m.env, m.size = env, n
	if n > 0 {
		copyBytes(unsafe.Pointer(&m.data[0]), data, n)
	}
	g.q.Keep(env, m)
}

// sendSelf sends a long message to this process itself.
func (g *group) sendSelf(op string, s span, tag int) error {
	e, env := g.e, envelope{Src: int32(g.me), Tag: int32(tag)}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return g.over(op)
	}
	r, met := g.q.Arrive(env)
	if !met {
		e.mu.Unlock()
		data := slices.Clone(unsafe.Slice((*byte)(s.at), s.bytes))
		e.mu.Lock()
		if g.ended.Load() {
			return g.over(op)
		}
		if r, met = g.q.Arrive(env); !met {
			g.q.Keep(env, &message{env: env, data: data, size: s.bytes})
			return nil
		}
		s.at = unsafe.Pointer(&data[0])
	}
	e.fill(r, env, s.at, s.bytes)
	return nil
}

// carry copies a long message to a receive that it has met, and completes that. It gives the
// lock away meanwhile: the receive is in no list then, so that nothing ends it but carry.
func (e *engine) carry(r *request, data unsafe.Pointer) {
	r.share.used = true
	e.carried = append(e.carried, r)
	e.copying.Add(1) // Finalize waits for it
	for done := 0; done < r.size && r.share.cause == nil; {
		n := min(r.size-done, carryPart)
		e.mu.Unlock()
		rma.Move(unsafe.Add(r.buf, done), unsafe.Slice((*byte)(unsafe.Add(data, done)), n))
		e.mu.Lock()
		done += n
	}
	e.noCopy(&e.carried, r)
	e.complete(r, r.share.cause)
}
