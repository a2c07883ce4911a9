package launch

import (
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
)

// How long a PE may go on without a program.
const (
	// lostPatience is how long a process may take to end after its connection.
	lostPatience = 2 * time.Second
	// workPatience is the same while the PE is at work: on a busy machine, a shell takes long to start its next program.
	workPatience = 10 * time.Second
	// The PE has to be found idle some times in a row, because who starts a program waits for its file now and then.
	idleLooks    = 5
	lookInterval = 100 * time.Millisecond
)

// noteLoss notes that a PE has lost its program, or only its connection. A killed program loses its
// connection a moment before it is seen to end. So the loss counts only when the process has not
// ended within lostPatience, and is not about to start another program.
func (r *run) noteLoss(e daemon.Event) {
	r.noteParting(e.ID)
	go func() {
		if awaitIdle(r.cluster, e, r.over) {
			select {
			case r.lost <- e:
			case <-r.over:
			}
		}
	}()
}

// awaitIdle waits for lostPatience, and longer while a PE that has lost its connection is at work. It returns false if the
// job is over first.
func awaitIdle(cluster *Cluster, e daemon.Event, over <-chan struct{}) bool {
	begin := time.Now()
	delay, idle := lostPatience-(idleLooks-1)*lookInterval, 0
	for ; ; delay = lookInterval {
		select {
		case <-time.After(delay):
		case <-over:
			return false
		}
		late := time.Since(begin) >= workPatience
		switch {
		case e.Kind == daemon.Lost && !late && cluster.IsAtWork(e.ID):
			idle = 0
		case idle+1 == idleLooks || late:
			return true
		default:
			idle++
		}
	}
}

// checkForsaken reports a PE as failed whose process goes on without its program. It does nothing
// if the process has ended, or has started another program.
func (r *run) checkForsaken(e daemon.Event) {
	defer r.noteParted(e.ID)
	gone := r.gone[e.Job]
	if e.PE >= len(gone) || gone[e.PE] || r.fallen[e.ID] || e.Kind == daemon.Lost && !r.cluster.Forsake(e.ID) {
		return
	}
	if told, ok := r.bereft[e.ID]; ok { // says more than that the connection was lost, which may have been seen first
		e = told
	}
	how := "ended without Finalize"
	if f, failed := failureOf(e, 0); failed && e.End.Judge() != ending.Unfinished {
		how = f.what
	}
	r.reportFailure(e, failure{
		id: e.ID, pid: e.PID, status: StatusError, at: e.At.Round(time.Millisecond), tier: e.Tier,
		what: "lost its program", rest: ": that " + how + ", and the process that started it goes on",
	})
}
