package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/pmix/wire"
	"github.com/goshmem/goshmem/symheap"
)

// Stream is one of a PE's outputs.
type Stream uint8

// The outputs.
const (
	Stdout Stream = iota
	Stderr
)

// Config says what a step runs.
type Config struct {
	NPEs     int
	Path     string   // the program's file
	Args     []string // its arguments, without its name
	Name     string   // its name as argument 0
	Env      []string // its environment, without what the step adds
	Dir      string   // its working directory; empty: this process's
	HeapSize uint64   // bytes
	Procs    int      // GOMAXPROCS of a PE; 0: as Env has it
	Stdin    io.Reader
	StdinTo  func(pe int) bool // which PEs read Stdin
	// Output takes whole lines of a PE, or a part of one that is very long or
	// slow to end. It is called by one goroutine per PE and stream and may take
	// its time.
	Output func(pe int, s Stream, text []byte)
	// Notice takes what the user should know and no Event says; it must not
	// block. Nil: nobody does.
	Notice func(text string)
	// OwnsChildren says that every child of this process is the step's, so that
	// the ones it inherits are reaped, and killed at the end, even if nothing
	// about them tells that they are the job's.
	OwnsChildren bool
	Logger       zerolog.Logger
}

// Event is what happened to a PE.
type Event struct {
	Kind  Kind
	PE    int
	PID   int
	State *os.ProcessState // Exited
	// Unfinished says of a process that Exited that it had joined the job and
	// left without a farewell.
	Unfinished bool
	Status     int           // Abort
	Msg        string        // Abort
	At         time.Duration // since the start of the job
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds.
const (
	Exited Kind = iota // the PE's process ended; output may still come
	Lost               // its PMIx connection closed without a farewell
	Abort              // it asked for the end of the job
)

// Step runs the PEs of one job on this node.
type Step struct {
	cfg    Config
	job    [16]byte
	nspace string
	begin  time.Time
	heaps  []*os.File
	pmix   *server.Server
	attach *net.UnixListener
	events chan Event
	start  chan func() // to the goroutine that starts processes
	input  *input

	mu      sync.Mutex
	procs   []*proc
	killed  bool // everybody was sent SIGKILL: nobody's farewell is waited for
	closing chan struct{}
	serving sync.WaitGroup
}

// Start makes everything that the PEs need. Launch starts them; Close must be
// called in any case.
func Start(cfg Config) (*Step, error) {
	s := &Step{
		cfg: cfg, begin: time.Now(),
		events:  make(chan Event, 4*cfg.NPEs+16), // see emit
		procs:   make([]*proc, cfg.NPEs),
		start:   make(chan func()),
		input:   &input{dest: map[int]*os.File{}},
		closing: make(chan struct{}),
	}
	_, _ = rand.Read(s.job[:]) // never fails
	s.nspace = "goshmem-" + hex.EncodeToString(s.job[:8])
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Step) setUp() error {
	_ = xunix.Subreaper() // an improvement where it works
	if s.cfg.OwnsChildren {
		s.serving.Go(s.reapOrphans)
	}
	go starter(s.start)
	for pe := range s.cfg.NPEs {
		f, err := symheap.Create(symheap.Identity{
			Job: s.job, PE: uint32(pe), NPEs: uint32(s.cfg.NPEs), Incarnation: 1,
		}, s.cfg.HeapSize)
		if err != nil {
			return err
		}
		s.heaps = append(s.heaps, f)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	job := server.Job{Nspace: s.nspace, Hosts: []string{host}}
	for pe := range s.cfg.NPEs {
		job.Procs = append(job.Procs, server.Proc{Rank: uint32(pe), LocalRank: uint16(pe)})
	}
	s.pmix, err = server.Start(server.Config{
		Job: job, Host: host2step{s}, Logger: s.cfg.Logger,
		Authorize: func(conn net.Conn, p wire.Proc) (int, error) { return s.authorize(conn, p.Nspace, uint32(p.Rank)) },
	})
	if err != nil {
		return fmt.Errorf("PMIx server: %w", err)
	}
	return s.listen()
}

// Events returns what happens to the PEs, in order for each of them.
func (s *Step) Events() <-chan Event { return s.events }

// Nspace returns the job's PMIx namespace.
func (s *Step) Nspace() string { return s.nspace }

// starter runs what is sent to it on one thread until the channel is closed:
// the kernel kills a PE when the thread that started it ends.
func starter(work <-chan func()) {
	lockThread()
	for f := range work {
		f()
	}
}

// host2step turns calls of the PMIx server into events.
type host2step struct{ s *Step }

func (h host2step) ClientConnected(p wire.Proc, _ int) {
	h.s.with(uint32(p.Rank), (*proc).join)
	h.s.cfg.Logger.Debug().Uint32("pe", uint32(p.Rank)).Dur("at", time.Since(h.s.begin)).Msg("connected")
}

func (h host2step) ClientFinalized(p wire.Proc) {
	h.s.with(uint32(p.Rank), (*proc).settle)
}

func (h host2step) ClientLost(p wire.Proc) {
	h.s.with(uint32(p.Rank), func(p *proc) {
		p.lost = true
		p.settle()
		h.s.emit(Event{Kind: Lost, PE: p.pe, PID: p.pid()})
	})
}

func (h host2step) Abort(from wire.Proc, _ []wire.Proc, status int, msg string) {
	h.s.with(uint32(from.Rank), func(p *proc) {
		p.settle() // it has said its last word
		h.s.emit(Event{Kind: Abort, PE: p.pe, PID: p.pid(), Status: status, Msg: msg})
	})
}

func (h host2step) Spawn(*server.SpawnRequest)                           {}
func (h host2step) Control(wire.Proc, []wire.Proc, server.ControlAction) {}
func (h host2step) Log(wire.Proc, bool, []byte)                          {}
func (h host2step) Stdin([]wire.Proc, []byte, bool)                      {}

func (s *Step) with(rank uint32, f func(*proc)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(rank) < len(s.procs) && s.procs[rank] != nil {
		f(s.procs[rank])
	}
}

// emit reports an event. The caller holds the lock, and the end of each PE's
// process finds room: what a PE can say many times leaves that free.
func (s *Step) emit(e Event) {
	e.At = time.Since(s.begin)
	if e.Kind == Exited || len(s.events) < cap(s.events)-len(s.procs) {
		s.events <- e
	}
}

// PID returns the number of a PE's process, 0 before it was started.
func (s *Step) PID(pe int) (pid int) {
	s.with(uint32(pe), func(p *proc) { pid = p.pid() })
	return pid
}

// Lost says whether a PE has joined the job and left it without a farewell,
// and nothing of it has joined again since.
func (s *Step) Lost(pe int) (lost bool) {
	s.with(uint32(pe), func(p *proc) { lost = p.lost })
	return lost
}

// Signal sends a signal to the process groups of all PEs that still run. Where
// the process of a PE has ended and its program goes on, it reaches what the job
// has left without a parent; SIGKILL then ends the PE, too.
func (s *Step) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kill := sig == syscall.SIGKILL
	s.killed = s.killed || kill
	behind := false
	for _, p := range s.procs {
		switch {
		case p == nil:
		case !p.ended:
			p.signal(sig)
		case p.connected && !p.isSettled():
			behind = true
			if kill {
				_ = p.leash.Close()
				p.settle()
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
