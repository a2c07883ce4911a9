package launch

import (
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

const (
	// stacksAtMost is how long PEs may take to say where they are, and quitAtMost
	// how long one may that has to be ended for it.
	stacksAtMost = 2 * time.Second
	quitAtMost   = 500 * time.Millisecond
	// profileAtMost is how long PEs may take to write their profiles.
	profileAtMost = 500 * time.Millisecond
)

// tell prints whole lines that are too many for a message. What is one call
// stays together. It does not wait.
func (p *printer) tell(text []byte) {
	p.sinks[daemon.Stderr].say(daemon.Stderr, text, math.MaxInt)
}

// prepare has the PEs do what is to be done before they are told to end.
func (r *run) prepare(sig syscall.Signal) {
	if r.dump {
		r.stacks()
	}
	if r.o.Pprof != "" {
		r.step.Ask(wire.OrderProfile, profileAtMost)
	}
	r.ready <- sig
}

// stacks prints where the goroutines of all PEs are. Those of a Go program that
// does not answer, because it is not in the job yet or not any more, are printed
// by its runtime.
func (r *run) stacks() {
	deadline := time.Now().Add(stacksAtMost)
	for _, a := range r.step.Ask(wire.OrderStacks, stacksAtMost) {
		if len(a.Text) > 0 {
			text := fmt.Appendf(nil, "oshrun: stacks of PE %v (pid %d):\n%s\n", a.ID, a.PID, a.Text)
			if !a.Done {
				text = fmt.Appendf(text, "oshrun: the stacks of PE %v are not complete\n", a.ID)
			}
			r.out.tell(text)
			continue
		}
		left := min(quitAtMost, time.Until(deadline))
		switch {
		case left <= 0:
			r.out.message("stacks of PE %v (pid %d): it did not answer within %v", a.ID, a.PID, stacksAtMost)
		case !r.step.HasGo(a.ID):
			r.out.message("stacks of PE %v (pid %d): none, it is not a Go program", a.ID, a.PID)
		default:
			r.out.message("stacks of PE %v (pid %d), from its runtime:", a.ID, a.PID)
			r.step.QuitGo(a.ID, left)
		}
	}
}
