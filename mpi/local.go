package mpi

import (
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Messages of a process to itself. Where no receive waits, the message is copied, so that the send never
// waits. Long messages are copied without the lock, so that no other call waits for the copy.

const (
	lockedMost   = 64 << 10 // bytes that are copied under the lock at most
	selfCopyPart = 1 << 20  // bytes that copyToSelf copies between two checks of share.cause
)

// sendLongToSelf sends a message of more than lockedMost bytes to this process itself.
func sendLongToSelf(g *group, op string, s span, tag int) error {
	e, env := g.e, envelope{Src: int32(g.me), Tag: int32(tag)}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return g.endedError(op)
	}
	r, met := g.q.Arrive(env)
	if !met {
		e.mu.Unlock()
		data := slices.Clone(unsafe.Slice((*byte)(s.at), s.bytes))
		e.mu.Lock()
		if g.ended.Load() {
			return g.endedError(op)
		}
		if r, met = g.q.Arrive(env); !met {
			g.q.Keep(env, e.kept.addRecord(&message{env: env, data: data, size: s.bytes}))
			e.wakeProbes(&g.q, env)
			return nil
		}
		s.at = unsafe.Pointer(&data[0])
	}
	e.deliver(r, env, s.at, s.bytes)
	return nil
}

// copyToSelf copies a long message to the receive that it has met, and completes the receive. It
// releases the lock during the copy. Meanwhile the receive is in no list but selfCopies, so that only
// copyToSelf ends it; others set share.cause.
func (t *transfers) copyToSelf(r *request, data unsafe.Pointer) {
	s := r.useShare()
	r.pe = t.me
	t.selfCopies = append(t.selfCopies, r)
	t.copying.Add(1) // Finalize waits for it
	for done := 0; done < r.size && s.cause == nil; {
		n := min(r.size-done, selfCopyPart)
		t.mu.Unlock()
		rma.Move(unsafe.Add(r.buf, done), unsafe.Slice((*byte)(unsafe.Add(data, done)), n))
		t.mu.Lock()
		done += n
	}
	t.removeFrom(&t.selfCopies, r)
	t.complete(r, s.cause)
}
