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
	"github.com/goshmem/goshmem/internal/xunix"
)

// run is a job under way, with the jobs that it has spawned.
type run struct {
	o         *Options
	log       zerolog.Logger
	cluster   *Cluster
	out       *printer
	left      int                        // PEs whose process is not reaped, or will run
	fallen    map[daemon.ID]bool         // PEs that have failed, and whose process is not reaped
	bereft    map[daemon.ID]daemon.Event // what was told of PEs whose program has failed while their own process goes on
	gone      map[int][]bool             // by job and PE: the PE's process is reaped
	dead      []failure                  // failures that did not end the job
	tolerated bool                       // the job is over, and its failures did not end it
	well      int                        // PEs that finished
	ending    bool                       // the job's status is decided, and its PEs are being ended
	status    int                        // of the job
	kill      <-chan time.Time           // fires when PEs that were asked to end are killed; nil: they were not asked
	ints      int                        // interrupts received
	asked     time.Time                  // when the user first asked for the end; zero: never
	stop      stop
	order     endOrder
	others    *others      // the nodes that a failure is made known on; nil: there is one node, and there will be no other
	lostNodes map[int]bool // by index: the loss of the node is reported
	clock     countdown
	lost      chan daemon.Event   // losses of connections, lostPatience after each of them
	over      chan struct{}       // closed when the loop has ended and receives from lost no more
	dump      bool                // the PEs print their stacks before they end
	late      bool                // the timeout is over: the PEs say in which calls they are before they end
	profiles  *profiles           // nil: none are wanted
	begin     chan syscall.Signal // the signal that will end the PEs, when orders are to be given first
	ready     chan syscall.Signal // the same signal, when the orders are carried out
	orders    sync.WaitGroup      // goroutines that give orders, or ask nodes
	stats     []PEStats           // of PEs that have ended
	agents    agentCounts         // none in a job of one node
	tier      string              // the way in which ends are learnt of
	last      time.Duration       // when the last PE ended
}

// newRun returns a run whose PEs are about to start.
func newRun(o *Options, cluster *Cluster, out *printer) *run {
	r := &run{
		o: o, cluster: cluster, out: out, gone: map[int][]bool{}, fallen: map[daemon.ID]bool{}, bereft: map[daemon.ID]daemon.Event{}, lostNodes: map[int]bool{}, agents: agentCounts{},
		lost: make(chan daemon.Event), over: make(chan struct{}),
		begin: make(chan syscall.Signal, 1), ready: make(chan syscall.Signal, 1), // the PEs are told once
		profiles: newProfiles(o),
	}
	if cluster.spans() {
		r.others = &others{run: r}
	}
	r.expectJob(0, o.NPEs())
	return r
}

// expectJob notes that a job of n PEs is going to be started.
func (r *run) expectJob(job, n int) {
	r.left += n
	r.gone[job] = make([]bool, n)
	r.profiles.expectJob(job, n)
}

// dropJob notes that a job could not be started.
func (r *run) dropJob(job int) {
	for pe, over := range r.gone[job] {
		id := daemon.ID{Job: job, PE: pe}
		if !over {
			r.left--
		}
		delete(r.fallen, id)
		r.noteParted(id)
	}
	delete(r.gone, job)
	r.profiles.dropJob(job)
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
			r.checkForsaken(e)
		case sig := <-r.o.Signals:
			r.signal(sig)
		case sig := <-r.begin:
			r.orders.Go(func() { r.prepare(sig) })
		case sig := <-r.ready:
			r.sendEnd(sig)
		case <-r.stop.look:
			r.halt()
		case <-r.clock.over():
			if r.clock.isOver() && !r.ending {
				r.dump, r.late = r.o.Stacks, true
				r.end(StatusTimeout, "timeout: --timeout %v is over; still running: %s", r.o.Timeout, listRunning(r.gone, r.cluster.PIDs))
			}
		case <-canceled:
			canceled = nil
			r.end(StatusError, "canceled: %v", context.Cause(ctx))
		case err := <-r.out.failed:
			r.endUnwritten(err)
		case <-r.kill:
			r.cluster.Signal(syscall.SIGKILL)
		}
	}
}

// event decides what something that happened to a PE means.
func (r *run) event(e daemon.Event) {
	at := e.At.Round(time.Millisecond)
	if isDropped(e, r.gone) {
		return
	}
	switch e.Kind {
	case daemon.Spawned:
		r.expectJob(e.Job, e.NPEs)
	case daemon.Dropped:
		r.dropJob(e.Job)
	case daemon.Abort:
		if e.Status == 0 {
			r.end(0, "")
			return
		}
		r.endAfter(r.out.said(e), exitStatus(e.Status), "PE %v (pid %d) ended the job with status %d after %v%s", e.ID, e.PID, e.Status, at, reasonOf(e.Msg))
	case daemon.NodeLost:
		r.reportLostNode(e)
	case daemon.JobLost:
		r.end(StatusError, "%s", e.Msg)
	case daemon.Lost:
		r.noteLoss(e)
	case daemon.Failed:
		r.others.tellFailure(e) // its own node tells its PEs, too, although the process goes on
		if e.GoesOn {
			r.bereft[e.ID] = e
			r.noteLoss(e)
			return
		}
		r.fallen[e.ID] = true
		r.reportInOrder(e)
	case daemon.Changed:
		r.printChange(e)
	case daemon.Exited:
		r.left--
		r.gone[e.Job][e.PE] = true
		r.countUsage(e)
		r.profiles.noteEnd(e, r.cluster.home(e.ID))
		if r.fallen[e.ID] {
			delete(r.fallen, e.ID) // was judged when it died
		} else {
			r.others.tellFailure(e) // as long as the job's nodes are known
			r.reportInOrder(e)
		}
		r.cluster.endIfOver(e.Job, r.gone[e.Job])
	}
}

// printChange tells that a PE does not run as it should, or does again.
func (r *run) printChange(e daemon.Event) {
	if !r.ending && !r.o.Quiet {
		r.out.message("PE %v (pid %d) %s", e.ID, e.PID, e.State)
	}
}

// reasonOf returns what a PE gave as the reason of an abort. Open MPI says N/A
// where its program has given none.
func reasonOf(msg string) string {
	if msg == "" || msg == "GlobalExit" || msg == "N/A" {
		return ""
	}
	return ": " + msg
}

// exitStatus truncates the status of an abort to the 8 bits of an exit status. A status that
// would become 0, as 256 would, becomes 255: an abort is no success.
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
	r.askToEnd(syscall.SIGTERM)
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

// endUnwritten ends the job because its output cannot be written. It says why, unless the reader has
// gone: that is no mistake in "oshrun ... | head".
func (r *run) endUnwritten(err error) {
	if errors.Is(err, syscall.EPIPE) {
		r.end(StatusPipe, "")
		return
	}
	r.end(StatusError, "write output: %v", err)
}

// askToEnd has a signal sent that ends the PEs, after the orders that are to be given first. Nothing
// more is started.
func (r *run) askToEnd(sig syscall.Signal) {
	r.cluster.Refuse(false)
	if r.stop.look != nil { // the job was about to be stopped: PEs that have stopped could not end
		r.stop.look = nil
		r.cluster.Signal(xunix.SIGCONT)
	}
	switch {
	case r.left == 0:
	case r.dump || r.late || r.profiles != nil:
		r.begin <- sig
	default:
		r.sendEnd(sig)
	}
}

// sendEnd sends the signal that ends the PEs, and sets the time at which they are killed.
func (r *run) sendEnd(sig syscall.Signal) {
	r.cluster.Signal(sig)
	r.cluster.Signal(xunix.SIGCONT) // a stopped process could not act on it
	if r.kill == nil {
		r.kill = time.After(grace)
	}
}

// mostRunning is how many PEs a list of those that run names.
const mostRunning = 16

// listRunning lists the PEs that have not ended. It asks for all their processes at once: a node that is out of reach
// does not hold up the others.
func listRunning(gone map[int][]bool, pidsOf func(ids []daemon.ID) []int) string {
	var ids []daemon.ID
	end := ""
	for _, job := range sortedKeys(gone) {
		for pe, over := range gone[job] {
			switch {
			case over:
			case len(ids) == mostRunning:
				end = ", ..."
			default:
				ids = append(ids, daemon.ID{Job: job, PE: pe})
			}
		}
	}
	var pes []string
	for i, pid := range pidsOf(ids) {
		pes = append(pes, fmt.Sprintf("PE %v (%s)", ids[i], pidText(pid)))
	}
	return strings.Join(pes, ", ") + end
}
