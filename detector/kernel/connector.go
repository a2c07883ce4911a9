package kernel

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Messages of the process connector (linux/connector.h, linux/cn_proc.h). A message follows a netlink
// header. Numbers are in this machine's byte order.
const (
	netlinkHeader   = 16
	netlinkDone     = 3
	connectorHeader = netlinkHeader + 20
	eventHeader     = connectorHeader + 16

	// Bytes that are read of an event, from the start of the packet.
	forkLength = eventHeader + 16
	execLength = eventHeader + 8
	exitLength = eventHeader + 16

	connectorProc = 1 // CN_IDX_PROC and CN_VAL_PROC

	procListen = 1 // PROC_CN_MCAST_LISTEN
	procIgnore = 2 // PROC_CN_MCAST_IGNORE

	procAck  = 0          // PROC_EVENT_NONE
	procFork = 1          // PROC_EVENT_FORK, also for a new thread
	procExec = 2          // PROC_EVENT_EXEC
	procExit = 0x80000000 // PROC_EVENT_EXIT
)

// notice is a packet of the process connector: a thread begins or ends, a process calls exec, or the
// kernel answers a request.
type notice struct {
	what    uint32        // procAck, procFork, procExec, procExit, or another event
	token   uint32        // procAck: the token of the request
	errno   uint32        // procAck: 0 or the error
	at      time.Duration // when the event happened
	process uint32        // 0 for events that are not used here
	thread  uint32
	status  uint32 // procExit: the thread's exit status
}

// lengthOf returns the bytes that a packet must have for an event of this kind.
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

// parseNotice parses a packet. Events that are not used here have only what and at set.
func parseNotice(b []byte) (notice, error) {
	if len(b) < eventHeader+4 {
		return notice{}, fmt.Errorf("process connector: packet of %d bytes, want at least %d", len(b), eventHeader+4)
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	if size := u32(0); uint64(size) > uint64(len(b)) || u32(netlinkHeader) != connectorProc || u32(netlinkHeader+4) != connectorProc {
		return notice{}, fmt.Errorf("process connector: packet of %d bytes has length field %d and source %d.%d, want a length within it and source %d.%d",
			len(b), size, u32(netlinkHeader), u32(netlinkHeader+4), connectorProc, connectorProc)
	}
	n := notice{what: u32(connectorHeader), at: time.Duration(binary.NativeEndian.Uint64(b[connectorHeader+8:]))}
	if want := lengthOf(n.what); len(b) < want {
		return notice{}, fmt.Errorf("process connector: event %#x of %d bytes, want %d", n.what, len(b), want)
	}
	switch n.what {
	case procAck:
		n.token, n.errno = u32(netlinkHeader+12)-1, u32(eventHeader)
	case procFork: // the parent's numbers come first
		n.thread, n.process = u32(eventHeader+8), u32(eventHeader+12)
	case procExec:
		n.thread, n.process = u32(eventHeader), u32(eventHeader+4)
	case procExit:
		n.thread, n.process, n.status = u32(eventHeader), u32(eventHeader+4), u32(eventHeader+8)
	}
	return n, nil
}

// request returns a packet that begins (procListen) or ends (procIgnore) the flow of events. The kernel's
// answer carries its token.
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
