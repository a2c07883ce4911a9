package nodes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/internal/wire"
)

// Config says how the daemons of a job's nodes are started.
type Config struct {
	Agent    Agent
	Here     Agent             // starts the daemon on this machine, if it is one of the hosts; zero: Agent does
	Emulated bool              // the nodes share this machine's kernel
	Radix    int               // how many agents the front end starts, and each daemon; 0: the front end starts all
	Addrs    []netip.Addr      // at which the front end listens
	Ports    control.PortRange // of which it takes one for each address; zero: any
	Within   time.Duration     // how long a daemon may take to report itself
	Lease    time.Duration     // how long a node may be out of reach
	Stdio    bool              // daemons do not dial: the standard input and output of their agents are the connections
	// Heartbeat is how often nodes ask each other whether they live; 0: never. A job that begins with one node does not do so,
	// nor do nodes that are added, nor those of Stdio: the front end may have no way to their addresses.
	Heartbeat time.Duration
	Tier      responder.Tier // who answers; 0: the best that works
	// PartGoesOn says that the front end goes on with the nodes that it reaches, even if most are out of reach.
	PartGoesOn bool
	// CollRadix is the radix of the trees of nodes, see daemon.Share; 0: the best by Tuned, or by what is measured.
	CollRadix int
	// Tuned returns what was measured before of the way between nodes; false: nothing was, so the start measures. Nil: the
	// same as false.
	Tuned func() (tree.LogP, bool, error)

	patience time.Duration // how long other daemons may take to fail after the first one has; zero: errorsWithin
}

// atOnce is how many launch agents start at a time.
const atOnce = 128

// returnWithin is how long a daemon may take to dial again when its machine has closed its connection.
const returnWithin = 1500 * time.Millisecond

// closeWithin is how long a daemon whose node is closed may take to end.
const closeWithin = time.Second

// Starter is a launch.Starter: it starts a daemon for each node.
type Starter struct{ Config }

// Check returns nil: the nodes have the programs.
func (s Starter) Check(*daemon.Config) error { return nil }

// Start starts the daemons of a layout, and a step in each of them. If the layout grows, the first node is a launch.Adder.
func (s Starter) Start(ctx context.Context, l launch.Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]launch.Node, error) {
	if l.Local {
		n, err := s.startLocal(l, cfg, hooks)
		if err != nil {
			return nil, err
		}
		return []launch.Node{n}, nil
	}
	r := s.newRoot(l, hooks)
	r.plantTree()
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	go r.awaitKill(l.Kill)
	err := r.startDaemons(ctx)
	if err != nil {
		r.giveUp(err) // there is no step that could close
	} else {
		r.step = stepConfig{cfg: cfg, share: r.share(l, r.chooseRadix(ctx)), hooks: hooks}
		err = r.startSteps(ctx)
	}
	if err == nil {
		err = r.introduceAgents(ctx)
	}
	if err == nil {
		err = startWatch(ctx, r)
	}
	if err == nil && !s.Emulated { // whose nodes are this machine
		r.compare(cfg.Apps)
	}
	if err != nil {
		return nil, errors.Join(err, r.each(context.Background(), len(r.members), nil, (*member).closeRest))
	}
	return nodesOf(r.members), nil
}

// nodesOf returns members as the front end's launch has them.
func nodesOf(members []*member) []launch.Node {
	nodes := make([]launch.Node, len(members))
	for i, m := range members {
		nodes[i] = m
	}
	return nodes
}

// root is the front end's side of a job of several nodes.
type root struct {
	cfg      Config
	secret   control.Secret
	hosts    []plan.Host
	here     []bool // by index of the node: its host is this machine; may be shorter
	listener *control.Listener
	step     stepConfig // of all nodes
	logger   zerolog.Logger
	notice   func(text string)       // takes what the user should know
	cancel   context.CancelCauseFunc // ends the start; the first cause is what the user is told
	failed   chan struct{}           // closed when a daemon could not be started: no agent is started any more
	over     chan struct{}           // closed when the last daemon is ended
	board    *courier.Root           // published data of PMIx clients
	survey   survey                  // of the way to the daemons
	watched  int                     // how many nodes watch each other, or are to

	growing  sync.Mutex // held while nodes are added
	mu       sync.Mutex
	members  []*member       // by index of the node; some may be added, see team
	numbered []*member       // by the number that the daemon says when it reports itself: members, and those that did not become any
	open     int             // members whose daemons are not ended; at 0 the listener is closed
	agents   []*agentProcess // that were started
	killed   bool            // no agent is started any more
	judge    *judge          // decides which nodes are lost; nil: they do not watch each other
	flat     bool            // a daemon could not start the agent of another: the front end starts all that are left
}

// stepConfig is what the steps of all nodes have in common.
type stepConfig struct {
	cfg   daemon.Config
	share daemon.Share // without Node
	hooks func(node int) daemon.Hooks
}

// newMember returns the member of a host.
func (r *root) newMember(index, number int, host string) *member {
	return &member{root: r, index: index, number: number, host: host, joined: make(chan struct{}), holds: 1}
}

// team returns the members that there are now.
func (r *root) team() []*member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.members)
}

// share describes the job to its nodes. Each gets its own index.
func (r *root) share(l launch.Span, radix int) daemon.Share {
	var random [24]byte
	var key [32]byte
	_, _ = rand.Read(random[:]) // never fails
	_, _ = rand.Read(key[:])    // never fails
	return daemon.Share{
		Name: "goshmem-" + hex.EncodeToString(random[16:]), Key: [16]byte(random[:16]), DataKey: key,
		Hosts: namesOf(l.Hosts), Homes: l.Homes, Emulated: r.cfg.Emulated, Grows: l.Grows, CollRadix: radix,
	}
}

// startDaemons starts the daemons of all nodes, and returns when each has reported itself. The first that fails ends the
// start. Others that fail soon after it are told as well.
func (r *root) startDaemons(ctx context.Context) (err error) {
	if err = r.listen(ctx); err != nil {
		return err
	}
	start := func(m *member) error { return m.startDaemon(ctx) }
	most := atOnce
	if r.cfg.Agent.All {
		h := r.handover(-1)
		h.Hosts = namesOf(r.hosts)
		agent, err := r.startAgent(0, h.Append(nil))
		if err != nil {
			return err
		}
		start = func(m *member) error { return m.awaitDaemon(ctx, agent, r.cfg.Within) }
		most = len(r.members)
	}
	return r.each(ctx, most, r.failed, func(m *member) error {
		err := start(m)
		switch {
		case err == nil:
		case ctx.Err() != nil: // that is why the call failed
			return context.Cause(ctx)
		default:
			r.endStart()
		}
		return err
	})
}

// endStart lets no further agent start, as one has failed, and soon waits for no daemon any more.
func (r *root) endStart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isClosed(r.failed) {
		close(r.failed)
		time.AfterFunc(cmp.Or(r.cfg.patience, errorsWithin), func() { r.cancel(errOneFailed) })
	}
}

// handover returns what the daemon of a node gets; -1: each finds out which node it is.
func (r *root) handover(node int) Handover {
	// A daemon that does not reach the front end says more than the front end, which waits for it. So it speaks first.
	return Handover{Stdio: r.cfg.Stdio, Secret: r.secret, Node: node, Root: r.listener.Addrs(), Dial: max(r.cfg.Within/2, time.Millisecond), Lease: r.cfg.Lease}
}

// startAgent starts the daemon of a node, or of all nodes.
func (r *root) startAgent(node int, handover []byte) (*agentProcess, error) {
	switch {
	case r.isKilled():
		return nil, errKilled
	case isClosed(r.failed):
		return nil, errNotStarted
	}
	by, index, hosts := r.agentOf(node)
	agent, err := by.start(index, hosts, handover, r.adopter())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteAgent(agent)
	return agent, nil
}

// adopter returns what takes the connections with daemons that do not dial; nil: they dial.
func (r *root) adopter() func(net.Conn) {
	if !r.cfg.Stdio {
		return nil
	}
	return r.listener.Adopt
}

// noteAgent notes an agent that was started. The caller has the lock.
func (r *root) noteAgent(agent *agentProcess) {
	r.agents = append(r.agents, agent)
	if r.killed { // meanwhile
		agent.clear()
	}
}

// errKilled is why nodes are lost that were killed with all others.
var errKilled = errors.New("killed during the start of the job's nodes")

// awaitKill kills all agents, and loses all nodes, when that is wanted.
func (r *root) awaitKill(wanted <-chan struct{}) {
	select {
	case <-wanted:
	case <-r.over:
		return
	}
	r.mu.Lock()
	r.killed = true // before the start fails, which ends the daemons: no goodbye then
	r.mu.Unlock()
	r.cancel(errKilled)
	for _, m := range r.team() {
		m.kill(errKilled)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, agent := range r.agents {
		agent.clear()
	}
}

// isKilled reports whether all is to end at once.
func (r *root) isKilled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed
}

// giveUp ends what waits for any node.
func (r *root) giveUp(err error) {
	for _, m := range r.team() {
		m.giveUp(err)
	}
}

// lateness is the error of a daemon that has not reported itself in time.
func (r *root) lateness() error {
	if r.cfg.Stdio {
		return &daemon.HintError{
			Err:  fmt.Errorf("it has not reported itself within %v (--launch-timeout) by its standard output", r.cfg.Within),
			Hint: "the command must pass on standard input and output as they are (--control stdio); --launch-timeout, for slow hosts",
		}
	}
	var at []string
	for _, a := range r.listener.Addrs() {
		at = append(at, a.String())
	}
	return &daemon.HintError{
		Err:  fmt.Errorf("it has not reported itself within %v (--launch-timeout) at %s", r.cfg.Within, strings.Join(at, ", ")),
		Hint: "--interface and --port-range, where a firewall lets only some networks and ports through; --launch-timeout, for slow hosts",
	}
}

// namesOf returns the names of hosts.
func namesOf(hosts []plan.Host) (names []string) {
	for i := range hosts {
		names = append(names, hosts[i].Name)
	}
	return names
}

// identity is what the front end says about itself.
func (r *root) identity() control.Identity {
	return control.Identity{Build: version.String(), Node: control.FrontEnd}
}

// startSteps starts the step of each node.
func (r *root) startSteps(ctx context.Context) error {
	r.step.cfg.Terminal = false // it is not the terminal of the daemons
	r.step.cfg.Surroundings = daemon.SurroundingsHere(r.logger)
	setHeartbeat(r)
	stop := context.AfterFunc(ctx, func() { r.giveUp(context.Cause(ctx)) }) // ends all requests
	defer stop()
	return r.each(ctx, len(r.members), nil, func(m *member) error { return m.startStep(&r.step) })
}

// startStep starts the step of the node.
func (m *member) startStep(s *stepConfig) error {
	cfg := s.cfg
	cfg.Share = s.share
	cfg.Share.Node = m.index
	if m.index >= m.root.watched {
		cfg.Heartbeat = daemon.Heartbeat{}
	}
	if err := m.Start(cfg, s.hooks(m.index)); err != nil {
		return fmt.Errorf("%s: %w", m.host, err)
	}
	return nil
}

// introduceAgents tells all nodes the addresses of their agents. Where no node has one, there is nothing to be told.
func (r *root) introduceAgents(ctx context.Context) error {
	members := r.team()
	addrs := make([]string, len(members))
	some := false
	for i, m := range members {
		addrs[i] = m.Report().Agent
		some = some || addrs[i] != ""
	}
	if !some {
		return nil
	}
	return r.each(ctx, len(members), nil, func(m *member) error {
		if err := m.SetAgents(addrs); err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		return nil
	})
}

// each calls f for all members, some at a time, see eachOf.
func (r *root) each(ctx context.Context, atATime int, stop <-chan struct{}, f func(m *member) error) error {
	return eachOf(ctx, r.team(), atATime, stop, f)
}

// eachOf calls f for some members, some of them at a time, and returns their errors, see joinByKind. No call begins once
// the context has ended, whose cause is the error then, or stop is closed.
func eachOf(ctx context.Context, members []*member, atATime int, stop <-chan struct{}, f func(m *member) error) error {
	errs := make([]hostError, len(members))
	slots := make(chan struct{}, atATime)
	var calls sync.WaitGroup
	for i, m := range members {
		select {
		case slots <- struct{}{}:
		case <-stop:
		case <-ctx.Done():
		}
		if isClosed(stop) || ctx.Err() != nil {
			break
		}
		calls.Go(func() {
			errs[i] = hostError{m.host, f(m)}
			<-slots
		})
	}
	calls.Wait()
	stopped := isClosed(stop)
	if !stopped && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return joinByKind(slices.DeleteFunc(errs, func(e hostError) bool {
		late := stopped && (errors.Is(e.err, errNotStarted) || ctx.Err() != nil && errors.Is(e.err, context.Cause(ctx)))
		return e.err == nil || late // of a call that was not carried out
	}))
}

// isClosed says whether a channel is closed, which may be nil.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// accept takes the link of a daemon that reports itself.
func (r *root) accept(l *control.Link) (control.Handler, error) {
	node := l.Peer().Node
	r.mu.Lock()
	numbered := r.numbered
	r.mu.Unlock()
	if node < 0 || int(node) >= len(numbered) {
		return control.Handler{}, fmt.Errorf("node %d reports itself, want one from 0 to %d", node, len(numbered)-1)
	}
	m := numbered[node]
	if !m.join(l) {
		return control.Handler{}, fmt.Errorf("node %d reports itself twice", node)
	}
	return control.Handler{Take: m.take, Bye: m.leave, Lost: m.loseLink, Broken: m.noteBroken, Back: m.noteBack}, nil
}

// relay passes a frame of one node on to another, to all others, or to the board.
func (r *root) relay(from int, f wire.Frame) error {
	to, inner, err := parseRelay(f)
	if err != nil {
		return err
	}
	switch to {
	case courier.ToRoot:
		return r.board.Take(from, inner)
	case courier.ToEveryone:
		f := relayFrame(from, inner)
		for _, m := range r.team() {
			if m.index != from {
				m.send(f)
			}
		}
		return nil
	}
	members := r.team()
	if to < 0 || to >= len(members) || to == from {
		return fmt.Errorf("node %d has a frame for node %d, want another one from 0 to %d", from, to, len(members)-1)
	}
	members[to].send(relayFrame(from, inner))
	return nil
}

// announceLoss tells the other nodes that a node is lost.
func (r *root) announceLoss(node *member) {
	members := r.team()
	if node.index >= len(members) || members[node.index] != node {
		return // a host that did not become a node
	}
	r.board.NodeDead(node.index)
	for _, m := range members {
		if m != node {
			m.send(wire.Frame{Kind: wire.KindNodeDead, Stream: uint32(node.index)})
		}
	}
}

// leave ends what all members share when the last daemon is ended.
func (r *root) leave() {
	r.mu.Lock()
	r.open--
	last := r.open == 0
	r.mu.Unlock()
	if !last {
		return
	}
	r.theJudge().close()
	r.board.Close()
	if r.listener != nil {
		r.listener.Close()
	}
	if r.cfg.Agent.All {
		r.endShared()
	}
	r.cfg.Agent.network.close()
	close(r.over)
	if r.cfg.Emulated && slices.ContainsFunc(r.team(), (*member).wasKilled) {
		daemon.RemoveStale(r.logger) // on other machines the next daemon does it
	}
}

// endShared ends the agent that has started all daemons.
func (r *root) endShared() {
	patience := closeWithin
	for _, m := range r.team() {
		patience = min(patience, m.patience())
	}
	r.mu.Lock()
	agents := r.agents
	r.mu.Unlock()
	for _, agent := range agents { // one, and those of added nodes, which have ended
		agent.end(patience)
		agent.logWords(r.logger)
	}
}
