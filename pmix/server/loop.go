package server

import (
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// input is an event with the connection that it came from.
type input struct {
	event
	from *conn
}

// post hands an event to the loop without waiting.
func (s *Server) post(ev event) {
	s.mu.Lock()
	s.mailbox = append(s.mailbox, ev)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// submit hands a connection's event to the loop and waits until the loop has it; false means that the server is
// closing.
func (s *Server) submit(in input) bool {
	select {
	case s.inputs <- in:
		return true
	case <-s.quit:
		return false
	}
}

// driver is the loop's own state: the connections by number, and the buffer of actions.
type driver struct {
	*Server
	conns   map[connID]*conn
	actions []action
}

// loop is the only goroutine that touches the core.
func (s *Server) loop() {
	d := &driver{Server: s, conns: map[connID]*conn{}}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.setTimer(timer)
		select {
		case in := <-s.inputs:
			d.drainMailbox() // so that a job is known before its processes connect
			d.stepInput(in)
		case <-s.wake:
			d.drainMailbox()
		case <-timer.C:
			d.step(event{kind: evTick})
		case <-s.quit:
			return
		}
	}
}

// setTimer sets the timer to the core's next deadline.
func (d *driver) setTimer(timer *time.Timer) {
	next := d.core.deadline()
	if next == 0 {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(d.start.Add(time.Duration(next) * tickLength)))
}

// drainMailbox steps the core with all events in the mailbox.
func (d *driver) drainMailbox() {
	d.mu.Lock()
	mail := d.mailbox
	d.mailbox = nil
	d.mu.Unlock()
	for i := range mail {
		ev := &mail[i]
		if ev.kind == evOutput {
			d.forwardOutput(ev.proc, ev.stderr, ev.payload)
		} else {
			d.step(*ev)
		}
		if ev.kind == evOutput || (ev.kind == evAddJob && ev.proc.Nspace != "") {
			d.catching.Add(-1)
		}
	}
}

// stepInput steps the core with an event of a connection.
func (d *driver) stepInput(in input) {
	switch in.kind {
	case evClaim:
		d.conns[in.conn] = in.from
		d.step(in.event)
	case evClosed:
		d.step(in.event)
		delete(d.conns, in.conn)
	default:
		d.step(in.event)
	}
}

// step steps the core with an event and executes the actions.
func (d *driver) step(ev event) {
	ev.now = tick(time.Since(d.start) / tickLength)
	d.actions = d.core.Step(ev, d.actions[:0])
	for i := range d.actions {
		d.executeAction(&d.actions[i])
	}
	clear(d.actions)
}

// executeAction executes one action of the core.
func (d *driver) executeAction(a *action) {
	switch a.kind {
	case actAccept:
		if c := d.conns[a.conn]; c != nil {
			d.reg.name(c, a.proc) // before the client can learn that it is accepted
			c.send(outFrame{raw: c.welcome})
			c.verdict <- codec.StatusSuccess
		}
	case actReject:
		if c := d.conns[a.conn]; c != nil {
			delete(d.conns, a.conn)
			c.verdict <- a.status
		}
	case actSend:
		if c := d.conns[a.conn]; c != nil && !c.send(outFrame{tag: a.tag, body: a.payload, more: a.more}) {
			d.log.Warn().Uint64("conn", uint64(a.conn)).Msg("client does not read its answers: connection dropped")
		}
	case actListen:
		d.listen(a.listen)
	case actCleanUp:
		d.cleaner.add(a.epilog)
	case actDrop:
		if c := d.conns[a.conn]; c != nil {
			c.close()
		}
	case actRefused:
		d.log.Warn().Str("nspace", a.proc.Nspace).Uint32("pe", uint32(a.proc.Rank)).Stringer("status", a.status).Msg(a.text)
	default:
		d.callHost(a)
	}
}

// callHost makes the upcalls: to the host, to Remote, and to the replies that Serve was given.
func (d *driver) callHost(a *action) {
	switch a.kind {
	case actConnected:
		d.host.ClientConnected(a.proc, a.pid)
	case actFinalized:
		d.host.ClientFinalized(a.proc)
	case actLost:
		d.host.ClientLost(a.proc)
	case actAbort:
		d.host.Abort(a.proc, a.procs, int(a.status), a.text)
	case actSpawn:
		if d.cfg.Host == nil {
			d.SpawnDone(a.spawn.ID, "", codec.StatusErrNotSupported)
			return
		}
		d.host.Spawn(a.spawn)
	case actControl:
		d.host.Control(a.proc, a.procs, a.control)
	case actLog:
		d.host.Log(a.proc, a.flag, a.payload)
	case actStdin:
		d.host.Stdin(a.procs, a.payload, a.flag)
	case actFence:
		d.cfg.Remote.Fence(FencePart{FenceCall: a.call(), Status: a.status, Data: a.payload})
	case actExpire:
		d.cfg.Remote.Expire(a.call())
	case actFetch:
		d.cfg.Remote.Fetch(a.proc, a.key)
	case actJob:
		if a.flag {
			d.cfg.Remote.JobOver(a.proc.Nspace)
		} else {
			d.cfg.Remote.JobAdded(a.proc.Nspace)
		}
	case actAsk:
		d.cfg.Peers.Ask(a.node, a.request, a.payload)
	case actTell:
		d.cfg.Peers.Tell(a.node, a.payload)
	case actServed:
		d.mu.Lock()
		reply := d.requests[a.request]
		delete(d.requests, a.request)
		d.mu.Unlock()
		reply(a.status, a.payload)
	}
}
