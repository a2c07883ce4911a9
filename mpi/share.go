package mpi

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A long message is copied once, by both sides at a time, each of which takes on one part after
// the other: the receiver from the first one on, the sender from the last one, so that of
// messages that go to and fro between the same buffers each half stays in one
// processor's cache. A sender that is busy elsewhere, or waits for the processor that the receiver
// has, leaves all of it to the receiver. layout.Share has the words by which they do that.
//
// What is in the symmetric heap is mapped; what is not, the kernel copies
// (process_vm_readv), if it lets processes do that. Who may is tried out.

// share is what a request knows of the copying of its message.
type share struct {
	used  bool          // something here is not zero
	words *layout.Share // nil: its message is not copied so
	name  uint64        // of the message in Turn: a multiple of layout.ShareMessage
	there unsafe.Pointer
	addr  uint64 // in the other process, if there is nil
	part  int    // bytes
	parts int
	cause error // why the receive ends when the sender has copied what it has taken on
	stuck bool  // the other process is not there any more, which will be published
}

// The least and the greatest part of a message, and what is shared out at all: to write to
// another process costs a microsecond or two.
const (
	partLeast = 32 << 10
	partMost  = 256 << 10
	shareMin  = 64 << 10
	partsMost = layout.ShareBack - 1
)

// singleCopies is a variable for tests.
var singleCopies = true

// cut divides n bytes into parts.
func (s *share) cut(n int) {
	const page = 4096
	s.part = min(max(n/8, partLeast), partMost)
	if n < shareMin {
		s.part = n
	}
	s.part = max((s.part+page-1)&^(page-1), (n/partsMost+page)&^(page-1))
	s.parts = (n + s.part - 1) / s.part
}

// look returns the word Turn, the state in it, and the parts that the receiver and the sender
// have taken on. A share that is another message's has been revoked.
func (s *share) look() (turn, is uint64, front, back int) {
	turn = atomic.LoadUint64(&s.words.Turn)
	if turn&^(layout.ShareMessage-1) != s.name {
		return turn, layout.ShareRevoked, 0, 0
	}
	is = turn % layout.ShareMessage &^ (layout.ShareState - 1)
	return turn, is, int(turn % layout.ShareBack), int(turn % layout.ShareState / layout.ShareBack)
}

// close changes the state of a message that is Open, and returns what it is then.
func (s *share) close(to uint64) (is uint64) {
	for {
		turn, is, _, _ := s.look()
		if is != layout.ShareOpen {
			return is
		}
		if atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn-layout.ShareOpen+to) {
			return to
		}
	}
}

// cookie is what others look for at its address.
var cookie = sync.OnceValue(func() *uint64 {
	c := new(uint64)
	*c = rand.Uint64() | 1
	return c
})

// publish says how others may get at this process's memory.
func (e *engine) publish() {
	xunix.AllowTracer(os.Getppid()) // whose other children the PEs are, unless something stands between
	c := cookie()
	e.own.Reach = layout.Reach{PID: uint64(os.Getpid()), Addr: uint64(uintptr(unsafe.Pointer(c))), Cookie: *c}
}

// What is known of how the kernel lets this process get at another one's memory.
const (
	untried = iota
	reachable
	unreachable
)

// reaches says whether this process gets at the memory of another one, from which it has a
// message.
func (e *engine) reaches(pe int) bool {
	if e.reach[pe] == untried {
		at, found := &e.job.Map.Control(pe).Reach, new(uint64)
		e.reach[pe] = unreachable
		if singleCopies && at.PID != 0 && xunix.ReadMemory(int(at.PID), unsafe.Pointer(found), at.Addr, 8) == nil && *found == at.Cookie {
			e.reach[pe] = reachable
		}
	}
	return e.reach[pe] == reachable
}

// nameOf returns the name of a request's message in the word Turn of its share.
func nameOf(number uint64) uint64 { return number >> 32 * layout.ShareMessage }

// offer makes a message that is announced one that its receiver may copy, if its request's
// number is that of a share.
func (e *engine) offer(r *request) {
	i := uint32(r.number)
	if i >= layout.Shares {
		return
	}
	e.table[i].lent = int32(r.pe) + 1
	r.share.used, r.share.words, r.share.name = true, &e.own.Shares[i], nameOf(r.number)
	rma.StoreRelease(&r.share.words.Copied, 0)
	rma.StoreRelease(&r.share.words.Turn, r.share.name+layout.ShareOpen)
}

// sharable says whether a message is an announced one that has a share.
func (m *message) sharable() bool { return m.sender != 0 && uint32(m.sender) < layout.Shares }

// shareOf returns the share of a message that has one.
func (e *engine) shareOf(m *message) share {
	return share{used: true, words: &e.job.Map.Control(m.pe).Shares[uint32(m.sender)], name: nameOf(m.sender)}
}

// offsetFor returns where in this process's segment the sender may write the message of a receive
// to, 0: nowhere.
func (e *engine) offsetFor(r *request, n int) uint64 {
	if r.own {
		return 0
	}
	return e.offset(r.buf, n)
}

// pull begins to copy a message to its receive. It says no if that is not possible.
func (e *engine) pull(r *request, m *message, n int) bool {
	if !m.sharable() || n == 0 || m.offset == 0 && !e.reaches(m.pe) {
		return false
	}
	s := &r.share
	*s = e.shareOf(m)
	s.addr = m.addr
	if m.offset != 0 {
		s.there = e.at(m.pe, m.offset)
	}
	s.cut(n)
	r.pe, r.theirs = m.pe, m.sender
	e.pulls = append(e.pulls, r)
	e.copying.Add(1)
	if s.parts > 1 && !e.job.Waiter.Crowded && !r.own {
		e.send(e.lane(m.pe), &packet{kind: kindHelp, body: parcel{to: m.sender, offset: e.offset(r.buf, n), size: uint64(n), addr: uint64(uintptr(r.buf))}})
	}
	return true
}

// help begins to copy parts of a message to its receiver, which has asked for it.
func (e *engine) help(pe int, p *parcel) {
	r := e.find(p.to)
	if r == nil || p.offset == 0 && !e.reaches(pe) {
		return
	}
	r.share.there, r.share.addr = nil, p.addr
	if p.offset != 0 {
		r.share.there = e.at(pe, p.offset)
	}
	r.size = int(p.size)
	r.share.cut(r.size)
	e.helps = append(e.helps, r)
	e.copying.Add(1)
}

// copyOn copies a part of each message that is being copied.
func (e *engine) copyOn() (did bool) {
	for i := 0; i < len(e.helps); {
		if e.push(e.helps[i]) {
			did = true
			i++
			continue
		}
		e.helps = slices.Delete(e.helps, i, i+1)
		e.copying.Add(-1)
	}
	for i := 0; i < len(e.pulls); {
		r := e.pulls[i]
		over, moved := e.fetchPart(r)
		did = did || moved || over
		if !over {
			i++
			continue
		}
		e.pulls = slices.Delete(e.pulls, i, i+1)
		e.copying.Add(-1)
	}
	return did
}

// push copies a part for a receiver, unless there is none to be taken on any more.
func (e *engine) push(r *request) bool {
	s := &r.share
	for {
		turn, is, front, back := s.look()
		if is != layout.ShareOpen || front+back >= s.parts {
			return false
		}
		if !atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn+layout.ShareBack) {
			continue
		}
		at := (s.parts - 1 - back) * s.part
		n := min(s.part, r.size-at)
		copied := uint64(back + 1)
		if s.there != nil {
			copyBytes(unsafe.Add(s.there, at), unsafe.Add(r.buf, at), n)
		} else if xunix.WriteMemory(int(e.job.Map.Control(r.pe).Reach.PID), s.addr+uint64(at), unsafe.Add(r.buf, at), n) != nil {
			e.reach[r.pe] = unreachable // for good, or it is dead
			copied |= layout.ShareFailed
		}
		rma.StoreRelease(&s.words.Copied, copied)
		rma.RingBell(e.lane(r.pe).bell)
		return copied&layout.ShareFailed == 0
	}
}

// fetchPart copies the next part of a receive's message, or ends it when all are copied. It
// says whether it is over, and whether a part was copied.
func (e *engine) fetchPart(r *request) (over, moved bool) {
	s := &r.share
	turn, is, front, back := s.look()
	for is == layout.ShareOpen && front+back < s.parts && !s.stuck {
		if atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn+1) {
			e.copyPart(r, front*s.part)
			return false, true
		}
		turn, is, front, back = s.look()
	}
	copied := atomic.LoadUint64(&s.words.Copied)
	switch {
	case is == layout.ShareRevoked:
		e.pulled(r, ErrCanceled)
	case is == layout.ShareEnded && s.cause == nil:
		return false, false // it ends as the communicator does here, or by a wait for who has left it
	case is == layout.ShareEnded:
		e.pulled(r, s.cause)
	case copied&^layout.ShareFailed != uint64(back):
		return false, false
	case s.cause != nil:
		e.pulled(r, s.cause)
	case s.stuck:
		return false, false
	case copied&layout.ShareFailed != 0, is == layout.ShareRefused:
		if s.close(layout.ShareRefused) == layout.ShareRefused {
			e.askForParts(r)
			break
		}
		return false, false // it was revoked just now
	case e.job.Failures.Epoch() != e.epoch.Load():
		return false, false // perhaps of the sender, and then another process had its number
	case s.close(layout.ShareTaken) == layout.ShareTaken:
		e.pulled(r, nil)
	default:
		return false, false
	}
	return true, false
}

// copyPart copies the part of a message that begins with byte at.
func (e *engine) copyPart(r *request, at int) {
	s := &r.share
	n, dst := min(s.part, r.size-at), unsafe.Add(r.buf, at)
	if s.there != nil {
		copyBytes(dst, unsafe.Add(s.there, at), n)
		return
	}
	err := xunix.ReadMemory(int(e.job.Map.Control(r.pe).Reach.PID), dst, s.addr+uint64(at), n)
	switch {
	case err == nil:
	case errors.Is(err, syscall.ESRCH):
		s.stuck = true
	default: // it was possible once
		e.reach[r.pe] = unreachable
		s.close(layout.ShareRefused)
	}
}

// pulled ends a receive whose message was copied, or will not be, and tells the sender.
func (e *engine) pulled(r *request, err error) {
	e.send(e.lane(r.pe), &packet{kind: kindDone, body: parcel{to: r.theirs}})
	r.share.words = nil
	e.complete(r, err)
}

// askForParts has a message sent through the lane after all, from its start.
func (e *engine) askForParts(r *request) {
	r.share.words, r.moved = nil, 0
	e.send(e.lane(r.pe), &packet{kind: kindClear, body: parcel{to: r.theirs, from: e.enter(r), size: uint64(r.size)}})
}

// unshare makes an end of the copying of a message whose request is to end with an error.
// It says no if it cannot end now: the message was received, or the sender is about to
// write to the receive's buffer, which then ends by itself.
func (e *engine) unshare(r *request, cause error) bool {
	s := &r.share
	if slices.Contains(e.carried, r) {
		s.cause = cause
		return false
	}
	if s.words == nil {
		return true
	}
	if !r.recv {
		e.noCopy(&e.helps, r)
		return s.close(layout.ShareRevoked) != layout.ShareTaken
	}
	s.cause = cause
	s.close(layout.ShareRefused)
	if over, _ := e.fetchPart(r); !over {
		return false
	}
	e.noCopy(&e.pulls, r)
	return false // but it is done
}

// noCopy takes a request out of a list of those that are being copied.
func (e *engine) noCopy(list *[]*request, r *request) {
	if i := slices.Index(*list, r); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
		e.copying.Add(-1)
	}
}
