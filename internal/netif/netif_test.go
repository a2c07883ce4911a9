package netif

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	at := func(texts ...string) (a []netip.Addr) {
		for _, text := range texts {
			a = append(a, netip.MustParseAddr(text))
		}
		return a
	}
	all := []Interface{
		{Name: "lo", Up: true, Addrs: at("127.0.0.1", "::1")},
		{Name: "eth0", Up: true, Addrs: at("10.1.2.3")},
		{Name: "ib0", Up: true, Addrs: at("10.1.5.6", "2001:db8::7")},
		{Name: "eth1", Up: false, Addrs: at("192.168.1.1")},
		{Name: "tun0", Up: true, Addrs: nil},
	}
	for text, want := range map[string]string{
		"eth0":           "eth0",
		"10.1.0.0/16":    "eth0 ib0",
		"10.1.2.99/24":   "eth0",
		"2001:db8::/32":  "ib0",
		"127.0.0.0/8":    "lo",
		"eth":            `! there is no interface "eth"; this machine has lo, eth0, ib0, eth1, tun0`,
		"eth1":           "! interface eth1 cannot be used: ",
		"192.168.0.0/16": "! eth1 is down",
		"tun0":           "! tun0 has no address",
		"11.0.0.0/8":     "! no interface that is up has an address in 11.0.0.0/8: lo has [127.0.0.1 ::1], eth0 has [10.1.2.3]",
		"10.0.0.0/99":    "! is no network, want one like 10.0.0.0/8",
		"eth0,eth1":      "! want one name like eth0, or a network",
		"":               "! want one name like eth0",
		" ":              "! want one name like eth0",
		"eth\n":          "! want one name like eth0",
	} {
		f, err := ParseFilter(text)
		var names []string
		if err == nil {
			names, err = f.Choose(all)
		}
		words, fails := strings.CutPrefix(want, "! ")
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), words) || !fails && strings.Join(names, " ") != want {
			t.Errorf("%q: %v, %v, want %s", text, names, err, want)
		}
	}
}

// Loopback is an interface of this machine.
func TestInterfaces(t *testing.T) {
	all, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseFilter("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := f.Choose(all); err != nil || len(names) != 1 {
		t.Errorf("interfaces of 127.0.0.0/8 among %+v: %v, %v, want one", all, names, err)
	}
}

func TestRDMADevices(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"ib1/device/infiniband/mlx5_0", "eth0/device"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "ib1/dev_port"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"ib1": {"mlx5_0:2"}, "eth0": nil, "none": nil} {
		if got := rdmaDevices(root, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
