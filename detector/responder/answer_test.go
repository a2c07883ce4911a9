//go:build linux

package responder

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestParseTier(t *testing.T) {
	for tier := Kernel; tier <= User; tier++ {
		if got, err := ParseTier(tier.String()); got != tier || err != nil {
			t.Errorf("ParseTier(%q) = %v, %v", tier, got, err)
		}
	}
	for _, bad := range []string{"", "Kernel", "Tier(0)"} {
		if got, err := ParseTier(bad); err == nil || !strings.Contains(err.Error(), "kernel, process, user") {
			t.Errorf("ParseTier(%q) = %v, %v, want an error with the three names", bad, got, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, bad := range []Config{
		{},
		{Listen: netip.MustParseAddr("224.0.0.1")},
		{Listen: loopback, Tier: User + 1},
		{Listen: loopback, Ports: Ports{2, 1}},
		{Listen: loopback, Ports: Ports{0, 1}},
		{Listen: loopback, TTL: -1},
		{Listen: netip.MustParseAddr("203.0.113.77")}, // for documentation: no interface has it
	} {
		if r, err := Open(bad); err == nil {
			t.Errorf("Open(%+v): no error", bad)
			r.Close()
		}
	}
}

// TestPorts: the port is in the range, and a range without a free port is an error.
func TestPorts(t *testing.T) {
	first := open(t, newConfig(t, User))
	port := first.Addr().Port()
	cfg := newConfig(t, User)
	cfg.Ports = Ports{port, port}
	if r, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Open at a port that is in use: %v", err)
		if err == nil {
			r.Close()
		}
	}
	cfg.Ports = Ports{max(port-20, 1), port}
	if got := open(t, cfg).Addr().Port(); got < cfg.Ports.Low || got >= port {
		t.Errorf("port %d, want one from %d to %d", got, cfg.Ports.Low, port-1)
	}
}

// TestAnswers: a ping is answered with the incarnation and the tick.
func TestAnswers(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		r := open(t, cfg)
		p := newPinger(t, &cfg, r.Addr())
		first := p.want(packet.Ping)
		for range 5 {
			r.Tick()
		}
		second := p.want(packet.Ping)
		if second.Tick != first.Tick+5 {
			t.Errorf("ticks %d and %d, want five between them", first.Tick, second.Tick)
		}
		for _, a := range []packet.Packet{first, second} {
			if a.DaemonDead || a.Starved || a.Fenced {
				t.Errorf("the answer %+v has flags, want none", a)
			}
		}
		if r.IsFenced() {
			t.Error("the node is fenced")
		}
		q := p.question(packet.Ping)
		q.For, q.At, q.Tick = packet.FrontEnd, -1, 99
		if a, ok := p.ask(q, tooLong); !ok || a.For != q.For || a.At != q.At || a.Tick != second.Tick {
			t.Errorf("the answer to %+v is %+v, %v", q, a, ok)
		}
	})
}

// strangers returns datagrams that get no answer.
func strangers(p *pinger) map[string][]byte {
	all := map[string][]byte{}
	add := func(name string, change func(q *packet.Packet)) {
		q := p.question(packet.Ping)
		change(&q)
		all[name] = q.Append(nil, &p.cfg.Key)
	}
	spoil := func(name string, change func(b []byte) []byte) {
		q := p.question(packet.Ping)
		all[name] = change(q.Append(nil, &p.cfg.Key))
	}
	for _, kind := range []packet.Kind{packet.Answer, packet.Ask, packet.Fenced, packet.News} {
		add(fmt.Sprint("kind ", kind), func(q *packet.Packet) { q.Kind = kind })
	}
	add("news with a body", func(q *packet.Packet) { q.Kind, q.Body = packet.News, []byte("12345678") })
	add("another job", func(q *packet.Packet) { q.Job++ })
	add("another node", func(q *packet.Packet) { q.Of++ })
	add("no node", func(q *packet.Packet) { q.Of = ring.None })
	add("fence of an earlier incarnation", func(q *packet.Packet) { q.Kind = packet.Fence; q.Inc-- })
	add("fence of a later incarnation", func(q *packet.Packet) { q.Kind = packet.Fence; q.Inc++ })
	spoil("empty", func([]byte) []byte { return nil })
	spoil("one byte", func(b []byte) []byte { return b[:1] })
	spoil("short", func(b []byte) []byte { return b[:packet.Size-1] })
	spoil("long", func(b []byte) []byte { return append(b, 0) })
	spoil("very long", func(b []byte) []byte { return append(b, make([]byte, 1400)...) })
	spoil("magic", func(b []byte) []byte { b[0]++; return b })
	spoil("MAC", func(b []byte) []byte { b[packet.Size-1]++; return b })
	spoil("no MAC", func(b []byte) []byte { clear(b[packet.Size-8:]); return b })
	for i := range packet.Size {
		spoil("bit of byte "+string(rune('0'+i/10))+string(rune('0'+i%10)), func(b []byte) []byte { b[i] ^= 0x10; return b })
	}
	other := p.cfg.Key
	other[15]++
	q := p.question(packet.Ping)
	all["another key"] = q.Append(nil, &other)
	q = p.question(packet.Fence)
	all["fence by another key"] = q.Append(nil, &other)
	return all
}

// TestStrangers: other datagrams get no answer and have no effect. The answer to a ping that follows is the next one.
func TestStrangers(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		r := open(t, cfg)
		p := newPinger(t, &cfg, r.Addr())
		for name, b := range strangers(p) {
			p.send(b)
			q := p.question(packet.Ping)
			p.send(q.Append(nil, &cfg.Key))
			if a, ok := p.receive(tooLong); !ok || a.At != q.At {
				t.Errorf("%s: the next answer is %+v, %v, want that to the ping that follows", name, a, ok)
			}
		}
		if a := p.want(packet.Ping); a.Fenced || r.IsFenced() {
			t.Error("the node is fenced")
		}
	})
}

// TestTwoJobs: two responders at one interface answer for their jobs only.
func TestTwoJobs(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := [2]Config{newConfig(t, tier), newConfig(t, tier)}
		cfg[1].Node, cfg[1].Inc = 9, 2
		r := [2]*Responder{open(t, cfg[0]), open(t, cfg[1])}
		for i := range r {
			p := newPinger(t, &cfg[i], r[i].Addr())
			p.want(packet.Ping)
			wrong := newPinger(t, &cfg[i], r[1-i].Addr())
			q := wrong.question(packet.Fence)
			wrong.send(q.Append(nil, &cfg[i].Key))
			right := newPinger(t, &cfg[1-i], r[1-i].Addr())
			if a := right.want(packet.Ping); a.Fenced {
				t.Errorf("job %d is fenced by job %d", 1-i, i)
			}
			if a, ok := wrong.receive(time.Millisecond); ok {
				t.Errorf("job %d gets the answer %+v of job %d", i, a, 1-i)
			}
		}
		if err := r[0].Close(); err != nil {
			t.Error(err)
		}
		newPinger(t, &cfg[1], r[1].Addr()).want(packet.Ping)
	})
}

// TestCloseLeavesNothing: Close leaves no descriptor, goroutine, program or keeper behind, and no answer.
func TestCloseLeavesNothing(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		if r, err := Open(cfg); err != nil || r.Close() != nil { // opens what the runtime opens only once
			t.Fatal("Open or Close failed", err)
		}
		others := goleak.IgnoreCurrent()
		before := countDescriptors(t)
		r, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ours := heldPrograms()
		if tier == Kernel && len(ours) != 2 {
			t.Errorf("programs %d are loaded, want two", ours)
		}
		at := r.Addr()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r.Tick()
		r.Remove(1)
		if err := r.Add(os.Getpid()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Add after Close: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if n := countDescriptors(t); n > before {
			t.Errorf("%d descriptors, want %d", n, before)
		}
		goleak.VerifyNone(t, others)
		if tier == Kernel {
			awaitUnloaded(t, ours)
		}
		newPinger(t, &cfg, at).awaitSilence()
	})
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestIPv6: the kernel tier says that it is for IPv4, and the keeper answers.
func TestIPv6(t *testing.T) {
	cfg := newConfig(t, Process)
	cfg.Tier, cfg.Listen = 0, netip.IPv6Loopback()
	r, err := Open(cfg)
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	defer r.Close()
	if r.Tier() != Process || len(r.Passed()) != 1 || !strings.Contains(r.Passed()[0].Error(), "IPv4") {
		t.Errorf("tier %v, passed %v, want process, and IPv4 missing", r.Tier(), r.Passed())
	}
	newPinger(t, &cfg, r.Addr()).want(packet.Ping)
}

// TestFallback: when neither the kernel nor a keeper answers, the daemon does, and Close ends that.
func TestFallback(t *testing.T) {
	cfg := newConfig(t, 0)
	cfg.Listen, cfg.Keeper = netip.IPv6Loopback(), []string{"false"}
	r, err := Open(cfg)
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	if r.Tier() != User || len(r.Passed()) != 2 {
		t.Errorf("tier %v, passed %v, want user and two errors", r.Tier(), r.Passed())
	}
	newPinger(t, &cfg, r.Addr()).want(packet.Ping)
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(tooLong):
		t.Fatalf("Close has not returned in %v", tooLong)
	}
}

// TestOwnAddress: packets of the same machine to the address of another interface take lo, and are answered.
func TestOwnAddress(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var own []netip.Addr
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && len(i.HardwareAddr) == 6 {
				own = append(own, p.Addr())
			}
		}
	}
	if len(own) == 0 {
		t.Skip("this machine has no Ethernet with an IPv4 address")
	}
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		cfg.Listen = own[0]
		newPinger(t, &cfg, open(t, cfg).Addr()).want(packet.Ping)
	})
}

// TestRights: without a capability another tier answers, and what is missing is named.
func TestRights(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	for _, c := range []struct{ drop, tier, missing string }{
		{"net_admin", "process", "missing: CAP_NET_ADMIN"},
		{"bpf,perfmon,sys_admin", "process", "missing: CAP_BPF and CAP_PERFMON"},
		{"bpf,sys_admin,sys_nice,net_admin", "user", "CAP_SYS_NICE"},
	} {
		t.Run(c.drop, func(t *testing.T) {
			cfg := newConfig(t, 0)
			d := startDaemon(t, &cfg, "setpriv", "--bounding-set", "-"+strings.ReplaceAll(c.drop, ",", ",-"))
			if d.tier != c.tier || !strings.Contains(d.passed, c.missing) {
				t.Errorf("tier %s, passed %s, want %s and %q", d.tier, d.passed, c.tier, c.missing)
			}
			newPinger(t, &cfg, d.addr).want(packet.Ping)
		})
	}
}

// TestOrdinaryUser: an ordinary user gets a tier that works.
func TestOrdinaryUser(t *testing.T) {
	testenv.Need(t, testenv.User)
	cfg := newConfig(t, 0)
	r := open(t, cfg)
	t.Logf("tier %v, passed %v", r.Tier(), r.Passed())
	if len(r.Passed()) != int(r.Tier())-1 {
		t.Errorf("tier %v, passed %v, want an error for each better tier", r.Tier(), r.Passed())
	}
	newPinger(t, &cfg, r.Addr()).want(packet.Ping)
}

// TestNoKeeper: the process tier says what it lacks, and the kernel tier does without.
func TestNoKeeper(t *testing.T) {
	for name, command := range map[string][]string{"none": nil, "missing": {"/no/such/program"}, "other": {"echo", "hello"}, "silent": {"false"}} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, Process)
			cfg.Keeper = command
			var missing *TierError
			if r, err := Open(cfg); !errors.As(err, &missing) || missing.Tier != Process {
				t.Errorf("Open: %v, want a TierError", err)
				if err == nil {
					r.Close()
				}
			}
			if !testenv.Has(testenv.EBPF) {
				return
			}
			cfg.Tier = Kernel
			newPinger(t, &cfg, open(t, cfg).Addr()).want(packet.Ping)
		})
	}
}

// TestTypes: the programs load by the library's way too, whose errors have the words of the kernel's verifier.
func TestTypes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	spec, err := loadRespond()
	if err != nil {
		t.Fatal(err)
	}
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer all.Close()
	for name, p := range all.Programs {
		if info, err := p.Info(); err == nil {
			n, _ := info.VerifiedInstructions()
			t.Logf("%s: the verifier has seen %d instructions", name, n)
		}
	}
	if names := []string{respondProgDaemonExit, respondProgRespond}; len(all.Programs) != len(names) || !slices.Contains(names, respondProgRespond) {
		t.Errorf("programs %v, want %v", all.Programs, names)
	}
}
