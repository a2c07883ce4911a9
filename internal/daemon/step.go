package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// Stream is one of a PE's outputs.
type Stream uint8

// The outputs.
const (
	Stdout Stream = iota
	Stderr
)

// App is a program and how many PEs of a job run it.
type App struct {
	NPEs  int
	Path  string   // the program's file
	Args  []string // its arguments, without its name
	Name  string   // its name as argument 0
	Env   []string // its environment, without what the step adds
	Dir   string   // its working directory; empty: this process's
	Procs int      // GOMAXPROCS of a PE that is not bound; 0: of any, as Env has it
}

// Config says what a step runs.
type Config struct {
	Apps     []App        // of the first job; its PEs are counted through
	HeapSize uint64       // bytes
	MostPEs  int          // that a spawned job may have
	Places   []plan.Place // where the PEs of the first job run; nil: anywhere
	CPUs     []int        // the processors that the jobs may use; nil: any
	Stdin    io.Reader
	StdinTo  func(pe int) bool // which PEs of the first job read Stdin
	Terminal bool              // Stdin is a terminal: the PEs that read it stay in this process's session
	// Output takes whole lines of a PE, or a part of one that is slow to end, or
	// of one that is very long: LongLine bytes at once, which are followed by
	// more, or by no bytes if that is slow to come. It is called by one goroutine
	// per PE and stream, and may take its time.
	Output func(id ID, s Stream, text []byte)
	Raw    bool // Output takes bytes as they come instead of lines
	// Merge makes what a PE writes to Stderr a part of its Stdout, in the order in which it is
	// written. Behind a PTY Output gets it as Stderr all the same: see awaitEarlier.
	Merge bool
	PTY   PTY
	// Log takes text for an output that PEs do not write but send; it must not
	// block. Nil: nobody does.
	Log func(s Stream, text []byte)
	// Notice takes what the user should know and no Event says; it must not
	// block. Nil: nobody does.
	Notice func(text string)
	Tools  bool // tools of this user may attach to the PMIx server
	// OwnsChildren says that every child of this process is the step's, so that
	// the ones it inherits are reaped, and killed at the end, even if nothing
	// about them tells that they are the job's.
	OwnsChildren bool
	Watchdog     Watchdog
	// EndsFirst says that the first failure that nobody asked for ends the step, and
	// that PEs are to be there until they are told to end: they do not learn of it.
	EndsFirst bool
	Debug     []int // PEs of the first job that are started stopped, for a debugger
	Memory    bool  // Exited says how much memory PEs had, beside what the kernel counts at their end
	Logger    zerolog.Logger
}

// ID names a PE: its job, 0 for the first one of the step, and its number there.
type ID struct{ Job, PE int }

// String returns the number of a PE of the first job, and job.PE of another.
func (id ID) String() string {
	if id.Job == 0 {
		return strconv.Itoa(id.PE)
	}
	return strconv.Itoa(id.Job) + "." + strconv.Itoa(id.PE)
}

// Event is what happened to a PE.
type Event struct {
	Kind Kind
	ID
	NPEs int // Spawned
	PID  int
	End  ending.End // Failed, Exited
	Tier string     // Failed, Exited: by which a failure was learnt of; empty: it was there to be reaped
	// GoesOn says of one that Failed that its own process runs on: a shell, whose
	// program has ended.
	GoesOn  bool
	Process *os.ProcessState // Exited; nil: the kernel did not tell
	Ran     time.Duration    // Exited: since the start of its process
	Memory  Memory           // Exited, if Config.Memory
	State   string           // Changed: in words
	By      string           // Failed, Exited: who asked for that, as for messages; empty: nobody
	Status  int              // Abort
	Msg     string           // Abort
	At      time.Duration    // since the start of the step
	// Said has channels that are closed when what the PE had written before the
	// event has been passed to Config.Output. Of Failed, Exited and Abort.
	Said []<-chan struct{}
}

// Memory is what was seen of the memory of a PE beside what the kernel counts at the end of its
// process. In that is also what this process had when it started the PE: the kernel counts what a
// process had before it executes its program, and until then a PE has the memory of its parent.
type Memory struct {
	Peak  uint64 // bytes, the most that were resident; as of the last look, 0: there was none
	Floor uint64 // bytes, of this process when the PE was started
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds.
const (
	Failed  Kind = iota // the PE is dead; its memory may still be being freed
	Exited              // the PE's process is reaped; output may still come
	Changed             // it is stopped, hangs, or runs again
	Lost                // its PMIx connection closed without a farewell
	Abort               // it asked for the end of the job
	Spawned             // a further job of NPEs is going to be started
	Dropped             // it could not be: nothing of it is left, whatever was started
)

// Step runs the PEs of a job on this node, and of the jobs that it spawns.
type Step struct {
	cfg      Config
	host     string
	name     string // what the names of its jobs begin with
	begin    time.Time
	pmix     *server.Server
	pmi      *pmi1.Server
	attach   *net.UnixListener
	visitors visitors
	census   census
	refusals atomic.Int64 // connections to the PMIx server
	events   *mailbox
	start    chan func() // to the goroutine that starts processes
	input    *input
	private  *private // where programs have files
	noPTY    sync.Once

	mu        sync.Mutex
	jobs      map[int]*job // by number
	lastJob   int          // how many there have been
	ending    bool         // no further job may begin
	killed    bool         // everybody was sent SIGKILL: nobody's farewell is waited for
	suspended bool         // the user has the job stopped: it is asked to, and not yet told to go on
	spawns    sync.WaitGroup
	retiring  sync.WaitGroup // what waits for ends of processes and jobs
	closing   chan struct{}
	serving   sync.WaitGroup

	watch   *kernel.Watch    // nil: not open yet, or there is none
	joined  chan struct{}    // closed when all PEs of the first job have joined
	waited  int              // how many of them have not yet
	tags    map[uint64]*proc // by which the watch names PEs
	lastTag uint64
	stirred chan struct{} // a job has news for its PEs
	unheard []*proc       // their sessions have not got their nice value yet
	yielder wait.Yielder  // lets PEs go first that have news; under mu
}

// Start makes everything that the PEs need. Launch starts them; Close must be
// called in any case.
func Start(cfg Config) (*Step, error) {
	if err := checkSurroundings(); err != nil {
		return nil, err // before anything has to be undone, which would need what is missing
	}
	s := &Step{
		cfg: cfg, begin: time.Now(),
		events:  newMailbox(),
		start:   make(chan func()),
		jobs:    map[int]*job{},
		closing: make(chan struct{}),
		tags:    map[uint64]*proc{},
		stirred: make(chan struct{}, 1),
		joined:  make(chan struct{}),
	}
	s.input = &input{dest: map[ID]*os.File{}, pushers: map[ID]*pusher{}, lost: map[ID]bool{}, notice: s.notice}
	var secret [8]byte
	_, _ = rand.Read(secret[:]) // never fails
	s.name = "goshmem-" + hex.EncodeToString(secret[:])
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Step) setUp() (err error) {
	_ = xunix.Subreaper() // an improvement where it works
	if s.cfg.OwnsChildren {
		s.serving.Go(s.reapOrphans)
	}
	s.serving.Go(func() { s.events.run(s.closing) })
	s.serving.Go(s.spreadNews)
	go starter(s.start)
	if err := s.openWatch(); err != nil {
		return err
	}
	if s.private, err = newPrivate(); err != nil {
		return err
	}
	s.serving.Go(s.removeStale)
	if s.host, err = os.Hostname(); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	j := newJob(s.cfg.Apps)
	s.mu.Lock() // reapOrphans runs already, and looks at the jobs
	s.enlist(j)
	s.waited = j.npes()
	s.mu.Unlock()
	if err := j.makeHeaps(s.cfg.HeapSize); err != nil {
		return err
	}
	if err := s.startServer(j); err != nil {
		return fmt.Errorf("PMIx server: %w", err)
	}
	s.checkLoopback()
	if err := s.startPMI(); err != nil {
		return err
	}
	if err := s.pmi.AddJob(s.describePMI(j)); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	if at := s.cfg.Watchdog.Hang; at > 0 {
		s.serving.Go(func() { s.seeHangs(at) }) // now that the job is whole
	}
	return nil
}

// Events returns what happens to the PEs, in order for each of them.
func (s *Step) Events() <-chan Event { return s.events.out }

// starter runs what is sent to it on one thread until the channel is closed:
// the kernel kills a PE when the thread that started it ends.
func starter(work <-chan func()) {
	lockThread()
	for f := range work {
		f()
	}
}

// with calls f with a PE's process, if there is one, under the lock.
func (s *Step) with(id ID, f func(*proc)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.proc(id); p != nil {
		f(p)
	}
}

// proc returns a PE's process, nil if there is none. The caller holds the lock.
func (s *Step) proc(id ID) *proc {
	j := s.jobs[id.Job]
	if j == nil || id.PE < 0 || id.PE >= j.npes() {
		return nil
	}
	return j.procs[id.PE]
}

// emit reports an event.
func (s *Step) emit(e Event) {
	e.At = time.Since(s.begin)
	s.events.put(e)
}

// PID returns the number of a PE's process, 0 before it was started.
func (s *Step) PID(id ID) (pid int) {
	s.with(id, func(p *proc) { pid = p.pid() })
	return pid
}

// Signal sends a signal to the process groups of all PEs that still run. Where
// the process of a PE has ended and its program goes on, it reaches what the job
// has left without a parent; SIGKILL then ends the PE, too.
func (s *Step) Signal(sig syscall.Signal) {
	s.signalEach(sig, func(*proc) syscall.Signal { return sig })
	if sig == xunix.SIGCONT {
		s.goOn()
	}
}

// signalEach does the same with a signal for each process that has not ended, and
// sig for what is left without a parent.
func (s *Step) signalEach(sig syscall.Signal, of func(*proc) syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kill := sig == syscall.SIGKILL
	s.killed = s.killed || kill
	behind := false
	for _, p := range s.started() {
		switch {
		case !p.life.Ended():
			s.measure(p)
			if !p.spared(sig, s.ending) {
				p.signal(of(p))
			}
		case p.life.GoesOn():
			behind = true
			if kill {
				_ = p.leash.Close()
				p.noteLeave()
			}
		}
	}
	if !behind {
		return
	}
	all := lookAround()
	for _, top := range s.orphans(all) {
		for pid := range tree(all, top) {
			_ = xunix.Kill(pid, sig)
		}
	}
}

// Stopped says whether the processes of all PEs that run are stopped.
func (s *Step) Stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.started() {
		if !p.life.Ended() && !look(p.pid()).stopped {
			return false
		}
	}
	return true
}
