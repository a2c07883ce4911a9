//go:build linux

package responder

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/packet"
)

var loopbackPort = netip.AddrPortFrom(loopback, 1)

// namespaceTier is a variable that has the tier for TestInNamespace.
const namespaceTier = "RESPONDER_TEST_TIER"

// TestInNamespace: two networks are connected by a pair of virtual interfaces. The daemon in one answers to the other
// one, and is fenced by it.
func TestInNamespace(t *testing.T) {
	tier, err := ParseTier(os.Getenv(namespaceTier))
	if err != nil {
		t.Skip("for TestNamespaces")
	}
	cfg := newConfig(t, tier)
	cfg.SpareDaemon, cfg.Listen = false, netip.MustParseAddr("10.213.1.2")
	// The daemon begins when the shell has read a line, in a network of its own.
	d := launchDaemon(t, &cfg, "unshare", "--net", "sh", "-c", `echo here; read line && exec "$0" "$@"`)
	if text := d.line(); text != "here" {
		t.Fatalf("the shell says %q", text)
	}
	script := fmt.Sprintf(`set -e
ip link set lo up
ip link add near type veth peer name distant
ip link set distant netns %[1]d
ip addr add 10.213.1.1/24 dev near
ip link set near up
nsenter -t %[1]d -n ip addr add 10.213.1.2/24 dev distant
nsenter -t %[1]d -n ip link set distant up
nsenter -t %[1]d -n ip link set lo up
`, d.Process.Pid)
	if text, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := fmt.Fprintln(d.in); err != nil {
		t.Fatal(err)
	}
	d.meet()
	if d.tier != tier.String() || d.addr.Addr() != cfg.Listen {
		t.Fatalf("the daemon answers at %v by tier %s, want %v and %v", d.addr, d.tier, cfg.Listen, tier)
	}
	p := newPinger(t, &cfg, d.addr)
	p.want(packet.Ping)
	p.want(packet.Ping)
	here := exec.Command("nsenter", "-t", fmt.Sprint(d.Process.Pid), "-n", os.Args[0], "-test.run", "^TestPingOnce$", "-test.v")
	here.Env = append(here.Environ(), pingOnce+"="+d.addr.String(), fmt.Sprintf("%s=%d", pingJob, cfg.Job))
	if text, err := here.CombinedOutput(); err != nil || !strings.Contains(string(text), "PASS: TestPingOnce") {
		t.Errorf("from the daemon's own network: %v\n%s", err, text)
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", d.Process.Pid)) // it would take the last answer along with the daemon
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	v, over := startSleeper(t)
	if said := d.do("add", v.Process.Pid); said != "<nil>" {
		t.Fatal(said)
	}
	p.fence(d.over)
	wantKilled(t, "a registered process", over)
	wantKilled(t, "the daemon", d.over)
}

// fence orders the end of a node until there is an answer, or the daemon has ended: a daemon that answers itself ends at
// once, and the answer with its network, if the kernel has not delivered it by then.
func (p *pinger) fence(ended <-chan error) {
	p.t.Helper()
	q := p.question(packet.Fence)
	for over := time.Now().Add(tooLong); ; {
		if a, ok := p.ask(q, 100*time.Millisecond); ok {
			if a.Kind != packet.Fenced || !a.Fenced {
				p.t.Errorf("the answer to a fence is %+v", a)
			}
			return
		}
		if len(ended) > 0 {
			return
		}
		if time.Now().After(over) {
			p.t.Fatalf("no answer to %+v in %v, and the daemon goes on", q, tooLong)
		}
	}
}

// Variables for TestPingOnce.
const (
	pingOnce = "RESPONDER_TEST_PING"
	pingJob  = "RESPONDER_TEST_JOB"
)

// TestPingOnce pings for TestInNamespace.
func TestPingOnce(t *testing.T) {
	to, err := netip.ParseAddrPort(os.Getenv(pingOnce))
	if err != nil {
		t.Skip("for TestNamespaces")
	}
	cfg := newConfig(t, User)
	if _, err := fmt.Sscan(os.Getenv(pingJob), &cfg.Job); err != nil {
		t.Fatal(err)
	}
	cfg.Key = keyOf(cfg.Job)
	newPinger(t, &cfg, to).want(packet.Ping)
}
