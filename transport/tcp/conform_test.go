package tcp

import (
	"net/netip"
	"testing"

	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/faulty"
	"github.com/goshmem/goshmem/transport/transporttest"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// nodeConfig returns the configuration of a node of n.
func nodeConfig(self, n int) Config {
	return Config{
		Self: self, Nodes: n, Incarnation: uint32(10 + self), Secret: Secret{1, 2, 3}, Job: [16]byte{4, 5},
		Listen: []netip.AddrPort{loopback},
	}
}

// makeNodes returns nodes that know each other.
func makeNodes(t testing.TB, n int, change func(*Config)) []*Transport {
	t.Helper()
	var all []*Transport
	for i := range n {
		cfg := nodeConfig(i, n)
		if change != nil {
			change(&cfg)
		}
		tr, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Close() })
		all = append(all, tr)
	}
	for i, a := range all {
		for j, b := range all {
			if i == j {
				continue
			}
			if err := a.SetPeer(j, b.cfg.Incarnation, b.Addrs()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func TestConformance(t *testing.T) {
	bulk := int64(1 << 30)
	if testing.Short() {
		bulk = 64 << 20
	}
	transporttest.Run(t, transporttest.Config{Bulk: bulk, Make: func(t *testing.T, n int) (all []transport.Transport) {
		for _, tr := range makeNodes(t, n, nil) {
			all = append(all, tr)
		}
		return all
	}})
}

// The same over package faulty, which holds posts and events, so that they come in other orders.
func TestConformanceDelayed(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Bulk: 16 << 20, Make: func(t *testing.T, n int) (all []transport.Transport) {
		for i, tr := range makeNodes(t, n, nil) {
			all = append(all, faulty.New(tr, faulty.Config{Seed: uint64(i), Delay: 3, Log: t.Logf}))
		}
		return all
	}})
}
