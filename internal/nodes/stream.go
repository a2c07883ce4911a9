package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// With Config.Stdio, daemons do not dial the front end. The standard input and output of the launch agent are the
// connection:
//
//	front end                      launch agent               daemon
//	handover                 --->  standard input       --->  reads it to the empty line
//	drops what stands before <---  standard output      <---  greeting
//	frames                   <-->  both                 <-->  frames
//
// The daemon speaks first, so it reads no frame with the handover. What stands before the greeting are words of the
// command or of a login shell: they are what the agent has said. There is no other connection, so the end of this one is
// the loss of the node.

// greeting is the line after which a daemon's standard output is a connection.
const greeting = "goshmem-control 1\n"

// stream is a connection over two files.
type stream struct {
	in, out *os.File
	name    streamAddr // of the peer
}

// streamAddr is the address of a stream's peer.
type streamAddr string

// Network returns the kind of the address.
func (streamAddr) Network() string { return "stdio" }

// String names the peer.
func (a streamAddr) String() string { return string(a) }

// Read reads what the peer has written.
func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Write writes for the peer.
func (s *stream) Write(b []byte) (int, error) { return s.out.Write(b) }

// Close closes both files.
func (s *stream) Close() error { return errors.Join(s.in.Close(), s.out.Close()) }

// LocalAddr returns an address without a meaning.
func (s *stream) LocalAddr() net.Addr { return streamAddr("here") }

// RemoteAddr names the peer.
func (s *stream) RemoteAddr() net.Addr { return s.name }

// SetDeadline bounds reads and writes.
func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.in.SetDeadline(t), s.out.SetDeadline(t))
}

// SetReadDeadline bounds reads.
func (s *stream) SetReadDeadline(t time.Time) error { return s.in.SetDeadline(t) }

// SetWriteDeadline bounds writes.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.out.SetDeadline(t) }

// ownStream returns the connection of a daemon with the front end, which it has greeted.
func ownStream() (net.Conn, error) {
	in, out, err := xunix.TakeStandardIO()
	if err != nil {
		return nil, fmt.Errorf("--control stdio: %w", err)
	}
	s := &stream{in: in, out: out, name: "standard input and output"}
	if _, err := s.Write([]byte(greeting)); err != nil {
		s.Close() //nolint:errcheck // the error before says more
		return nil, fmt.Errorf("--control stdio: greet the front end: %w", err)
	}
	return s, nil
}

// startStream starts the agent as a process of this machine, and gives adopt the connection with its daemon once that has
// greeted.
func (p *agentProcess) startStream(handover []byte, adopt func(net.Conn)) error {
	in, handing, err := os.Pipe()
	if err != nil {
		return p.explain(err)
	}
	defer in.Close() //nolint:errcheck // the agent has it
	said, out, err := os.Pipe()
	if err != nil {
		handing.Close() //nolint:errcheck // the error before says more
		return p.explain(err)
	}
	defer out.Close() //nolint:errcheck // the agent has it
	s := &stream{in: said, out: handing, name: streamAddr("the launch agent of " + p.where)}
	var mu sync.Mutex
	greeted := false
	heard := make(chan struct{}) // closed when nothing more is read before the greeting
	p.stdio = true
	p.hear = func() {
		mu.Lock()
		if !greeted { // what the agent leaves behind may hold the pipes open
			s.SetDeadline(time.Now().Add(leftBehind)) //nolint:errcheck // it fails if the connection is closed
		}
		mu.Unlock()
		<-heard
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Stdin, cmd.Stdout = in, out
	cmd.SysProcAttr = xunix.LastingAttr() // signals of the user's terminal go to the front end alone
	if err := p.run(cmd); err != nil {
		s.Close() //nolint:errcheck // the error before says more
		return err
	}
	go func() {
		defer close(heard)
		if err := p.awaitGreeting(s, handover); err != nil {
			s.Close() //nolint:errcheck // whoever waits for the daemon finds out why it does not come
			return
		}
		mu.Lock()
		greeted = true
		mu.Unlock()
		adopt(s)
	}()
	return nil
}

// awaitGreeting gives the daemon its handover and returns when it has greeted.
func (p *agentProcess) awaitGreeting(s *stream, handover []byte) error {
	go s.Write(handover) //nolint:errcheck // an agent that does not take it says why, or ends
	var line []byte
	for b := []byte{0}; ; {
		if _, err := s.Read(b); err != nil {
			_, _ = p.said.Write(line) // never fails
			return err
		}
		line = append(line, b[0])
		if b[0] != '\n' && len(line) < tailBytes {
			continue
		}
		noise, greets := bytes.CutSuffix(line, []byte(greeting))
		_, _ = p.said.Write(noise) // never fails
		if greets {
			return nil
		}
		line = line[:0]
	}
}
