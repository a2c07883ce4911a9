package launch

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	// readerPatience is how long a job that was ended waits for a reader that takes
	// no output, and drainAtMost how long it waits for the reader in all.
	readerPatience = 2 * time.Second
	drainAtMost    = 5 * time.Second
	// lastWords is how long the messages of such a job may take after that.
	lastWords = 250 * time.Millisecond
	// askedAtMost is how long all of it may take where the user asked for the end:
	// with lastWords, less than two seconds.
	askedAtMost = 1600 * time.Millisecond
)

// finish closes the nodes and waits until the output is written. The reader may
// take any time for it if the job ended well, as with any program, until a
// signal comes. If the job was ended, there are limits.
func (r *run) finish(ctx context.Context) {
	done := make(chan struct{})
	var errs []error // by node; set before done is closed
	go func() {
		defer close(done)
		errs = r.cluster.closeNodes()
		r.out.flush()
	}()
	r.await(ctx, done)
	for node, err := range errs {
		r.noteClosed(node, err)
	}
	if err := r.out.close(); err != nil && !r.ending {
		r.endUnwritten(err)
	}
	r.printFailures()
	r.printTorn()
	r.printProfiles()
	r.printStats()
	bounded := time.After(lastWords)
	last := r.out.sinks[daemon.Stderr].flushed()
	if !r.out.isCut() {
		<-last
		return
	}
	select {
	case <-last:
	case <-bounded:
	}
}

// noteClosed ends the job if a node was lost when all its PEs had ended: then nobody knows whether all of their output has
// come. A job that goes on without PEs that failed goes on without the rest of their output, too. Other errors of a node go to
// the log, as they harm nobody but the next job.
func (r *run) noteClosed(node int, err error) {
	if err == nil {
		return
	}
	r.log.Error().Err(err).Msg("close")
	lost := new(daemon.LostError)
	switch host := r.o.nameOfNode(r.cluster, node); {
	case !errors.As(err, &lost) || r.lostNodes[node]:
	case r.o.Recover && !r.ending && hadFailures(r, node):
		r.out.message("node %s is lost, whose PEs had failed before: the last of their output may be missing: %v", host, lost)
	default:
		r.end(StatusError, "node %s is lost before it has said that all output had come: %v", host, lost)
	}
}

// hadFailures says whether PEs were on a node, and all of them have failed.
func hadFailures(r *run, node int) (all bool) {
	for job, pes := range r.gone {
		for pe, over := range pes {
			id := daemon.ID{Job: job, PE: pe}
			if !over || r.cluster.home(id) != node {
				continue
			}
			if all = isAmong(r.dead, id); !all {
				return false
			}
		}
	}
	return all
}

// await waits for done and cuts the output when the time for it is over.
func (r *run) await(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(readerPatience / 20)
	defer tick.Stop()
	canceled := ctx.Done()
	begin := time.Now()
	moved, written := begin, uint64(0)
	var overdue <-chan time.Time
	late := false
	if !r.asked.IsZero() {
		overdue = time.After(askedAtMost - time.Since(r.asked))
	}
	for {
		select {
		case <-done:
			return
		case s := <-r.o.Signals:
			r.interrupted(s)
		case <-canceled:
			canceled = nil
			r.end(StatusError, "canceled: %v", context.Cause(ctx))
		case err := <-r.out.failed:
			r.endUnwritten(err)
		case <-overdue:
			late = true // the kernel may still be at it to free the memory of the PEs: nothing need be unread
			r.cutUnread()
		case now := <-tick.C:
			if late {
				r.cutUnread()
			}
			n, waits := r.out.written()
			if n != written || !waits {
				written, moved = n, now
			}
			switch idle := now.Sub(moved); {
			case r.status == StatusOK, r.status == StatusTolerated && !r.ending:
				begin, moved = now, now
			case idle > readerPatience:
				r.cut("output is cut: nobody has read it for %v", idle.Round(time.Second/10))
			case waits && now.Sub(begin) > drainAtMost:
				r.cut("output is cut: it has not been read within %v after the end", drainAtMost)
			}
		}
	}
}

// cutUnread cuts the output if any waits for its reader.
func (r *run) cutUnread() {
	if _, waits := r.out.written(); waits {
		r.cut("output that has not been read by now is cut")
	}
}

// printTorn names the files that miss output; the first has been named when it
// ended the job.
func (r *run) printTorn() {
	if torn := r.out.incomplete(); len(torn) > 1 {
		r.out.message("output is missing at the end of %d files: %s", len(torn), list(torn))
	}
}

// list returns some names and says if there are more.
func list(names []string) string {
	const most = 16
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// interrupted handles a signal that comes when all PEs have ended.
func (r *run) interrupted(s os.Signal) {
	switch sig, ok := s.(syscall.Signal); {
	case !ok:
	case sig == xunix.SIGTSTP:
		holdNodes(r)
		xunix.StopSelf()
	case sig == xunix.SIGCONT:
		r.cluster.Go()
	case ends(sig):
		if !r.ending {
			r.ending, r.status = true, StatusSignal+int(sig)
		}
		r.cut("%s: output that nobody has read is cut", xunix.SignalName(sig))
	}
}

func (r *run) cut(format string, args ...any) {
	if !r.out.isCut() {
		r.out.cut()
		r.out.message(format, args...)
	}
}
