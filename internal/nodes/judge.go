package nodes

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/goshmem/goshmem/detector"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/detector/view"
	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/wire"
)

// judge is the front end's part in the watch that the nodes of a job keep over each other (watch.go): it decides which nodes
// are lost, by package detector/view. It asks a node by datagrams, and by its link at the same time: a firewall may let only
// one of them through. Nil does nothing.
type judge struct {
	root    *root
	timing  ring.Timing
	prober  *detector.Prober
	began   time.Time
	life    context.Context // ends with the judge
	end     context.CancelFunc
	tasks   sync.WaitGroup
	started []*member // by node

	mu      sync.Mutex
	queue   []view.Event
	wake    chan struct{}
	number  uint32                   // of the last question by a link
	waits   map[uint32]chan struct{} // by number: closed by the answer
	reached []bool                   // by node: it has answered a datagram
	silent  []bool                   // by node: it has not answered the last probe
	fenced  []bool                   // by node: it is being fenced, or was
	ended   bool                     // the job was ended: there was no majority
}

// judgeBit tells the questions of a judge from those of a survey.
const judgeBit = 1 << 31

const (
	// linkPatience is how long a node may take to answer by its link if it has never answered a datagram: the link is then the
	// only way, and the daemon may be busy.
	linkPatience = time.Second

	// windowShare is how often the time in which silences are judged together goes into that of a probe. All nodes are asked when the first is silent, and
	// have the whole time of a probe to answer: those that are cut off at the same moment are silent, however short it is.
	windowShare = 4

	// endAfter is how long the end of the job may take to be known to all, before nodes are lost that do not answer.
	endAfter = 100 * time.Millisecond
)

// startWatch has the nodes watch each other. If one of them cannot, none does.
func startWatch(ctx context.Context, r *root) error {
	if r.step.cfg.Heartbeat.Period <= 0 {
		return nil
	}
	members := r.team()
	var x daemon.Watch
	for _, m := range members {
		at := m.Report().Heartbeat
		if at.Lack != "" || at.Responder == "" {
			r.logger.Warn().Str("host", m.host).Str("because", at.Lack).Msg("heartbeat: off: a node is lost when its link is")
			return nil
		}
		x.Peers = append(x.Peers, at)
		x.Tier = max(x.Tier, at.Tier)
	}
	j, err := newJudge(r, &x, members)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	r.mu.Lock()
	r.judge = j // it is closed with the last daemon
	r.mu.Unlock()
	watch := func(m *member) error {
		if err := remote.Watch(m.Client, x); err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		return nil
	}
	x.Check = true
	if err := r.each(ctx, len(members), nil, watch); err != nil {
		j.stop()
		if ctx.Err() == nil {
			r.logger.Warn().Err(err).Msg("heartbeat: off: a node is lost when its link is")
			return nil
		}
		return err
	}
	x.Check = false
	if err := r.each(ctx, len(members), nil, watch); err != nil {
		return err
	}
	j.start()
	r.logger.Info().Msgf("heartbeat: %v, every %v", responder.Tier(x.Tier), r.step.cfg.Heartbeat.Period)
	return nil
}

// newJudge returns the judge of a job's nodes, which does not run.
func newJudge(r *root, x *daemon.Watch, members []*member) (*judge, error) {
	peers, err := peersOf(x)
	if err != nil {
		return nil, err
	}
	socket, err := probeSocket(r, peers[0])
	if err != nil {
		return nil, err
	}
	h := &r.step.cfg.Heartbeat
	j := &judge{
		root: r, timing: ring.TimingOf(ring.Tier(x.Tier), int64(h.Period)), began: time.Now(), started: members,
		wake: make(chan struct{}, 1), waits: map[uint32]chan struct{}{}, reached: make([]bool, len(members)), silent: make([]bool, len(members)),
		fenced: make([]bool, len(members)),
	}
	j.life, j.end = context.WithCancel(context.Background())
	j.prober, err = detector.NewProber(detector.ProberConfig{
		Key: packet.Key(h.Key), Job: h.Job, Socket: socket, Peers: peers, Timing: j.timing, Logger: r.logger,
	})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return j, nil
}

// probeSocket opens a socket from which datagrams reach a node.
func probeSocket(r *root, to detector.Peer) (*net.UDPConn, error) {
	if n := r.cfg.Agent.network; n != nil {
		return n.takeProbes()
	}
	return control.ListenAny(to.Responder.Addr(), r.cfg.Ports)
}

// start begins to judge.
func (j *judge) start() {
	core := view.New(view.Config{
		Nodes: len(j.started), Window: j.timing.Verify / windowShare, Grace: int64(j.root.cfg.Lease), Continue: j.root.cfg.PartGoesOn,
		Name: func(node view.Node) string { return j.started[node].host },
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.life.Err() == nil {
		j.tasks.Go(func() { j.run(core) })
		j.tasks.Go(j.greet)
	}
}

// greet finds out which nodes answer datagrams of the front end.
func (j *judge) greet() {
	for node, m := range j.started {
		result, err := j.prober.Probe(j.life, view.Node(node))
		switch {
		case err != nil:
			return
		case result.Answered:
			j.noteReached(node)
		default:
			j.root.logger.Warn().Str("host", m.host).Msg("heartbeat: the node does not answer datagrams of the front end, and is asked by its link")
		}
	}
}

// noteReached notes that a node has answered a datagram.
func (j *judge) noteReached(node int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reached[node] = true
}

// put queues an event.
func (j *judge) put(e view.Event) {
	if j == nil || j.life.Err() != nil {
		return
	}
	j.mu.Lock()
	e.Now = j.now()
	j.queue = append(j.queue, e)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// now returns the time, which never steps back.
func (j *judge) now() int64 { return int64(time.Since(j.began)) }

// run judges until the end.
func (j *judge) run(core *view.Core) {
	var actions []view.Action
	late := time.NewTimer(time.Hour) // the first turn sets it
	defer late.Stop()
	for j.life.Err() == nil {
		j.mu.Lock()
		events := append(j.queue, view.Event{Kind: view.Tick, Now: j.now()})
		j.queue = nil
		j.mu.Unlock()
		for _, e := range events {
			actions = core.Step(e, actions[:0])
			for i := range actions {
				j.act(&actions[i])
			}
		}
		if due := core.Due(); due == view.Never {
			late.Stop()
		} else {
			late.Reset(time.Duration(due - j.now()))
		}
		select {
		case <-j.wake:
		case <-late.C:
		case <-j.life.Done():
		}
	}
}

// act does what the core wants.
func (j *judge) act(a *view.Action) {
	node := int(a.Node)
	switch a.Kind {
	case view.Probe:
		j.tasks.Go(func() { j.put(view.Event{Kind: view.Probed, Node: view.Node(node), Result: j.probe(node)}) })
	case view.Fence:
		inc := a.Inc
		j.tasks.Go(func() { j.fence(node, inc) })
	case view.Lose:
		j.prober.NodeLost(a.Node)
		m := j.started[node]
		err := m.lastWords()
		if err == nil {
			err = errors.New(a.Why)
		}
		if m.lose(err) {
			m.abort()
		}
	case view.EndJob:
		j.endJob(a.Why)
	}
}

// probe asks a node whether it lives, by datagrams and by its link.
func (j *judge) probe(node int) (found view.Result) {
	defer func() {
		j.mu.Lock()
		j.silent[node] = found == view.Silent
		j.mu.Unlock()
	}()
	j.mu.Lock()
	j.number++
	number := j.number | judgeBit
	answered := make(chan struct{})
	j.waits[number] = answered
	patience := linkPatience
	if j.reached[node] {
		patience = time.Duration(j.timing.Verify)
	}
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		delete(j.waits, number)
		j.mu.Unlock()
	}()
	j.started[node].send(wire.Frame{Kind: wire.KindProbe, Stream: number})
	late := time.NewTimer(patience)
	defer late.Stop()
	result, err := j.prober.Probe(j.life, view.Node(node))
	switch {
	case err != nil: // the judge is over
		return view.Answered
	case result.IsDead():
		return view.DaemonDead
	case result.Answered:
		j.noteReached(node)
		return view.Answered
	}
	select {
	case <-answered:
		return view.Answered
	case <-late.C: // both may be over by now
		select {
		case <-answered:
			return view.Answered
		default:
			return view.Silent
		}
	case <-j.life.Done():
		return view.Answered
	}
}

// takeProbed takes the answer of a node by its link.
func (j *judge) takeProbed(number uint32) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.waits[number]; c != nil {
		close(c)
		delete(j.waits, number)
	}
}

// fence ends all processes of a node, which is alive, or was a moment ago.
func (j *judge) fence(node int, inc uint32) {
	j.mu.Lock()
	j.fenced[node] = true
	j.mu.Unlock()
	j.started[node].send(wire.Frame{Kind: wire.KindEndNode, Body: []byte(errFenced.Error())})
	kind := view.Fenced
	if err := j.prober.Fence(j.life, view.Node(node), inc); err != nil {
		j.root.logger.Warn().Err(err).Str("host", j.started[node].host).Msg("heartbeat")
		kind = view.FenceFailed
	}
	j.put(view.Event{Kind: kind, Node: view.Node(node)})
}

// takeEnd takes that the daemon of a node has ended by itself. It returns true if it was to do so: then the judge says why the
// node is lost.
func (j *judge) takeEnd(node int) bool {
	if j == nil || node >= len(j.started) {
		return false
	}
	j.mu.Lock()
	was := j.fenced[node] && j.life.Err() == nil
	j.mu.Unlock()
	if was {
		j.put(view.Event{Kind: view.Fenced, Node: view.Node(node)})
	}
	return was
}

// endJob ends the job, because the front end has no majority any more.
func (j *judge) endJob(why string) {
	j.mu.Lock()
	j.ended = true
	j.mu.Unlock()
	for _, m := range j.started { // before the first PE is ended: of the others none goes on without it
		if !m.isLost() {
			m.Refuse(true)
		}
	}
	for _, m := range j.started {
		if !m.isLost() {
			remote.LoseJob(m.Client, why)
			break
		}
	}
	j.mu.Lock()
	silent := append([]bool(nil), j.silent...)
	j.mu.Unlock()
	j.tasks.Go(func() { // otherwise the end would wait for them
		select {
		case <-time.After(endAfter):
		case <-j.life.Done():
			return
		}
		for node, m := range j.started {
			if silent[node] && m.lose(errors.New("it does not answer the front end")) {
				m.abort()
			}
		}
	})
}

// goesOn says that the job was not ended for want of a majority.
func (j *judge) goesOn() bool {
	if j == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.ended
}

// isOver says that there is no watch, or not any more.
func (j *judge) isOver() bool { return j == nil || j.life.Err() != nil }

// takeAccusation takes the word of a daemon that holds a node for dead.
func (j *judge) takeAccusation(by int, f wire.Frame) error {
	var a wire.Accusation
	if err := a.Parse(f.Body); err != nil {
		return err
	}
	if j.isOver() {
		return nil
	}
	if int(f.Stream) >= len(j.started) {
		return fmt.Errorf("accusation of node %d, want one below %d", f.Stream, len(j.started))
	}
	j.root.logger.Info().Str("host", j.started[f.Stream].host).Int("by", by).Bool("proven", a.Proven).Msg("heartbeat: a node is held for dead")
	j.put(view.Event{
		Kind: view.Accuse, By: view.Node(by), Node: view.Node(f.Stream), Inc: a.Inc, Proven: a.Proven, Reason: ring.Reason(a.Reason),
	})
	return nil
}

// noteLink notes that a node has no connection with the front end, or has one again.
func (j *judge) noteLink(node int, kind view.EventKind) {
	if j != nil && node < len(j.started) {
		j.put(view.Event{Kind: kind, Node: view.Node(node)})
	}
}

// noteLost notes that a node is lost, for whatever reason. It is ended, if it lives and does not end by itself.
func (j *judge) noteLost(node int) {
	if j == nil || node >= len(j.started) {
		return
	}
	j.put(view.Event{Kind: view.Fenced, Node: view.Node(node)})
	j.prober.NodeLost(view.Node(node))
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.life.Err() == nil && !j.started[node].endsItself() {
		j.tasks.Go(func() { _ = j.prober.Fence(j.life, view.Node(node), nodeIncarnation) }) // it may be gone for long
	}
}

// hold stops the judge's clock, because this process is about to be stopped; resume lets it go on.
func (j *judge) hold()   { j.put(view.Event{Kind: view.Hold}) }
func (j *judge) resume() { j.put(view.Event{Kind: view.Go}) }

// noteClose notes that a node is about to be closed: then all are.
func (j *judge) noteClose(m *member) {
	if j != nil && m.index < len(j.started) && j.started[m.index] == m {
		j.stop()
	}
}

// stop ends the judge: the nodes are about to be closed.
func (j *judge) stop() {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.end() // with the lock, after which no task begins from outside
	j.mu.Unlock()
}

// close returns when all is over.
func (j *judge) close() {
	if j == nil {
		return
	}
	j.stop()
	j.tasks.Wait()
	j.prober.Close()
}

// theJudge returns the judge; nil: there is none.
func (r *root) theJudge() *judge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.judge
}

// setHeartbeat says how the nodes are to watch each other.
func setHeartbeat(r *root) {
	if n := len(r.members); n > 1 && r.cfg.Heartbeat > 0 && !r.cfg.Stdio {
		h := daemon.Heartbeat{Period: r.cfg.Heartbeat, Tier: uint8(r.cfg.Tier)}
		var job [8]byte
		_, _ = rand.Read(job[:])   // never fails
		_, _ = rand.Read(h.Key[:]) // never fails
		h.Job = binary.LittleEndian.Uint64(job[:])
		r.watched, r.step.cfg.Heartbeat = n, h
	}
}
