package agent

import (
	"fmt"
	"time"
)

// waits measures how long records have waited for each other node without any progress there: no count has grown and no
// answer has come. A connection that opens is no progress, because an agent that is stopped has its kernel accept
// connections and bytes.
type waits struct {
	limit  time.Duration // 0: none
	looked time.Time     // the last look at the clock
	nodes  []nodeWait
}

// nodeWait is the wait for a node.
type nodeWait struct {
	waiting bool          // at the last look records waited, and nothing has come since
	silence time.Duration // how long they have waited so far
}

const (
	lookEvery = 5 * time.Millisecond
	// longestStep bounds what a look adds. When this process was stopped or had no processor, its looks are further apart,
	// and other agents are not to blame for that.
	longestStep = 4 * longestSleep
)

// progress notes a count or an answer of a node.
func (w *waits) progress(node int) { w.nodes[node].waiting = false }

// look adds the time since the last look to the waits. It returns a node that is silent for longer than the limit, and for
// how long; ok says that there is one.
func (w *waits) look(now time.Time, isBusy func(node int) bool) (node int, silence time.Duration, ok bool) {
	step := now.Sub(w.looked)
	if w.limit == 0 || step < lookEvery {
		return 0, 0, false
	}
	w.looked = now
	step = min(step, longestStep)
	for node := range w.nodes {
		n := &w.nodes[node]
		switch {
		case !isBusy(node):
			n.waiting = false
		case !n.waiting:
			n.waiting, n.silence = true, 0
		default:
			if n.silence += step; n.silence > w.limit {
				return node, n.silence, true
			}
		}
	}
	return 0, 0, false
}

// checkWaits returns an error if records have waited for a node for too long.
func (a *Agent) checkWaits(now time.Time) error {
	node, silence, ok := a.waits.look(now, a.sender.IsBusy)
	if !ok {
		return nil
	}
	silence = silence.Round(time.Millisecond)
	if err := a.retries[node].err; err != nil {
		return fmt.Errorf("the agent of node %d was out of reach for %v, while PEs waited for it: %w", node, silence, err)
	}
	return fmt.Errorf("the agent of node %d has executed and answered nothing for %v, while PEs waited for it", node, silence)
}
