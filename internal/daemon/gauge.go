package daemon

import "sync"

// Gauge counts, and closes a channel when the count has reached a number. The zero Gauge is at 0.
type Gauge struct {
	mu    sync.Mutex
	at    uint64
	open  bool // End was called: the gauge counts as past every number
	waits []wanted
}

// wanted is a number whose channel is not closed yet.
type wanted struct {
	number  uint64
	reached chan struct{}
}

// Add adds n to the count.
func (g *Gauge) Add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at += uint64(n)
	g.closeReached()
}

// End makes the gauge count as past every number, those of later calls of Reached, too.
func (g *Gauge) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	g.closeReached()
}

// Reached returns a channel that is closed as soon as the count is number or
// more.
func (g *Gauge) Reached(number uint64) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.waits = append(g.waits, wanted{number, c})
	g.closeReached()
	return c
}

// closeReached closes the channels of the numbers that the count has reached. The caller holds the lock.
func (g *Gauge) closeReached() {
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
