//go:build linux

package netfault

import (
	"math"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

// network is one of its own, with loopback.
type network struct {
	t   *testing.T
	pid int
}

func newNetwork(t *testing.T) *network {
	testenv.Need(t, testenv.EBPF, testenv.Root, testenv.Namespaces)
	cmd := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	return &network{t, cmd.Process.Pid}
}

// listen opens a socket at an address of loopback.
func (n *network) listen(addr string) (s *net.UDPConn) {
	err := xunix.InNetworkOf(n.pid, func() (err error) {
		s, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr+":0")))
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = s.Close() })
	return s
}

// send sends numbered datagrams one after the other, and returns the numbers of those that arrive. The kernel delivers a
// datagram on loopback before the call that sends it returns.
func (n *network) send(from, to *net.UDPConn, count int) (arrived []byte) {
	b := make([]byte, 1)
	for i := range count {
		if _, err := from.WriteToUDPAddrPort([]byte{byte(i)}, to.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
			n.t.Fatal(err)
		}
		if there(n.t, to, b) {
			arrived = append(arrived, b[0])
		}
	}
	return arrived
}

// there reads a datagram that is there.
func there(t *testing.T, s *net.UDPConn, b []byte) (is bool) {
	raw, err := s.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, err := syscall.Read(int(fd), b)
			is = err == nil && n > 0
			return true
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func start(t *testing.T, c Config) *Losses {
	t.Helper()
	l, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestShare: as much is lost as was asked for, and the counts say how much.
func TestShare(t *testing.T) {
	for _, percent := range []float64{0, 1, 30, 100} {
		n := newNetwork(t)
		a, b := n.listen("127.0.0.1"), n.listen("127.0.0.2")
		l := start(t, Config{Process: n.pid, Interfaces: []string{"lo"}, Percent: percent, Seed: 7})
		const sent = 10000
		arrived := len(n.send(a, b, sent))
		counts, err := l.Counts()
		if err != nil {
			t.Fatal(err)
		}
		if c := counts[0]; len(counts) != 1 || c.Seen != sent || c.Lost != uint64(sent-arrived) {
			t.Errorf("%v %%: counts %+v, %d of %d have arrived", percent, counts, arrived, sent)
		}
		want, deviation := sent*percent/100, math.Sqrt(sent*percent/100*(1-percent/100))
		if lost := float64(sent - arrived); math.Abs(lost-want) > 5*deviation {
			t.Errorf("%v %%: %v of %d are lost, want %v", percent, lost, sent, want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if arrived := len(n.send(a, b, 100)); arrived != 100 {
			t.Errorf("%v %%: %d of 100 arrive after the end", percent, arrived)
		}
	}
}

// TestSeed: the seed decides which packets are lost.
func TestSeed(t *testing.T) {
	n := newNetwork(t)
	a, b := n.listen("127.0.0.1"), n.listen("127.0.0.2")
	var arrived [][]byte
	for _, seed := range []uint64{7, 7, 8} {
		l := start(t, Config{Process: n.pid, Interfaces: []string{"lo"}, Percent: 50, Seed: seed})
		arrived = append(arrived, n.send(a, b, 256))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(arrived[0], arrived[1]) || slices.Equal(arrived[0], arrived[2]) {
		t.Error("equal seeds lose different packets, or other ones the same")
	}
}

// TestAddresses: only packets from and to some addresses are lost.
func TestAddresses(t *testing.T) {
	n := newNetwork(t)
	a, b := n.listen("127.0.0.1"), n.listen("127.0.0.2")
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	for name, x := range map[string]struct {
		from, to    netip.Addr
		there, back int
	}{
		"all":          {there: 0, back: 0},
		"from one":     {from: one, there: 0, back: 10},
		"to one":       {to: one, there: 10, back: 0},
		"one way":      {from: two, to: one, there: 10, back: 0},
		"the same one": {from: one, to: one, there: 10, back: 10},
	} {
		l := start(t, Config{Process: n.pid, Interfaces: []string{"lo"}, Percent: 100, From: x.from, To: x.to})
		if there, back := len(n.send(a, b, 10)), len(n.send(b, a, 10)); there != x.there || back != x.back {
			t.Errorf("%s: %d and %d of 10 arrive, want %d and %d", name, there, back, x.there, x.back)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, c := range map[string]Config{
		"interfaces: none":         {},
		"losses: 101 %":            {Interfaces: []string{"lo"}, Percent: 101},
		"losses: NaN %":            {Interfaces: []string{"lo"}, Percent: math.NaN()},
		"address ::1, want one of": {Interfaces: []string{"lo"}, To: netip.MustParseAddr("::1")},
	} {
		if l, err := Start(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v, want an error with %q", c, l, err, want)
		}
	}
	n := newNetwork(t)
	if _, err := Start(Config{Process: n.pid, Interfaces: []string{"port7"}}); err == nil || !strings.Contains(err.Error(), "interface port7") {
		t.Errorf("an interface that does not exist: %v", err)
	}
	if names, err := Interfaces(n.pid); err != nil || !slices.Contains(names, "lo") {
		t.Errorf("interfaces %v, %v", names, err)
	}
}
