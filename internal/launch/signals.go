package launch

import (
	"os"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Signals are those that a job takes, by what they do:
//
//   - SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the PEs and end the job;
//   - SIGTSTP goes to the PEs and stops them and then this process, and SIGCONT
//     lets all go on;
//   - SIGUSR1, SIGUSR2 and SIGWINCH go to the PEs.
func Signals() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		xunix.SIGTSTP, xunix.SIGCONT, xunix.SIGUSR1, xunix.SIGUSR2, xunix.SIGWINCH,
	}
}

// signal handles a signal sent to this process.
func (r *run) signal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	switch sig {
	case xunix.SIGTSTP:
		r.suspend()
	case xunix.SIGCONT:
		r.resume()
	case xunix.SIGWINCH:
		if screen := r.o.screen(); screen != nil {
			r.resize(screen) // first: the PEs will look
		}
		r.cluster.Signal(sig)
	case xunix.SIGUSR1, xunix.SIGUSR2:
		r.cluster.Signal(sig)
	default:
		r.endBy(sig)
	}
}

// resize gives the PEs' pseudo terminals the window size of the user's.
func (r *run) resize(screen *os.File) {
	w, err := xunix.WindowOf(screen)
	if err != nil {
		r.log.Debug().Err(err).Msg("size of the user's terminal")
		return
	}
	r.cluster.Resize(w)
}

// ends says whether a signal asks for the end.
func ends(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// endBy ends the job by a signal. A second interrupt kills.
func (r *run) endBy(sig syscall.Signal) {
	if sig == syscall.SIGINT {
		r.ints++
	}
	switch {
	case r.ints > 1:
		r.noteAsked()
		r.cluster.Signal(syscall.SIGKILL)
		r.ending, r.status = true, StatusInterrupted
		r.out.message("interrupted twice: killing all PEs")
	case !r.ending:
		r.ending, r.status = true, StatusSignal+int(sig)
		r.noteAsked()
		if sig == syscall.SIGQUIT && r.o.Stacks {
			r.dump = true
			r.askToEnd(syscall.SIGTERM) // another one would have Go programs print their stacks once more
		} else {
			r.askToEnd(sig)
		}
		r.out.message("%s: ending %d PEs%s", xunix.SignalName(sig), r.left, onceMore(sig))
	}
}

// noteAsked notes that the user has asked for the end: from then on the time of the end is bounded.
func (r *run) noteAsked() {
	if r.asked.IsZero() {
		r.asked = time.Now()
	}
}

func onceMore(sig syscall.Signal) string {
	if sig == syscall.SIGINT {
		return " (interrupt again to kill them at once)"
	}
	return ""
}

const (
	// stopPatience is how long PEs may take to stop by themselves, which gives
	// those that handle SIGTSTP time to do so, and stopTick how often that is
	// looked at.
	stopPatience = 250 * time.Millisecond
	stopTick     = 10 * time.Millisecond
)

// stop is a stop of the job that is under way.
type stop struct {
	look  <-chan time.Time // fires when to look whether the PEs have stopped; nil: no stop is under way
	since time.Time        // when the PEs were asked to stop
}

// suspend asks the PEs to stop. A job that is ending does not stop.
func (r *run) suspend() {
	if r.ending {
		return
	}
	r.cluster.Suspend()
	r.stop.since = time.Now()
	r.halt()
}

// halt stops the PEs and this process as soon as they have stopped themselves. Nodes elsewhere are told before: they
// would take this process for lost.
func (r *run) halt() {
	if !r.cluster.Stopped() && time.Since(r.stop.since) < stopPatience {
		r.stop.look = time.After(stopTick)
		return
	}
	r.stop.look = nil
	r.cluster.Stop()
	holdNodes(r)
	r.clock.pause()
	xunix.StopSelf()
}

// holdNodes has the nodes wait for this process, which is about to be stopped.
func holdNodes(r *run) {
	if err := r.cluster.Hold(); err != nil {
		r.out.message("a node may be lost while oshrun is stopped: %v; it is lost if the stop lasts longer than --lease", err)
	}
}

// resume lets the PEs go on.
func (r *run) resume() {
	r.stop.look = nil
	r.cluster.Go()
	r.cluster.Signal(xunix.SIGCONT)
	r.clock.resume()
}

// countdown is the time that a job may take. No time passes while the job is stopped.
type countdown struct {
	timer    *time.Timer // nil: the job may take any time
	deadline time.Time   // when the time is over, unless the job is stopped meanwhile
	paused   time.Time   // when the job was stopped; zero: it is not
}

func (c *countdown) start(d time.Duration) {
	if d > 0 {
		c.timer, c.deadline = time.NewTimer(d), time.Now().Add(d)
	}
}

func (c *countdown) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// over returns the channel that fires when the time may be over.
func (c *countdown) over() <-chan time.Time {
	if c.timer == nil {
		return nil
	}
	return c.timer.C
}

// isOver says whether the time is over: the timer may have fired while the job was stopped.
func (c *countdown) isOver() bool {
	c.resume()
	left := time.Until(c.deadline)
	if left > 0 {
		c.timer.Reset(left)
	}
	return left <= 0
}

func (c *countdown) pause() { c.paused = time.Now() }

func (c *countdown) resume() {
	if c.timer == nil || c.paused.IsZero() {
		return
	}
	c.deadline = c.deadline.Add(time.Since(c.paused))
	c.paused = time.Time{}
	c.timer.Reset(time.Until(c.deadline))
}
