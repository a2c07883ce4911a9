package daemon

import (
	"os"
	"sync"
)

// pushedMost is how much of what tools have pushed to a PE's standard input
// waits for it to read.
const pushedMost = 64 << 20

// pusher writes to a PE's standard input what tools send. Tools do not wait for the PE to read.
type pusher struct {
	w *os.File

	mu    sync.Mutex
	queue [][]byte
	bytes int
	eof   bool
	busy  bool
}

// push gives a PE what a tool has sent to its standard input.
func (in *input) push(id ID, data []byte, eof bool) {
	switch q := in.pusher(id); {
	case q == nil:
		in.reportLost(id, data)
	case !q.push(data, eof):
		in.notice("standard input of PE %v is cut: it does not read what is sent to it", id)
	}
}

// reportLost tells the user, once for each PE, that what a tool has sent reaches nobody.
func (in *input) reportLost(id ID, data []byte) {
	in.mu.Lock()
	said := in.lost[id] || len(data) == 0
	if !said {
		in.lost[id] = true
	}
	in.mu.Unlock()
	if !said {
		in.notice("what a tool sends to the standard input of PE %v is lost: it has none, or that has ended; --stdin says who has one", id)
	}
}

// pusher returns that of a PE, nil if the PE has no input, or none any more.
func (in *input) pusher(id ID) *pusher {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := in.dest[id]
	if w == nil {
		return nil
	}
	if in.pushers[id] == nil {
		in.pushers[id] = &pusher{w: w}
	}
	return in.pushers[id]
}

// push queues data. If too much is queued, it ends the input and returns false.
func (q *pusher) push(data []byte, eof bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.eof {
		return true
	}
	if q.bytes+len(data) > pushedMost {
		q.eof = true
		_ = q.w.Close() // ends the write that waits, too
		return false
	}
	q.queue, q.bytes, q.eof = append(q.queue, data), q.bytes+len(data), eof
	if !q.busy {
		q.busy = true
		go q.writeQueued()
	}
	return true
}

// writeQueued writes until nothing is left.
func (q *pusher) writeQueued() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.busy = false
			if q.eof {
				_ = q.w.Close()
			}
			q.mu.Unlock()
			return
		}
		data := q.queue[0]
		q.queue, q.bytes = q.queue[1:], q.bytes-len(data)
		q.mu.Unlock()
		if _, err := q.w.Write(data); err != nil {
			q.mu.Lock()
			q.queue, q.eof = nil, true // it does not read any more
			q.mu.Unlock()
		}
	}
}
