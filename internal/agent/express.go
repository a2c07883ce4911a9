package agent

import (
	"errors"
	"fmt"
	"io"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport/tcp"
)

// expressDesk is the agent's part in express sockets (package express): it opens them for PEs of its node, and serves those
// of PEs of other nodes. The transport calls it during Poll.
type expressDesk struct {
	agent   *Agent
	network *tcp.Transport
	door    *tcp.ExpressDoor
	server  *express.Server
	lines   []line // by local index
	request express.Request
	reply   []byte // of the request that is being served
	packet  [64]byte
}

// line is a PE's line to the agent (package wire).
type line struct {
	fd    int  // -1: none
	asked bool // a socket is being opened for the PE
}

// startExpress makes the agent serve express sockets of a transport.
func (a *Agent) startExpress(t *tcp.Transport) {
	d := &expressDesk{agent: a, network: t, server: express.NewServer(a.cfg.Nodes, express.MaxSockets), lines: make([]line, len(a.sources))}
	for i := range d.lines {
		d.lines[i].fd = -1
	}
	d.reply = make([]byte, 0, express.MaxReply)
	a.express = d
	d.door = tcp.ServeExpress(t, d)
}

// SetLine gives the agent its end of a PE's line, which it closes. The line takes the place of an earlier one.
func (a *Agent) SetLine(pe layout.Local, fd int) error {
	d := a.express
	if d == nil || int(pe) < 0 || int(pe) >= len(a.sources) || a.sources[pe].dead {
		xunix.CloseSocket(fd)
		return nil
	}
	d.closeLine(pe)
	if err := d.network.Watch(fd); err != nil {
		xunix.CloseSocket(fd)
		return fmt.Errorf("line of the PE with local index %d: %w", pe, err)
	}
	d.lines[pe].fd = fd
	return nil
}

// dropLine closes the line of a dead PE. Its successor has not asked for a socket.
func (d *expressDesk) dropLine(pe layout.Local) {
	d.closeLine(pe)
	d.lines[pe].asked = false
}

// closeLine closes a PE's line.
func (d *expressDesk) closeLine(pe layout.Local) {
	if l := &d.lines[pe]; l.fd >= 0 {
		d.network.Unwatch(l.fd)
		xunix.CloseSocket(l.fd)
		l.fd = -1
	}
}

// close closes all lines.
func (d *expressDesk) close() {
	for i := range d.lines {
		d.closeLine(layout.Local(i))
	}
}

// Ready takes what a PE has said on its line: see tcp.Express.
func (d *expressDesk) Ready(fd int) bool {
	for i := range d.lines {
		if d.lines[i].fd == fd {
			d.hear(layout.Local(i))
			return true
		}
	}
	return false
}

// hear takes a word of a PE. A PE that says what none says loses its line, and goes on without express sockets.
func (d *expressDesk) hear(pe layout.Local) {
	l := &d.lines[pe]
	n, fd, err := xunix.RecvPacketFD(l.fd, d.packet[:])
	if fd >= 0 {
		xunix.CloseSocket(fd)
	}
	if errors.Is(err, xunix.ErrAgain) {
		return
	}
	var ask wire.ExpressAsk
	if err == nil {
		err = ask.Parse(d.packet[:n])
	}
	if err == nil && l.asked {
		err = errors.New("it asks for a second express socket before it has the first one")
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			d.agent.log(fmt.Errorf("line of the PE with local index %d: %w", pe, err))
		}
		d.closeLine(pe)
		return
	}
	l.asked = true
	c := express.Caller{Node: int(ask.Node), Local: pe, Incarnation: d.agent.sources[pe].incarnation}
	if err := d.door.Dial(c); err != nil {
		d.Dialed(c, -1, 0, err)
	}
}

// Dialed gives a PE its socket, or says why there is none: see tcp.Express.
func (d *expressDesk) Dialed(c express.Caller, fd int, last uint64, err error) {
	if c.Incarnation != d.agent.sources[c.Local].incarnation { // of a dead PE, whose successor may have asked since
		if fd >= 0 {
			xunix.CloseSocket(fd)
		}
		return
	}
	l := &d.lines[c.Local]
	l.asked = false
	answer := wire.ExpressAnswer{Node: uint32(c.Node), Last: last}
	var fds []int
	if err != nil {
		answer.Err = err.Error()
	} else {
		fds = append(fds, fd)
	}
	if l.fd >= 0 {
		if serr := xunix.SendPacketFD(l.fd, answer.Append(nil), fds...); serr != nil { // a PE asks for one at a time, so there is room
			d.closeLine(c.Local)
		}
	}
	if fd >= 0 {
		xunix.CloseSocket(fd) // the PE has it
	}
}

// Admit says whether a PE of another node gets a socket: see tcp.Express.
func (d *expressDesk) Admit(c express.Caller, id uint64) (last uint64, v express.Verdict) {
	last, old, v := d.server.Admit(c, id)
	if old != 0 {
		d.door.Close(old)
	}
	return last, v
}

// Closed notes that a socket is closed: see tcp.Express.
func (d *expressDesk) Closed(c express.Caller, id uint64) { d.server.Closed(c, id) }

// Take answers a request: see tcp.Express.
func (d *expressDesk) Take(c express.Caller, id uint64, request []byte) (reply []byte, err error) {
	complete, err := d.request.Parse(request)
	if err != nil || !complete {
		return nil, d.refuse(c, err)
	}
	q := &d.request
	answer, err := d.server.Request(c, id, q, (*expressExecutor)(d.agent))
	if err != nil {
		return nil, d.refuse(c, err)
	}
	r := express.Reply{Number: q.Number, Status: answer.Status, Value: answer.Value}
	isGet := q.Record.Op == record.OpGet && answer.Status == record.StatusOK
	if isGet {
		r.Bytes = int(q.Record.Length)
	}
	reply = r.Append(d.reply[:0])[:express.ReplyHeader+r.Bytes]
	carried := &d.agent.cfg.Page.Carried
	carried.Batches++
	carried.Received += uint64(len(request))
	carried.Sent += uint64(len(reply))
	if !isGet {
		return reply, nil
	}
	d.agent.memory.fetch(reply[express.ReplyHeader:], &stream.Read{Local: layout.Local(q.Record.Local), Offset: q.Record.Offset, Length: q.Record.Length})
	return reply, nil
}

// refuse logs why a socket is closed.
func (d *expressDesk) refuse(c express.Caller, err error) error {
	if err != nil {
		err = fmt.Errorf("express socket of local PE %d of node %d: %w", c.Local, c.Node, err)
		d.agent.log(err)
	}
	return err
}

// dropPE closes what a dead PE of another node has here.
func (d *expressDesk) dropPE(node int, pe layout.Local, incarnation uint32) {
	if socket := d.server.DropPE(express.Caller{Node: node, Local: pe, Incarnation: incarnation}); socket != 0 {
		d.door.Close(socket)
	}
}

// dropNode closes what a lost node has here.
func (d *expressDesk) dropNode(node int) {
	for _, socket := range d.server.DropNode(node) {
		d.door.Close(socket)
	}
}

// expressExecutor is the agent as the server of express sockets sees it.
type expressExecutor Agent

// Execute executes a fetch, or checks a get.
func (x *expressExecutor) Execute(r *record.Record) express.Answer {
	status, value := (*executor)(x).perform(r)
	if status == record.StatusBad {
		(*Agent)(x).log(fmt.Errorf("%v by an express socket: %w", r.Op, x.memory.limits.Check(r)))
	}
	return express.Answer{Status: status, Value: value}
}

// repeat executes a fetch that was sent by an express socket before, unless that has arrived.
func (x *executor) repeat(source stream.Source, r *record.Record) (record.Status, uint64) {
	if x.express == nil {
		return record.StatusBad, 0
	}
	c := express.Caller{Node: source.Node, Local: source.Local, Incarnation: source.Incarnation}
	answer := x.express.server.Repeat(c, r, (*expressExecutor)(x))
	return answer.Status, answer.Value
}
