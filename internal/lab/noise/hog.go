package noise

import (
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// hog is a goroutine that takes a share of a processor, in bursts so short that
// nobody waits long for one.
type hog struct {
	stop  chan struct{}
	taken chan [2]time.Duration // processor time, wall time
}

// beat is how often it acts.
const beat = 10 * time.Millisecond

// startHog starts one.
func startHog(share float64) *hog {
	h := &hog{stop: make(chan struct{}), taken: make(chan [2]time.Duration, 1)}
	go h.run(share)
	return h
}

// run takes what is missing at each beat. The clock is that of this process,
// which does nothing else meanwhile: what a busy machine withholds is made up for.
func (h *hog) run(share float64) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	begin, used := time.Now(), xunix.ProcessTime()
	for {
		select {
		case <-h.stop:
			h.taken <- [2]time.Duration{xunix.ProcessTime() - used, time.Since(begin)}
			return
		case <-tick.C:
			due := time.Duration(share * float64(time.Since(begin)))
			// One burst is at most what fits between two beats.
			for end := time.Now().Add(beat / 2); xunix.ProcessTime()-used < due; {
				if time.Now().After(end) {
					break
				}
			}
		}
	}
}

// end ends it and adds what it took.
func (h *hog) end(c *Control) {
	close(h.stop)
	t := <-h.taken
	c.processor += t[0]
	c.wall += t[1]
	c.Percent = 100 * c.processor.Seconds() / c.wall.Seconds()
}
