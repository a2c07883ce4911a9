package kernel

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
)

// event is a record of an exit: struct event of bpf/watch.bpf.c.
type event struct {
	at    time.Duration // CLOCK_MONOTONIC of the machine
	start uint64        // start time of the process in ticks since boot
	pid   uint32
	exit  Exit
}

const eventSize = 32

// parseEvent parses one record of the ring buffer.
func parseEvent(b []byte) (event, error) {
	if len(b) != eventSize {
		return event{}, fmt.Errorf("exit record of %d bytes, want %d", len(b), eventSize)
	}
	return event{
		at: time.Duration(binary.LittleEndian.Uint64(b)), start: binary.LittleEndian.Uint64(b[8:]), pid: binary.LittleEndian.Uint32(b[16:]),
		exit: Exit{
			Status: syscall.WaitStatus(binary.LittleEndian.Uint32(b[20:])), Known: true,
			OOM: binary.LittleEndian.Uint32(b[24:]) != 0,
		},
	}, nil
}
