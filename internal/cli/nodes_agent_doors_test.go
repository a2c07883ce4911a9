package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/tcp"
)

// agentDoor is the time within which an agent closes connections of strangers.
const agentDoor = 2 * time.Second

// testPorts is a range of ports that the kernel gives nobody by itself.
const testPorts = "21000-21999"

// Strangers at the ports of agents are closed in time, get no line, and do not disturb the job, whether its PEs wait or operate
// on other nodes.
func TestEmulatedAgentStrangers(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, "--emulate", "3", "--port-range", testPorts, "-n", "6", "sh", "-c", waiter+`exec "$1" pe t-shmem`, gate, self(t))
	j.ready(6)
	doors := j.agentDoors()
	hello := agentHello(t)
	strangers := map[string]stranger{
		"silent":           func(net.Conn) {},
		"garbage":          func(conn net.Conn) { _, _ = conn.Write(bytes.Repeat([]byte{0xff}, 4096)) },
		"half a hello":     func(conn net.Conn) { _, _ = conn.Write(hello[:len(hello)/2]) },
		"a hello, no more": func(conn net.Conn) { _, _ = conn.Write(hello) },
		"half closed":      func(conn net.Conn) { closeHalf(conn, hello[:7]) },
		"slow":             func(conn net.Conn) { go drip(conn, hello) },
		"a flood":          func(conn net.Conn) { _, _ = conn.Write(bytes.Repeat(hello, 1000)) },
	}
	come := func() *sync.WaitGroup {
		var visits sync.WaitGroup
		for who, does := range strangers {
			for _, d := range doors {
				visits.Go(func() {
					if v := d.visit(who, does, agentDoor+strangerSlack); v.err != nil {
						t.Errorf("%s at %v was not closed after %v: %v", who, d, v.took, v.err)
					}
				})
			}
		}
		return &visits
	}
	come().Wait()
	others := 0 // for which the door is that of the right node
	for _, d := range doors {
		err := comeWithKey(t, d.address)
		switch {
		case err != nil && strings.Contains(err.Error(), "the listener has another key"):
			others++
		case err == nil || !strings.Contains(err.Error(), "the listener is another node"):
			t.Errorf("an agent of another job at %v: %v, want an error about its key or its node", d, err)
		}
	}
	if others != 1 {
		t.Errorf("%d agents of %d have refused the key of another job, want that of node 0", others, len(doors))
	}
	visits := come()
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
	visits.Wait()
	if said := j.stderr.String(); said != "" {
		t.Errorf("oshrun says:\n%s", said)
	}
	for _, d := range doors {
		if conn, err := net.Dial(d.network, d.address); err == nil {
			t.Errorf("somebody listens at %v after the job", d)
			_ = conn.Close()
		}
	}
}

// agentDoors returns where the agents of a job listen: each at one port of testPorts.
func (j *job) agentDoors() (all []door) {
	j.t.Helper()
	var low, high uint16
	_, err := fmt.Sscanf(testPorts, "%d-%d", &low, &high)
	check(j.t, err)
	for _, pid := range j.agents() {
		doors := doorsOf(j.t, pid)
		if len(doors) != 1 || doors[0].network != "tcp" {
			j.t.Fatalf("an agent listens at %v, want one port of TCP", doors)
		}
		if port := netip.MustParseAddrPort(doors[0].address).Port(); port < low || port > high {
			j.t.Errorf("an agent listens at %v, want a port of %s", doors[0], testPorts)
		}
		all = append(all, doors[0])
	}
	if len(all) == 0 {
		j.t.Fatal("the job has no agent")
	}
	return all
}

// agentHello returns the first bytes of a connection of two agents.
func agentHello(t *testing.T) []byte {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	defer func() { check(t, l.Close()) }()
	over := make(chan error, 1)
	go func() { over <- comeWithKey(t, l.Addr().String()) }()
	conn, err := l.Accept()
	check(t, err)
	hello := make([]byte, 4096)
	n, err := conn.Read(hello)
	check(t, err)
	check(t, conn.Close())
	if err := <-over; err == nil {
		t.Error("a connection that was closed is taken for that of an agent")
	}
	return hello[:n]
}

// comeWithKey makes the connection of an agent of another job to an address, and returns why it has ended.
func comeWithKey(t *testing.T, addr string) error {
	t.Helper()
	cfg := tcp.Config{Self: 1, Nodes: 4, Incarnation: 1}
	_, _ = rand.Read(cfg.Secret[:]) // never fails
	agent, err := tcp.New(cfg)
	check(t, err)
	defer func() { check(t, agent.Close()) }()
	check(t, agent.SetPeer(0, 1, []netip.AddrPort{netip.MustParseAddrPort(addr)}))
	check(t, agent.Post(0, transport.Out, 1, []byte("records")))
	for began := time.Now(); time.Since(began) < testPatience; {
		events, err := agent.Poll(nil, 100*time.Millisecond)
		check(t, err)
		for i := range events {
			switch events[i].Kind {
			case transport.Refused, transport.Broken:
				return events[i].Err
			case transport.Opened:
				return nil
			default:
			}
		}
	}
	return fmt.Errorf("no end of the connection to %s", addr)
}
