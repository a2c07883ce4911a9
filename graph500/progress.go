package graph500

import (
	"fmt"
	"io"
	"time"
)

// progressEvery is the least time between two progress lines of a phase.
const progressEvery = 2 * time.Second

// progressLines returns a Progress that prints a line when a phase ends and now and then before.
func progressLines(out io.Writer) Progress {
	var last time.Time
	var lastPhase string
	return func(phase string, done, total int) {
		now := time.Now()
		if phase != lastPhase {
			last, lastPhase = now, phase
		}
		if done < total && now.Sub(last) < progressEvery {
			return
		}
		last = now
		fmt.Fprintf(out, "graph500: %s %d%%\n", phase, 100*int64(done)/int64(max(total, 1)))
	}
}
