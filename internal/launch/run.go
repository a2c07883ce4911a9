package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
)

// run is a job under way, with the jobs that it has spawned.
type run struct {
	o         *Options
	log       zerolog.Logger
	cluster   *Cluster
	out       *printer
	left      int                // PEs whose process is not reaped, or will run
	fallen    map[daemon.ID]bool // of those, who are dead
	gone      map[int][]bool     // by job and PE
	dead      []failure          // that did not end the job
	tolerated bool               // the job is over, and they did not end it
	well      int                // PEs that finished
	ending    bool               // the job's fate is decided
	status    int
	kill      <-chan time.Time // when patience is over
	ints      int              // interrupts received
	asked     time.Time        // when the user first asked for the end; zero: never
	stop      stop
	order     order
	clock     countdown
	lost      chan daemon.Event   // connections that were lost a while ago
	over      chan struct{}       // closed when nobody receives from lost any more
	dump      bool                // the PEs are to print their stacks before they end
	late      bool                // the timeout is over: the PEs are to say in which calls they are before they end
	profiles  *profiles           // nil: none are wanted
	begin     chan syscall.Signal // which ends the PEs after what is asked of them before
	ready     chan syscall.Signal // the same, when that is done
	orders    sync.WaitGroup
	stats     []PEStats
	tier      string        // by which ends are learnt of
	last      time.Duration // when the last PE ended
}

// newRun returns a run whose PEs are about to start.
func newRun(o *Options, cluster *Cluster, out *printer) *run {
	r := &run{
		o: o, cluster: cluster, out: out, gone: map[int][]bool{}, fallen: map[daemon.ID]bool{},
		lost: make(chan daemon.Event), over: make(chan struct{}),
		begin: make(chan syscall.Signal, 1), ready: make(chan syscall.Signal, 1), // the PEs are told once
		profiles: newProfiles(o),
	}
	r.expect(0, o.NPEs())
	return r
}

// expect notes that a job of n PEs is going to be started.
func (r *run) expect(job, n int) {
	r.left += n
	r.gone[job] = make([]bool, n)
	r.profiles.expect(job, n)
}

// forget notes that a job could not be started.
func (r *run) forget(job int) {
	r.left -= len(r.gone[job])
	for pe := range r.gone[job] {
		r.parted(daemon.ID{Job: job, PE: pe})
	}
	delete(r.gone, job)
	r.profiles.forget(job)
}

// loop handles events until no PE runs.
func (r *run) loop(ctx context.Context) {
	if len(r.o.Debug) == 0 {
		r.clock.start(r.o.Timeout)
	} else if r.o.Timeout > 0 {
		r.out.message("--timeout %v does not count with --debug", r.o.Timeout)
	}
	defer r.clock.end()
	canceled := ctx.Done()
	for r.left > 0 {
		select {
		case e := <-r.cluster.Events():
			r.event(e)
		case e := <-r.lost:
			r.forsaken(e)
		case sig := <-r.o.Signals:
			r.signal(sig)
		case sig := <-r.begin:
			r.orders.Go(func() { r.prepare(sig) })
		case sig := <-r.ready:
			r.send(sig)
		case <-r.stop.look:
			r.halt()
		case <-r.clock.over():
			if r.clock.isOver() {
				if !r.ending {
					r.dump, r.late = r.o.Stacks, true
				}
				r.end(StatusTimeout, "timeout: --timeout %v is over; still running: %s", r.o.Timeout, r.running())
			}
		case <-canceled:
			canceled = nil
			r.end(StatusError, "canceled: %v", context.Cause(ctx))
		case err := <-r.out.failed:
			r.unwritten(err)
		case <-r.kill:
			r.cluster.Signal(syscall.SIGKILL)
		}
	}
}

// event decides what something that happened to a PE means.
func (r *run) event(e daemon.Event) {
	at := e.At.Round(time.Millisecond)
	switch e.Kind {
	case daemon.Spawned:
		r.expect(e.Job, e.NPEs)
	case daemon.Dropped:
		r.forget(e.Job)
	case daemon.Abort:
		if e.Status == 0 {
			r.end(0, "")
			return
		}
		r.endAfter(r.out.said(e), exitStatus(e.Status), "PE %v (pid %d) ended the job with status %d after %v%s", e.ID, e.PID, e.Status, at, because(e.Msg))
	case daemon.Lost:
		r.loses(e)
	case daemon.Failed:
		if e.GoesOn {
			r.loses(e)
			return
		}
		r.fallen[e.ID] = true
		r.ended(e)
	case daemon.Changed:
		r.changed(e)
	case daemon.Exited:
		r.left--
		r.gone[e.Job][e.PE] = true
		r.count(e)
		r.profiles.ended(e)
		if r.fallen[e.ID] {
			delete(r.fallen, e.ID) // was judged when it died
			return
		}
		r.ended(e)
	}
}

// loses notes that a PE has lost its program, or only its connection: a killed
// program may lose that a moment before it is seen to end. How its process ends
// says more, if it does so soon.
func (r *run) loses(e daemon.Event) {
	r.parts(e.ID)
	time.AfterFunc(lostPatience, func() {
		select {
		case r.lost <- e:
		case <-r.over:
		}
	})
}

// changed tells that a PE does not run as it should, or does again.
func (r *run) changed(e daemon.Event) {
	if !r.ending && !r.o.Quiet {
		r.out.message("PE %v (pid %d) %s", e.ID, e.PID, e.State)
	}
}

// lostPatience is how long a process may take to end after its connection.
const lostPatience = 2 * time.Second

// forsaken judges that a PE's process goes on without its program, unless that
// process has started another one meanwhile.
func (r *run) forsaken(e daemon.Event) {
	defer r.parted(e.ID)
	gone := r.gone[e.Job]
	if e.PE >= len(gone) || gone[e.PE] || r.fallen[e.ID] || e.Kind == daemon.Lost && !r.cluster.Forsake(e.ID) {
		return
	}
	how := ""
	if f, failed := judge(e, 0); failed && e.End.Judge() != ending.Unfinished {
		how = " (it " + f.what + ")"
	}
	r.fail(e, failure{
		id: e.ID, pid: e.PID, status: StatusError, at: e.At.Round(time.Millisecond), tier: e.Tier,
		what: "lost its program, which ended without Finalize" + how + "; the process that started it goes on",
	})
}

// because returns what a PE gave as the reason of an abort. Open MPI says N/A
// where its program has given none.
func because(msg string) string {
	if msg == "" || msg == "GlobalExit" || msg == "N/A" {
		return ""
	}
	return ": " + msg
}

// exitStatus returns what is left of the status of an abort in an exit status,
// which has eight bits. One that is lost in them does not become success.
func exitStatus(status int) int {
	if status != 0 && status&0xff == 0 {
		return 255
	}
	return status & 0xff
}

// end decides the job's status, says why and asks all PEs to end. Only the
// first cause counts.
func (r *run) end(status int, format string, args ...any) {
	r.endAfter(nil, status, format, args...)
}

// endAfter does the same and says why after what a PE has said, see printer.said.
func (r *run) endAfter(said []<-chan struct{}, status int, format string, args ...any) {
	if r.ending {
		return
	}
	r.ending, r.status = true, status
	r.ask(syscall.SIGTERM)
	if format != "" {
		r.say(said, format, args...)
	}
}

// say prints a message, after what a PE has said if there is anything.
func (r *run) say(said []<-chan struct{}, format string, args ...any) {
	if len(said) == 0 {
		r.out.message(format, args...)
		return
	}
	r.out.after(said, format, args...)
}

// unwritten ends the job because its output cannot be written. That nobody wants
// more of it, as in "oshrun ... | head", is no mistake and nothing to talk about.
func (r *run) unwritten(err error) {
	if errors.Is(err, syscall.EPIPE) {
		r.end(StatusPipe, "")
		return
	}
	r.end(StatusError, "write output: %v", err)
}

// ask has the PEs told to end by a signal. Nothing more is started.
func (r *run) ask(sig syscall.Signal) {
	r.cluster.Refuse()
	if r.stop.look != nil { // it was about to be stopped: its end must not wait for somebody who lets it go on
		r.stop.look = nil
		r.cluster.Signal(xunix.SIGCONT)
	}
	switch {
	case r.left == 0:
	case r.dump || r.late || r.profiles != nil:
		r.begin <- sig
	default:
		r.send(sig)
	}
}

// send sends a signal and sets the time at which patience is over.
func (r *run) send(sig syscall.Signal) {
	r.cluster.Signal(sig)
	r.cluster.Signal(xunix.SIGCONT) // a stopped process could not act on it
	if r.kill == nil {
		r.kill = time.After(grace)
	}
}

// running lists the PEs that have not ended.
func (r *run) running() string {
	var pes []string
	for _, job := range sortedKeys(r.gone) {
		for pe, gone := range r.gone[job] {
			id := daemon.ID{Job: job, PE: pe}
			switch {
			case gone:
			case len(pes) == 16:
				return strings.Join(pes, ", ") + ", ..."
			default:
				pes = append(pes, fmt.Sprintf("PE %v (pid %d)", id, r.cluster.PID(id)))
			}
		}
	}
	return strings.Join(pes, ", ")
}
