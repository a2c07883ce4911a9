package remote

import (
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// logWindow is how much of a node's log is on the way at most.
const logWindow = 256 << 10

// logflow sends what a node logs. Nothing waits: what finds no room is dropped.
type logflow struct {
	sender *sender

	mu      sync.Mutex
	used    int // bytes on the way
	dropped int // texts
}

// send sends a message that has n bytes of the log, if there is room: one always has it if nothing else is on the way.
func (l *logflow) send(kind wire.Kind, body []byte, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used > 0 && l.used+n > logWindow || n > maxMessage {
		l.dropped++
		return
	}
	l.used += n
	l.sender.send(kind, 0, body)
}

// sendText sends text that a PE has sent for an output. It is daemon.Hooks.Log.
func (l *logflow) sendText(s daemon.Stream, data []byte) {
	l.send(wire.KindLog, encode(codeText, text{Stream: s, Text: data}), len(data))
}

// Write sends a line of the log of the node itself.
func (l *logflow) Write(line []byte) (int, error) {
	l.send(wire.KindLogLine, append([]byte(nil), line...), len(line))
	return len(line), nil
}

// taken notes that the front end has taken n bytes, and says what was dropped. It returns false if that cannot be.
func (l *logflow) taken(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > l.used {
		return false
	}
	if l.used -= n; l.dropped > 0 {
		said := fmt.Appendf(nil, "oshrun: %d texts of a node's log are missing here: they came faster than they could be sent\n", l.dropped)
		l.dropped = 0
		l.used += len(said)
		l.sender.send(wire.KindLog, 0, encode(codeText, text{Stream: daemon.Stderr, Text: said}))
	}
	return true
}
