//go:build linux

package responder

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// keeperTiers runs a test in each tier that has a keeper.
func keeperTiers(t *testing.T, f func(t *testing.T, tier Tier)) {
	for _, tier := range []Tier{Kernel, Process} {
		t.Run(tier.String(), func(t *testing.T) { f(t, tier) })
	}
}

// TestDaemonKilled: when the daemon is killed, answers say so while the keeper lives. Then nothing is left.
func TestDaemonKilled(t *testing.T) {
	keeperTiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		cfg.TTL = time.Second
		d := startDaemon(t, &cfg)
		ids := d.programs()
		d.keeper()
		p := newPinger(t, &cfg, d.addr)
		if a := p.want(packet.Ping); a.DaemonDead {
			t.Error("the daemon is said to have ended while it lives")
		}
		d.kill()
		a := p.await("daemon dead", func(a packet.Packet) bool { return a.DaemonDead })
		if a.Fenced || a.Starved {
			t.Errorf("the answer %+v has other flags, want daemon dead only", a)
		}
		p.awaitSilence()
		awaitUnloaded(t, ids)
	})
}

// TestAllKilled: when the daemon and the keeper are killed, nothing is left at once.
func TestAllKilled(t *testing.T) {
	keeperTiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		cfg.TTL = time.Hour
		d := startDaemon(t, &cfg)
		ids, keeper := d.programs(), d.keeper()
		p := newPinger(t, &cfg, d.addr)
		p.want(packet.Ping)
		d.kill()
		p.await("daemon dead", func(a packet.Packet) bool { return a.DaemonDead })
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} { // ignored
			if err := syscall.Kill(keeper, sig); err != nil {
				t.Fatal(err)
			}
		}
		p.await("daemon dead", func(a packet.Packet) bool { return a.DaemonDead })
		killKeeper(t, keeper)
		p.awaitSilence()
		awaitUnloaded(t, ids)
	})
}

// TestKeeperKilled: the daemon starts another keeper, which does what the first one did.
func TestKeeperKilled(t *testing.T) {
	keeperTiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		cfg.TTL = time.Hour
		d := startDaemon(t, &cfg)
		first := d.keeper()
		p := newPinger(t, &cfg, d.addr)
		p.want(packet.Ping)
		killKeeper(t, first)
		next := first
		for over := time.Now().Add(tooLong); next == first; next = d.keeper() {
			if time.Now().After(over) {
				t.Fatalf("no other keeper in %v", tooLong)
			}
		}
		p.await("daemon alive", func(a packet.Packet) bool { return !a.DaemonDead })
		d.kill()
		p.await("daemon dead", func(a packet.Packet) bool { return a.DaemonDead })
		killKeeper(t, next)
		p.awaitSilence()
	})
}

// TestKeeperGap: a keeper that is killed has its successor at once. Others hold the node for dead if nobody answers for long.
func TestKeeperGap(t *testing.T) {
	cfg := newConfig(t, Process)
	d := startDaemon(t, &cfg)
	p := newPinger(t, &cfg, d.addr)
	least := tooLong
	for range 10 { // on a busy machine, some take long to start
		for began := time.Now(); time.Since(began) < 2*keeperPause; {
			p.want(packet.Ping)
		}
		killed := d.keeper()
		at := time.Now()
		killKeeper(t, killed)
		p.await("another keeper", func(packet.Packet) bool { return d.keeper() != killed })
		least = min(least, time.Since(at))
	}
	if least >= keeperPause {
		t.Errorf("nobody answers for %v, want less than %v", least, keeperPause)
	}
}

// TestKeeperAlone: a keeper that no daemon starts ends with an error.
func TestKeeperAlone(t *testing.T) {
	for _, input := range []string{"", "short", strings.Repeat("x", orderSize)} {
		cmd := exec.Command(heartbeatCommand()[0], heartbeatCommand()[1:]...)
		cmd.Stdin = strings.NewReader(input)
		if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "order of the daemon") {
			t.Errorf("input %q: %v, %q", input, err, text)
		}
	}
}

// TestStarved: answers say that the daemon gets no processor, and no longer once it gets one.
func TestStarved(t *testing.T) {
	keeperTiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		d := startDaemon(t, &cfg)
		p := newPinger(t, &cfg, d.addr)
		for range 100 {
			if a := p.want(packet.Ping); a.Starved && !testenv.Race {
				t.Log("an answer says that the daemon is starved before it is") // it may be, beside other tests
			}
		}
		feed := testenv.Starve(t, d.Process.Pid)
		a := p.await("starved", func(a packet.Packet) bool { return a.Starved })
		if a.DaemonDead || a.Fenced {
			t.Errorf("the answer %+v has other flags, want starved only", a)
		}
		feed()
		tick := a.Tick
		p.await("not starved", func(a packet.Packet) bool { return !a.Starved && a.Tick > tick })
	})
}

// TestStill: a daemon that hangs is not starved.
func TestStill(t *testing.T) {
	keeperTiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		d := startDaemon(t, &cfg)
		if err := d.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		p := newPinger(t, &cfg, d.addr)
		last, since := p.want(packet.Ping).Tick, time.Now()
		for time.Since(since) < 5*stillFor {
			a := p.want(packet.Ping)
			if a.Tick != last { // it has not stopped yet
				last, since = a.Tick, time.Now()
			}
			if time.Since(since) > 2*stillFor && a.Starved {
				t.Fatalf("the answer %+v says that a stopped daemon is starved", a)
			}
		}
	})
}

// TestLatency logs how long answers take beside busy loops. A process under SCHED_FIFO asks: it must not lose its own
// processor.
func TestLatency(t *testing.T) {
	const limit = 5 * time.Millisecond
	tiers(t, func(t *testing.T, tier Tier) {
		testenv.Need(t, testenv.Root)
		cfg := newConfig(t, tier)
		d := startDaemon(t, &cfg)
		for range 4 {
			hog := exec.Command("sh", "-c", "while :; do :; done")
			if err := hog.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				hog.Process.Kill()
				hog.Wait()
			})
		}
		self := heartbeatCommand()[0]
		text, err := exec.Command("chrt", "-f", "50", self, "measure", describe(t, &cfg), d.addr.String()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var half, p99, most time.Duration
		if _, err := fmt.Sscan(string(text), &half, &p99, &most); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		t.Logf("of %d round trips, half take up to %v, 99 %% up to %v, all up to %v", measurements, half, p99, most)
		if tier == Kernel && p99 > limit {
			t.Errorf("99 %% of the answers take up to %v, want up to %v", p99, limit)
		}
	})
}

// measurements is how many round trips TestLatency measures.
const measurements = 500

// runMeasurement prints how long round trips take, in nanoseconds: the median, the slowest but 1 %, and the slowest.
func runMeasurement(text, to string) {
	var c daemonConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	if err != nil {
		panic(err)
	}
	times := make([]int64, measurements)
	b := make([]byte, 2*packet.Size)
	for i := range times {
		q := packet.Packet{Kind: packet.Ping, Of: c.Node, At: int64(i), Job: c.Job}
		out := q.Append(b[:0], &c.Key)
		begin := time.Now()
		if _, err := socket.Write(out); err != nil {
			panic(err)
		}
		if n, err := socket.Read(b); n != packet.Size || err != nil {
			panic(fmt.Sprint(n, err))
		}
		times[i] = int64(time.Since(begin))
	}
	slices.Sort(times)
	fmt.Println(times[measurements/2], times[measurements*99/100], times[measurements-1])
}

// TestNamespaces: a daemon in a network of its own answers to another network.
func TestNamespaces(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		testenv.Need(t, testenv.Namespaces)
		cfg := newConfig(t, tier)
		cfg.SpareDaemon = false
		cmd := exec.Command("unshare", "--net", heartbeatCommand()[0], "-test.run", "^TestInNamespace$", "-test.v")
		cmd.Env = append(cmd.Environ(), namespaceTier+"="+tier.String())
		text, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "PASS: TestInNamespace") {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}

// TestLayout: the page of Go and that of the kernel program have the same fields.
func TestLayout(t *testing.T) {
	var p page
	if unsafe.Sizeof(p) != pageSize {
		t.Errorf("a page has %d bytes, want %d", unsafe.Sizeof(p), pageSize)
	}
	spec, err := loadRespond()
	if err != nil {
		t.Fatal(err)
	}
	var theirs *btf.Struct
	if err := spec.Types.TypeByName("responder_page", &theirs); err != nil {
		t.Fatal(err)
	}
	ours := map[string]uintptr{
		"job": unsafe.Offsetof(p.job), "key": unsafe.Offsetof(p.key), "node": unsafe.Offsetof(p.node), "inc": unsafe.Offsetof(p.inc),
		"address": unsafe.Offsetof(p.address), "port": unsafe.Offsetof(p.port), "spare": unsafe.Offsetof(p.spare),
		"daemon": unsafe.Offsetof(p.daemon), "tick": unsafe.Offsetof(p.tick),
		"ended": unsafe.Offsetof(p.ended), "fences": unsafe.Offsetof(p.fences), "used": unsafe.Offsetof(p.used),
		"still_since": unsafe.Offsetof(p.stillSince), "still_tick": unsafe.Offsetof(p.stillTick), "answers": unsafe.Offsetof(p.answers),
		"unused": unsafe.Offsetof(p.begun), "victims": unsafe.Offsetof(p.victims),
	}
	if theirs.Size != pageSize || len(theirs.Members) != len(ours) {
		t.Errorf("the kernel's page has %d bytes and %d fields, want %d and %d", theirs.Size, len(theirs.Members), pageSize, len(ours))
	}
	for _, m := range theirs.Members {
		if at, ok := ours[m.Name]; !ok || uint32(at) != m.Offset.Bytes() {
			t.Errorf("field %s is at %d in the kernel's page, want %d", m.Name, m.Offset.Bytes(), at)
		}
	}
	if spec.Maps[respondMapPages].ValueSize != pageSize || spec.Maps[respondMapPages].Type != ebpf.Array {
		t.Errorf("the map of the page is %v", spec.Maps[respondMapPages])
	}
}

// TestNoAllocations: a mind answers pings without allocating.
func TestNoAllocations(t *testing.T) {
	cfg := Config{Job: 1, Node: 2, Inc: 3}
	m := &mind{page: &page{}, starved: func() bool { return true }}
	m.set(&cfg, loopbackPort, 1, 0)
	q := packet.Packet{Kind: packet.Ping, Of: 2, Job: 1}
	b := q.Append(nil, &cfg.Key)
	if n := testing.AllocsPerRun(100, func() {
		if m.respond(b) == nil {
			t.Fatal("no answer")
		}
	}); n != 0 && !testenv.Race {
		t.Errorf("%v allocations for an answer, want none", n)
	}
	if a, err := packet.Parse(m.respond(b), 1, &cfg.Key); err != nil || !a.Starved {
		t.Errorf("the answer is %+v, %v, want it starved", a, err)
	}
	if binary.LittleEndian.Uint64(cfg.Key[:]) != m.key[0] {
		t.Error("the key of the page is not the configuration's")
	}
}

// FuzzRespond: no datagram does harm, and only signed ones get an answer.
func FuzzRespond(f *testing.F) {
	cfg := Config{Job: 1, Node: 2, Inc: 3}
	for _, kind := range []packet.Kind{packet.Ping, packet.Fence} {
		q := packet.Packet{Kind: kind, Of: 2, Job: 1, Inc: 3}
		f.Add(q.Append(nil, &cfg.Key))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &mind{page: &page{}}
		m.set(&cfg, loopbackPort, 1, 0)
		_, err := packet.Parse(b, 1, &cfg.Key)
		if out := m.respond(b); out != nil && err != nil {
			t.Errorf("%x is answered with %x", b, out)
		}
	})
}
