package far

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

const (
	// expressPatience is how long a request may go without a reply. It is then given to the agent, which knows whether the
	// node is out of reach.
	expressPatience = 200 * time.Millisecond
	// expressRead is how long a read of an express socket blocks before the wait looks at deaths, contexts and peers.
	expressRead = 500 * time.Microsecond
)

// expressSockets is the express sockets of this PE (package express). The Port's lock guards it, except for the buffers of
// a socket that is busy, which belong to its request.
type expressSockets struct {
	p           *Port
	line        int    // to the agent; -1: it has failed, and no further sockets are to be had
	node        int    // of this PE
	local       uint16 // its index there
	incarnation uint32
	client      *express.Client
	sockets     []*expressSocket // by node
	over        bool             // Close was called
	traffic     *layout.ExpressTraffic
}

// expressSocket is a socket with room for a request and its reply.
type expressSocket struct {
	fd      int
	request [express.MaxRequest]byte
	reply   [express.MaxReply]byte
	wait    wait.Socket
}

// expressTrip is a round trip that has taken a socket.
type expressTrip struct {
	*expressSocket
	to     target
	seen   uint64 // the epoch before the look whether the target is dead
	number uint64
	sent   int // bytes of the request that were sent
}

// beginTrip begins a round trip to a PE: it takes the socket to the node if there is one, it is free, and nothing of this PE
// is under way to the node. Otherwise the trip goes through the agent.
func (e *expressSockets) beginTrip(to target) (x expressTrip, ok bool, err error) {
	p := e.p
	x.to, x.seen = to, p.waiter.Epoch()
	if err := p.deaths.gone(to); err != nil {
		return x, false, err
	}
	s := &p.streams[to.node]
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.client.IsOpen(to.node) {
		e.want(to.node)
		return x, false, nil
	}
	if s.executed() != s.next {
		return x, false, nil
	}
	if x.number, ok = e.client.Begin(to.node); ok {
		x.expressSocket = e.sockets[to.node]
	}
	return x, ok, nil
}

// caller returns this PE as requests name it.
func (e *expressSockets) caller() express.Caller {
	return express.Caller{Node: e.node, Local: layout.Local(e.local), Incarnation: e.incarnation}
}

// want counts a round trip without a socket, asks the agent for one when it is time, and takes the answer when it is there.
func (e *expressSockets) want(node int) {
	if e.line < 0 || e.over {
		return
	}
	if _, asked := e.client.Asked(); asked {
		e.hear()
		return
	}
	if e.client.Trip(node) {
		ask := wire.ExpressAsk{Node: uint32(node)}
		if err := xunix.SendPacketFD(e.line, ask.Append(nil)); err != nil {
			e.line = -1 // the agent has closed its end
			e.client.Refused()
		}
	}
}

// hear takes the agent's answer if it is there.
func (e *expressSockets) hear() {
	packet := make([]byte, wire.MaxPacket)
	n, fd, err := xunix.RecvPacketFD(e.line, packet)
	if errors.Is(err, xunix.ErrAgain) {
		return
	}
	var answer wire.ExpressAnswer
	if err == nil {
		err = answer.Parse(packet[:n])
	}
	switch {
	case err != nil:
		e.line = -1
		e.client.Refused()
	case fd < 0:
		if node, ok := e.client.Asked(); ok && node == int(answer.Node) {
			e.client.Refused()
		}
	case int(answer.Node) < len(e.sockets) && xunix.BlockFor(fd, expressRead) == nil:
		e.take(int(answer.Node), fd, answer.Last)
		return
	}
	if fd >= 0 {
		xunix.CloseSocket(fd)
	}
}

// take takes a socket, and closes the one that has to make room for it.
func (e *expressSockets) take(node, fd int, last uint64) {
	keep, evict := e.client.Given(node, last)
	if evict >= 0 {
		e.close(evict)
	}
	if !keep {
		xunix.CloseSocket(fd)
		return
	}
	e.sockets[node] = &expressSocket{fd: fd}
}

// close closes the socket to a node.
func (e *expressSockets) close(node int) {
	xunix.CloseSocket(e.sockets[node].fd)
	e.sockets[node] = nil
}

// endTrip gives the socket back, or closes it if it is lost.
func (e *expressSockets) endTrip(x *expressTrip, lost bool) {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	e.client.End(x.to.node)
	e.traffic.Sent += uint64(x.sent)
	e.traffic.Received += uint64(x.wait.Got)
	if !lost {
		*e.p.begun++ // a lost one is counted where it is repeated
	}
	if lost || e.over {
		e.client.Lost(x.to.node)
		e.close(x.to.node)
	}
}

// ExpressSockets returns how many express sockets a PE has.
func ExpressSockets(p *Port) (n int) {
	if p.express == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.express.sockets {
		if s != nil {
			n++
		}
	}
	return n
}

// ExpressTrips returns how many round trips of a PE have begun by express sockets.
func ExpressTrips(p *Port) uint64 {
	if p.express == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.express.client.Requests()
}

// Close closes the express sockets. Requests under way close theirs when they end. The Port must not be used for anything
// but waits afterwards.
func (p *Port) Close() {
	e := p.express
	if e == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.over = true
	for node, s := range e.sockets {
		if s != nil && !e.client.IsBusy(node) {
			e.client.Lost(node)
			e.close(node)
		}
	}
}

// errLost is why a round trip has to be repeated through the agent: its socket is lost, or the other end does not answer.
var errLost = errors.New("express socket lost")

// exchange sends the request and waits for the reply to one for n bytes, or for a value if n is 0.
//
//   - Errors: errLost; *DeadError; the cause of ctx; wait.ErrClosed. The socket is of no use afterwards.
func (e *expressSockets) exchange(ctx context.Context, x *expressTrip, request []byte, n int) (r express.Reply, err error) {
	s := &x.wait
	*s = wait.Socket{
		FD: x.fd, Buf: x.reply[:express.ReplyHeader+n], Least: express.ReplyHeader, Peer: int32(x.to.pe) + 1, Seen: x.seen,
		Patience: expressPatience,
	}
	if xunix.SendSocket(x.fd, request) != nil {
		return r, errLost
	}
	x.sent = len(request)
	for err = e.receive(ctx, x); err == nil; err = e.receive(ctx, x) {
		if r.Parse(s.Buf[:s.Got], x.number, n) != nil {
			return r, errLost // not what an agent says
		}
		if s.Least = express.ReplyHeader + r.Bytes; s.Got >= s.Least {
			return r, nil
		}
	}
	return r, err
}

// receive waits until as much of the reply has come as is wanted, or the target is dead.
func (e *expressSockets) receive(ctx context.Context, x *expressTrip) error {
	p := e.p
	for {
		err := p.waiter.Receive(&x.wait, ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, wait.ErrFailure):
			x.wait.Seen = p.waiter.Epoch()
			if err := p.deaths.gone(x.to); err != nil {
				return err
			}
		case errors.Is(err, wait.ErrSocket):
			return errLost
		default:
			return err
		}
	}
}

// get gets n bytes, at most express.MaxData, by the express socket to the node. It returns false if the get has to
// go through the agent.
func (e *expressSockets) get(ctx context.Context, to target, off uint64, dst unsafe.Pointer, n int) (done bool, err error) {
	x, ok, err := e.beginTrip(to)
	if !ok || err != nil {
		return err != nil, err
	}
	request := express.AppendGet(x.request[:0], e.caller(), x.number, to.local, off, n)
	r, err := e.exchange(ctx, &x, request, n)
	if err == nil {
		copy(unsafe.Slice((*byte)(dst), r.Bytes), x.reply[express.ReplyHeader:])
	}
	e.endTrip(&x, err != nil)
	switch {
	case errors.Is(err, errLost): // a get may be read twice
		return false, nil
	case err != nil:
		return true, err
	default:
		return true, e.p.deaths.judge(r.Status, to)
	}
}

// fetch is get for an atomic operation. If it returns false, number is 0, or that of the request that may
// have been executed: it has to be repeated as OpFetchOnce.
func (e *expressSockets) fetch(ctx context.Context, t *Touched, to target, off uint64, code uint8, operand, cond uint64) (old, number uint64, done bool, err error) {
	x, ok, err := e.beginTrip(to)
	if !ok || err != nil {
		return 0, 0, err != nil, err
	}
	request := express.AppendFetch(x.request[:0], e.caller(), x.number, to.local, off, code, operand, cond)
	r, err := e.exchange(ctx, &x, request, 0)
	e.endTrip(&x, err != nil)
	switch {
	case errors.Is(err, errLost):
		return 0, x.number, false, nil
	case err != nil:
		if !isDeath(err) {
			e.settle(t, to, off, code, operand, cond, x.number)
		}
		return 0, 0, true, err
	default:
		return r.Value, 0, true, e.p.deaths.judge(r.Status, to)
	}
}

// settle puts a fetch that was given up into the stream, so that it takes place before all later operations of this PE,
// if at all. Nobody waits for its answer. It waits for nothing: while the node can have no slot or no block, which takes one
// that has stopped, the request is left on the socket that was closed, and may take place a little later.
func (e *expressSockets) settle(t *Touched, to target, off uint64, code uint8, operand, cond, number uint64) {
	p := e.p
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	k, ok := p.claimNow(to, false)
	if !ok {
		return
	}
	if s, body, err := p.begin(ctx, to, record.SizeFetchOnce); err == nil {
		p.slots[k].number, p.slots[k].sent = s.next, true
		p.end(s, t, record.AppendFetchOnce(body, to.local, off, code, operand, cond, number, uint64(k)))
	}
	p.leave(k)
}
