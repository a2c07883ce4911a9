package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// attachIdle is how long a connection to the attach socket may say nothing.
const attachIdle = 10 * time.Second

// attachService hands the memory of a job to its PEs, over a socket to which any process of the machine may connect. A
// connection on which a PE has got all that it asked for takes orders from then on. The service looks at processes, and
// sends, without a lock.
type attachService struct {
	cfg        *Config
	table      *table
	alerts     *alerts
	background *background
	logger     zerolog.Logger
	listener   *net.UnixListener // nil: not open yet
	agent      *nodeAgent
	visitors   visitors
	passages   *passages
}

// listen opens the attach socket under an abstract name, which vanishes with
// the process.
func (a *attachService) listen() error {
	// Everybody can read the names of such sockets: this one tells nothing of
	// the job's, which is what connections have to show.
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@goshmem-" + hex.EncodeToString(name[:]), Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("attach socket: %w", err)
	}
	a.listener = l
	a.background.serve(a.serve)
	return nil
}

// address returns the name of the socket.
func (a *attachService) address() string { return a.listener.Addr().String() }

// close ends the socket and all connections.
func (a *attachService) close() error {
	if a.listener == nil {
		return nil
	}
	err := a.listener.Close()
	a.visitors.close()
	return err
}

// acceptPause is how long a listener that cannot accept waits for others to
// close descriptors.
const acceptPause = 50 * time.Millisecond

// serve takes connections until the socket is closed.
func (a *attachService) serve() {
	for {
		conn, err := a.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			a.logger.Error().Err(err).Msg("attach socket")
			select {
			case <-time.After(acceptPause):
			case <-a.background.closing:
				return
			}
		default:
			a.receive(conn)
		}
	}
}

// receive takes a connection. Any user of the machine can connect as often as they like. A process of another user is
// refused at once. Of this user's processes outside the job, the service listens to a bounded number.
func (a *attachService) receive(conn *net.UnixConn) {
	peer, err := xunix.PeerOf(conn)
	if err == nil && int(peer.UID) != os.Getuid() && peer.UID != 0 {
		a.refuseUser(conn, peer)
		return
	}
	if err != nil {
		_ = conn.Close() // there is nobody to tell
		return
	}
	if !a.visitors.add(conn, !a.mayBelong(peer.PID)) {
		return
	}
	a.background.serve(func() {
		defer a.visitors.remove(conn)
		if err := a.answerRequests(conn, peer); err != nil {
			a.logger.Warn().Err(err).Msg("attach")
		}
	})
}

// refuseUser tells a process of another user why it gets nothing, and hangs up.
func (a *attachService) refuseUser(conn *net.UnixConn, peer xunix.Peer) {
	reply := wire.AttachReply{Err: fmt.Sprintf("process %d of user %d, want user %d", peer.PID, peer.UID, os.Getuid())}
	err := errors.Join(xunix.SendFDs(conn, reply.Append(nil), nil), conn.Close()) // an empty socket takes a packet without waiting
	a.logger.Warn().Err(err).Str("reply", reply.Err).Msg("attach")
}

// mayBelong says whether process pid may be of a PE, of whichever: descends says
// yes of no other. The ancestors are looked up first, and then compared with the table.
func (a *attachService) mayBelong(pid int) bool {
	ancestors, orphan := ancestry(pid)
	a.table.mu.Lock()
	for _, p := range a.table.started() {
		if slices.Contains(ancestors, p.pid) {
			a.table.mu.Unlock()
			return true
		}
	}
	names := a.table.namespaces()
	a.table.mu.Unlock()
	return orphan != 0 && environOf(orphan).hasAnyJob(names)
}

// answerRequests answers the requests of one connection.
func (a *attachService) answerRequests(conn *net.UnixConn, peer xunix.Peer) error {
	line := newOrderLine(conn)
	defer close(line.gone)
	buf := make([]byte, wire.MaxPacket)
	for {
		if err := conn.SetDeadline(time.Now().Add(attachIdle)); err != nil {
			return err
		}
		n, err := conn.Read(buf)
		if n == 0 || err != nil {
			return nil // gone, or silent for too long: nothing to report
		}
		req, err := wire.ParseAttachRequest(buf[:n])
		var p *localPE
		if err == nil {
			p, err = a.checkRequest(peer, req)
		}
		if err != nil {
			reply := wire.AttachReply{Err: err.Error()}
			return errors.Join(err, xunix.SendFDs(conn, reply.Append(nil), nil))
		}
		if req.Kind == wire.AskPeers {
			if err := a.sendPeers(conn, p, req); err != nil {
				return err
			}
			continue
		}
		last, err := a.sendSegments(line, p, req)
		if err != nil {
			return err
		}
		if last {
			return line.takeAnswers(p.id, a.background.closing)
		}
	}
}

// checkRequest checks that a request comes from the process tree of the PE that it
// names, and returns the PE. Whether the PE has failed is asked after the look at the processes: nothing of a PE that has
// failed before can be found to be of it.
func (a *attachService) checkRequest(peer xunix.Peer, req wire.AttachRequest) (*localPE, error) {
	j := a.table.jobOf(req.Nspace)
	if j == nil {
		return nil, fmt.Errorf("job %q, want one that this socket is for", req.Nspace) // whose name is none of a stranger's business
	}
	first := req.First
	switch req.Kind {
	case wire.AskSegments, wire.AskOrders:
	case wire.AskPeers:
		first = 0 // of another job: see sendPeers
	default:
		return nil, fmt.Errorf("request of kind %d, want %d, %d or %d", req.Kind, wire.AskSegments, wire.AskOrders, wire.AskPeers)
	}
	if err := j.checkPE(req.PE, first); err != nil {
		return nil, err
	}
	p := a.table.awaitStart(j, int(req.PE))
	if p == nil || !p.descends(peer.PID) {
		return nil, fmt.Errorf("process %d is not of PE %d", peer.PID, req.PE)
	}
	if a.table.hasFailed(p) {
		return nil, fmt.Errorf("PE %d has failed: nothing of it can join any more", req.PE)
	}
	return p, nil
}

// sendSegments sends the descriptors of as many segments as fit, if segments are asked
// for, and says whether that was the last of the answers. Whoever has the last
// one takes orders.
func (a *attachService) sendSegments(line *orderLine, p *localPE, req wire.AttachRequest) (last bool, err error) {
	files, err := p.job.memory.lend()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.job.memory.endLoan()) }()
	info, err := files.heaps[0].Stat()
	if err != nil {
		return false, err
	}
	heaps := files.heaps
	if req.Kind == wire.AskOrders {
		heaps = nil
	}
	end := min(len(heaps), int(req.First)+wire.MaxSegments)
	var fds []int
	for _, f := range heaps[min(int(req.First), end):end] {
		fds = append(fds, int(f.Fd()))
	}
	count, page := len(fds), req.Kind == wire.AskSegments && req.First == 0
	var agent []int
	var lack string
	homes := false
	if page {
		fds = append(fds, int(files.page.Fd()))
		if agent, lack = a.lendAgent(p.job); len(agent) > 0 {
			line, err := a.agent.giveLine(p.agentIndex())
			if err != nil {
				return false, err
			}
			defer func() { _ = line.Close() }() // the PE has it
			agent = append(agent, int(line.Fd()))
		}
		fds = append(fds, agent...)
		if homes = len(agent) > 0 && p.job.number != 0; homes {
			f, err := p.job.createHomes()
			if err != nil {
				return false, err
			}
			defer func() { _ = f.Close() }() // the PE has it
			fds = append(fds, int(f.Fd()))
		}
		if lack != "" && p.job.hasGaps() {
			err := p.job.gapsError(lack)
			reply := wire.AttachReply{Err: err.Error()}
			return false, errors.Join(err, xunix.SendFDs(line.conn, reply.Append(nil), nil))
		}
	}
	reply := wire.AttachReply{
		Job: p.job.key, NPEs: uint32(p.job.npes()),
		Nodes: uint32(p.job.nodes()), FirstPE: uint32(p.job.near[0]), Near: uint32(len(p.job.near)),
		First: req.First, Count: uint32(count), Page: page, Agent: len(agent) > 0, NoAgent: lack, Incarnation: incarnation,
		Processors: uint32(a.cfg.processors(p.job)), SegmentSize: uint64(info.Size()), Recover: !a.cfg.EndsFirst,
		Scattered: p.job.hasGaps(), Homes: homes,
	}
	send := func() error { return xunix.SendFDs(line.conn, reply.Append(nil), fds) }
	if last = end == len(heaps); last {
		return true, a.startOrders(line, p, send)
	}
	return false, send()
}

// lendAgent returns the descriptors of the agent that PEs of a job get, or why they get none. A job of one node needs none.
func (a *attachService) lendAgent(j *localJob) (fds []int, lack string) {
	if j.number != 0 && !j.isGuestOf(a.agent) {
		if j.nodes() < 2 {
			return nil, ""
		}
		return nil, "the agents of the job's nodes do not serve the PEs of this spawned job: " + j.unservedBecause(a.agent)
	}
	if j.number == 0 && j.nodes() < 2 {
		return nil, ""
	}
	fds, err := a.agent.lend()
	if err != nil && j.nodes() < 2 {
		return nil, "" // it does without
	}
	if err != nil {
		a.agent.miss()
		return nil, err.Error()
	}
	return fds, ""
}

// startOrders sends the last reply to a PE, which takes orders from then on. The PE may act on the reply at once, and be
// given an order. So the line is noted before the reply is sent, and an order that is given in between waits for its turn.
// Of several processes of a PE the last one that asked gets the orders.
func (a *attachService) startOrders(line *orderLine, p *localPE, reply func() error) error {
	line.turn <- struct{}{}
	defer func() { <-line.turn }()
	t := a.table
	t.mu.Lock()
	before := p.orders
	p.orders = line
	t.mu.Unlock()
	err := reply()
	t.mu.Lock()
	if err != nil {
		if p.orders == line {
			p.orders = before
		}
		t.mu.Unlock()
		return err
	}
	line.replied = true
	p.job.alertDue = p.job.alertDue || p.job.failures > 0 // which it may have missed
	t.mu.Unlock()
	a.alerts.raise()
	return line.conn.SetDeadline(time.Time{})
}
