package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"

	"github.com/goshmem/goshmem/transport/tcp"
)

// doorway is where an agent may listen: at the ports from that of first to last.
type doorway struct {
	first netip.AddrPort // port 0: the kernel chooses
	last  uint16
}

// listen returns a transport that listens at one of the ports. It begins somewhere in the range: other agents of this machine may
// look for a port at the same time.
func (d doorway) listen(cfg tcp.Config) (*tcp.Transport, error) {
	low := d.first.Port()
	n := int(max(low, d.last)-low) + 1
	if low == 0 {
		n = 1
	}
	start := rand.IntN(n)
	var last error
	for i := range n {
		cfg.Listen = []netip.AddrPort{netip.AddrPortFrom(d.first.Addr(), low+uint16((start+i)%n))}
		t, err := tcp.New(cfg)
		if err == nil {
			return t, nil
		}
		if n == 1 || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			return nil, err
		}
		last = err
	}
	return nil, fmt.Errorf("listen at %v: none of the %d ports %d-%d can be had: %w", d.first.Addr(), n, low, d.last, last)
}
