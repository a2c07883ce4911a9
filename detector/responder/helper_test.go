//go:build linux

package responder

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "heartbeat":
			if err := RunKeeper(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case "daemon":
			runDaemon(os.Args[2])
			return
		case "measure":
			runMeasurement(os.Args[2], os.Args[3])
			return
		}
	}
	testenv.OwnSession()
	goleak.VerifyTestMain(m)
}

// tooLong is the time after which a waiting test fails.
const tooLong = 60 * time.Second

var loopback = netip.MustParseAddr("127.0.0.1")

// heartbeatCommand is the command of the keeper in tests.
func heartbeatCommand() []string { return []string{os.Args[0], "heartbeat"} }

var lastJob atomic.Uint64

// newConfig returns a configuration for a job of its own.
func newConfig(t testing.TB, tier Tier) Config {
	t.Helper()
	switch tier {
	case Kernel:
		testenv.Need(t, testenv.Root, testenv.EBPF)
	case Process:
		testenv.Need(t, testenv.Root)
	}
	job := lastJob.Add(1)<<32 | uint64(os.Getpid())
	cfg := Config{
		Tier: tier, Job: job, Node: 3, Inc: 7, Listen: loopback, Keeper: heartbeatCommand(), SpareDaemon: true,
		Logger: zerolog.New(zerolog.NewTestWriter(t)),
	}
	cfg.Key = keyOf(job)
	return cfg
}

// keyOf returns the key of a job in tests.
func keyOf(job uint64) (key packet.Key) {
	for i := range key {
		key[i] = byte(i)*17 + byte(job>>32)
	}
	return key
}

// open opens a responder that the test closes.
func open(t testing.TB, cfg Config) *Responder {
	t.Helper()
	r, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if cfg.Tier != 0 && r.Tier() != cfg.Tier {
		t.Fatalf("tier %v, want %v", r.Tier(), cfg.Tier)
	}
	return r
}

// tiers runs a test in each tier.
func tiers(t *testing.T, f func(t *testing.T, tier Tier)) {
	for tier := Kernel; tier <= User; tier++ {
		t.Run(tier.String(), func(t *testing.T) { f(t, tier) })
	}
}

// pinger asks a responder.
type pinger struct {
	t      testing.TB
	socket *net.UDPConn
	cfg    *Config
	to     netip.AddrPort
	at     int64 // of the latest question
}

func newPinger(t testing.TB, cfg *Config, to netip.AddrPort) *pinger {
	t.Helper()
	network, local := "udp4", netip.IPv4Unspecified()
	if to.Addr().Is6() {
		network, local = "udp6", netip.IPv6Unspecified()
	}
	socket, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &pinger{t: t, socket: socket, cfg: cfg, to: to}
}

// question returns a datagram that gets an answer.
func (p *pinger) question(kind packet.Kind) packet.Packet {
	p.at++
	return packet.Packet{Kind: kind, For: 1, Of: p.cfg.Node, From: 2, At: p.at, Inc: p.cfg.Inc, Job: p.cfg.Job}
}

func (p *pinger) send(b []byte) {
	p.t.Helper()
	if _, err := p.socket.WriteToUDPAddrPort(b, p.to); err != nil {
		p.t.Fatal(err)
	}
}

// receive returns the next datagram, if one comes in time.
func (p *pinger) receive(within time.Duration) (packet.Packet, bool) {
	p.t.Helper()
	if err := p.socket.SetReadDeadline(time.Now().Add(within)); err != nil {
		p.t.Fatal(err)
	}
	b := make([]byte, 2048)
	n, from, err := p.socket.ReadFromUDPAddrPort(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return packet.Packet{}, false
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if got := netip.AddrPortFrom(from.Addr().Unmap(), from.Port()); got != p.to {
		p.t.Errorf("the answer comes from %v, want %v", got, p.to)
	}
	a, err := packet.Parse(b[:n], p.cfg.Job, &p.cfg.Key)
	if err != nil {
		p.t.Fatalf("the answer %x: %v", b[:n], err)
	}
	return a, true
}

// ask sends a question and returns its answer. Answers to earlier questions are skipped.
func (p *pinger) ask(q packet.Packet, within time.Duration) (packet.Packet, bool) {
	p.t.Helper()
	p.send(q.Append(nil, &p.cfg.Key))
	for over := time.Now().Add(within); ; {
		a, ok := p.receive(time.Until(over))
		if !ok || a.At == q.At {
			return a, ok
		}
	}
}

// want sends a question and checks that the answer is right, but for the tick and flags.
func (p *pinger) want(kind packet.Kind) packet.Packet {
	p.t.Helper()
	q := p.question(kind)
	a, ok := p.ask(q, tooLong)
	if !ok {
		p.t.Fatalf("no answer to %+v in %v", q, tooLong)
	}
	want := q
	want.From, want.Tick, want.DaemonDead, want.Starved, want.Fenced = q.Of, a.Tick, a.DaemonDead, a.Starved, a.Fenced
	want.Kind = map[packet.Kind]packet.Kind{packet.Ping: packet.Answer, packet.Fence: packet.Fenced}[kind]
	if a.Kind != want.Kind || a.For != want.For || a.Of != want.Of || a.From != want.From || a.At != want.At || a.Inc != want.Inc || a.Job != want.Job || a.Body != nil {
		p.t.Fatalf("the answer is %+v, want %+v", a, want)
	}
	return a
}

// await pings until an answer is as wanted.
func (p *pinger) await(what string, is func(a packet.Packet) bool) packet.Packet {
	p.t.Helper()
	var last packet.Packet
	for over := time.Now().Add(tooLong); time.Now().Before(over); {
		a, ok := p.ask(p.question(packet.Ping), time.Second)
		if ok && is(a) {
			return a
		}
		if ok {
			last = a
		}
	}
	p.t.Fatalf("no answer with %s in %v, the last one is %+v", what, tooLong, last)
	return last
}

// awaitSilence pings until there is no answer.
func (p *pinger) awaitSilence() {
	p.t.Helper()
	for over := time.Now().Add(tooLong); time.Now().Before(over); {
		if _, ok := p.ask(p.question(packet.Ping), 200*time.Millisecond); !ok {
			return
		}
	}
	p.t.Fatalf("pings are still answered after %v, want silence", tooLong)
}

// startSleeper starts a process that sleeps, and returns it with a channel that has how it ended.
func startSleeper(t testing.TB) (*exec.Cmd, <-chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		over <- cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	return cmd, over
}

// wantKilled checks that a process is killed by SIGKILL.
func wantKilled(t testing.TB, what string, over <-chan error) {
	t.Helper()
	select {
	case err := <-over:
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.String() != "signal: killed" {
			t.Errorf("%s ended with %v, want SIGKILL", what, err)
		}
	case <-time.After(tooLong):
		t.Errorf("%s has not ended in %v, want SIGKILL", what, tooLong)
	}
}

// wantAlive checks that a process has not ended.
func wantAlive(t testing.TB, what string, over <-chan error) {
	t.Helper()
	select {
	case err := <-over:
		t.Errorf("%s ended with %v, want it alive", what, err)
	default:
	}
}

// daemonConfig is what a daemon in a process of its own gets.
type daemonConfig struct {
	Tier  Tier
	Key   packet.Key
	Job   uint64
	Node  ring.Node
	Inc   uint32
	At    netip.Addr
	TTL   time.Duration
	Spare bool
}

// runDaemon is a daemon in a process of its own. It says who answers where, and does what its input says.
func runDaemon(text string) {
	var c daemonConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	r, err := Open(Config{
		Tier: c.Tier, Key: c.Key, Job: c.Job, Node: c.Node, Inc: c.Inc, Listen: c.At, TTL: c.TTL, SpareDaemon: c.Spare,
		Keeper: heartbeatCommand(), Logger: zerolog.New(os.Stderr),
	})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	go func() {
		runtime.LockOSThread()
		for {
			r.Tick()
			time.Sleep(time.Millisecond)
		}
	}()
	fmt.Println(r.Addr(), r.Tier(), strings.ReplaceAll(fmt.Sprint(errors.Join(r.Passed()...)), "\n", "; "))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word string
		var pid int
		_, _ = fmt.Sscan(in.Text(), &word, &pid) // not all words have a number
		switch word {
		case "add":
			fmt.Println(r.Add(pid))
		case "keeper":
			fmt.Println(keeperOf(r))
		case "programs":
			fmt.Println(heldPrograms())
		case "close":
			fmt.Println(r.Close())
		}
	}
}

// keeperOf returns the number of a responder's keeper; 0: none.
func keeperOf(r *Responder) int {
	var k *keeper
	switch s := r.source.(type) {
	case *programs:
		k = s.keeper
	case *process:
		k = s.keeper
	}
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return 0
	}
	return k.cmd.Process.Pid
}

// heldPrograms returns the numbers of the programs in the kernel that this process holds.
func heldPrograms() (all []ebpf.ProgramID) {
	files, _ := filepath.Glob("/proc/self/fdinfo/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the descriptor of Glob
		}
		for line := range strings.Lines(string(text)) {
			var id ebpf.ProgramID
			if n, _ := fmt.Sscanf(line, "prog_id: %d", &id); n == 1 && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// awaitUnloaded waits until programs are no longer in the kernel.
func awaitUnloaded(t testing.TB, ids []ebpf.ProgramID) {
	t.Helper()
	for over := time.Now().Add(tooLong); ; {
		left := slices.DeleteFunc(slices.Clone(ids), func(id ebpf.ProgramID) bool {
			p, err := ebpf.NewProgramFromID(id)
			if err == nil {
				p.Close()
			}
			return errors.Is(err, os.ErrNotExist)
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(over) {
			t.Fatalf("programs %d are still loaded after %v", left, tooLong)
		}
	}
}

// daemon is a daemon in a process of its own.
type daemon struct {
	*exec.Cmd
	t    testing.TB
	in   *os.File
	pipe *os.File
	out  *bufio.Reader
	over <-chan error

	addr   netip.AddrPort
	tier   string
	passed string
}

// describe returns a configuration as an argument of a process.
func describe(t testing.TB, cfg *Config) string {
	t.Helper()
	text, err := json.Marshal(daemonConfig{cfg.Tier, cfg.Key, cfg.Job, cfg.Node, cfg.Inc, cfg.Listen, cfg.TTL, cfg.SpareDaemon})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startDaemon starts a daemon, by a command before its own.
func startDaemon(t testing.TB, cfg *Config, before ...string) *daemon {
	t.Helper()
	d := launchDaemon(t, cfg, before...)
	d.meet()
	return d
}

// launchDaemon starts a daemon without waiting for it.
func launchDaemon(t testing.TB, cfg *Config, before ...string) *daemon {
	t.Helper()
	args := append(slices.Clone(before), os.Args[0], "daemon", describe(t, cfg))
	d := &daemon{Cmd: exec.Command(args[0], args[1:]...), t: t}
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.Stdin, d.Stdout, d.Stderr = stdin, stdout, os.Stderr
	d.in, d.pipe, d.out = in, pipe, bufio.NewReader(pipe)
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	over, ended := make(chan error, 1), make(chan struct{})
	d.over = over
	go func() {
		over <- d.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		in.Close()
		d.Process.Kill()
		<-ended
		pipe.Close()
	})
	return d
}

// line reads a line of the daemon's output.
func (d *daemon) line() string {
	d.t.Helper()
	if err := d.pipe.SetReadDeadline(time.Now().Add(tooLong)); err != nil {
		d.t.Fatal(err)
	}
	text, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatalf("the daemon says %q: %v", text, err)
	}
	return strings.TrimSpace(text)
}

// meet reads who answers where.
func (d *daemon) meet() {
	d.t.Helper()
	text := d.line()
	words := strings.SplitN(text, " ", 3)
	addr, err := netip.ParseAddrPort(words[0])
	if err != nil || len(words) < 3 {
		d.t.Fatalf("the daemon says %q", text)
	}
	d.addr, d.tier, d.passed = addr, words[1], words[2]
}

// do has the daemon do something, and returns what it says.
func (d *daemon) do(words ...any) string {
	d.t.Helper()
	if _, err := fmt.Fprintln(d.in, words...); err != nil {
		d.t.Fatal(err)
	}
	return d.line()
}

// programs returns the programs that the daemon holds.
func (d *daemon) programs() (ids []ebpf.ProgramID) {
	d.t.Helper()
	for word := range strings.FieldsSeq(strings.Trim(d.do("programs"), "[]")) {
		var id ebpf.ProgramID
		if _, err := fmt.Sscan(word, &id); err != nil {
			d.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// keeper returns the number of the daemon's keeper, once it has one.
func (d *daemon) keeper() (pid int) {
	d.t.Helper()
	for over := time.Now().Add(tooLong); pid == 0; {
		if _, err := fmt.Sscan(d.do("keeper"), &pid); err != nil || time.Now().After(over) {
			d.t.Fatalf("the daemon has no keeper: %v", err)
		}
	}
	return pid
}

// kill kills the daemon.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	wantKilled(d.t, "the daemon", d.over)
}
