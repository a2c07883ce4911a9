//go:build mpidebug

package mpi

import (
	"fmt"
	"hash/maphash"
	"sync"
	"unsafe"
)

// A program that is built with -tags mpidebug finds two mistakes with buffers, which every send and receive owns until it is complete. It takes longer.
//
//   - A receive fills its buffer with poison when it begins. So what a program reads too early, or behind a short message, is not by chance what it
//     expects.
//   - A send whose buffer has changed before it is complete fails with ErrBufferChanged.

// poison is the byte that buffers of receives are filled with.
const poison = 0xa5

// isDebug says whether buffers are checked.
const isDebug = true

// sent is the buffer of a send under way, and what it had when the send began.
type sent struct {
	at  span
	sum uint64
}

var (
	sumSeed = maphash.MakeSeed()
	sends   = map[*request]sent{}
	sendsMu sync.Mutex
)

// poisonBuffer poisons the buffer of a receive.
func poisonBuffer(s span) {
	if s.bytes == 0 {
		return
	}
	b := unsafe.Slice((*byte)(s.at), s.bytes)
	for i := range b {
		b[i] = poison
	}
}

// sumOf returns the checksum of a buffer.
func sumOf(s span) uint64 { return maphash.Bytes(sumSeed, unsafe.Slice((*byte)(s.at), s.bytes)) }

// noteBuffer notes what the buffer of a send had when it began.
func noteBuffer(r *request, s span, sum uint64) {
	sendsMu.Lock()
	defer sendsMu.Unlock()
	sends[r] = sent{s, sum}
}

// checkBuffer returns an error if the buffer of a send that is complete has changed meanwhile.
func checkBuffer(r *request) error {
	sendsMu.Lock()
	defer sendsMu.Unlock()
	s, noted := sends[r]
	delete(sends, r)
	if !noted || s.sum == sumOf(s.at) {
		return nil
	}
	return fmt.Errorf("mpi.%s: %w: %d bytes to rank %d", r.op, ErrBufferChanged, s.at.bytes, r.g.rank(r.pe))
}
