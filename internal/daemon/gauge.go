package daemon

import "sync"

// Gauge counts and tells when it has reached a number. The zero Gauge is at 0.
type Gauge struct {
	mu    sync.Mutex
	at    uint64
	open  bool // it has reached every number
	waits []wanted
}

// wanted is a number that somebody waits for.
type wanted struct {
	number  uint64
	reached chan struct{}
}

// Add counts on.
func (g *Gauge) Add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at += uint64(n)
	g.tell()
}

// End lets it have reached every number.
func (g *Gauge) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	g.tell()
}

// Reached returns a channel that is closed as soon as the count is number or
// more.
func (g *Gauge) Reached(number uint64) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.waits = append(g.waits, wanted{number, c})
	g.tell()
	return c
}

func (g *Gauge) tell() {
	left := g.waits[:0]
	for _, w := range g.waits {
		if g.open || g.at >= w.number {
			close(w.reached)
		} else {
			left = append(left, w)
		}
	}
	clear(g.waits[len(left):])
	g.waits = left
}
