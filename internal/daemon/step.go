package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
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
	NPEs    int
	Program string   // as the user wrote it
	Path    string   // the program's file on this node; empty: Start finds it
	Args    []string // its arguments, without its name
	Name    string   // its name as argument 0
	Env     []string // its environment, without what the step adds
	Dir     string   // its working directory, which Start checks; empty: that of the step
	Procs   int      // GOMAXPROCS of a PE that is not bound; 0: of any, as Env has it
}

// Config says what a step runs. It is plain data, which another process can be sent; what the
// step calls is in Hooks.
type Config struct {
	Apps     []App  // of the first job, on all nodes; its PEs are counted through
	Share    Share  // what the step has of the first job; zero: all of it, and a name and a key of its own
	HeapSize uint64 // bytes
	MostPEs  int    // that a spawned job may have
	Binding  Binding
	Places   []plan.Place // where the PEs of the first job run; nil: Binding says it if Share is given, otherwise anywhere
	StdinTo  Readers      // which PEs read standard input, as Feed brings it
	Terminal bool         // standard input is a terminal: the PEs that read it stay in this process's session
	Raw      bool         // Hooks.Output takes bytes as they come instead of lines
	// Merge makes what a PE writes to Stderr a part of its Stdout, in the order in which it is
	// written. Behind a PTY Hooks.Output gets it as Stderr all the same: see awaitEarlier.
	Merge bool
	PTY   PTY
	Tools bool // tools of this user may attach to the PMIx server
	// OwnsChildren says that every child of this process is the step's, so that
	// the ones it inherits are reaped, and killed at the end, even if nothing
	// about them tells that they are the job's.
	OwnsChildren bool
	Watchdog     Watchdog
	// EndsFirst says that the first failure that nobody asked for ends the step, and
	// that PEs are to be there until they are told to end: they do not learn of it. With several
	// nodes they do: only the root knows which failure was the first.
	EndsFirst bool
	// Recover says that the job goes on when a PE has failed.
	Recover   bool
	Heartbeat Heartbeat // how the nodes of the job watch each other
	Debug     []int     // PEs of the first job that are started stopped, for a debugger
	// DataNetwork is the interface by which PEs are to reach those of other nodes, or a network that has it; empty: any.
	DataNetwork  string
	AgentPorts   [2]uint16 // the lowest and the highest port at which the agent of the node may listen; zero: any
	Surroundings Surroundings
	Memory       bool // Exited says how much memory PEs had, beside what the kernel counts at their end
	// Profiles is the directory in which PEs leave profiles, as their environment tells them. The step makes it, and
	// Exited says whether they are there. Empty: none are wanted.
	Profiles string
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

// Event is what happened to a PE. It is plain data, which another process can be sent.
type Event struct {
	Kind Kind
	ID
	NPEs int // Spawned
	PID  int
	End  ending.End // Failed, Exited
	Tier string     // Failed, Exited: by which a failure was learnt of; empty: it was there to be reaped
	// GoesOn says of one that Failed that its own process runs on: a shell, whose
	// program has ended.
	GoesOn bool
	Usage  Usage         // Exited; zero: the kernel did not tell
	Ran    time.Duration // Exited: since the start of its process
	Memory Memory        // Exited, if Config.Memory
	// Far is what a PE that Exited has exchanged with other nodes, and Agent is what the agent of its node has by then. Both
	// are zero in a job of one node, and if no PE of the node has used its agent.
	Far, Agent Traffic
	// Profiled says of one that Exited that its profiles are in Config.Profiles.
	Profiled bool
	// Unconnected says of a PE that Exited well that PEs which have started it by mpi.Spawn would wait for it forever.
	Unconnected bool
	State       string        // Changed: in words
	By          string        // Failed, Exited: who asked for that, as for messages; empty: nobody
	Status      int           // Abort
	Msg         string        // Abort, NodeLost
	At          time.Duration // since the start of the job, see Hooks.Began
	Written     Written       // Failed, Exited, Abort: what the PE had written before the event
}

// Memory is what was seen of the memory of a PE beside what the kernel counts at the end of its
// process. In that is also what this process had when it started the PE: the kernel counts what a
// process had before it executes its program, and until then a PE has the memory of its parent.
type Memory struct {
	Peak  uint64 // bytes, the most that were resident; as of the last look, 0: there was none
	Floor uint64 // bytes, of this process when the PE was started
}

// Traffic counts what was exchanged with other nodes.
type Traffic struct {
	Operations uint64 // that a PE has begun; 0 of an agent
	Batches    uint64 // of a PE: of its records; of an agent: of all that it has sent
	Sent       uint64 // bytes, headers included
	Received   uint64 // bytes
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds.
const (
	Failed   Kind = iota // the PE is dead; its memory may still be being freed
	Exited               // the PE's process is reaped; output may still come
	Changed              // it is stopped, hangs, or runs again
	Lost                 // its PMIx connection closed without a farewell
	Abort                // it asked for the end of the job
	Spawned              // a further job of NPEs is going to be started
	Dropped              // it could not be: nothing of it is left, whatever was started
	NodeLost             // the node is out of reach, Msg says why: nothing more comes from it. A Step never reports that
	JobLost              // too many nodes are out of reach, Msg says why: the job ends. A Step never reports that
)

// Step runs the PEs of a job on this node, and of the jobs that it spawns. It only puts its parts together and passes
// calls on to them: the documentation of the package says which part does what.
type Step struct {
	cfg        settings
	background *background
	reporter   *reporter
	table      *table
	events     *announcer
	servers    *servers
	private    *private
	watch      *deathWatch
	ailments   *ailments
	failures   *failures
	outputs    *outputs
	input      *input
	ends       *ends
	starter    *starter
	orphans    *orphans
	signals    *signals
	attach     *attachService
	agent      *nodeAgent
	orders     *orders
	clients    *clients
	spawner    *spawner
	report     Report // Start sets it
}

// Start makes everything that the PEs need. Launch starts them; Close must be
// called in any case.
func Start(cfg Config, hooks Hooks) (*Step, error) {
	if err := checkSurroundings(); err != nil {
		return nil, err // before anything has to be undone, which would need what is missing
	}
	if err := cfg.checkShare(&hooks); err != nil {
		return nil, err
	}
	apps, err := cfg.foundApps()
	if err != nil {
		return nil, err
	}
	cfg.Apps = apps
	bindings, err := cfg.assignPlaces()
	if err != nil {
		return nil, err
	}
	data, err := openDataNetwork(cfg.DataNetwork)
	if err != nil {
		return nil, err
	}
	s := assemble(settings{cfg, hooks}, cfg.stepName())
	s.starter.data = data
	s.report = Report{Bindings: bindings}
	cfg.describeNode(&s.report)
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// stepName returns what the names of the step's jobs begin with.
func (c *Config) stepName() string {
	if c.Share.isGiven() {
		return c.Share.Name
	}
	var secret [8]byte
	_, _ = rand.Read(secret[:]) // never fails
	return namePrefix + hex.EncodeToString(secret[:])
}

// assemble makes the parts of a step, none of which runs yet. Name is what the names of the step's jobs begin with.
func assemble(cfg settings, name string) *Step {
	s := &Step{cfg: cfg, background: newBackground(), reporter: &reporter{logger: cfg.Logger, tellUser: cfg.Notice}}
	s.table = newTable(name)
	s.servers = &servers{}
	if cfg.Began.IsZero() {
		cfg.Began = time.Now()
	}
	s.events = &announcer{servers: s.servers, mailbox: NewMailbox(), began: cfg.Began, spread: cfg.Failed}
	s.private = &private{}
	meter := &memoryMeter{table: s.table, on: cfg.Memory}
	alerts := &alerts{table: s.table, raised: make(chan struct{}, 1), closing: s.background.closing, logger: cfg.Logger}
	s.ailments = &ailments{table: s.table, events: s.events}
	s.failures = &failures{table: s.table, events: s.events, alerts: alerts, endsFirst: cfg.EndsFirst && !cfg.Share.hasOthers(), goesOn: cfg.Recover, passages: &passages{}}
	s.failures.hold = newNewsHold(cfg.Watchdog.NewsDelay, cfg.Share.hasOthers(), s.background.closing)
	s.watch = &deathWatch{
		cfg: cfg.Watchdog, cheap: cfg.Share.crowdsKernel(), table: s.table, failures: s.failures, ailments: s.ailments, background: s.background, logger: cfg.Logger,
		tags: map[uint64]*localPE{},
	}
	s.outputs = &outputs{cfg: &s.cfg, reporter: s.reporter, servers: s.servers, window: cfg.PTY.Window}
	s.input = newInput(s.reporter.notice, cfg.Credit)
	s.input.shared = cfg.StdinTo.span(&cfg.Share)
	s.ends = &ends{
		table: s.table, events: s.events, failures: s.failures, servers: s.servers, watch: s.watch, background: s.background, reporter: s.reporter, noteEnd: cfg.noteEnd,
	}
	s.attach = &attachService{
		table: s.table, alerts: alerts, background: s.background, logger: cfg.Logger, cfg: &s.cfg.Config, passages: s.failures.passages,
	}
	s.starter = &starter{
		cfg: &s.cfg.Config, table: s.table, servers: s.servers, watch: s.watch, ailments: s.ailments, outputs: s.outputs, input: s.input, ends: s.ends, meter: meter,
		niceness: &niceness{table: s.table, background: s.background, logger: cfg.Logger}, private: s.private, attach: s.attach,
		debuggers:  &debuggers{table: s.table, closing: s.background.closing, logger: cfg.Logger},
		background: s.background, logger: cfg.Logger, work: make(chan func()),
		noteStart: cfg.noteStart,
	}
	s.agent = &nodeAgent{table: s.table, starter: s.starter, reporter: s.reporter, logger: cfg.Logger, key: cfg.Share.DataKey, ended: make(chan struct{}), closed: s.background.closing, hungAfter: hungAfter, hooks: &s.cfg.Hooks}
	s.agent.configure(&cfg)
	s.attach.agent, s.failures.agent, s.ends.agent = s.agent, s.agent, s.agent
	s.orphans = &orphans{table: s.table, agent: s.agent, ownsChildren: cfg.OwnsChildren, isOther: cfg.IsOther, shares: cfg.SharesChildren, closing: s.background.closing, reporter: s.reporter}
	s.signals = &signals{table: s.table, meter: meter, ailments: s.ailments, orphans: s.orphans}
	s.agent.signals = s.signals
	s.orders = &orders{table: s.table}
	s.clients = &clients{
		table: s.table, events: s.events, meter: meter, watch: s.watch, input: s.input, reporter: s.reporter, log: cfg.Log,
	}
	s.spawner = &spawner{
		cfg: &s.cfg.Config, table: s.table, events: s.events, servers: s.servers, starter: s.starter, ends: s.ends, background: s.background,
		reporter: s.reporter, private: s.private, root: &rootLine{call: cfg.Spawn, closing: s.background.closing}, agent: s.agent,
	}
	s.clients.spawner = s.spawner
	return s
}

// setUp starts what runs beside the PEs, and makes what they need.
func (s *Step) setUp() (err error) {
	_ = xunix.Subreaper() // an improvement where it works
	if err := s.cfg.makeProfileDir(); err != nil {
		return err
	}
	b := s.background
	if s.cfg.OwnsChildren || s.cfg.IsOther != nil {
		b.serve(s.orphans.reapAsTheyEnd)
	}
	b.serve(func() { s.events.mailbox.Run(b.closing) })
	b.serve(s.failures.alerts.run)
	go s.starter.run()
	j := newLocalJob(s.cfg.Apps, &s.cfg.Share)
	if err := s.watch.open(len(j.near)); err != nil {
		return err
	}
	if err := s.private.choosePath(); err != nil {
		return err
	}
	b.serve(func() { removeStale(s.private.path, s.cfg.Logger) })
	if s.servers.host, err = s.cfg.hostName(); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	s.table.enlistFirst(j)
	if err := j.memory.create(j.key, j.npes(), j.near, s.cfg.HeapSize, s.agent.segmentOptions()...); err != nil {
		return err
	}
	awaitAgent := s.agent.begin(j)
	err = s.startServers(j)
	if err == nil {
		err = s.attach.listen()
	}
	s.report.Agent = awaitAgent() // also after an error: what it has started is to be closed
	if err != nil {
		return err
	}
	if at := s.cfg.Watchdog.Hang; at > 0 {
		h := &hangWatch{table: s.table, ailments: s.ailments, atMost: at}
		b.serve(func() { h.run(b.closing) }) // now that the job is whole
	}
	return nil
}

// hostName returns the name of the step's node.
func (c *Config) hostName() (string, error) {
	if c.Share.isGiven() {
		return c.Share.Hosts[c.Share.Node], nil
	}
	return os.Hostname()
}

// startServers starts the servers of PMIx and PMI-1 for the first job.
func (s *Step) startServers(j *localJob) error {
	if j.share.spans() {
		s.servers.crossing = &crossing{remote: s.cfg.Remote, peers: s.cfg.Peers, table: s.table}
	}
	a := &authorizer{table: s.table, private: s.private, reporter: s.reporter}
	if err := s.servers.startPMIx(j, s.private, pmixHost{s.clients}, a, &s.cfg); err != nil {
		return fmt.Errorf("PMIx server: %w", err)
	}
	s.reporter.checkLoopback()
	return s.servers.startPMI(j, pmiHost{s.clients}, s.background, s.cfg.Logger)
}

// Events returns what happens to the PEs, in order for each of them.
func (s *Step) Events() <-chan Event { return s.events.mailbox.Out() }

// Launch starts all PEs of the first job. After an error some may run: Close
// ends them.
func (s *Step) Launch() error { return s.starter.launch(s.table.job(0)) }

// Feed gives readers a chunk of standard input, after Launch, and does not wait. Each of them gets
// it at its own pace. Hooks.Credit tells when the next chunk may come: when the only reader of the
// stream has taken the data, or the step has for several readers.
func (s *Step) Feed(c Chunk) { s.input.take(c) }

// PID returns the number of a PE's process, 0 before it was started.
func (s *Step) PID(id ID) (pid int) {
	s.table.update(id, func(p *localPE) { pid = p.pid })
	return pid
}

// Signal sends a signal to the process groups of all PEs that still run. Where
// the process of a PE has ended and its program goes on, it reaches what the job
// has left without a parent; SIGKILL then ends the PE, too.
func (s *Step) Signal(sig syscall.Signal) { s.signals.send(sig) }

// Suspend asks all PEs that run to stop, and stops at once those that cannot be
// asked. SIGTSTP stops no process of a session whose parents are all outside of
// it. So a PE that leads a session gets SIGSTOP, unless one of the processes in
// its group handles SIGTSTP: then the group gets that, and the caller has to stop
// those that go on.
func (s *Step) Suspend() { s.signals.suspend() }

// Stopped says whether the processes of all PEs that run are stopped.
func (s *Step) Stopped() bool { return s.signals.allStopped() }

// Forsake declares a PE failed that has joined its job and left it without a
// farewell, and nothing of which has joined again since; false if that is not so.
func (s *Step) Forsake(id ID) bool { return s.failures.forsake(id) }

// IsAtWork says whether a process of a PE could run: its own or what descends from it, other than the program that
// joined last. One that runs, or waits for a processor, may be about to join.
func (s *Step) IsAtWork(id ID) bool { return s.orders.isAtWork(id) }

// Refuse lets no further job begin, and with lost makes no failure known to PEs any more, see Node.
func (s *Step) Refuse(lost bool) {
	s.table.refuseJobs()
	if lost {
		s.failures.silence()
	}
}

// Ask gives an order to all PEs that run and returns their answers, at most
// within the time given. A PE that takes no orders has none.
func (s *Step) Ask(o wire.Order, atMost time.Duration) []Answer { return s.orders.ask(o, atMost) }

// HasGo says whether there are Go programs among the processes of a PE.
func (s *Step) HasGo(id ID) bool { return len(s.orders.goProcesses(id)) > 0 }

// QuitGo sends SIGQUIT to those, whose runtime then prints the stacks of all
// goroutines and ends the program, and waits for that and the output, at most
// for the time given. Other programs would only make a core file.
func (s *Step) QuitGo(id ID, atMost time.Duration) { s.orders.quitGo(id, atMost) }

// Tier says how the step learns of ends.
func (s *Step) Tier() string { return s.watch.tierName() }

// ToolURI returns what tools need to attach; empty if none may.
func (s *Step) ToolURI() string { return s.servers.pmix.ToolURI() }

// Resize gives the pseudo terminals of all PEs, and of those that will start, a window
// size. It is that which the user's terminal has now.
func (s *Step) Resize(w xunix.Window) {
	s.outputs.setWindow(w)
	for _, p := range s.table.allStarted() {
		s.outputs.resize(p)
	}
}
