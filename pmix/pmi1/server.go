package pmi1

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/codec"
)

// Host receives news of the server's clients, and their requests that only the launcher can carry out.
//
//   - Concurrent calls: none; one goroutine makes all calls, without locks held. They must not block and must not call
//     Close. ClientFinalized returns before the client is answered.
type Host interface {
	ClientJoined(p codec.Proc)
	ClientFinalized(p codec.Proc)
	ClientLost(p codec.Proc) // p had joined, and its connection closed without finalize
	// Abort asks the launcher to end p's job.
	Abort(p codec.Proc, status int)
	// Spawn asks the launcher for a job, and is answered by Server.SpawnDone.
	Spawn(r *SpawnRequest)
}

// Config configures a server.
type Config struct {
	Host   Host
	Logger zerolog.Logger
	Remote Remote // nil: all processes of each job are on this node
	// Names passes requests about published names on to the table of the job's nodes. Nil: the server has the table.
	Names NameAsker
}

// Server serves the processes of one node.
//
//   - Concurrent calls: all methods.
type Server struct {
	cfg   Config
	mux   *xunix.Mux
	core  *core         // used by the loop alone
	over  chan struct{} // closed when the loop has ended
	close func() error

	mu      sync.Mutex
	mailbox []event
	jobs    map[string]*WorldSpec
	closing bool
}

// Start starts a server without jobs.
//
//   - Errors: descriptors.
func Start(cfg Config) (*Server, error) {
	mux, err := xunix.NewMux()
	if err != nil {
		return nil, fmt.Errorf("pmi1 server: %w", err)
	}
	s := &Server{cfg: cfg, mux: mux, core: newCore(), over: make(chan struct{}), jobs: map[string]*WorldSpec{}}
	s.core.namesFar = cfg.Names != nil
	s.close = sync.OnceValue(s.shutDown)
	go s.loop()
	return s, nil
}

// AddJob adds a job, before its processes are connected.
func (s *Server) AddJob(j WorldSpec) error {
	if err := j.check(); err != nil {
		return err
	}
	if s.cfg.Remote == nil && j.spans() {
		return fmt.Errorf("pmi1 server: job %s has processes on other nodes, want all on node %d without Config.Remote", j.Nspace, j.ThisNode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.Nspace] != nil {
		return fmt.Errorf("pmi1 server: job %s exists already, want a job with another name", j.Nspace)
	}
	s.jobs[j.Nspace] = &j
	s.mailbox = append(s.mailbox, event{kind: evAddJob, job: &j})
	return nil
}

// RemoveJob removes a job whose processes have ended.
func (s *Server) RemoveJob(nspace string) {
	s.mu.Lock()
	delete(s.jobs, nspace)
	s.mu.Unlock()
	s.post(event{kind: evRemoveJob, proc: codec.Proc{Nspace: nspace}})
}

// Connect makes the connection of a process that is about to start. The caller passes the descriptor to the process and
// closes its own.
//
//   - Errors: no such process; descriptors.
func (s *Server) Connect(p codec.Proc) (theirs *os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[p.Nspace]; s.closing || j == nil || int64(p.Rank) >= int64(len(j.Procs)) || !j.isLocal(p.Rank) {
		return nil, fmt.Errorf("pmi1 server: no process %s.%d", p.Nspace, p.Rank)
	}
	id, theirs, err := s.mux.Pair()
	if err != nil {
		return nil, fmt.Errorf("pmi1 server: connection of %s.%d: %w", p.Nspace, p.Rank, err)
	}
	// The loop need not be woken: data on the connection wakes it.
	s.mailbox = append(s.mailbox, event{kind: evConnect, conn: connID(id), proc: p})
	return theirs, nil
}

// Environ returns the variables by which a process finds its connection, whose descriptor in the process is fd; nil for
// a process of no job of the server.
func (s *Server) Environ(p codec.Proc, fd int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[p.Nspace]; j != nil {
		return j.Environ(p.Rank, fd)
	}
	return nil
}

// ProcExited tells the server that a process, on this node or another, has ended. Barriers of its job then fail, now and
// later. Failed says that the end counts as a failure: the others find the process in PMI_dead_processes. A process
// that joined and did not finalize is in that list, too, whatever failed says.
func (s *Server) ProcExited(p codec.Proc, failed bool) {
	s.post(event{kind: evExited, proc: p, failed: failed})
}

// SpawnDone answers Host.Spawn: err says why the processes do not run, nil if they do.
func (s *Server) SpawnDone(id uint64, err error) {
	failure := ""
	if err != nil {
		failure = "spawn failed: " + err.Error()
	}
	s.post(event{kind: evSpawned, id: id, text: failure})
}

// BarrierCalled tells the server that another node is in a barrier of a job. The server hands in an error if one of its
// members will not join; otherwise it waits for its members.
func (s *Server) BarrierCalled(nspace string, seq uint64) {
	s.post(event{kind: evCalled, proc: codec.Proc{Nspace: nspace}, id: seq})
}

// BarrierDone answers Remote.Barrier: with the data of all parts, one after the other, or with the reason why the
// barrier fails. All nodes get the same answer.
func (s *Server) BarrierDone(nspace string, seq uint64, data []byte, err error) {
	s.post(event{kind: evBarrier, proc: codec.Proc{Nspace: nspace}, id: seq, data: data, err: err})
}

// NamesAnswered answers NameAsker.AskNames; nil: the table is lost.
func (s *Server) NamesAnswered(number uint64, answer []byte) {
	s.post(event{kind: evNames, id: number, data: answer})
}

// Close ends the server and all connections.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutDown() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.mux.Wake()
	<-s.over
	return s.mux.Close()
}

// post hands an event to the loop without waiting.
func (s *Server) post(ev event) {
	s.mu.Lock()
	s.mailbox = append(s.mailbox, ev)
	s.mu.Unlock()
	s.mux.Wake()
}

// inputSize is the number of bytes read from one connection before the next one is served.
const inputSize = 4096

// loop steps the core and carries out its actions until the server closes.
func (s *Server) loop() {
	defer close(s.over)
	buf := make([]byte, inputSize)
	var out []action
	step := func(ev event) {
		out = s.core.Step(ev, out[:0])
		s.executeActions(out)
	}
	for {
		ready, err := s.mux.Wait()
		if err != nil {
			s.cfg.Logger.Error().Err(err).Msg("pmi1 server ended")
			return
		}
		events, closing := s.drainMailbox()
		if closing {
			return
		}
		for _, ev := range events {
			step(ev)
		}
		for _, id := range ready {
			n, err := s.mux.Read(id, buf)
			switch {
			case err == nil:
				step(event{kind: evInput, conn: connID(id), data: buf[:n]})
			case !errors.Is(err, xunix.ErrAgain):
				if !errors.Is(err, io.EOF) {
					s.cfg.Logger.Debug().Err(err).Msg("pmi1 connection")
				}
				step(event{kind: evClosed, conn: connID(id)})
				s.mux.Drop(id)
			}
		}
	}
}

// drainMailbox returns the events in the mailbox and empties it.
func (s *Server) drainMailbox() (events []event, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.mailbox = s.mailbox, nil
	return events, s.closing
}

// executeActions executes actions, in order.
func (s *Server) executeActions(actions []action) {
	host := s.cfg.Host
	for i := range actions {
		a := &actions[i]
		switch a.kind {
		case actSend:
			// A client that leaves more unread than its socket holds breaks the protocol. The loop sees the end of its
			// connection next.
			if err := s.mux.Write(uint64(a.conn), a.text); err != nil {
				s.cfg.Logger.Debug().Err(err).Msg("pmi1 answer")
				s.mux.HangUp(uint64(a.conn))
			}
		case actClose:
			s.mux.Drop(uint64(a.conn))
		case actJoined:
			host.ClientJoined(a.proc)
		case actFinalized:
			host.ClientFinalized(a.proc)
		case actLost:
			host.ClientLost(a.proc)
		case actAbort:
			host.Abort(a.proc, a.status)
		case actSpawn:
			host.Spawn(a.spawn)
		case actBarrier:
			s.cfg.Remote.Barrier(a.part)
		case actNames:
			s.cfg.Names.AskNames(a.id, a.question)
		case actRefused:
			s.cfg.Logger.Warn().Str("nspace", a.proc.Nspace).Uint32("pe", uint32(a.proc.Rank)).
				Str("cause", a.text).Msg("pmi1 client dropped")
		}
	}
}
