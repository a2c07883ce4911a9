package noise

import (
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// hog is a goroutine that uses a share of a processor. Its bursts are short, so that no other process waits
// long for it.
type hog struct {
	stop  chan struct{}
	taken chan [2]time.Duration // processor time, wall time
}

// beat is the time between two bursts.
const beat = 10 * time.Millisecond

// startHog starts a hog. Its owner calls end.
func startHog(share float64) *hog {
	h := &hog{stop: make(chan struct{}), taken: make(chan [2]time.Duration, 1)}
	go h.useProcessor(share)
	return h
}

// useProcessor uses the processor time that is due at each beat. It measures the processor time of this process, which
// does nothing else meanwhile. So it makes up for time that a busy machine has withheld.
func (h *hog) useProcessor(share float64) {
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
			// A burst lasts at most half a beat.
			for end := time.Now().Add(beat / 2); xunix.ProcessTime()-used < due; {
				if time.Now().After(end) {
					break
				}
			}
		}
	}
}

// end ends the hog and adds the time that it used to c.
func (h *hog) end(c *Control) {
	close(h.stop)
	t := <-h.taken
	c.processor += t[0]
	c.wall += t[1]
	c.Percent = 100 * c.processor.Seconds() / c.wall.Seconds()
}
