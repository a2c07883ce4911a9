package mpi

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// share is the state of the copying of a long message at one of its two requests. The words that
// both sides change are in layout.Share, in the sender's segment.
type share struct {
	used     bool           // some field is not zero
	words    *layout.Share  // nil: the message is not copied by this protocol, or no longer
	name     uint64         // of the message in Turn: a multiple of layout.ShareMessage
	mapped   unsafe.Pointer // the peer's buffer in its mapped segment; nil: use addr
	addr     uint64         // the peer's buffer in its own address space
	partSize int            // bytes of a part; the last part may be shorter
	parts    int
	cause    error // error that ends the receive once the sender has written the parts that it has claimed
	peerGone bool  // the peer's process is gone, and its death will be published

	get *farGet // of a message that is read from the heap of a PE of another node; then words is nil
}

// Sizes of parts, and the shortest message that has more than one. A system call that reads or writes another process costs one to two and a
// half microseconds, for which 64 KiB are copied: 256 KiB in calls of 32 KiB take 2.6 times as long as in one.
const (
	partLeast = 128 << 10
	partMost  = 256 << 10 // a part is copied under the engine's lock
	splitMin  = 256 << 10
	partsMost = layout.ShareBack - 1
)

// cut divides n bytes into parts.
func (s *share) cut(n int) {
	const page = 4096
	s.partSize = min(max(n/4, partLeast), partMost)
	if n < splitMin {
		s.partSize = n
	}
	s.partSize = max((s.partSize+page-1)&^(page-1), (n/partsMost+page)&^(page-1))
	s.parts = (n + s.partSize - 1) / s.partSize
}

// load returns the word Turn, its state, and how many parts receiver and sender have claimed. If the
// share names another message, this one's was revoked.
func (s *share) load() (turn, state uint64, front, back int) {
	turn = atomic.LoadUint64(&s.words.Turn)
	if turn&^(layout.ShareMessage-1) != s.name {
		return turn, layout.ShareRevoked, 0, 0
	}
	state = turn % layout.ShareMessage &^ (layout.ShareState - 1)
	return turn, state, int(turn % layout.ShareBack), int(turn % layout.ShareState / layout.ShareBack)
}

// closeAs changes the state from Open to another one. It returns the state that the share has then.
func (s *share) closeAs(state uint64) uint64 {
	for {
		turn, now, _, _ := s.load()
		if now != layout.ShareOpen {
			return now
		}
		if atomic.CompareAndSwapUint64(&s.words.Turn, turn, turn-layout.ShareOpen+state) {
			return state
		}
	}
}

// shareName returns the name of a request's message in the word Turn of its share.
func shareName(number uint64) uint64 { return number >> 32 * layout.ShareMessage }
