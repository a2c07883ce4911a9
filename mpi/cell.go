package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/rma"
)

// Kinds of cells: see package lane.
const (
	kindEager    = lane.Eager
	kindAnnounce = lane.Announce
	kindHelp     = lane.Help
	kindClear    = lane.Clear
	kindData     = lane.Data
	kindDone     = lane.Done
	kindRefuse   = lane.Refuse
	kindNotice   = lane.Notice
)

// What a rank tells in kindNotice, in place of a tag.
const (
	noticeLeft    = 0 // it has left the communicator
	noticeBroken  = 1 // it has given a collective up that others may wait for: {to: why}
	noticeRevoke  = 3 // the communicator is revoked
	noticeAsk     = 2 // it waits in a collective: {to: which one, from: its signature}
	noticeGivenUp = 4 // it has given up a call of some ranks: {to: attempt}
	noticeHold    = 6 // it keeps much of the reader's: {to: 1: announce messages, 0: no more}
	noticePort    = 8 // of a port: see meeting.go
	noticeGone    = 7 // it has finalized, and sent its last message to processes of other jobs
	noticeAgreed  = 5 // it has left the communicator of agreements: {to, offset, from, size, addr: how many it has begun of each line}
	noticeBlock   = 9 // a TryBlock with a collective has failed, and it votes: {to: in which vote}
)

// parcel is the body of a cell about a long message.
type parcel struct {
	to     uint64 // number of a request of the process that reads the cell
	offset uint64 // offset of the data in the writer's segment; 0: they are in private memory
	from   uint64 // number of a request of the process that writes the cell
	size   uint64 // bytes wanted
	addr   uint64 // address of the data in the writer's memory
}

// Match is the communicator's number and the tag; Size is the sender's rank and the message's bytes.
func matchOf(comm uint32, tag int32) uint64        { return uint64(comm)<<32 | uint64(uint32(tag)) }
func splitMatch(m uint64) (comm uint32, tag int32) { return uint32(m >> 32), int32(uint32(m)) }
func sizeOf(rank, bytes int) uint64                { return uint64(rank)<<sizeBits | uint64(bytes) }
func splitSize(s uint64) (rank, bytes int)         { return int(s >> sizeBits), int(s & (1<<sizeBits - 1)) }

const sizeBits = 48

// copyBytes copies n bytes, by code that is made for short copies.
func copyBytes(dst, src unsafe.Pointer, n int) {
	copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
}

// moveBytes copies n bytes, of which there may be many.
func moveBytes(dst, src unsafe.Pointer, n int) {
	rma.Move(dst, unsafe.Slice((*byte)(src), n))
}
