package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Remote reaches the servers of the job's other nodes. Calls must not block.
type Remote interface {
	// Fence hands in this node's part of a fence. The server of each node with participants does so exactly once for an
	// id, and hands in a set's next part only after FenceDone of the one before. The driver tells the servers that have
	// not handed in by Server.FenceCalled, waits for all parts, and answers each by Server.FenceDone.
	Fence(part FencePart)
	// Expire reports that the deadline of a fence has passed here. The driver tells the other servers by
	// Server.FenceExpired.
	Expire(call FenceCall)
	// Fetch asks the server of another node for the data of p, which should hold key. That server's Serve gets it; the
	// answer is Server.Fetched.
	Fetch(p codec.Proc, key string)
	// JobAdded tells the driver of a job, before its processes can be in a fence.
	JobAdded(nspace string)
	// JobOver tells the driver that all processes of a job have ended on all nodes: no fence with them begins any more.
	JobOver(nspace string)
}

// Config says what a server serves.
type Config struct {
	Job    JobLayout // the first namespace; Server.AddJob adds others
	Host   Host      // nil: no upcalls
	Logger zerolog.Logger
	// Authorize decides whether a connection may claim to be process p, and returns the peer's process id (0: unknown).
	// It may wait, up to the handshake's deadline. Nil accepts every connection.
	Authorize func(conn net.Conn, p codec.Proc) (pid int, err error)
	// AuthorizeTool decides whether a connection may attach as a tool, and returns the peer's process id. Nil refuses
	// all tools.
	AuthorizeTool func(conn net.Conn) (pid int, err error)
	// Foreign reports whether a new connection is another user's. Such a connection may still be a client, but it
	// cannot delay or evict this user's connections before it identifies itself. Foreign is called for each connection
	// and must not wait. Nil: no connection is foreign.
	Foreign func(conn net.Conn) bool
	// Remote is nil in a step of one node. Fences and gets across nodes then end with PMIX_ERR_UNREACH.
	Remote Remote
	// Peers is nil in a step of one node. Published data, events of clients, queries and control then stay within the node.
	Peers Peers
}

const (
	tickLength       = 10 * time.Millisecond
	handshakeTimeout = 5 * time.Second
	silentAtLeast    = 50 * time.Millisecond
	silentPerProc    = 2 // unidentified connections that one process may have
)

// limits bounds what connections can make the server keep. Tests use smaller ones.
type limits struct {
	handshake   time.Duration // time for a connection to identify itself
	silence     time.Duration // the part of it that a connection has however many others there are
	unknown     int           // unidentified connections
	frame       uint32        // bytes of a frame's body
	queueBytes  int           // bytes that wait for one client to read them
	outputBytes int           // bytes that may wait when output is forwarded; beyond it output is dropped, or the tool
	queueFrames int           // frames that wait for one client to read them
}

func defaultLimits(procs int) limits {
	return limits{
		handshake: handshakeTimeout, silence: silentAtLeast, unknown: 128 + silentPerProc*procs, frame: 64 << 20, queueBytes: 64 << 20, outputBytes: 8 << 20,
		queueFrames: 1 << 16,
	}
}

// Server serves the processes of a step's jobs on one node.
//
//   - Concurrent calls: all methods.
type Server struct {
	cfg      Config
	log      zerolog.Logger
	host     Host
	limits   limits
	ln       net.Listener
	reg      registry
	core     *core
	cleaner  cleaner
	inputs   chan input    // events of connections, one at a time from each
	wake     chan struct{} // signaled when the mailbox gets an event
	quit     chan struct{}
	start    time.Time
	wg       sync.WaitGroup
	tools    atomic.Uint64             // number of tools named so far
	output   atomic.Pointer[[]*outlet] // receivers of output; nil: none
	catching atomic.Int64              // number of spawned jobs and texts that wait for the loop
	close    func() error

	mu       sync.Mutex
	mailbox  []event // events of the methods, which never block
	jobs     map[string]*JobLayout
	requests map[uint64]func(codec.Status, []byte)
	lastReq  uint64
}

// Start starts a server on a loopback port of its own.
//
//   - Errors: an inconsistent job; the port.
func Start(cfg Config) (*Server, error) { return startWith(cfg, defaultLimits(len(cfg.Job.Procs))) }

func startWith(cfg Config, lim limits) (*Server, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("pmix server: listen on loopback: %w", err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, host: cfg.Host, limits: lim, ln: ln,
		core:   newCore(cfg.Remote != nil, tick(time.Second/tickLength)),
		inputs: make(chan input), wake: make(chan struct{}, 1), quit: make(chan struct{}), start: time.Now(),
		jobs: map[string]*JobLayout{}, requests: map[uint64]func(codec.Status, []byte){},
	}
	s.core.peered = cfg.Peers != nil
	s.reg.limit, s.reg.gone = lim.unknown, make(chan struct{}, 1)
	s.cleaner.log, s.cleaner.uid = cfg.Logger, uint32(os.Geteuid())
	if s.host == nil {
		s.host = noHost{}
	}
	if err := s.addJob(cfg.Job, codec.Proc{}); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.close = sync.OnceValue(s.shutDown)
	s.wg.Go(s.loop)
	s.wg.Go(s.accept)
	return s, nil
}

// AddJob adds a namespace, before its processes start. The parent is the process that spawned it; none if its namespace
// is empty.
//
//   - Errors: an inconsistent job; a namespace that exists already.
func (s *Server) AddJob(job JobLayout, parent codec.Proc) error {
	err := s.addJob(job, parent)
	if err == nil {
		s.reg.raiseLimit(silentPerProc * len(job.Procs))
	}
	return err
}

func (s *Server) addJob(job JobLayout, parent codec.Proc) error {
	if err := job.check(); err != nil {
		return err
	}
	space, err := newNspace(&job, parent)
	if err != nil {
		return fmt.Errorf("pmix server: job %s: %w", job.Nspace, err)
	}
	s.mu.Lock()
	known := s.jobs[job.Nspace] != nil
	if !known {
		s.jobs[job.Nspace] = &job
	}
	s.mu.Unlock()
	if known {
		return fmt.Errorf("pmix server: job %s exists already, want a job with another name", job.Nspace)
	}
	if parent.Nspace != "" {
		s.catching.Add(1)
	}
	s.post(event{kind: evAddJob, space: space, proc: parent})
	return nil
}

// RemoveJob drops a namespace whose processes have all ended, with its data. It closes the connections that are left of
// its processes.
func (s *Server) RemoveJob(nspace string) {
	s.mu.Lock()
	job := s.jobs[nspace]
	delete(s.jobs, nspace)
	s.mu.Unlock()
	if job == nil {
		return
	}
	s.reg.raiseLimit(-silentPerProc * len(job.Procs))
	s.post(event{kind: evRemoveJob, proc: codec.Proc{Nspace: nspace}})
}

// Environ returns the variables by which a process finds this server, nil for a process of no job of the server. The
// OMPI_MCA pair makes Open MPI 4 take the job from PMIx instead of starting a job of one.
func (s *Server) Environ(p codec.Proc) []string {
	s.mu.Lock()
	job := s.jobs[p.Nspace]
	s.mu.Unlock()
	if job == nil {
		return nil
	}
	place, ok := job.place(p.Rank)
	if !ok {
		return nil
	}
	env := []string{
		"PMIX_NAMESPACE=" + job.Nspace,
		"PMIX_RANK=" + strconv.FormatUint(uint64(p.Rank), 10),
		"PMIX_SERVER_URI41=" + s.uri(),
		"PMIX_SECURITY_MODE=" + codec.SecurityNone,
		"PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_GDS_MODULE=" + codec.GDSHash,
		"PMIX_HOSTNAME=" + job.Hosts[place.Node],
		"PMIX_VERSION=" + codec.Version,
		"OMPI_MCA_schizo=^orte",
		"OMPI_MCA_ess=pmi",
	}
	if job.TmpDir != "" {
		env = append(env, "PMIX_SERVER_TMPDIR="+job.TmpDir, "PMIX_SYSTEM_TMPDIR="+job.TmpDir)
	}
	return env
}

// proc returns the server's own name, the same for all jobs.
func (s *Server) proc() codec.Proc {
	return codec.Proc{Nspace: "goshmem-" + s.cfg.Job.Nspace, Rank: codec.Rank(s.cfg.Job.ThisNode)}
}

func (s *Server) uri() string { return fmt.Sprintf("%v;tcp4://%s", s.proc(), s.ln.Addr()) }

// ToolURI returns the URI by which a tool attaches to this server, the value of libpmix's PMIX_SERVER_URI; empty if
// tools are refused. Tools of libpmix should get a file of two lines instead, the URI and codec.Version, which
// PMIX_TOOL_ATTACHMENT_FILE names. Without the version, libpmix treats the server as an old one and finds no data of
// processes.
func (s *Server) ToolURI() string {
	if s.cfg.AuthorizeTool == nil {
		return ""
	}
	return s.uri()
}

// ProcExited tells the server how a process, on this node or another, has ended. If the process had not finalized,
// fences and gets that need it fail, now and later.
func (s *Server) ProcExited(p codec.Proc, e Exit) { s.post(event{kind: evExited, proc: p, exit: e}) }

// NodeLost tells the server that processes of another node have died with their node. Clients get one event about all of
// them, and what needs them fails as after ProcExited.
func (s *Server) NodeLost(procs []codec.Proc) { s.post(event{kind: evNodeLost, procs: procs}) }

// SpawnDone answers Host.Spawn with the namespace of the new job, which AddJob has added, or with the status of the
// failure.
func (s *Server) SpawnDone(id uint64, nspace string, status codec.Status) {
	s.post(event{kind: evSpawned, request: id, proc: codec.Proc{Nspace: nspace}, status: status})
}

// FenceCalled tells the server that another node has handed in its part of a fence. If a participant here has died, the
// server hands in an error; otherwise it waits for its participants.
func (s *Server) FenceCalled(call FenceCall) {
	s.post(event{kind: evFenceCalled, fence: call.ID, procs: call.Procs, flag: call.Spares})
}

// FenceExpired tells the server that the deadline of a fence has passed on another node. The server hands in
// PMIX_ERR_TIMEOUT unless it has handed in its part already.
func (s *Server) FenceExpired(call FenceCall) {
	s.post(event{kind: evFenceCalled, fence: call.ID, procs: call.Procs, flag: call.Spares, status: codec.StatusErrTimeout})
}

// FenceDone answers Remote.Fence. Nothing else ends a fence whose part was handed in. All nodes get the same answer:
// success with the data of all parts, one after the other, or the error of one part. A part of a fence that has ended
// already is answered with that fence's status.
func (s *Server) FenceDone(id FenceID, status codec.Status, data []byte) {
	s.post(event{kind: evFenceDone, fence: id, status: status, payload: data})
}

// Fetched answers Remote.Fetch with what Serve replied on the other node.
func (s *Server) Fetched(p codec.Proc, key string, status codec.Status, packed []byte) {
	s.post(event{kind: evFetched, proc: p, key: key, status: status, payload: packed})
}

// Serve serves another node's Fetch for a process of this node. The server calls reply, as an upcall, when the data is
// there or can no longer come. It does not call reply if it is closed first.
func (s *Server) Serve(p codec.Proc, key string, reply func(status codec.Status, packed []byte)) {
	s.post(event{kind: evServe, proc: p, key: key, request: s.keepReply(reply)})
}

// Close ends the server: it closes all connections and returns when all its goroutines have ended.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutDown() error {
	close(s.quit)
	err := s.ln.Close()
	s.reg.closeAll()
	s.wg.Wait()
	for _, a := range s.core.Step(event{kind: evClosing}, nil) {
		s.cleaner.add(a.epilog)
	}
	s.cleaner.finish()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("pmix server: close: %w", err)
	}
	return nil
}
