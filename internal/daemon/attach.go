package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// attachIdle is how long a connection to the attach socket may say nothing.
const attachIdle = 10 * time.Second

// listen opens the attach socket under an abstract name, which vanishes with
// the process.
func (s *Step) listen() error {
	// Everybody can read the names of such sockets: this one tells nothing of
	// the job's, which is what connections have to show.
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@goshmem-" + hex.EncodeToString(name[:]), Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("attach socket: %w", err)
	}
	s.attach = l
	s.serving.Go(s.serve)
	return nil
}

// acceptPause is how long a listener that cannot accept waits for others to
// close descriptors.
const acceptPause = 50 * time.Millisecond

func (s *Step) serve() {
	for {
		conn, err := s.attach.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.cfg.Logger.Error().Err(err).Msg("attach socket")
			select {
			case <-time.After(acceptPause):
			case <-s.closing:
				return
			}
		default:
			s.receive(conn)
		}
	}
}

// receive begins a talk with whom it makes sense with. Any user of the machine can
// connect as often as it likes: who is of another one is told so at once, and of
// this one's processes outside the job only some are listened to.
func (s *Step) receive(conn *net.UnixConn) {
	peer, err := xunix.PeerOf(conn)
	if err == nil && int(peer.UID) != os.Getuid() && peer.UID != 0 {
		reply := wire.AttachReply{Err: fmt.Sprintf("process %d of user %d, want user %d", peer.PID, peer.UID, os.Getuid())}
		err = errors.Join(xunix.SendFDs(conn, reply.Append(nil), nil), conn.Close()) // an empty socket takes a packet without waiting
		s.cfg.Logger.Warn().Err(err).Str("reply", reply.Err).Msg("attach")
		return
	}
	if err != nil {
		_ = conn.Close() // there is nobody to tell
		return
	}
	if !s.visitors.add(conn, !s.belongs(peer.PID)) {
		return
	}
	s.serving.Go(func() {
		defer s.visitors.remove(conn)
		if err := s.talk(conn, peer); err != nil {
			s.cfg.Logger.Warn().Err(err).Msg("attach")
		}
	})
}

// mostStrangers is how many connections from outside the job are open at a time.
const mostStrangers = 64

// visitors are the open connections to the attach socket.
type visitors struct {
	mu        sync.Mutex
	closed    bool
	open      map[*net.UnixConn]struct{}
	strangers []*net.UnixConn // of them, those from outside the job, in order
}

// add takes a connection, or closes it when the step is closing. A flood of
// strangers pushes out its own oldest members, and no PE.
func (v *visitors) add(conn *net.UnixConn, stranger bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		_ = conn.Close() // there is nobody to tell
		return false
	}
	if v.open == nil {
		v.open = map[*net.UnixConn]struct{}{}
	}
	v.open[conn] = struct{}{}
	if !stranger {
		return true
	}
	if len(v.strangers) == mostStrangers {
		_ = v.strangers[0].Close() // its talk ends by that
		v.strangers = slices.Delete(v.strangers, 0, 1)
	}
	v.strangers = append(v.strangers, conn)
	return true
}

func (v *visitors) remove(conn *net.UnixConn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, conn)
	if i := slices.Index(v.strangers, conn); i >= 0 {
		v.strangers = slices.Delete(v.strangers, i, i+1)
	}
	_ = conn.Close() // as above
}

// close ends all talks: one that says nothing must not hold up the end.
func (v *visitors) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for conn := range v.open {
		_ = conn.Close() // as above
	}
}

// talk answers the requests of one connection.
func (s *Step) talk(conn *net.UnixConn, peer xunix.Peer) error {
	t := newTaker(conn)
	defer close(t.gone)
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
		var p *proc
		if err == nil {
			p, err = s.allow(peer, req)
		}
		if err != nil {
			reply := wire.AttachReply{Err: err.Error()}
			return errors.Join(err, xunix.SendFDs(conn, reply.Append(nil), nil))
		}
		last, err := s.hand(t, p, req)
		if err != nil {
			return err
		}
		if last {
			return s.obey(t, p)
		}
	}
}

// hand sends the descriptors of as many segments as fit, if segments are asked
// for, and says whether that was the last of the answers. Whoever has the last
// one takes orders.
func (s *Step) hand(t *taker, p *proc, req wire.AttachRequest) (last bool, err error) {
	p.job.lending.RLock()
	defer p.job.lending.RUnlock()
	heaps := p.job.heaps
	if len(heaps) == 0 {
		return false, errEnding
	}
	info, err := heaps[0].Stat()
	if err != nil {
		return false, err
	}
	if req.Kind == wire.AskOrders {
		heaps = nil
	}
	end := min(len(heaps), int(req.First)+wire.MaxSegments)
	var fds []int
	for _, f := range heaps[min(int(req.First), end):end] {
		fds = append(fds, int(f.Fd()))
	}
	count, page := len(fds), req.Kind == wire.AskSegments && req.First == 0
	if page {
		fds = append(fds, p.job.pageFD)
	}
	reply := wire.AttachReply{
		Job: p.job.key, NPEs: uint32(p.job.npes()), First: req.First, Count: uint32(count), Page: page,
		Incarnation: 1, Processors: uint32(s.processors(p.job)), SegmentSize: uint64(info.Size()), Recover: !s.cfg.EndsFirst,
	}
	if last = end == len(heaps); last {
		return true, s.employ(t, p, func() error { return xunix.SendFDs(t.conn, reply.Append(nil), fds) })
	}
	return false, xunix.SendFDs(t.conn, reply.Append(nil), fds)
}

// allow checks that a request comes from the process tree of the PE that it
// names, and returns the PE.
func (s *Step) allow(peer xunix.Peer, req wire.AttachRequest) (*proc, error) {
	j := s.jobOf(req.Nspace)
	switch {
	case j == nil:
		return nil, fmt.Errorf("job %q, want one that this socket is for", req.Nspace) // whose name is none of a stranger's business
	case int64(req.PE) >= int64(j.npes()) || int64(req.First) >= int64(j.npes()):
		return nil, fmt.Errorf("PE %d and first segment %d, want below %d", req.PE, req.First, j.npes())
	case req.Kind != wire.AskSegments && req.Kind != wire.AskOrders:
		return nil, fmt.Errorf("request of kind %d, want %d or %d", req.Kind, wire.AskSegments, wire.AskOrders)
	}
	s.mu.Lock()
	p := j.procs[req.PE]
	s.mu.Unlock()
	if p == nil || !s.descends(peer.PID, p) {
		return nil, fmt.Errorf("process %d is not of PE %d", peer.PID, req.PE)
	}
	if s.hasFailed(p) {
		return nil, fmt.Errorf("PE %d has failed: nothing of it can join any more", req.PE)
	}
	return p, nil
}
