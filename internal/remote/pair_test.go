package remote

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/launch/nodetest"
	"github.com/goshmem/goshmem/internal/wire"
)

var _ launch.Node = (*Client)(nil)

func TestMain(m *testing.M) {
	nodetest.Main()
	os.Exit(m.Run())
}

// startStep is the Starter of a real node.
func startStep(cfg daemon.Config, hooks daemon.Hooks) (daemon.Node, error) {
	step, err := daemon.Start(cfg, hooks)
	if err != nil {
		return nil, err
	}
	return step, nil
}

// queue is a Peer that passes frames on to the other side, in order, by one goroutine.
type queue struct {
	serial
	all  sync.WaitGroup
	pass func(f wire.Frame)
}

func (q *queue) Send(f wire.Frame) { q.add(&q.all, func() { q.pass(f) }) }

// pair returns a client and a server that are connected in memory.
func pair(t *testing.T, start Starter) (*Client, *Server) {
	t.Helper()
	up, down := new(queue), new(queue)
	c, s := NewClient(up), NewServer(down, start)
	up.pass, down.pass = s.Take, c.Take
	t.Cleanup(func() { checkEnd(t, c, s) })
	return c, s
}

// checkEnd closes the client and waits until the server ends.
func checkEnd(t *testing.T, c *Client, s *Server) {
	t.Helper()
	_ = c.Close() // tests that want no error look for themselves
	s.Lost(errors.New("the test is over"))
	_ = s.Wait() // why it ends is no matter here
}

// pipe returns a client and a server that are connected by net.Pipe, over which frames go as bytes.
func pipe(t *testing.T, start Starter) (*Client, *Server) {
	t.Helper()
	here, there := net.Pipe()
	up, down := writer(here), writer(there)
	c, s := NewClient(up), NewServer(down, start)
	var readers sync.WaitGroup
	readers.Go(func() { read(here, c.Take, c.Lost) })
	readers.Go(func() { read(there, s.Take, s.Lost) })
	t.Cleanup(func() {
		checkEnd(t, c, s)
		up.all.Wait() // all is written
		down.all.Wait()
		_, _ = here.Close(), there.Close()
		readers.Wait()
	})
	return c, s
}

// writer returns a Peer that writes to a connection.
func writer(conn net.Conn) *queue {
	return &queue{pass: func(f wire.Frame) { _, _ = conn.Write(f.Append(nil)) }} // an error is one of the reader, too
}

// read passes on what comes over a connection, up to its end.
func read(conn net.Conn, take func(wire.Frame), lost func(error)) {
	for {
		f, err := wire.ReadFrame(conn, wire.MaxBody)
		if err != nil {
			lost(err)
			return
		}
		take(f)
	}
}

// starter starts nodes over pairs.
func starter(t *testing.T, connect func(*testing.T, Starter) (*Client, *Server)) nodetest.Start {
	t.Helper()
	return func(cfg daemon.Config, hooks daemon.Hooks) (launch.Node, error) {
		c, _ := connect(t, startStep)
		return c, c.Start(cfg, hooks)
	}
}

// A step elsewhere behaves as one in this process.
func TestContract(t *testing.T) { nodetest.Test(t, starter(t, pair)) }

// It does so where all that is said goes over a connection as bytes.
func TestContractOverConnection(t *testing.T) { nodetest.Test(t, starter(t, pipe)) }
