package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// AgentCommand says how a step starts the agent of its node: the process that carries one-sided operations between nodes.
type AgentCommand struct {
	Argv []string
	// Patience is how long the agent of another node may execute and answer nothing while PEs wait for it. Then the agent ends, and its
	// node with it.
	Patience time.Duration
	Listen   netip.Addr // the address of this node at which the agents of other nodes reach it
	Ports    [2]uint16  // the lowest and the highest port at which it may listen; zero: any
	// Lack says why no agent can run on this node. Nil: one can.
	Lack error
}

// agentWithin is how long an agent may take to map the segments and to listen.
const agentWithin = 30 * time.Second

// nodeAgent is the agent of this node. A job of one node has none, nor has a node without PEs of the first job.
//
// # Its end is the node's
//
// The agent is started by the thread that starts PEs, so the kernel kills it when the step's process ends. Once a PE has
// fetched the agent's descriptors, the end of the agent is that of the node: the step kills its PEs, because other nodes
// could not reach them any more, and they could not reach other nodes. No job begins here afterwards.
//
// Programs of MPI never fetch them. For them the step goes on without an agent if it does not start, or ends. If it has
// ended, other nodes may count on it: they were told where it is. So the node ends when the agent is missed, that is when a PE
// asks for it, or fails. If it has not started, no node uses its own, and PEs that attach hear why there is none.
type nodeAgent struct {
	command  *AgentCommand   // nil: there is no agent
	ending   func(err error) // as Hooks.AgentEnded
	hooks    *Hooks
	key      [32]byte
	table    *table
	starter  *starter
	signals  *signals
	reporter *reporter
	logger   zerolog.Logger
	closing  atomic.Bool     // the step kills the agent itself
	closed   <-chan struct{} // closed when the step ends

	parts []layout.NodePart // by node: its PEs
	list  []layout.PE       // as that of the agent's page; nil: there is none
	near  []int             // the PEs of this node, ascending

	state sync.Mutex // held for looks and changes only: callers may hold any other lock
	runs  bool       // the agent has said that it serves, and has not ended
	lent  bool       // a PE has its descriptors
	lack  error      // why there is no agent; nil: there is one, or the job has one node
	// guests are the PEs of spawned jobs that it serves, by index.
	guests map[int]ID
	// unused is how an agent has ended that no PE has used; nil: it has not. A PE has missed it if missed is set.
	unused  error
	missed  bool
	lastAct sync.Once // endNode

	queue     sync.Mutex               // held for no call that waits: callers may hold the lock of the table
	deaths    []wire.AgentDrop         // of which the agent is still to be told
	asked     uint64                   // the number of the last question
	questions map[uint64]chan struct{} // by number: those without an answer
	refused   map[uint64]string        // by number: why the agent has not done what an answered question is about

	hungAfter time.Duration // how long the agent may take to answer
	hung      sync.Once     // it is killed because it has taken longer

	page *os.File // the agent's page
	// event is the agent's event descriptor, once it has sent that. It is no file: the Go runtime would watch it, and wake this
	// process whenever a PE wakes the agent.
	event []int
	told  sync.Mutex // held while a packet is sent that may have to wait
	line  *os.File   // the socket between the step and the agent; nil: it was never started

	words lastWords // of the process

	mu    sync.Mutex // held while the process is started
	cmd   *exec.Cmd  // nil: it was never started
	is    identity
	end   error         // how the process has ended; set before ended is closed
	ended chan struct{} // closed when the process is reaped
}

// configure says whether the node has an agent, and if not, why. A job of one node has none, and misses none.
func (a *nodeAgent) configure(cfg *settings) {
	if !cfg.Share.hasOthers() {
		return
	}
	a.parts, a.list, a.lack = cfg.Share.agentParts()
	switch {
	case a.lack != nil:
	case a.parts[cfg.Share.Node].Count == 0:
		a.lack = errors.New("the node has no PE of the first job")
	case cfg.Agent == nil:
		a.lack = errors.New("oshrun starts none")
	case cfg.Agent.Lack != nil:
		a.lack = cfg.Agent.Lack
	default:
		a.command, a.ending, a.near = cfg.Agent, cfg.AgentEnded, nearPEs(len(cfg.Share.Homes), &cfg.Share)
	}
}

// parts returns which PEs each node has. If the PEs of some node do not have consecutive numbers, it returns the list of all PEs
// as well, node after node (layout.AgentPage).
func (s *Share) parts() (parts []layout.NodePart, list []layout.PE) {
	parts = make([]layout.NodePart, len(s.Hosts))
	gaps := false
	for pe, node := range s.Homes {
		p := &parts[node]
		if p.Count == 0 {
			p.First = uint32(pe)
		}
		gaps = gaps || p.First+p.Count != uint32(pe)
		p.Count++
	}
	if !gaps {
		return parts, nil
	}
	next := uint32(0)
	for node := range parts {
		if parts[node].First = next; parts[node].Count == 0 {
			parts[node].First = 0
		}
		next += parts[node].Count
	}
	list = make([]layout.PE, len(s.Homes))
	filled := make([]uint32, len(parts)) // by node
	for pe, node := range s.Homes {
		list[parts[node].First+filled[node]] = layout.PE(pe)
		filled[node]++
	}
	return parts, list
}

// agentParts returns the parts of the nodes of a job with agents, or why the job has none. All nodes come to the same
// result.
func (s *Share) agentParts() (parts []layout.NodePart, list []layout.PE, lack error) {
	if n := len(s.Hosts); n > layout.WireNodes {
		return nil, nil, fmt.Errorf("the job has %d nodes, want at most %d", n, layout.WireNodes)
	}
	parts, list = s.parts()
	n := 0
	for _, p := range parts {
		if p.Count > 0 {
			n++
		}
	}
	if n > layout.UpperNodes {
		return nil, nil, fmt.Errorf("the job has PEs on %d nodes, want at most %d", n, layout.UpperNodes)
	}
	return parts, list, nil
}

// segmentOptions returns those of the segments of PEs that an agent serves.
func (a *nodeAgent) segmentOptions() []symheap.Option {
	if a.command == nil {
		return nil
	}
	return []symheap.Option{symheap.WithWire()}
}

// begin starts the agent in the background, if there is to be one. The function that it returns has to be called. It waits
// until the agent listens, and returns its address. The address is empty if there is no agent.
func (a *nodeAgent) begin(j *localJob) (await func() (addr string)) {
	if a.command == nil {
		return func() string { return "" }
	}
	var addr string
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if addr, err = a.start(j); err != nil {
			a.giveUp(err)
		}
	}()
	return func() string { <-done; return addr }
}

// giveUp notes that the agent has not started. The job goes on without it.
func (a *nodeAgent) giveUp(err error) {
	a.kill()
	a.state.Lock()
	a.runs, a.lack = false, err
	a.state.Unlock()
	a.reporter.notice("%s: the agent of the node has not started: %v: PEs do not reach the memory of PEs on other nodes", a.starter.servers.host, err)
}

// start starts the agent for the first job, and returns when it listens. Addr is its address.
func (a *nodeAgent) start(j *localJob) (addr string, err error) {
	if a.page, err = symheap.CreateAgentPage(a.parts, a.list...); err != nil {
		return "", err
	}
	here, there, err := xunix.PacketPair()
	if err != nil {
		return "", err
	}
	a.line = here
	err = a.startProcess(there)
	_ = there.Close() // the process has it
	if err != nil {
		return "", err
	}
	go a.follow()
	if err = here.SetDeadline(time.Now().Add(agentWithin)); err == nil {
		if err = a.setUp(j); err == nil {
			addr, err = a.awaitReady()
		}
	}
	if err == nil {
		err = here.SetDeadline(time.Time{})
	}
	if err == nil {
		err = a.serve()
	}
	if err != nil {
		return "", fmt.Errorf("start of the agent: %w", a.explain(err))
	}
	go a.hear(j)
	go a.attend()
	return addr, nil
}

// explainWithin is how long an agent that has closed its socket may take to end.
const explainWithin = time.Second

// explain adds to an error of the start how the process has ended, if it has.
func (a *nodeAgent) explain(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	if !within(time.Now().Add(explainWithin), func() { <-a.ended }) {
		return err
	}
	return fmt.Errorf("it has ended: %w: %w", a.end, err)
}

// serve notes that PEs can use the agent from now on, unless it has ended.
func (a *nodeAgent) serve() error {
	a.state.Lock()
	defer a.state.Unlock()
	if a.lack == nil {
		a.runs = true
	}
	return a.lack
}

// stop notes that PEs cannot use the agent any more. It returns whether they could, and whether one had its descriptors.
func (a *nodeAgent) stop(cause error) (ran, lent bool) {
	a.state.Lock()
	defer a.state.Unlock()
	ran, a.runs = a.runs, false
	if a.lack == nil {
		a.lack = cause
	}
	return ran, a.lent
}

// isServing says whether PEs can use the agent, and whether one has its descriptors.
func (a *nodeAgent) isServing() (runs, lent bool) {
	a.state.Lock()
	defer a.state.Unlock()
	return a.runs, a.runs && a.lent
}

// lend returns the descriptors that PEs get, or why there is no agent. The end of the agent is that of the node from now on.
func (a *nodeAgent) lend() (fds []int, lack error) {
	a.state.Lock()
	defer a.state.Unlock()
	if !a.runs {
		return nil, a.lack
	}
	a.lent = true
	return append([]int{int(a.page.Fd())}, a.event...), nil
}

// giveLine makes a line between a PE of the first job and the agent (package wire), and returns the PE's end, which the
// caller closes.
func (a *nodeAgent) giveLine(local int) (*os.File, error) {
	here, there, err := xunix.PacketPair()
	if err != nil {
		return nil, fmt.Errorf("line of a PE to its agent: %w", err)
	}
	message := wire.AgentLine{PE: local}
	err = a.tell(message.Append(nil), time.Now().Add(a.hungAfter), int(there.Fd()))
	if err = errors.Join(err, there.Close()); err != nil {
		return nil, errors.Join(err, here.Close())
	}
	return here, nil
}

// kill kills the process, if it was started.
func (a *nodeAgent) kill() {
	a.mu.Lock()
	cmd := a.cmd
	a.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill() // it may have ended
	}
}

// hear takes what the agent says until it has ended.
func (a *nodeAgent) hear(j *localJob) {
	for {
		packet, fds, err := xunix.RecvFDs(a.line, wire.AgentPacket, 1)
		xunix.CloseFDs(fds)
		if err != nil {
			return // the agent has ended: see follow
		}
		if wire.AgentMessageOf(packet) == wire.AgentMessageDropped {
			a.takeDropped(packet)
			continue
		}
		if wire.AgentMessageOf(packet) == wire.AgentMessageBroken {
			a.takeBroken(packet)
			continue
		}
		var fault wire.AgentFault
		err = fault.Parse(packet)
		id, known := a.nameOf(j, fault.PE)
		if err != nil || !known {
			a.logger.Error().Err(err).Int("pe", fault.PE).Msg("word of the agent")
			continue
		}
		a.reporter.notice("PE %v is killed: what it shares with the agent of its node is spoiled: %s", id, fault.Text)
		a.table.update(id, func(p *localPE) { p.signal(syscall.SIGKILL) })
	}
}

// startProcess starts the process. It has no input, and an environment that tells nothing.
func (a *nodeAgent) startProcess(there *os.File) error {
	attr := xunix.ChildAttr()
	a.words.logger = a.logger
	cmd := &exec.Cmd{
		Path: a.command.Argv[0], Args: a.command.Argv, Env: []string{}, Dir: "/", Stderr: &a.words,
		ExtraFiles: []*os.File{there}, SysProcAttr: attr, WaitDelay: explainWithin,
	}
	done := make(chan error)
	a.starter.work <- func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		err := cmd.Start()
		if err == nil {
			a.cmd, a.is = cmd, identity{cmd.Process.Pid, look(cmd.Process.Pid).start}
			a.hooks.noteStart(a.is.pid)
		}
		done <- err
	}
	if err := <-done; err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	a.logger.Info().Int("pid", cmd.Process.Pid).Msg("agent started")
	return nil
}

// setUp sends the agent what it needs.
func (a *nodeAgent) setUp(j *localJob) (err error) {
	files, err := j.memory.lend()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.memory.endLoan()) }()
	info, err := files.heaps[0].Stat()
	if err != nil {
		return err
	}
	setup := wire.AgentSetup{
		Job: j.key, Key: a.key, Node: j.share.Node, Nodes: len(j.share.Hosts), NPEs: j.npes(), First: j.near[0], Near: len(j.near),
		SegmentSize: uint64(info.Size()), Incarnation: incarnation, Patience: int64(a.command.Patience), Listen: netip.AddrPortFrom(a.command.Listen, a.command.Ports[0]).String(),
		LastPort: a.command.Ports[1], CollRadix: j.share.CollRadix,
	}
	if err := xunix.SendFDs(a.line, setup.Append(nil), []int{int(a.page.Fd())}); err != nil {
		return err
	}
	for first := 0; first < len(files.heaps); first += wire.MaxSegments {
		part := files.heaps[first:min(first+wire.MaxSegments, len(files.heaps))]
		var fds []int
		for _, f := range part {
			fds = append(fds, int(f.Fd()))
		}
		message := wire.AgentSegments{First: first, Count: len(part)}
		if err := xunix.SendFDs(a.line, message.Append(nil), fds); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady returns the address at which the agent listens.
func (a *nodeAgent) awaitReady() (addr string, err error) {
	packet, fds, err := xunix.RecvFDs(a.line, wire.AgentPacket, 1)
	if err != nil {
		return "", fmt.Errorf("no answer of it, which may take %v: %w", agentWithin, err)
	}
	var ready wire.AgentReady
	err = ready.Parse(packet)
	switch {
	case err != nil:
	case ready.Err != "":
		err = errors.New(ready.Err)
	case len(fds) != 1:
		err = fmt.Errorf("it has sent %d descriptors, want its event descriptor", len(fds))
	default:
		a.event = fds
		return ready.Addr, nil
	}
	xunix.CloseFDs(fds)
	return "", err
}

// lastWords logs what the agent writes on its standard error, and keeps the last line.
type lastWords struct {
	logger zerolog.Logger
	mu     sync.Mutex
	line   string
}

// Write never fails.
func (w *lastWords) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		w.logger.Info().Str("text", line).Msg("word of the agent")
		w.mu.Lock()
		w.line = strings.TrimPrefix(line, "oshrun: ")
		w.mu.Unlock()
	}
	return len(text), nil
}

// last returns the last line.
func (w *lastWords) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line
}

// follow waits for the end of the process. If a PE has its descriptors, it ends the node's PEs then.
func (a *nodeAgent) follow() {
	a.end = a.cmd.Wait()
	a.hooks.noteEnd(a.is.pid)
	if a.end == nil {
		a.end = errors.New("exit status 0 before the job was over")
	}
	if last := a.words.last(); last != "" && a.cmd.ProcessState.Exited() { // otherwise its words say nothing of its end
		a.end = fmt.Errorf("%w: %s", a.end, last)
	}
	err := fmt.Errorf("the agent of the node has failed: %w", a.end)
	ran, lent := a.stop(err)
	close(a.ended)
	switch {
	case a.closing.Load() || !ran: // start says why it has not, and retire why it does no longer
	case lent:
		a.endNode(err)
	default:
		a.logger.Warn().Err(err).Msg("no PE has used it yet, and none can any more")
		a.state.Lock()
		a.unused = err
		missed := a.missed
		a.state.Unlock()
		if missed {
			a.endNode(err)
		}
	}
}

// miss notes that a PE of the first job would need the agent. If that has ended, the node has ended when miss returns. The caller holds
// no lock.
func (a *nodeAgent) miss() {
	a.state.Lock()
	a.missed = true
	err := a.unused
	a.state.Unlock()
	if err != nil && !a.closing.Load() {
		a.endNode(err)
	}
}

// endNode ends the PEs of the node, because the agent has ended with err.
func (a *nodeAgent) endNode(err error) { a.lastAct.Do(func() { a.endNodeOnce(err) }) }

func (a *nodeAgent) endNodeOnce(err error) {
	if a.ending != nil {
		a.ending(err)
	}
	a.table.refuseJobs()
	a.signals.send(syscall.SIGKILL)
	if a.ending == nil {
		a.reporter.notice("%s: %v: its PEs are killed", a.starter.servers.host, err)
	}
}

// process returns the process of the agent; the zero identity: there is none.
func (a *nodeAgent) process() identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.is
}

// runsAs says whether the agent runs as the process with that number, or is still to be reaped. It waits for a start that
// is under way.
func (a *nodeAgent) runsAs(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd == nil || a.is.pid != pid {
		return false
	}
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// close kills the agent and frees what belongs to it. The PEs have ended.
func (a *nodeAgent) close(deadline time.Time) error {
	a.closing.Store(true)
	a.kill()
	if a.process() != (identity{}) {
		if !within(deadline, func() { <-a.ended }) {
			a.reporter.notice("the agent (pid %d) is still running after SIGKILL", a.is.pid)
		}
	}
	a.stop(errEnding)
	a.told.Lock()
	defer a.told.Unlock()
	var errs []error
	for _, f := range []*os.File{a.line, a.page} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	xunix.CloseFDs(a.event)
	a.event = nil
	return errors.Join(errs...)
}

// SetAgents tells the agent of this node the addresses of all agents, by node. PEs are started afterwards. If a node with
// PEs has no agent, none of the job is used: a PE could not reach all others.
func (s *Step) SetAgents(addrs []string) error {
	if !s.cfg.Share.hasOthers() {
		return nil
	}
	if n := len(s.cfg.Share.Hosts); len(addrs) != n {
		return fmt.Errorf("addresses of %d agents, want those of %d nodes", len(addrs), n)
	}
	for node, part := range s.agent.parts {
		if part.Count > 0 && addrs[node] == "" {
			s.agent.retire(fmt.Errorf("%s has none, so no node uses its own", s.cfg.Share.Hosts[node]))
			return nil
		}
	}
	message := wire.AgentPeers{Addrs: addrs}
	if err := s.agent.tell(message.Append(nil), time.Now().Add(s.agent.hungAfter)); err != nil {
		s.agent.retire(err)
	}
	return nil
}

// retire ends an agent that no PE uses.
func (a *nodeAgent) retire(cause error) {
	if ran, _ := a.stop(cause); ran {
		a.logger.Warn().Err(cause).Msg("agent not used: PEs do not reach the memory of PEs on other nodes")
		a.kill()
	}
}
