package mpi

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// copier is the layer that copies long messages between processes: once, by both sides at a time,
// part by part. The receiver claims parts from the first one on, the sender from the last one on.
// So each half of a message that goes to and fro between two buffers stays in one processor's cache.
// A sender that is busy, or waits for the receiver's processor, leaves all parts to the receiver.
//
// The words of layout.Share:
//
//   - Turn has the name of the message, the state, and how many parts each side has claimed. Both sides
//     change it by compare-and-swap only, and claim parts only while the state is Open. So each part
//     has one owner.
//   - Copied has how many parts the sender has written, in the order of its claims. Only the sender
//     stores it, after the part's last byte.
//   - The receiver ends the message when all parts are claimed, its own are copied, and Copied has reached
//     the sender's claims. It closes the share as Taken. If a side has closed it before, as Revoked,
//     Refused or Ended, that swap fails, and what was copied counts for nothing.
//   - A share's next message has another name. A late swap of the message before fails.
//
// Data in a symmetric heap are mapped. Other data are copied by the kernel (process_vm_readv), where it
// permits that: canAccess tries.
type copier struct {
	outbound
	pulls      []*request   // receives that copy their messages from the senders
	pushes     []*request   // sends that copy parts of their messages to the receivers
	selfCopies []*request   // receives to which this process copies messages of its own
	copying    atomic.Int32 // requests in pulls, pushes and selfCopies
}

// shareOf returns the share of an announced message that has one.
func (c *copier) shareOf(m *message) share {
	return share{used: true, words: &c.control(m.pe).Shares[uint32(m.sender)], name: shareName(m.sender)}
}

// targetOffset returns the offset in this process's segment where the sender may write the message of
// a receive, or 0 if there is none.
func (c *copier) targetOffset(r *request, n int) uint64 {
	if r.exclusive || r.g.hidden == nil { // a collective that fails ends its receives, and nothing may be written to their buffers afterwards
		return 0
	}
	return c.segmentOffset(r.buf, n)
}

// startPull begins to copy n bytes of a message to its receive. It returns false if this process cannot
// copy them.
func (c *copier) startPull(r *request, m *message, n int) bool {
	if !m.hasShare() || n == 0 || m.offset == 0 && !c.canAccess(m.pe) {
		return false
	}
	s := r.useShare()
	*s = c.shareOf(m)
	s.addr = m.addr
	if m.offset != 0 {
		s.mapped = c.segmentAddress(m.pe, m.offset)
	}
	s.cut(n)
	r.pe, r.peerNumber = m.pe, m.sender
	c.pulls = append(c.pulls, r)
	c.copying.Add(1)
	if s.parts > 1 && !c.job.Waiter.Crowded && !r.exclusive {
		c.sendPacket(c.laneTo(m.pe), &packet{kind: kindHelp, body: parcel{
			to: m.sender, offset: c.segmentOffset(r.buf, n), size: uint64(n), addr: uint64(uintptr(r.buf)),
		}})
	}
	return true
}

// startPush begins to copy parts of a message to its receiver, which has asked for help.
func (c *copier) startPush(pe layout.PE, p *parcel) {
	r := c.table.lookup(p.to)
	if r == nil || p.offset == 0 && !c.canAccess(pe) {
		return
	}
	s := r.useShare()
	s.mapped, s.addr = nil, p.addr
	if p.offset != 0 {
		s.mapped = c.segmentAddress(pe, p.offset)
	}
	r.size = int(p.size)
	s.cut(r.size)
	c.pushes = append(c.pushes, r)
	c.copying.Add(1)
}

// copyNextParts copies a part of each message in pulls and pushes.
func (c *copier) copyNextParts() (did bool) {
	for i := 0; i < len(c.pushes); {
		if c.pushPart(c.pushes[i]) {
			did = true
			i++
			continue
		}
		c.pushes = slices.Delete(c.pushes, i, i+1)
		c.copying.Add(-1)
	}
	for i := 0; i < len(c.pulls); {
		r := c.pulls[i]
		over, moved := c.pullPart(r)
		did = did || moved || over
		if !over {
			i++
			continue
		}
		c.pulls = slices.Delete(c.pulls, i, i+1)
		c.copying.Add(-1)
	}
	return did
}

// pushPart claims a part and copies it to the receiver. It returns false if there is no part left to
// claim, or the kernel has refused the copy.
func (c *copier) pushPart(r *request) bool {
	s := r.share
	for {
		turn, state, front, back := s.load()
		if state != layout.ShareOpen || front+back >= s.parts {
			return false
		}
		if !atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn+layout.ShareBack) {
			continue
		}
		at := (s.parts - 1 - back) * s.partSize
		n := min(s.partSize, r.size-at)
		copied := uint64(back + 1)
		if s.mapped != nil {
			copyBytes(unsafe.Add(s.mapped, at), unsafe.Add(r.buf, at), n)
		} else if c.access[r.pe].process.Write(s.addr+uint64(at), unsafe.Add(r.buf, at), n) != nil {
			c.access[r.pe].granted = false // for good, or the receiver is dead
			copied |= layout.ShareFailed
		}
		rma.StoreRelease(&s.words.Copied, copied)
		rma.RingBell(c.laneTo(r.pe).bell)
		return copied&layout.ShareFailed == 0
	}
}

// pullPart claims and copies the next part of a receive's message, or ends the receive when all parts
// are copied. It reports whether the copying is over, and whether a part was copied.
func (c *copier) pullPart(r *request) (over, moved bool) {
	s := r.share
	if s.get != nil {
		return c.getParts(r)
	}
	turn, state, front, back := s.load()
	for state == layout.ShareOpen && front+back < s.parts && !s.peerGone {
		if atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn+1) {
			c.readPart(r, front*s.partSize)
			return false, true
		}
		turn, state, front, back = s.load()
	}
	copied := atomic.LoadUint64(&s.words.Copied)
	switch {
	case state == layout.ShareRevoked:
		c.endPull(r, ErrCanceled)
	case state == layout.ShareEnded && s.cause == nil:
		return false, false // the end of the communicator here ends it, or a wait that finds that the sender has left
	case state == layout.ShareEnded:
		c.endPull(r, s.cause)
	case copied&^layout.ShareFailed != uint64(back):
		return false, false // the sender is writing a part
	case s.cause != nil:
		c.endPull(r, s.cause)
	case s.peerGone:
		return false, false
	case copied&layout.ShareFailed != 0, state == layout.ShareRefused:
		if s.closeAs(layout.ShareRefused) == layout.ShareRefused {
			c.requestParts(r)
			break
		}
		return false, false // the sender has revoked it just now
	case c.job.Failures.Epoch() != c.deathEpoch.Load():
		return false, false // if the sender died, another process may have had its pid when a part was read
	case s.closeAs(layout.ShareTaken) == layout.ShareTaken:
		c.endPull(r, nil)
	default:
		return false, false
	}
	return true, false
}

// readPart copies the part of a receive's message that begins with byte at.
func (c *copier) readPart(r *request, at int) {
	s := r.share
	n, dst := min(s.partSize, r.size-at), unsafe.Add(r.buf, at)
	if s.mapped != nil {
		copyBytes(dst, unsafe.Add(s.mapped, at), n)
		return
	}
	err := c.access[r.pe].process.Read(dst, s.addr+uint64(at), n)
	switch {
	case err == nil:
	case errors.Is(err, syscall.ESRCH):
		s.peerGone = true
	default: // the kernel no longer permits what it has permitted before
		c.access[r.pe].granted = false
		s.closeAs(layout.ShareRefused)
	}
}

// endPull completes a receive whose copying is over, and tells the sender.
func (c *copier) endPull(r *request, err error) {
	c.sendPacket(c.laneTo(r.pe), &packet{kind: kindDone, body: parcel{to: r.peerNumber}})
	r.share.words = nil
	c.complete(r, err)
}

// requestParts asks the sender to send a message through the lane after all, from its start.
func (c *copier) requestParts(r *request) {
	r.share.words, r.moved = nil, 0
	c.sendPacket(c.laneTo(r.pe), &packet{kind: kindClear, body: parcel{
		to: r.peerNumber, from: c.table.assignNumber(r), size: uint64(r.size),
	}})
}

// stopCopying stops the copying of a request's message, for cause. It returns true if the request can
// end now. It returns false if the request is done, or if it ends by itself soon: the receiver has the
// message, or the sender is writing a part to the receive's buffer.
func (c *copier) stopCopying(r *request, cause error) bool {
	s := r.share
	if s == nil {
		return true
	}
	if slices.Contains(c.selfCopies, r) {
		s.cause = cause
		return false
	}
	if s.get != nil {
		s.cause = cause
		return false
	}
	if s.words == nil {
		return true
	}
	if !r.recv {
		c.removeFrom(&c.pushes, r)
		return s.closeAs(layout.ShareRevoked) != layout.ShareTaken
	}
	s.cause = cause
	s.closeAs(layout.ShareRefused)
	if over, _ := c.pullPart(r); over {
		c.removeFrom(&c.pulls, r)
	}
	return false
}

// removeFrom removes a request from pulls, pushes or selfCopies, if it is there.
func (c *copier) removeFrom(list *[]*request, r *request) {
	if i := slices.Index(*list, r); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
		c.copying.Add(-1)
	}
}
