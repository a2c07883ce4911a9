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
)

// lines passes on few lines in any time, and then says how many it has left out.
type lines struct {
	report func(string)
	window time.Duration

	mu      sync.Mutex
	passed  int         // in the current window
	left    int         // left out in the current window
	end     *time.Timer // of the current window; nil if none has begun
	stopped bool
}

// add reports a line, or counts it.
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
	if l.passed == linesPerWindow {
		l.left++
		return
	}
	l.passed++
	l.report(line)
}

// turn ends the window. The lock is held while report runs, so that stop waits for it.
func (l *lines) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.sum()
		l.end = nil
	}
}

func (l *lines) sum() {
	if l.left > 0 {
		l.report(fmt.Sprintf("%d more connections were closed", l.left))
	}
	l.passed, l.left = 0, 0
}

// stop reports what was left out. Nothing is reported after it.
func (l *lines) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped = true
	if l.end != nil {
		l.end.Stop()
	}
	l.sum()
}
