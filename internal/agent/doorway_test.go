package agent

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/transport/tcp"
)

// An agent listens at a port of its range that nobody has, and says so if there is none.
func TestDoorway(t *testing.T) {
	first, second := neighbors(t)
	at := doorway{first: netip.MustParseAddrPort(first.Addr().String())}
	at.last = at.first.Port() + 1
	cfg := tcp.Config{Self: 0, Nodes: 1, Incarnation: nodeIncarnation, Secret: testKey, Job: testJob}
	if got, err := at.listen(cfg); err == nil || !strings.Contains(err.Error(), "none of the 2 ports ") {
		t.Errorf("two ports in use: %v, %v, want an error", got, err)
	}
	check(t, second.Close())
	for range 5 {
		got, err := at.listen(cfg)
		check(t, err)
		if addr := got.Addrs()[0]; addr.Port() != at.last {
			t.Errorf("the agent listens at %v, want port %d", addr, at.last)
		}
		check(t, got.Close())
	}
	alone := doorway{first: at.first, last: at.first.Port()}
	if got, err := alone.listen(cfg); err == nil {
		t.Errorf("the only port is in use: %v, want an error", got)
	}
	check(t, first.Close())
	free := doorway{first: netip.MustParseAddrPort("127.0.0.1:0")}
	got, err := free.listen(cfg)
	check(t, err)
	if got.Addrs()[0].Port() == 0 {
		t.Error("the agent listens at port 0")
	}
	check(t, got.Close())
}

// neighbors listens at two ports that follow each other.
func neighbors(t *testing.T) (first, second net.Listener) {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		check(t, err)
		addr := netip.MustParseAddrPort(l.Addr().String())
		if addr.Port() < 1<<16-1 {
			next, err := net.Listen("tcp4", netip.AddrPortFrom(addr.Addr(), addr.Port()+1).String())
			if err == nil {
				return l, next
			}
		}
		check(t, l.Close())
	}
	t.Fatal("no two ports that follow each other are free")
	return nil, nil
}
