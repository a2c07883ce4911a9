package daemon

import (
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon/life"
	"github.com/goshmem/goshmem/internal/daemon/pulse"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// identity names a process for as long as the machine runs: its number, which is used again after it was reaped, and
// when it was started.
type identity struct {
	pid   int
	start uint64 // as process.start
}

// localPE is a PE of this node with its process. The lock of the table guards what changes; what has no comment on that
// does not change once the PE is in the table.
type localPE struct {
	id       ID
	job      *localJob
	identity // of its own process
	cmd      *exec.Cmd
	began    time.Time
	profiles profiles // as they were before the start
	// session says that the process leads a session of its own.
	session bool
	// startOver is closed when the process was started, or could not be.
	startOver chan struct{}
	// leash kills the group of the process. It has a lock of its own.
	leash leash

	// outlets are the reading ends of its outputs; outputs ends when all of them have been read to their end.
	outlets []*outlet
	outputs sync.WaitGroup
	// passing counts the texts that are in the hands of Config.Output.
	passing atomic.Int32

	// memory is what was seen of the memory of its program: peak changes, without the lock.
	memory struct {
		peak  atomic.Uint64
		floor uint64
	}

	tag uint64 // by which the watch names it, 0: none yet; guarded by deathWatch.mu

	// All that follows changes.

	life      life.PE
	connected bool       // it has the passages to another job
	member    int        // the process that has joined for it last; 0: none, or unknown
	last      death      // of its own process
	learnt    string     // the tier by which its failure was learnt of
	orders    *orderLine // over which it takes orders; nil: it takes none
	wish      wish

	released chan struct{} // closed when life is freed
	reaped   chan struct{} // closed when life is reaped
	departed chan struct{} // closed when life is not inside any more; made anew when it joins again

	debug   debugging
	ailment ailment
	held    bool // the kernel holds its process stopped, whose program has not begun (startHeld)
	pulse   pulse.Pulse
}

// newLocalPE returns a PE that no table has yet.
func newLocalPE(j *localJob, pe int, cmd *exec.Cmd) *localPE {
	return &localPE{
		id: ID{j.number, pe}, job: j, cmd: cmd,
		startOver: make(chan struct{}), reaped: make(chan struct{}), released: make(chan struct{}),
	}
}

// death is how a process ended, and how that was learnt.
type death struct {
	end  ending.End
	pid  int
	at   time.Duration // the kernel's own time of it, 0 if that is not known
	tier string        // of the watch; empty: it was there to be reaped
}

// wish is what another PE has asked for: a PE's end by it is none that ends the
// job.
type wish struct {
	by  string         // who, as for messages
	sig syscall.Signal // the end is by this signal; 0: any end
}

// name returns the name of a PE in the servers' terms.
func (p *localPE) name() pmix.Proc {
	return pmix.Proc{Nspace: p.job.nspace, Rank: pmix.Rank(p.id.PE)}
}

// app returns the program that the PE runs.
func (p *localPE) app() *App { return &p.job.apps[p.job.appOf(p.id.PE)] }

// programPID returns the number of the process that has joined for the PE, or of its own. The caller holds the lock of the
// table.
func (p *localPE) programPID() int {
	if p.member != 0 {
		return p.member
	}
	return p.pid
}

// noteLeave notes that the PE has left the job. The caller holds the lock of the table.
func (p *localPE) noteLeave() {
	if p.life.Leave() {
		close(p.departed)
	}
}

// signal reaches the group while its leader is not reaped: after that the
// number may be somebody else's. The caller holds the lock of the table, without which End may be noted in between.
func (p *localPE) signal(sig syscall.Signal) {
	if !p.life.Ended() && p.pid != 0 {
		_ = xunix.KillGroup(p.pid, sig)
	}
}

// killFor ends a PE that somebody wants to end. The caller holds the lock of the table.
func (p *localPE) killFor(by string) {
	p.wish = wish{by: by}
	p.signal(syscall.SIGKILL)
	if p.life.GoesOn() {
		p.endProgram()
	}
}

// endProgram kills a program that goes on without the PE's own process, and puts the PE out of its job. The caller holds
// the lock of the table.
func (p *localPE) endProgram() {
	p.leash.pull()
	p.noteLeave()
}

// killRest kills what is left of the PE when its own process has died. The caller
// holds the lock of the table.
func (p *localPE) killRest() {
	if p.life.Ended() {
		p.leash.pull()
	} else {
		p.signal(syscall.SIGKILL)
	}
	if p.life.MemberWatched() {
		_ = xunix.Kill(p.member, syscall.SIGKILL)
	}
}

// wantedBy returns who wanted a PE to end as it did, empty if nobody. The caller
// holds the lock of the table.
func (p *localPE) wantedBy(e ending.End) string {
	if p.wish.sig == 0 || e.Signal == int(p.wish.sig) {
		return p.wish.by
	}
	return ""
}

// written counts what a PE has written so far.
func (p *localPE) written() (w Written) {
	for s, o := range p.outlets {
		if Stream(s) == Stderr {
			w.Stderr = o.mark()
		} else {
			w.Stdout = o.mark()
		}
	}
	return w
}

// leash is a pipe whose closing makes the kernel kill the group of a PE: see xunix.Leash.
type leash struct {
	mu    sync.Mutex
	write *os.File // closing it kills the group
	hold  *os.File // its read end: somebody has to have it open
}

// arm makes the group of process pid depend on the leash, whose reading end is r.
func (l *leash) arm(r *os.File, pid int) error {
	if err := xunix.Leash(r, pid); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hold, write, err := xunix.LeashHold(r, l.write)
	if err != nil {
		return err
	}
	_ = l.write.Close() // not the last writer
	l.write, l.hold = write, hold
	return nil
}

// pull kills the group.
func (l *leash) pull() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.write != nil {
		_ = l.write.Close()
	}
}

// release kills what is left of the group, and gives the leash back.
func (l *leash) release() {
	l.pull()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold != nil {
		_ = l.hold.Close()
	}
}
