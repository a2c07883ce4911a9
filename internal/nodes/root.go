package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/control"
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
	Addrs    []netip.Addr      // at which the front end listens
	Ports    control.PortRange // of which it takes one for each address; zero: any
	Within   time.Duration     // how long a daemon may take to report itself
	Lease    time.Duration     // how long a node may be out of reach
	Logger   zerolog.Logger
	// Report takes a line about a connection that was closed because its peer is not of the job.
	Report func(line string)
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

// Start starts the daemons of a layout, and a step in each of them.
func (s Starter) Start(ctx context.Context, l launch.Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]launch.Node, error) {
	r := &root{cfg: s.Config, secret: control.NewSecret(), hosts: l.Hosts, here: l.Here}
	for i := range l.Hosts {
		r.members = append(r.members, &member{root: r, index: i, host: l.Hosts[i].Name, joined: make(chan struct{})})
	}
	err := r.startDaemons(ctx)
	if err == nil {
		err = r.startSteps(ctx, r.share(l), cfg, hooks)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	nodes := make([]launch.Node, len(r.members))
	for i, m := range r.members {
		nodes[i] = m
	}
	return nodes, nil
}

// root is the front end's side of a job of several nodes.
type root struct {
	cfg      Config
	secret   control.Secret
	hosts    []plan.Host
	here     []bool // by index of the node: its host is this machine; may be shorter
	listener *control.Listener
	members  []*member

	mu   sync.Mutex
	open int // members that are not closed; at 0 the listener is closed
}

// share describes the job to its nodes. Each gets its own index.
func (r *root) share(l launch.Span) daemon.Share {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	return daemon.Share{
		Name: "goshmem-" + hex.EncodeToString(random[16:]), Key: [16]byte(random[:16]),
		Hosts: namesOf(l.Hosts), Homes: l.Homes, Emulated: r.cfg.Emulated,
	}
}

// startDaemons starts the daemons of all nodes, and returns when each has reported itself.
func (r *root) startDaemons(ctx context.Context) (err error) {
	r.open = len(r.members)
	r.listener, err = control.Listen(control.ListenConfig{
		Secret: r.secret, Self: r.identity(), Addrs: r.cfg.Addrs, Ports: r.cfg.Ports,
		Limits: control.Limits{Lease: r.cfg.Lease, Return: min(returnWithin, r.cfg.Lease)}, Accept: r.accept, Report: r.cfg.Report,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Within, fmt.Errorf("it has not reported itself within %v (--launch-timeout)", r.cfg.Within))
	defer cancel()
	if !r.cfg.Agent.All {
		return r.each(atOnce, func(m *member) error { return m.startDaemon(ctx) })
	}
	h := Handover{Secret: r.secret, Node: -1, Hosts: namesOf(r.hosts), Root: r.listener.Addrs(), Lease: r.cfg.Lease}
	agent, err := r.cfg.Agent.start(0, r.hosts, h.Append(nil))
	if err != nil {
		return err
	}
	return r.each(len(r.members), func(m *member) error { return m.awaitDaemon(ctx, agent) })
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
func (r *root) startSteps(ctx context.Context, share daemon.Share, cfg daemon.Config, hooks func(node int) daemon.Hooks) error {
	cfg.Terminal = false // it is not the terminal of the daemons

	stop := context.AfterFunc(ctx, func() { // ends all requests
		for _, m := range r.members {
			m.lose(context.Cause(ctx))
		}
	})
	defer stop()
	return r.each(len(r.members), func(m *member) error {
		cfg := cfg
		cfg.Share = share
		cfg.Share.Node = m.index
		if err := m.Start(cfg, hooks(m.index)); err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		return nil
	})
}

// each calls f for all members, some at a time, and returns the first error, and how many other members have had one.
func (r *root) each(atATime int, f func(m *member) error) error {
	errs := make([]error, len(r.members))
	slots := make(chan struct{}, atATime)
	var calls sync.WaitGroup
	for i, m := range r.members {
		slots <- struct{}{}
		calls.Go(func() {
			errs[i] = f(m)
			<-slots
		})
	}
	calls.Wait()
	var first error
	more := 0
	for _, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			more++
		}
	}
	switch more {
	case 0:
		return first
	case 1:
		return fmt.Errorf("%w, and so has another node", first)
	default:
		return fmt.Errorf("%w, and so have %d other nodes", first, more)
	}
}

// accept takes the link of a daemon that reports itself.
func (r *root) accept(l *control.Link) (control.Handler, error) {
	node := l.Peer().Node
	if node < 0 || int(node) >= len(r.members) {
		return control.Handler{}, fmt.Errorf("node %d reports itself, want one from 0 to %d", node, len(r.members)-1)
	}
	m := r.members[node]
	if !m.join(l) {
		return control.Handler{}, fmt.Errorf("node %d reports itself twice", node)
	}
	return control.Handler{Take: m.take, Bye: m.leave, Lost: m.lose}, nil
}

// relay passes a frame of one node on to another.
func (r *root) relay(from int, f wire.Frame) error {
	to, inner, err := parseRelay(f)
	if err != nil {
		return err
	}
	if to < 0 || to >= len(r.members) || to == from {
		return fmt.Errorf("node %d has a frame for node %d, want another one from 0 to %d", from, to, len(r.members)-1)
	}
	r.members[to].send(relayFrame(from, inner))
	return nil
}

// announceLoss tells the other nodes that a node is lost.
func (r *root) announceLoss(node int) {
	for _, m := range r.members {
		if m.index != node {
			m.send(wire.Frame{Kind: wire.KindNodeDead, Stream: uint32(node)})
		}
	}
}

// close ends all daemons that were started.
func (r *root) close() error {
	return r.each(len(r.members), (*member).Close)
}

// leave closes the listener when the last member is closed.
func (r *root) leave() {
	r.mu.Lock()
	r.open--
	last := r.open == 0
	r.mu.Unlock()
	if !last || r.listener == nil {
		return
	}
	r.listener.Close()
	if r.cfg.Emulated && slices.ContainsFunc(r.members, (*member).wasKilled) {
		daemon.RemoveStale(r.cfg.Logger) // on other machines the next daemon does it
	}
}
