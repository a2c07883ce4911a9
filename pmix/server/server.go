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
	// Expire says that the deadline of a fence has passed here. The driver passes it on by Server.FenceExpired.
	Expire(call FenceCall)
	// Fetch asks the server of another node for the data of p, which should hold key. That server's Serve gets it; the
	// answer is Server.Fetched.
	Fetch(p codec.Proc, key string)
}

// Config says what a server serves.
type Config struct {
	Job    Job  // the first namespace; Server.AddJob adds others
	Host   Host // nil: nobody listens
	Logger zerolog.Logger
	// Authorize decides whether a connection may claim to be a process, and says which one it is to the kernel (0:
	// unknown). It may take its time, up to the handshake's deadline. Nil accepts everybody.
	Authorize func(conn net.Conn, p codec.Proc) (pid int, err error)
	// AuthorizeTool decides whether a connection may attach as a tool, and says which process it is to the kernel. Nil
	// refuses all tools.
	AuthorizeTool func(conn net.Conn) (pid int, err error)
	// Foreign says of a new connection whether it is of another user of the machine. Those may still be clients, but do
	// not get in the way of others while they are silent. It is called for each connection and must not wait. Nil: none
	// is.
	Foreign func(conn net.Conn) bool
	// Remote is nil in a step of one node; fences and gets across nodes end with PMIX_ERR_UNREACH then.
	Remote Remote
}

const (
	tickLength       = 10 * time.Millisecond
	handshakeTimeout = 5 * time.Second
	silentAtLeast    = 50 * time.Millisecond
	silentPerProc    = 2 // connections of one process that may be about to say who they are
)

// limits are what a test may want smaller.
type limits struct {
	handshake   time.Duration // time for a connection to say who it is
	silence     time.Duration // of that, what it has in any case, however many others there are
	unknown     int           // connections that have not said it
	frame       uint32        // bytes of a frame's body
	queueBytes  int           // bytes waiting for one client to read them
	outputBytes int           // with more than that waiting, forwarded output is dropped, and a tool with it
	queueFrames int
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
	inputs   chan input    // from connections, one at a time each
	wake     chan struct{} // the mailbox holds something
	quit     chan struct{}
	start    time.Time
	wg       sync.WaitGroup
	tools    atomic.Uint64             // names given to tools
	output   atomic.Pointer[[]*outlet] // who gets output; nil: nobody
	catching atomic.Int64              // spawned jobs and output that the loop has yet to see
	close    func() error

	mu       sync.Mutex
	mailbox  []event // from the methods, never blocking
	jobs     map[string]*Job
	requests map[uint64]func(codec.Status, []byte)
	lastReq  uint64
}

// Start starts a server on a loopback port of its own.
//
//   - Errors: a job that does not fit together; the port.
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
		jobs: map[string]*Job{}, requests: map[uint64]func(codec.Status, []byte){},
	}
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

// AddJob makes a further namespace known, before its processes start. The parent is the process that spawned it, none
// if its namespace is empty.
//
//   - Errors: a job that does not fit together; a namespace that is known already.
func (s *Server) AddJob(job Job, parent codec.Proc) error {
	err := s.addJob(job, parent)
	if err == nil {
		s.reg.expect(silentPerProc * len(job.Procs))
	}
	return err
}

func (s *Server) addJob(job Job, parent codec.Proc) error {
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
		return fmt.Errorf("pmix server: job %s: there is one of this name already, want another", job.Nspace)
	}
	if parent.Nspace != "" {
		s.catching.Add(1)
	}
	s.post(event{kind: evAddJob, space: space, proc: parent})
	return nil
}

// RemoveJob drops a namespace all of whose processes have ended. Its data is gone, and connections that some of its
// processes left behind are closed.
func (s *Server) RemoveJob(nspace string) {
	s.mu.Lock()
	job := s.jobs[nspace]
	delete(s.jobs, nspace)
	s.mu.Unlock()
	if job == nil {
		return
	}
	s.reg.expect(-silentPerProc * len(job.Procs))
	s.post(event{kind: evRemoveJob, proc: codec.Proc{Nspace: nspace}})
}

// Environ returns the variables that a process needs to find this server, nil for one that is not of its jobs. The
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

// proc is the server's own name, whichever of its jobs asks.
func (s *Server) proc() codec.Proc {
	return codec.Proc{Nspace: "goshmem-" + s.cfg.Job.Nspace, Rank: codec.Rank(s.cfg.Job.ThisNode)}
}

func (s *Server) uri() string { return fmt.Sprintf("%v;tcp4://%s", s.proc(), s.ln.Addr()) }

// ToolURI returns what a tool needs to attach to this server, in libpmix the value of PMIX_SERVER_URI; empty if no tool
// may. Better for libpmix is a file of two lines, the URI and codec.Version, that PMIX_TOOL_ATTACHMENT_FILE names:
// without the version it takes the server for an old one, and finds nothing that processes have put.
func (s *Server) ToolURI() string {
	if s.cfg.AuthorizeTool == nil {
		return ""
	}
	return s.uri()
}

// ProcExited says how a process, on this node or another, has ended: unless it had finalized, fences and gets that need
// it end with an error, now and later.
func (s *Server) ProcExited(p codec.Proc, e Exit) { s.post(event{kind: evExited, proc: p, exit: e}) }

// SpawnDone is the answer to Host.Spawn: the namespace of the new job, which AddJob has made known, or why there is
// none.
func (s *Server) SpawnDone(id uint64, nspace string, status codec.Status) {
	s.post(event{kind: evSpawned, request: id, proc: codec.Proc{Nspace: nspace}, status: status})
}

// FenceCalled says that another node has handed in its part of a fence. A node whose participants have died hands in an
// error; the others wait for theirs.
func (s *Server) FenceCalled(call FenceCall) {
	s.post(event{kind: evFenceCalled, fence: call.ID, procs: call.Procs, flag: call.Spares})
}

// FenceExpired says that the deadline of a fence has passed on another node: this one hands in PMIX_ERR_TIMEOUT unless
// it has handed in already.
func (s *Server) FenceExpired(call FenceCall) {
	s.post(event{kind: evFenceCalled, fence: call.ID, procs: call.Procs, flag: call.Spares, status: codec.StatusErrTimeout})
}

// FenceDone is the answer to Remote.Fence, and nothing else ends a fence whose part was handed in. All nodes get the
// same: success and the data of all parts, one after the other, if all parts are well, and the error of one part
// otherwise. The driver answers a part of a fence that has ended already with that fence's status.
func (s *Server) FenceDone(id FenceID, status codec.Status, data []byte) {
	s.post(event{kind: evFenceDone, fence: id, status: status, payload: data})
}

// Fetched is the answer to Remote.Fetch: what Serve gave on the other node.
func (s *Server) Fetched(p codec.Proc, key string, status codec.Status, packed []byte) {
	s.post(event{kind: evFetched, proc: p, key: key, status: status, payload: packed})
}

// Serve answers another node's Fetch for a process of this node. The reply, made as an upcall is, comes when the data
// is there or will never be; it does not come when the server is closed first.
func (s *Server) Serve(p codec.Proc, key string, reply func(status codec.Status, packed []byte)) {
	s.mu.Lock()
	s.lastReq++
	id := s.lastReq
	s.requests[id] = reply
	s.mu.Unlock()
	s.post(event{kind: evServe, proc: p, key: key, request: id})
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
