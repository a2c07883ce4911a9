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

// registry knows all open connections, and in which order those came that have not said who they are.
type registry struct {
	mu      sync.Mutex
	limit   int
	closed  bool
	open    map[*conn]struct{}
	unknown []*conn
	foreign []*conn       // the same, of other users
	gone    chan struct{} // gets something when one of the unknown is none any more
	named   map[codec.Proc]*conn
}

// patience returns how long to wait before the next connection is taken, 0 for not at all. A flood that is faster than
// what has come before can be read waits in the listener's queue, and real clients with it: to take it at once would
// push out connections that have not had time to say who they are, or whose words nobody has had time to read.
func (r *registry) patience(silence time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.unknown) < r.limit {
		return 0
	}
	return max(0, time.Until(r.unknown[0].since.Add(silence)))
}

// add takes a new connection; false means that the server is closing. A flood of connections that say nothing pushes
// out its own oldest members: a real client says who it is at once and is never among them for long. Those of other
// users push out each other alone.
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

// expect changes the number of connections that may be silent at the same time.
func (r *registry) expect(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit += more
}

// known says that a connection has proved to be a client. It returns false if it has been pushed out before: then
// nobody may hear of it, as the loss of a client is the end of a process.
func (r *registry) known(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropUnknown(c)
	return !c.isClosed()
}

func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	if r.named[c.proc] == c {
		delete(r.named, c.proc)
	}
	r.dropUnknown(c)
}

// name notes which process a connection is of.
func (r *registry) name(c *conn, p codec.Proc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.named == nil {
		r.named = map[codec.Proc]*conn{}
	}
	c.proc, r.named[p] = p, c
}

// of returns the open connection of a process, nil if there is none.
func (r *registry) of(p codec.Proc) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.named[p]
}

// dropUnknown removes a connection from those that have not said who they are. The caller holds the lock.
func (r *registry) dropUnknown(c *conn) {
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

// accept takes connections until the server closes.
func (s *Server) accept() {
	for id := connID(1); ; id++ {
		nc, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn().Err(err).Msg("accept failed")
			if !s.pause(50 * time.Millisecond) { // out of descriptors, most likely: others have to close some first
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
		s.wg.Go(func() { s.attend(c) })
	}
}

// makeRoom waits until a connection may be added. It returns false when the server is closing.
func (s *Server) makeRoom() bool {
	for {
		d := s.reg.patience(s.limits.silence)
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

// attend reads one connection from its handshake to its end.
func (s *Server) attend(c *conn) {
	defer s.reg.remove(c)
	defer c.close()
	_ = c.nc.SetDeadline(time.Now().Add(s.limits.handshake)) // fails only on a closed connection, which reading reports
	r := bufio.NewReader(c.nc)
	proc, ok := s.greet(c, r)
	if !ok {
		return
	}
	_ = c.nc.SetDeadline(time.Time{}) // as above
	s.wg.Go(c.write)
	s.read(c, r, proc)
	s.submit(input{event: event{kind: evClosed, conn: c.id}, from: c})
	close(c.over)
}

// greet finds out who connects and whether it may; the answer to one who may is already queued.
func (s *Server) greet(c *conn, r io.Reader) (codec.Proc, bool) {
	h, err := codec.ReadHandshake(r)
	if err != nil {
		s.log.Debug().Err(err).Stringer("peer", c.nc.RemoteAddr()).Msg("connection dropped")
		return codec.Proc{}, false
	}
	c.tool = h.IsTool()
	claim, status, err := s.admit(c, &h)
	if err != nil {
		s.log.Warn().Err(err).Str("nspace", h.Proc.Nspace).Uint32("pe", uint32(h.Proc.Rank)).Msg("client refused")
		c.turnAway(status)
		return codec.Proc{}, false
	}
	if !s.reg.known(c) {
		return codec.Proc{}, false
	}
	s.awaitHungUp(claim.proc)
	if !s.submit(input{event: claim, from: c}) {
		return codec.Proc{}, false
	}
	if status := <-c.verdict; status != codec.StatusSuccess {
		c.turnAway(status)
		return codec.Proc{}, false
	}
	return claim.proc, true
}

// awaitHungUp waits until the loop has taken the end of a connection whose client has hung up.
// A process that ends without a farewell may be followed by another of the same rank at once,
// as in a shell. Both connections have readers of their own, and the second one's claim may
// overtake the end of the first: it would be refused as that of a rank that is connected.
func (s *Server) awaitHungUp(p codec.Proc) {
	old := s.reg.of(p)
	if old == nil || !old.hungUp() {
		return
	}
	select {
	case <-old.over:
	case <-s.quit:
	}
}

// hungUp says whether the client sends nothing more.
func (c *conn) hungUp() bool {
	sc, ok := c.nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	return err == nil && xunix.HungUp(raw)
}

// admit makes a claim of a handshake, or says why and with which status it is refused.
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
	c.welcome = s.welcome(h, claim.proc)
	return claim, codec.StatusSuccess, nil
}

// nameTool makes the namespace of a tool.
func (s *Server) nameTool(h *codec.Handshake) (codec.Proc, *nspace, error) {
	p := h.Proc
	if h.NeedsID() {
		// Behind a name that no other server on the machine has, unless that is too long.
		p.Nspace = fmt.Sprintf("%.200s-tool-%d", s.cfg.Job.Nspace, s.tools.Add(1))
	} else if err := checkNspace(p.Nspace); err != nil || p.Rank >= codec.RankMaxValid {
		return p, nil, fmt.Errorf("tool with the name %.64q.%d of its own, want a valid one", p.Nspace, p.Rank)
	}
	space, err := newToolSpace(p)
	return p, space, err
}

// welcome is the answer to a handshake that is accepted.
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

// turnAway tells a client why it is refused; the connection is closed afterwards in any case.
func (c *conn) turnAway(status codec.Status) {
	answer := codec.AppendHandshakeReply(nil, status, 0)
	if c.tool {
		answer = codec.AppendToolReply(nil, codec.ToolReply{Status: status})
	}
	_, _ = c.nc.Write(answer) // it may have hung up by itself
}

// read feeds the loop with a client's requests until the connection ends.
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
