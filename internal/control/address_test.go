package control

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/netif"
)

func addrs(texts ...string) (a []netip.Addr) {
	for _, t := range texts {
		a = append(a, netip.MustParseAddr(t))
	}
	return a
}

func TestChooseAddresses(t *testing.T) {
	all := []netif.Interface{
		{Name: "lo", Up: true, Addrs: addrs("127.0.0.1", "::1")},
		{Name: "eth0", Up: true, Addrs: addrs("10.1.2.3", "2001:db8::7", "fe80::1")},
		{Name: "ib0", Up: true, Addrs: addrs("192.168.5.6", "169.254.3.4", "fe80::2")},
		{Name: "eth1", Up: false, Addrs: addrs("10.9.9.9")},
		{Name: "docker0", Up: true, Addrs: addrs("172.17.0.1")},
		{Name: "virbr0", Up: true, Addrs: addrs("192.168.122.1")},
	}
	for _, c := range []struct {
		filter   string
		loopback bool
		want     string
	}{
		{"", false, "[10.1.2.3 2001:db8::7 192.168.5.6]"},
		{"", true, "[127.0.0.1 ::1]"},
		{"eth0", false, "[10.1.2.3 2001:db8::7]"},
		{"ib0", false, "[192.168.5.6 169.254.3.4]"},
		{"docker0", false, "[172.17.0.1]"},
		{"lo", false, "[127.0.0.1 ::1]"},
		{"192.168.0.0/16", false, "[192.168.5.6 192.168.122.1]"},
		{"10.1.2.99/8", false, "[10.1.2.3]"},
		{"2001:db8::/32", false, "[2001:db8::7]"},
		{"eth", false, `there is no interface "eth"; this machine has lo, eth0, ib0, eth1, docker0, virbr0`},
		{"eth1", false, `this machine has no address of "eth1"; it has [127.0.0.1`},
		{"11.0.0.0/8", false, `this machine has no address of "11.0.0.0/8"`},
		{"10.0.0.0/99", false, `interface "10.0.0.0/99" is no network, want one like 10.0.0.0/8`},
	} {
		got, err := chooseAddresses(all, c.filter, c.loopback)
		if err == nil && fmt.Sprint(got) != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("filter %q, loopback %v: %v, %v, want %s", c.filter, c.loopback, got, err, c.want)
		}
	}
	for loopback, want := range map[bool]string{true: "no address of loopback", false: "no address for other machines"} {
		if _, err := chooseAddresses(nil, "", loopback); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no interfaces: %v, want %q", err, want)
		}
	}
}

// Addresses in own networks come first, and otherwise the order stays.
func TestNearestFirst(t *testing.T) {
	var addrs []netip.AddrPort
	for _, a := range []string{"192.0.2.1:1", "10.1.2.3:2", "[2001:db8::1]:3", "10.9.9.9:4", "127.0.0.1:5"} {
		addrs = append(addrs, netip.MustParseAddrPort(a))
	}
	for networks, want := range map[string]string{
		"":                            "[192.0.2.1:1 10.1.2.3:2 [2001:db8::1]:3 10.9.9.9:4 127.0.0.1:5]",
		"10.9.0.1/16":                 "[10.9.9.9:4 192.0.2.1:1 10.1.2.3:2 [2001:db8::1]:3 127.0.0.1:5]",
		"2001:db8::7/64 10.200.0.1/8": "[10.1.2.3:2 [2001:db8::1]:3 10.9.9.9:4 192.0.2.1:1 127.0.0.1:5]",
	} {
		var own []netip.Prefix
		for p := range strings.FieldsSeq(networks) {
			own = append(own, netip.MustParsePrefix(p))
		}
		if got := fmt.Sprint(sortByNetworks(addrs, own)); got != want {
			t.Errorf("networks %s: %s, want %s", networks, got, want)
		}
	}
	if got := NearestFirst(addrs); len(got) != len(addrs) || got[0] != addrs[4] && !slices.Contains(got, addrs[4]) {
		t.Errorf("got %v, want all of %v", got, addrs)
	}
}

func TestLocalAddresses(t *testing.T) {
	got, err := LocalAddresses("", true)
	if err != nil {
		t.Skipf("no loopback: %v", err)
	}
	for _, a := range got {
		if !a.IsLoopback() {
			t.Errorf("%v is no address of loopback", a)
		}
		l, err := listenAt(a, PortRange{})
		if err != nil {
			t.Errorf("%v cannot be used: %v", a, err)
			continue
		}
		l.Close()
	}
}

func TestParsePortRange(t *testing.T) {
	for text, want := range map[string]PortRange{"5000-5010": {5000, 5010}, "7": {7, 7}, "1-65535": {1, 65535}} {
		if got, err := ParsePortRange(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":          `port range "": "" is no port, want 1 to 65535`,
		"5-":        `"" is no port`,
		"0-5":       `"0" is no port`,
		"5-65536":   `"65536" is no port`,
		"-5-7":      `"" is no port`,
		"7-5":       "it ends before it begins",
		"5000:5010": `"5000:5010" is no port`,
	} {
		if _, err := ParsePortRange(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// A listener takes a port of the range that is free, and says so if there is none.
func TestListenInRange(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := netip.MustParseAddrPort(taken.Addr().String()).Port()
	if _, err := Listen(ListenConfig{Addrs: loopback, Ports: PortRange{port, port}}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("listen at 127.0.0.1: none of the 1 ports %d-%d can be had: ", port, port)) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
	around := PortRange{max(1024, port-20), max(1024, port-20) + 40}
	ln, _ := listen(t, ListenConfig{Addrs: append(loopback, addrs("127.0.0.2")...), Ports: around})
	if len(ln.Addrs()) != 2 {
		t.Fatalf("addresses are %v, want 2", ln.Addrs())
	}
	for i, a := range ln.Addrs() {
		if a.Port() < around.Low || a.Port() > around.High || i == 0 && a.Port() == port {
			t.Errorf("port is %d, want one of %v but not %d", a.Port(), around, port)
		}
	}
	if _, err := Listen(ListenConfig{}); err == nil {
		t.Error("no address is no error")
	}
}

// A listener leaves out addresses that it cannot use, and says so. If none is left, its error has all causes.
func TestListenWithoutSome(t *testing.T) {
	var r report
	ln, _ := listen(t, ListenConfig{Addrs: addrs("192.0.2.77", "127.0.0.1", "2001:db8::7"), Report: r.add})
	if got := ln.Addrs(); len(got) != 1 || got[0].Addr() != loopback[0] {
		t.Errorf("addresses are %v, want one with %v", got, loopback[0])
	}
	ln.Close()
	lines := r.all()
	if len(lines) != 2 {
		t.Fatalf("lines %q, want 2", lines)
	}
	for i, want := range []string{"listen at 192.0.2.77: ", "listen at 2001:db8::7: "} {
		if !strings.HasPrefix(lines[i], want) || !strings.HasSuffix(lines[i], "; 1 of 3 addresses are left") {
			t.Errorf("line %q, want one about %q", lines[i], want)
		}
	}
	_, err := Listen(ListenConfig{Addrs: addrs("192.0.2.77", "192.0.2.78"), Report: r.add})
	if err == nil || !strings.Contains(err.Error(), "listen at 192.0.2.77: ") || !strings.Contains(err.Error(), "; listen at 192.0.2.78: ") || !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("no address can be used: %v", err)
	}
	if lines := r.all(); len(lines) != 2 {
		t.Errorf("lines %q besides the error", lines[2:])
	}
}
