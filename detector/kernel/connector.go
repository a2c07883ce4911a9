package kernel

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Messages of the process connector (linux/connector.h, linux/cn_proc.h), which
// follow a netlink header. Numbers are in the order of this machine's bytes.
const (
	netlinkHeader   = 16
	netlinkDone     = 3
	connectorHeader = netlinkHeader + 20
	eventHeader     = connectorHeader + 16

	// What is read of events.
	forkLength = eventHeader + 16
	execLength = eventHeader + 8
	exitLength = eventHeader + 16

	connectorProc = 1 // CN_IDX_PROC and CN_VAL_PROC

	procListen = 1 // PROC_CN_MCAST_LISTEN
	procIgnore = 2 // PROC_CN_MCAST_IGNORE

	procAck  = 0          // PROC_EVENT_NONE
	procFork = 1          // PROC_EVENT_FORK, of threads as well
	procExec = 2          // PROC_EVENT_EXEC
	procExit = 0x80000000 // PROC_EVENT_EXIT
)

// notice is an event of the process connector: the begin or end of a thread, the
// execution of a program, or the answer to a request.
type notice struct {
	what    uint32
	token   uint32 // of an answer: the request's
	errno   uint32 // of an answer
	at      time.Duration
	process uint32 // 0 where the event is of no interest
	thread  uint32
	status  uint32 // of an end, of the thread
}

// lengthOf returns how much is read of an event.
func lengthOf(what uint32) int {
	switch what {
	case procFork:
		return forkLength
	case procExec:
		return execLength
	case procExit:
		return exitLength
	}
	return eventHeader + 4
}

// parseNotice reads a packet. One that is of no interest has another kind.
func parseNotice(b []byte) (notice, error) {
	if len(b) < eventHeader+4 {
		return notice{}, fmt.Errorf("process connector: packet of %d bytes, want at least %d", len(b), eventHeader+4)
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	if size := u32(0); uint64(size) > uint64(len(b)) || u32(netlinkHeader) != connectorProc || u32(netlinkHeader+4) != connectorProc {
		return notice{}, fmt.Errorf("process connector: packet of %d bytes says %d and source %d.%d, want %d.%d",
			len(b), size, u32(netlinkHeader), u32(netlinkHeader+4), connectorProc, connectorProc)
	}
	n := notice{what: u32(connectorHeader), at: time.Duration(binary.NativeEndian.Uint64(b[connectorHeader+8:]))}
	if want := lengthOf(n.what); len(b) < want {
		return notice{}, fmt.Errorf("process connector: event %#x of %d bytes, want %d", n.what, len(b), want)
	}
	switch n.what {
	case procAck:
		n.token, n.errno = u32(netlinkHeader+12)-1, u32(eventHeader)
	case procFork: // of the parent come first
		n.thread, n.process = u32(eventHeader+8), u32(eventHeader+12)
	case procExec:
		n.thread, n.process = u32(eventHeader), u32(eventHeader+4)
	case procExit:
		n.thread, n.process, n.status = u32(eventHeader), u32(eventHeader+4), u32(eventHeader+8)
	}
	return n, nil
}

// request is a packet that asks for events or for no more of them. The answer
// has its token.
func request(op, token uint32) []byte {
	b := make([]byte, connectorHeader+4)
	put := func(at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	put(0, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], netlinkDone)
	put(netlinkHeader, connectorProc)
	put(netlinkHeader+4, connectorProc)
	put(netlinkHeader+12, token)
	binary.NativeEndian.PutUint16(b[netlinkHeader+16:], 4)
	put(connectorHeader, op)
	return b
}
