package control

import (
	"fmt"
	"sync"
	"time"
)

// Bounds of what a listener reports about connections that it has closed.
const (
	linesPerWindow = 10
	lineWindow     = 10 * time.Second
	maxQueued      = 2 * linesPerWindow // lines that wait for a report function which blocks
	stopWithin     = time.Second        // how long stop waits for it
)

// lines passes on few lines in any time, and then says how many it has left out. The function that gets them may block,
// as one that writes to a pipe does: a goroutine of its own calls it, and only stop waits for that.
type lines struct {
	report func(string)
	window time.Duration

	mu      sync.Mutex
	passed  int           // in the current window
	left    int           // left out since the last line that counts them
	end     *time.Timer   // of the current window; nil if none has begun
	queue   []string      // what report has not got yet
	passing chan struct{} // closed when the goroutine that empties the queue ends; nil if there is none
	stopped bool
}

// add queues a line, or counts it.
func (l *lines) add(line string) {
	if l.report == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if l.end == nil {
		l.end = time.AfterFunc(l.window, l.turn)
	}
	if l.passed == linesPerWindow || len(l.queue) >= maxQueued {
		l.left++
		return
	}
	l.passed++
	l.push(line)
}

// turn ends the window.
func (l *lines) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = nil
	l.passed = 0
	if !l.stopped && len(l.queue) < maxQueued {
		l.sum()
	}
}

// sum queues a line about those that were left out. The caller holds the lock.
func (l *lines) sum() {
	if l.left > 0 {
		l.push(fmt.Sprintf("%d more connections were closed", l.left))
	}
	l.left = 0
}

// push queues a line. The caller holds the lock.
func (l *lines) push(line string) {
	l.queue = append(l.queue, line)
	if l.passing == nil {
		l.passing = make(chan struct{})
		go l.pass(l.passing)
	}
}

// pass reports lines until none is left.
func (l *lines) pass(done chan struct{}) {
	defer close(done)
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.passing = nil
			l.mu.Unlock()
			return
		}
		line := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		l.report(line)
	}
}

// stop reports what was left out, and waits until report has got everything. It does not wait for long: then the call
// that is under way is the last one, and what is queued is dropped.
func (l *lines) stop() {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		if l.end != nil {
			l.end.Stop()
		}
		l.sum()
	}
	passing := l.passing
	l.mu.Unlock()
	if passing == nil {
		return
	}
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	select {
	case <-passing:
	case <-late.C:
		l.mu.Lock()
		l.queue = nil
		l.mu.Unlock()
	}
}
