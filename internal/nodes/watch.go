package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector"
	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/wire"
)

// The nodes of a job watch each other (package detector). The first nodes of a job do, those that are added later do not.
//
//	daemon                                              front end
//	opens its responder beside the start of its step
//	report of the step: where it answers  ------------>
//	starts its detector                   <------------ KindWatch: where all nodes answer
//	KindAccuse                            ------------> judge: is the node lost?
//	tells its step and its PMIx server    <------------ KindNodeDead: it is
//	its link is back: KindLinkBack        ------------> does the job go on?
//	tells what it has kept back           <------------ KindGoesOn: it does
//	ends its node                         <------------ KindEndNode: the daemon's own node is to go
//
// A death that is proven is known to all daemons before the front end has heard of it, and the step hears of it at once. A node
// whose link to the front end has broken is the exception: its step hears of the death when the link is back and the front end
// goes on with the job. Otherwise, where all nodes are cut off from the front end, PEs would go on without those of the node
// whose lease ends first.

// nodeIncarnation is the incarnation of each node: none is started again.
const nodeIncarnation = 1

// lingers is for how long the responder of a daemon that was killed says so. Others ping ten times a second, and hear of the
// end of connections at once.
const lingers = time.Second

// heartbeatWord is what the keeper of a responder is called with.
const heartbeatWord = "heartbeat"

// watcher is a daemon's part in this.
type watcher struct {
	cfg     daemon.Heartbeat
	node    int
	nodes   int
	recover bool               // as daemon.Config.Recover
	send    func(f wire.Frame) // to the front end
	fall    func(err error)    // ends this node, which others hold for dead
	junct   *junction          // of this node
	logger  zerolog.Logger
	isMute  atomic.Bool // the node ends: what happens to its PEs is not their own
	isOver  atomic.Bool // the node is closed

	contact contact // with the front end

	closed chan struct{} // closed by close
	once   sync.Once     // of close
	ports  control.PortRange
	opened chan struct{} // closed when the responder is open, or has failed to open
	socket *net.UDPConn  // of the detector; this and err are set before opened is closed
	err    error

	mu        sync.Mutex
	responder *responder.Responder // nil: it is not open
	early     []int                // processes that were started before
	detector  *detector.Detector   // nil: it does not run
	slow      hook.Teller          // news that may have to wait for the agent; it runs with the detector
}

// startWatcher opens the responder of a node in the background; nil: the nodes of the job do not watch each other. The
// step calls the hooks of the watcher.
func (d *nodeDaemon) startWatcher(cfg *daemon.Config, hooks *daemon.Hooks) *watcher {
	if cfg.Heartbeat.Period <= 0 || len(cfg.Share.Hosts) < 2 {
		return nil
	}
	w := &watcher{
		cfg: cfg.Heartbeat, node: cfg.Share.Node, nodes: len(cfg.Share.Hosts), recover: cfg.Recover,
		send: d.send, fall: d.fall, junct: &d.junction, logger: hooks.Logger, ports: control.PortRange{Low: cfg.AgentPorts[0], High: cfg.AgentPorts[1]}, opened: make(chan struct{}), closed: make(chan struct{}),
	}
	hooks.Started, hooks.Ended, hooks.Failed, hooks.Broken = w.add, w.remove, w.spread, w.suspect
	go func() {
		defer close(w.opened)
		if w.err = w.open(hooks.Agent, cfg.AgentPorts); w.err != nil {
			w.close()
		}
	}()
	return w
}

// open opens the responder and the socket of the detector, where the agent listens.
func (w *watcher) open(at *daemon.AgentCommand, ports [2]uint16) (err error) {
	if at.Lack != nil {
		return at.Lack
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of oshrun: %w", err)
	}
	if w.socket, err = control.ListenDatagrams(at.Listen, w.ports); err != nil {
		return err
	}
	r, err := responder.Open(responder.Config{
		Tier: responder.Tier(w.cfg.Tier), Key: w.cfg.Key, Job: w.cfg.Job, Node: ring.Node(w.node), Inc: nodeIncarnation,
		Listen: at.Listen, Ports: responder.Ports{Low: ports[0], High: ports[1]}, Keeper: []string{self, heartbeatWord}, TTL: lingers, Fenced: w.takeFence, Logger: w.logger,
	})
	if err != nil {
		return err
	}
	for _, passed := range r.Passed() {
		w.logger.Info().Err(passed).Msg("heartbeat: a better way to answer does not work")
	}
	w.logger.Debug().Stringer("tier", r.Tier()).Stringer("at", r.Addr()).Msg("heartbeat: this node answers")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.responder = r
	for _, pid := range w.early { // and this process, which the responder knows
		w.register(pid)
	}
	w.early = nil
	return nil
}

// register has the processes of this node killed with a number, when the node is fenced. The caller holds the lock.
func (w *watcher) register(pid int) {
	if err := w.responder.Add(pid); err != nil {
		w.logger.Warn().Err(err).Int("pid", pid).Msg("heartbeat: a fence does not end the process")
	}
}

// add notes a process that ends with the node. It is a hook.
func (w *watcher) add(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.responder == nil {
		w.early = append(w.early, pid)
		return
	}
	w.register(pid)
}

// remove notes that the process has ended. It is a hook.
func (w *watcher) remove(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.responder != nil {
		w.responder.Remove(pid)
	}
}

// owns says whether a child of this process is the keeper of the responder, or may be: no PE runs while that is opened.
func (w *watcher) owns(pid int) bool {
	if w == nil {
		return false
	}
	select {
	case <-w.opened:
	default:
		return true
	}
	w.mu.Lock()
	r := w.responder
	w.mu.Unlock()
	return r != nil && r.Owns(pid)
}

// await returns when the responder is open, or an error if it has to be of a tier that does not work.
func (w *watcher) await() error {
	<-w.opened
	if w.err != nil && w.cfg.Tier != 0 {
		return fmt.Errorf("--heartbeat-tier %v: %w", responder.Tier(w.cfg.Tier), w.err)
	}
	return nil
}

// report says where the node answers.
func (w *watcher) report() (at daemon.HeartbeatAt) {
	<-w.opened
	if w.err != nil {
		at.Lack = w.err.Error()
		return at
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return daemon.HeartbeatAt{Tier: uint8(w.responder.Tier()), Responder: w.responder.Addr().String(), Detector: w.socket.LocalAddr().String()}
}

// watch begins to watch other nodes.
func (w *watcher) watch(x daemon.Watch) error {
	<-w.opened
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.detector != nil || w.isOver.Load() {
		return fmt.Errorf("watch other nodes: it is too late, or there is no responder: %w", w.err)
	}
	if len(x.Peers) != w.nodes {
		return fmt.Errorf("watch other nodes: addresses of %d nodes, want those of %d", len(x.Peers), w.nodes)
	}
	peers, err := peersOf(&x)
	if err != nil {
		return err
	}
	timing := ring.TimingOf(ring.Tier(x.Tier), int64(w.cfg.Period))
	if x.Check {
		return w.check(peers, timing)
	}
	w.slow.Start()
	w.detector, err = detector.Start(detector.Config{
		Me: ring.Node(w.node), Nodes: w.nodes, Key: packet.Key(w.cfg.Key), Job: w.cfg.Job, Socket: w.socket, Peers: peers,
		Responder: w.responder, Timing: timing, Logger: w.logger,
		Proven: w.takeProof, Silent: w.takeSilence, Unreached: w.takeSilence, Heard: w.takeReport, Accused: w.takeAccusation,
	})
	if err != nil {
		w.slow.Close()
	}
	return err
}

// checks is how often a node is asked whether it answers at all.
const checks = 3

// check says whether the node that this one would watch first answers it.
func (w *watcher) check(peers []detector.Peer, timing ring.Timing) error {
	target := (w.node - ring.Stride(w.nodes) + w.nodes) % w.nodes
	at, _ := netip.AddrFromSlice(w.socket.LocalAddr().(*net.UDPAddr).IP) //nolint:errcheck,forcetypeassert // a UDP socket has such an address
	socket, err := control.ListenDatagrams(at.Unmap(), w.ports)
	if err != nil {
		return err
	}
	p, err := detector.NewProber(detector.ProberConfig{Key: packet.Key(w.cfg.Key), Job: w.cfg.Job, Socket: socket, Peers: peers, Timing: timing, Logger: w.logger})
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer p.Close()
	for range checks {
		result, err := p.Probe(context.Background(), ring.Node(target))
		if err != nil {
			return err
		}
		if result.Answered && result.By == ring.Node(target) {
			return nil
		}
	}
	return fmt.Errorf("node %d does not answer datagrams at %v", target, peers[target].Responder)
}

// peersOf returns the addresses of all nodes.
func peersOf(x *daemon.Watch) (peers []detector.Peer, err error) {
	for node := range x.Peers {
		at := &x.Peers[node]
		var p detector.Peer
		if p.Responder, err = netip.ParseAddrPort(at.Responder); err == nil {
			p.Detector, err = netip.ParseAddrPort(at.Detector)
		}
		if err != nil {
			return nil, fmt.Errorf("address of node %d: %w", node, err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// running returns the detector; nil: it does not run.
func (w *watcher) running() *detector.Detector {
	if w == nil || w.isOver.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detector
}

// takeProof takes a death that is proven. It is on its way to all nodes.
func (w *watcher) takeProof(node ring.Node, inc uint32, why ring.Reason) {
	w.accuse(node, wire.Accusation{Inc: inc, Reason: uint8(why), Proven: true})
	w.slow.Tell(func() {
		if w.contact.admits(int(node)) {
			w.loseNode(int(node))
		}
	})
}

// noteLink notes that the link to the front end has broken, or that there is one again. Then the front end is asked whether
// the job goes on: it may have lost the job meanwhile, and be about to say so.
func (w *watcher) noteLink(broken bool) {
	if w == nil {
		return
	}
	if broken {
		w.contact.cut()
		return
	}
	if number := w.contact.back(); !w.isOver.Load() {
		w.send(wire.Frame{Kind: wire.KindLinkBack, Stream: number})
	}
}

// release makes known what was kept back, because the front end goes on with the job.
func (w *watcher) release(number uint32) {
	if w == nil {
		return
	}
	free := w.contact.release(number)
	if len(free) == 0 || w.isOver.Load() {
		return
	}
	go func() { // the news waits for the agent, and the link must not
		for _, node := range free {
			w.loseNode(node)
		}
	}()
}

// contact keeps losses of nodes back while the front end is not known to go on with the job. It is from the beginning.
type contact struct {
	mu     sync.Mutex
	broken bool // there is no link, or the front end has not answered since there is one again
	final  bool // it does not go on
	cuts   uint32
	kept   []int // nodes
}

// admits says whether the loss of a node may be known; otherwise it is kept.
func (c *contact) admits(node int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		c.kept = append(c.kept, node)
	}
	return !c.broken
}

// cut notes that the link has broken.
func (c *contact) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	c.cuts++
}

// back returns the number of the question that the front end is asked over a new link.
func (c *contact) back() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// release notes the answer to a question, and returns the nodes whose loss may be known now. The link may have broken
// again since.
func (c *contact) release(number uint32) (free []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number != c.cuts || c.final {
		return nil
	}
	c.broken = false
	free, c.kept = c.kept, nil
	return free
}

// end notes that the front end has lost the job: nothing is known any more.
func (c *contact) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken, c.final = true, true
}

// takeSilence takes that a node answers nobody, or nobody but others. The front end decides.
func (w *watcher) takeSilence(node ring.Node, inc uint32) {
	w.accuse(node, wire.Accusation{Inc: inc, Reason: uint8(ring.Silent)})
}

// accuse tells the front end.
func (w *watcher) accuse(node ring.Node, a wire.Accusation) {
	if w.isOver.Load() {
		return
	}
	w.logger.Debug().Int("node", int(node)).Bool("proven", a.Proven).Uint8("reason", a.Reason).Msg("heartbeat: a node is held for dead")
	w.send(wire.Frame{Kind: wire.KindAccuse, Stream: uint32(node), Body: a.Append(nil)})
}

// takeReport takes a report of another node.
func (w *watcher) takeReport(p *bmg.Payload) {
	switch p.Kind {
	case bmg.KindNode:
		w.takeProof(ring.Node(p.ID), p.Inc, 0) // the front end hears of it by any link
	case bmg.KindPE:
		w.slow.Tell(func() { w.takeFarFailure(p) })
	}
}

// takeFarFailure makes the failure of a PE of another node known here.
func (w *watcher) takeFarFailure(p *bmg.Payload) {
	step := w.junct.step.Load()
	if step == nil || w.isOver.Load() {
		return
	}
	f := daemon.FarFailure{Job: int(p.Job), PEs: []int{int(p.ID)}, End: daemon.UnpackEnd(p.Cause)}
	if err := step.FarFailed(f); err != nil {
		w.logger.Error().Err(err).Msg("report of another node")
	}
}

// loseNode makes the loss of a node known here. If the job does not go on without it, PEs need not hear of it: they end.
func (w *watcher) loseNode(node int) {
	if w.isOver.Load() || node == w.node {
		return
	}
	if step := w.junct.step.Load(); step != nil && w.recover {
		step.NodeLost(node)
	}
	w.junct.take(wire.Frame{Kind: wire.KindNodeDead, Stream: uint32(node)})
}

// noteLost notes that the front end has lost a node.
func (w *watcher) noteLost(node int) {
	if d := w.running(); d != nil {
		d.NodeLost(ring.Node(node), nodeIncarnation)
	}
}

// suspect has a node asked at once, because a connection with it has ended. It is a hook.
func (w *watcher) suspect(node int) {
	if d := w.running(); d != nil && node >= 0 && node < w.nodes {
		d.Suspect(ring.Node(node))
	}
}

// spread makes the failure of PEs of this node known on the others. It is a hook.
func (w *watcher) spread(f daemon.FarFailure) {
	d := w.running()
	if d == nil || w.isMute.Load() {
		return
	}
	for _, pe := range f.PEs {
		d.ReportPE(uint32(f.Job), uint64(pe), nodeIncarnation, daemon.PackEnd(f.End), time.Now().UnixNano())
	}
}

// Why a node ends that others hold for dead.
var (
	errFenced  = errors.New("another node has not heard from it, and has ended it")
	errAccused = errors.New("other nodes have not heard from it, and hold it for dead")
)

// takeFence takes that this node was fenced. Its processes are killed, and this one when takeFence returns.
func (w *watcher) takeFence() {
	w.fall(errFenced)
	select {
	case <-w.closed: // nothing is left of the step
	case <-time.After(endWithin):
	}
	<-time.After(fallWithin) // for the last word; the daemon ends by itself meanwhile
}

// endWithin is how long the step of a node may take to end that was fenced.
const endWithin = 3 * time.Second

// takeAccusation takes that other nodes hold this one for dead.
func (w *watcher) takeAccusation() { w.fall(errAccused) }

// mute drops news of PEs of this node, which is about to end.
func (w *watcher) mute() {
	if w != nil {
		w.isMute.Store(true)
	}
}

// stop ends the watch over other nodes. This one still answers. What it returns is called to wait until nothing of the watch
// runs: news of other nodes may have to wait for the agent.
func (w *watcher) stop() (wait func()) {
	d := w.running()
	w.isOver.Store(true)
	if d == nil {
		return func() {}
	}
	w.logger.Debug().Str("stats", fmt.Sprintf("%+v", d.Stats())).Msg("heartbeat")
	over := make(chan struct{})
	go func() {
		defer close(over)
		d.Close()
		w.slow.Close()
	}()
	return func() { <-over }
}

// close ends the answers of this node.
func (w *watcher) close() {
	w.isOver.Store(true)
	defer w.once.Do(func() { close(w.closed) })
	w.mu.Lock()
	r, runs := w.responder, w.detector != nil
	w.responder = nil
	w.mu.Unlock()
	var errs []error
	if r != nil {
		errs = append(errs, r.Close())
	}
	if w.socket != nil && !runs {
		errs = append(errs, w.socket.Close())
	}
	if err := errors.Join(errs...); err != nil {
		w.logger.Warn().Err(err).Msg("heartbeat: close")
	}
}

// watchedNode is a step whose node is watched by others, and watches them.
type watchedNode struct {
	*daemon.Step
	watcher *watcher
}

var (
	_ daemon.Node    = (*watchedNode)(nil)
	_ daemon.Watcher = (*watchedNode)(nil)
)

// Report adds where the node answers.
func (n *watchedNode) Report() daemon.Report {
	r := n.Step.Report()
	r.Heartbeat = n.watcher.report()
	return r
}

// Refuse lets no further job begin. With lost, nothing of other nodes is made known any more either.
func (n *watchedNode) Refuse(lost bool) {
	if lost {
		n.watcher.mute()
		n.watcher.contact.end()
	}
	n.Step.Refuse(lost)
}

// Watch begins to watch other nodes.
func (n *watchedNode) Watch(x daemon.Watch) error { return n.watcher.watch(x) }

// Close closes the step, and then the responder: others need not wonder where this node is.
func (n *watchedNode) Close() error {
	wait := n.watcher.stop()
	err := n.Step.Close()
	wait()
	n.watcher.close()
	return err
}
