package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/codec"
)

// registry holds all open connections. A connection is unidentified until its handshake has proved it to be a client.
type registry struct {
	mu      sync.Mutex
	limit   int                    // most connections in unknown, and in foreign
	closed  bool                   // the server is closing
	open    map[*conn]struct{}     // all connections
	unknown []*conn                // unidentified connections of this user, the oldest first
	foreign []*conn                // unidentified connections of other users, the oldest first
	gone    chan struct{}          // signaled when a connection leaves unknown
	named   map[codec.Proc][]*conn // connections of accepted clients, the oldest first
}

// acceptDelay returns how long to wait before the next connection is accepted; 0: accept it at once. When unknown is
// full, its oldest connection first gets the time silence to identify itself. Otherwise a fast flood would evict
// clients whose handshake is still on its way, or has not been read yet. Meanwhile new connections wait in the
// listener's queue.
func (r *registry) acceptDelay(silence time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.unknown) < r.limit {
		return 0
	}
	return max(0, time.Until(r.unknown[0].since.Add(silence)))
}

// add registers a new connection; false means that the server is closing. If there are too many unidentified
// connections, add closes the oldest one: a real client identifies itself at once. Connections of other users evict
// only each other.
func (r *registry) add(c *conn, foreign bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.open == nil {
		r.open = map[*conn]struct{}{}
	}
	r.open[c] = struct{}{}
	queue := &r.unknown
	if foreign {
		queue = &r.foreign
	}
	*queue = append(*queue, c)
	if len(*queue) > r.limit {
		(*queue)[0].close()
		*queue = slices.Delete(*queue, 0, 1)
	}
	return true
}

// raiseLimit changes the limit on unidentified connections by a number, which may be negative.
func (r *registry) raiseLimit(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit += more
}

// identify notes that a connection has proved to be a client. It returns false if the connection was evicted before.
// The core must not see such a connection: the loss of a client counts as the end of a process.
func (r *registry) identify(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropUnidentified(c)
	return !c.isClosed()
}

func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	if rest := slices.DeleteFunc(r.named[c.proc], func(o *conn) bool { return o == c }); len(rest) > 0 {
		r.named[c.proc] = rest
	} else {
		delete(r.named, c.proc)
	}
	r.dropUnidentified(c)
}

// name notes the process of an accepted connection.
func (r *registry) name(c *conn, p codec.Proc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.named == nil {
		r.named = map[codec.Proc][]*conn{}
	}
	c.proc, r.named[p] = p, append(r.named[p], c)
}

// find returns the open connections of a process.
func (r *registry) find(p codec.Proc) []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.named[p])
}

// dropUnidentified removes a connection from the unidentified ones. The caller holds the lock.
func (r *registry) dropUnidentified(c *conn) {
	if i := slices.Index(r.foreign, c); i >= 0 {
		r.foreign = slices.Delete(r.foreign, i, i+1)
	}
	if i := slices.Index(r.unknown, c); i >= 0 {
		r.unknown = slices.Delete(r.unknown, i, i+1)
		select {
		case r.gone <- struct{}{}:
		default:
		}
	}
}

func (r *registry) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.open {
		c.close()
	}
}

// accept accepts connections until the server closes.
func (s *Server) accept() {
	for id := connID(1); ; id++ {
		nc, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn().Err(err).Msg("accept failed")
			if !s.pause(50 * time.Millisecond) { // most likely there is no free descriptor until another connection closes
				return
			}
			continue
		}
		c := newConn(id, nc, &s.limits)
		foreign := s.cfg.Foreign != nil && s.cfg.Foreign(nc)
		if !foreign && !s.makeRoom() || !s.reg.add(c, foreign) {
			c.close()
			return
		}
		s.wg.Go(func() { s.serveConn(c) })
	}
}

// makeRoom waits until a connection may be added. It returns false when the server is closing.
func (s *Server) makeRoom() bool {
	for {
		d := s.reg.acceptDelay(s.limits.silence)
		if d == 0 {
			return true
		}
		t := time.NewTimer(d)
		select {
		case <-s.reg.gone:
		case <-t.C:
		case <-s.quit:
			t.Stop()
			return false
		}
		t.Stop()
	}
}

// pause waits for a time; false means that the server is closing.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.quit:
		return false
	}
}

// serveConn reads one connection from its handshake to its end.
func (s *Server) serveConn(c *conn) {
	defer s.reg.remove(c)
	defer c.close()
	_ = c.nc.SetDeadline(time.Now().Add(s.limits.handshake)) // fails only on a closed connection, which reading reports
	r := bufio.NewReader(c.nc)
	proc, ok := s.shakeHands(c, r)
	if !ok {
		return
	}
	_ = c.nc.SetDeadline(time.Time{}) // as above
	s.wg.Go(c.write)
	s.read(c, r, proc)
	s.submit(input{event: event{kind: evClosed, conn: c.id}, from: c})
	close(c.over)
}

// shakeHands reads a handshake and has the core decide on the claim. When it returns true, the answer is queued.
func (s *Server) shakeHands(c *conn, r io.Reader) (codec.Proc, bool) {
	h, err := codec.ReadHandshake(r)
	if err != nil {
		s.log.Debug().Err(err).Stringer("peer", c.nc.RemoteAddr()).Msg("connection dropped")
		return codec.Proc{}, false
	}
	c.tool = h.IsTool()
	claim, status, err := s.admit(c, &h)
	if err != nil {
		s.log.Warn().Err(err).Str("nspace", h.Proc.Nspace).Uint32("pe", uint32(h.Proc.Rank)).Msg("client refused")
		c.refuse(status)
		return codec.Proc{}, false
	}
	if !s.reg.identify(c) {
		return codec.Proc{}, false
	}
	for _, old := range s.reg.find(claim.proc) {
		if claim.pid == 0 || claim.pid != old.pid { // not of another library in the same process
			s.awaitHungUp(old)
		}
	}
	if !s.submit(input{event: claim, from: c}) {
		return codec.Proc{}, false
	}
	if status := <-c.verdict; status != codec.StatusSuccess {
		c.refuse(status)
		return codec.Proc{}, false
	}
	return claim.proc, true
}

// hangUpPatience is how long the end of an earlier connection may take to come. The kernel may deliver what a later
// connection has sent before it, also on one machine, if it has much to do.
const hangUpPatience = 500 * time.Millisecond

// awaitHungUp waits until the loop has seen the end of an earlier connection whose client has hung up. A process
// that ends without finalize may be followed at once by another of the same rank, as in a shell script. Each connection
// has a reader of its own, so the second claim could overtake the end of the first connection. The core would refuse
// it, as it does if the first client does not hang up.
func (s *Server) awaitHungUp(old *conn) {
	patience, look := time.NewTimer(hangUpPatience), time.NewTicker(time.Millisecond)
	defer patience.Stop()
	defer look.Stop()
	for !old.hungUp() {
		select {
		case <-look.C:
			continue
		case <-old.over:
		case <-s.quit:
		case <-patience.C:
		}
		return
	}
	select {
	case <-old.over:
	case <-s.quit:
	}
}

// hungUp reports whether the client has closed its end.
func (c *conn) hungUp() bool {
	sc, ok := c.nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	return err == nil && xunix.HungUp(raw)
}

// admit authorizes a handshake and returns its claim, or the status and the reason of the refusal.
func (s *Server) admit(c *conn, h *codec.Handshake) (event, codec.Status, error) {
	if err := h.Check(); err != nil {
		return event{}, codec.StatusErrNotSupported, err
	}
	claim := event{kind: evClaim, conn: c.id, proc: h.Proc}
	var err error
	switch {
	case !h.StartedHere() && s.cfg.AuthorizeTool == nil:
		return event{}, codec.StatusErrNotSupported, errors.New("tools are not accepted")
	case !h.StartedHere():
		if claim.pid, err = s.cfg.AuthorizeTool(c.nc); err == nil {
			claim.proc, claim.space, err = s.nameTool(h)
		}
	case s.cfg.Authorize != nil:
		claim.pid, err = s.cfg.Authorize(c.nc, h.Proc)
	}
	if err != nil {
		return event{}, codec.StatusErrNoPermissions, err
	}
	c.pid, c.welcome = claim.pid, s.welcome(h, claim.proc)
	return claim, codec.StatusSuccess, nil
}

// nameTool returns the name and the namespace of a tool.
func (s *Server) nameTool(h *codec.Handshake) (codec.Proc, *nspace, error) {
	p := h.Proc
	if h.NeedsID() {
		// The job's name, cut to fit, keeps the name apart from those of other servers on the machine.
		p.Nspace = fmt.Sprintf("%.200s-tool-%d", s.cfg.Job.Nspace, s.tools.Add(1))
	} else if err := checkNspace(p.Nspace); err != nil || p.Rank >= codec.RankMaxValid {
		return p, nil, fmt.Errorf("tool names itself %.64q.%d, want a valid namespace and a rank below %d", p.Nspace, p.Rank, codec.RankMaxValid)
	}
	space, err := newToolSpace(p)
	return p, space, err
}

// welcome returns the answer to a handshake that is accepted.
func (s *Server) welcome(h *codec.Handshake, name codec.Proc) []byte {
	if !h.IsTool() {
		return codec.AppendHandshakeReply(nil, codec.StatusSuccess, uint32(name.Rank))
	}
	reply := codec.ToolReply{Server: s.proc()}
	if h.NeedsID() {
		reply.Given = &name
	}
	return codec.AppendToolReply(nil, reply)
}

// refuse sends the status of a refusal. The caller closes the connection.
func (c *conn) refuse(status codec.Status) {
	answer := codec.AppendHandshakeReply(nil, status, 0)
	if c.tool {
		answer = codec.AppendToolReply(nil, codec.ToolReply{Status: status})
	}
	_, _ = c.nc.Write(answer) // the client may have hung up
}

// read passes a client's requests to the loop until the connection ends.
func (s *Server) read(c *conn, r *bufio.Reader, proc codec.Proc) {
	frames := codec.NewFrameReader(r, s.limits.frame)
	for {
		h, body, err := frames.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.log.Debug().Err(err).Str("nspace", proc.Nspace).Uint32("pe", uint32(proc.Rank)).Msg("connection ended")
			}
			return
		}
		in := input{event: event{kind: evFrame, conn: c.id, tag: h.Tag, payload: body}, from: c}
		if !s.submit(in) {
			return
		}
	}
}
