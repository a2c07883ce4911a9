package codectest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// Recorder stands between clients and a server and keeps what they say.
type Recorder struct {
	ln     net.Listener
	server string
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns []*recorded
	errs  []error
}

// recorded is what was said on one connection.
type recorded struct {
	client, server net.Conn
	frames         []Frame
}

// Record listens on a loopback port and passes connections on to the server at an address, until the test ends.
func Record(t testing.TB, server string) *Recorder {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{ln: ln, server: server}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = ln.Close() // ends accept
		r.mu.Lock()
		for _, c := range r.conns {
			c.close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

// Addr is where clients connect to.
func (r *Recorder) Addr() string { return r.ln.Addr().String() }

// Frames returns what has been said so far, one list for each connection in the order of their opening.
//
//   - Errors: a connection that broke off inside a frame.
func (r *Recorder) Frames() ([][]Frame, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out [][]Frame
	for _, c := range r.conns {
		out = append(out, slices.Clone(c.frames))
	}
	return out, errors.Join(r.errs...)
}

func (r *Recorder) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close() // the client sees that there is no server
			r.fail(err)
			continue
		}
		c := &recorded{client: client, server: server}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.wg.Go(func() { r.pass(c, true) })
		r.wg.Go(func() { r.pass(c, false) })
	}
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (c *recorded) close() {
	_ = c.client.Close() // one side has gone already
	_ = c.server.Close()
}

// pass copies one direction, frame by frame, until it ends.
func (r *Recorder) pass(c *recorded, fromClient bool) {
	defer c.close()
	from, to := c.server, c.client
	if fromClient {
		from, to = to, from
	}
	in := bufio.NewReader(from)
	for first := true; ; first = false {
		f, err := readFrame(in, fromClient, first)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				r.fail(err)
			}
			return
		}
		r.mu.Lock()
		c.frames = append(c.frames, f)
		r.mu.Unlock()
		if _, err := to.Write(slices.Concat(f.Header, f.Body)); err != nil {
			return // the other side is gone, which its own direction reports if it has to
		}
	}
}

// handshakeReplySize is the length of the server's first message, which has no header.
const handshakeReplySize = 8

func readFrame(in io.Reader, fromClient, first bool) (Frame, error) {
	f := Frame{FromClient: fromClient}
	size := uint32(handshakeReplySize)
	if fromClient || !first {
		f.Header = make([]byte, headerSize)
		if _, err := io.ReadFull(in, f.Header); err != nil {
			return f, err
		}
		size = binary.BigEndian.Uint32(f.Header[8:])
		if first {
			size = binary.NativeEndian.Uint32(f.Header[8:])
		}
	}
	f.Body = make([]byte, size)
	_, err := io.ReadFull(in, f.Body)
	return f, err
}
