package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/wire"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// A job's processes close connections of strangers within these times, and within strangerSlack more beside other tests.
const (
	frontEndDoor  = 2 * time.Second  // the handshake of TLS
	pmixDoor      = 5 * time.Second  // the handshake of PMIx
	attachDoor    = 10 * time.Second // the silence of who asks for segments
	strangerSlack = 5 * time.Second
)

// besieged is a job on four nodes whose PEs wait, and then are a program of MPI.
type besieged struct {
	*job
	front, daemons []door // of TCP: of the front end, and of daemons
	attach         []door // local ones of daemons
	nspace         string
	letGo          func()
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "cluster.c"))
	gate := filepath.Join(t.TempDir(), "gate")
	b := &besieged{letGo: func() { check(t, os.WriteFile(gate, nil, 0o600)) }}
	b.job = start(t, "--emulate", "4", "--launch-radix", "2", "-n", "8", "sh", "-c", waiter+`exec "$1" allreduce`, gate, program)
	pid := b.ready(8)[0]
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	check(t, err)
	for word := range strings.SplitSeq(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(word, envvar.PMIxNamespace+"="); ok {
			b.nspace = value
		}
	}
	b.front = doorsOf(t, b.cmd.Process.Pid)
	for _, daemon := range daemonsBelow(b.cmd.Process.Pid) {
		for _, d := range doorsOf(t, daemon) {
			if d.network == "tcp" {
				b.daemons = append(b.daemons, d)
			} else {
				b.attach = append(b.attach, d)
			}
		}
	}
	if len(b.front) == 0 || len(b.daemons) != clusterHosts || len(b.attach) != clusterHosts || b.nspace == "" {
		t.Fatalf("the front end listens at %v, daemons at %v and %v, the job is %q", b.front, b.daemons, b.attach, b.nspace)
	}
	return b
}

// stranger is what a stranger does with its connection.
type stranger func(conn net.Conn)

// strangers returns those that come to ports of TCP, by what they do.
func (b *besieged) strangers() map[string]stranger {
	claim := func(nspace string) []byte {
		return pmix.AppendHandshake(nil, pmix.NewHandshake(pmix.Proc{Nspace: nspace}, pmix.SecurityNone, nil))
	}
	writes := func(text []byte) stranger {
		return func(conn net.Conn) { _, _ = conn.Write(text) } // it may be closed
	}
	hello := clientHello(b.t)
	return map[string]stranger{
		"silent":           func(net.Conn) {},
		"garbage":          writes(bytes.Repeat([]byte{0xff}, 64)),
		"zeros":            writes(make([]byte, 16<<10)),
		"of HTTP":          writes([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
		"half a hello":     writes(hello[:len(hello)/2]),
		"a hello, no more": writes(hello),
		"half closed":      func(conn net.Conn) { closeHalf(conn, hello[:7]) },
		"slow":             func(conn net.Conn) { go drip(conn, hello) },
		"a stranger's key": func(conn net.Conn) { shake(conn, certificate(b.t)) },
		"no key":           func(conn net.Conn) { shake(conn) },
		"a slow client":    func(conn net.Conn) { go drip(conn, claim(b.nspace)) },
		"a client":         writes(claim(b.nspace)),
		"another's client": writes(claim("goshmem-another")),
	}
}

// clientHello returns the first bytes of a connection of TLS.
func clientHello(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	go shake(here)
	hello := make([]byte, 4<<10)
	n, err := there.Read(hello)
	check(t, err)
	check(t, there.Close())
	return hello[:n]
}

// shake does a handshake of TLS with the certificates of a stranger, and reads until an error.
func shake(conn net.Conn, own ...tls.Certificate) {
	t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: own})
	_, _ = io.Copy(io.Discard, t) // does the handshake; any end will do
}

// certificate returns a certificate with a key of its own.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
}

// closeHalf writes a text and says that no more will come.
func closeHalf(conn net.Conn, text []byte) {
	_, _ = conn.Write(text)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite() // it may be closed
	}
}

// drip writes a byte now and then until the connection is closed, or all is written.
func drip(conn net.Conn, text []byte) {
	for i := range text {
		if _, err := conn.Write(text[i : i+1]); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond) // slow, but not silent
	}
}

// visit is a stranger's connection.
type visit struct {
	who   string
	at    door
	local string // the stranger's address
	took  time.Duration
	err   error // nil: the connection was closed by the other end
}

// visit makes a connection of a stranger, and waits until it is closed.
func (d door) visit(who string, does stranger, within time.Duration) (v visit) {
	v = visit{who: who, at: d}
	began := time.Now()
	conn, err := net.Dial(d.network, d.address)
	if err != nil {
		v.err = err
		return v
	}
	defer conn.Close()
	v.local = conn.LocalAddr().String()
	_ = conn.SetDeadline(began.Add(within)) // an error comes again when it is read
	does(conn)
	n := 1
	for b := make([]byte, 512); err == nil && n > 0; {
		n, err = conn.Read(b)
	}
	v.took = time.Since(began)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		v.err = err
	}
	return v
}

// Strangers at the ports of a job on several nodes are closed in time, are reported in one line each, or not at all, and
// do not disturb the job.
func TestEmulatedStrangers(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	var mu sync.Mutex
	var all []visit
	var visits sync.WaitGroup
	come := func(d door, who string, does stranger, bound time.Duration) {
		visits.Go(func() {
			v := d.visit(who, does, bound+strangerSlack)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, v)
		})
	}
	for who, does := range b.strangers() {
		for _, d := range b.front {
			come(d, who, does, frontEndDoor)
		}
		for _, d := range b.daemons {
			come(d, who, does, pmixDoor)
		}
	}
	request := wire.AttachRequest{Nspace: b.nspace, Incarnation: 1}
	for _, d := range b.attach {
		come(d, "silent", func(net.Conn) {}, attachDoor)
		come(d, "garbage", func(conn net.Conn) { _, _ = conn.Write(bytes.Repeat([]byte{0xff}, 64)) }, attachDoor)
		come(d, "one that asks", func(conn net.Conn) { _, _ = conn.Write(request.Append(nil)) }, attachDoor)
	}
	wrong := b.dialWithoutSecret(t)
	visits.Wait()
	b.letGo()
	b.expect(0)
	b.expectAllreduce()
	for _, v := range all {
		t.Logf("%s at %v: closed after %v", v.who, v.at, v.took)
		if v.err != nil {
			t.Errorf("%s at %v was not closed after %v: %v", v.who, v.at, v.took, v.err)
		}
	}
	b.expectLines(append(wrong, all...))
	for _, d := range slices.Concat(b.front, b.daemons, b.attach) {
		if conn, err := net.Dial(d.network, d.address); err == nil {
			t.Errorf("somebody listens at %v after the job", d)
			_ = conn.Close()
		}
	}
}

// dialWithoutSecret makes the connections that a daemon of another job makes, to each port of the front end: more than one, if
// nobody answers in time.
func (b *besieged) dialWithoutSecret(t *testing.T) (all []visit) {
	t.Helper()
	for _, d := range b.front {
		const who = "another job's daemon"
		l, err := control.Dial(t.Context(), control.DialConfig{
			Secret: control.NewSecret(), Self: control.Identity{Node: 1}, Peer: control.FrontEnd, Addrs: []netip.AddrPort{netip.MustParseAddrPort(d.address)},
			Connect: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				var dialer net.Dialer
				conn, err := dialer.DialContext(ctx, "tcp", addr.String())
				if err == nil {
					all = append(all, visit{who: who, at: d, local: conn.LocalAddr().String()})
				}
				return conn, err
			},
		})
		if err == nil {
			t.Errorf("%s was taken at %v", who, d)
			l.Abort()
		} else if !strings.Contains(err.Error(), "another secret") {
			t.Errorf("%s at %v: %v, want another secret in it", who, d, err)
		}
	}
	return all
}

var moreClosed = regexp.MustCompile(`oshrun: (\d+) more connections were closed`)

// expectLines checks what the user was told of strangers: of each at the front end, in a line of its own or among those
// that are counted; of each client that is refused; of nothing else.
func (b *besieged) expectLines(all []visit) {
	b.t.Helper()
	text := b.stderr.String()
	said := lines(text)
	counted, lone := 0, 0
	for _, v := range all {
		if !slices.Contains(b.front, v.at) {
			continue
		}
		counted++
		if n := strings.Count(text, "oshrun: connection from "+v.local+": "); n == 1 {
			lone++
		} else if n > 1 {
			b.t.Errorf("%s at %v, from %s, has %d lines", v.who, v.at, v.local, n)
		}
	}
	refused, sums, more, strained := 0, 0, 0, 0
	for _, line := range said {
		switch m := moreClosed.FindStringSubmatch(line); {
		case m != nil:
			n, err := strconv.Atoi(m[1])
			check(b.t, err)
			sums++
			more += n
		case strings.HasPrefix(line, "oshrun: a client of the PMIx server is refused: "):
			refused++
		case ofBusyMachine.MatchString(line):
			strained++
		}
	}
	if lone < 10 || lone+more != counted {
		b.t.Errorf("%d strangers have lines, and %d are counted, want 10 lines or more, and together %d:\n%s", lone, more, counted, text)
	}
	if want := 2 * clusterHosts; refused != want {
		b.t.Errorf("%d clients are refused, want %d:\n%s", refused, want, text)
	}
	if got, want := len(said), lone+sums+refused+strained; got != want {
		b.t.Errorf("%d lines, want %d:\n%s", got, want, text)
	}
}

// ofBusyMachine matches what oshrun says of PEs on a machine that has other things to do.
var ofBusyMachine = regexp.MustCompile(`^oshrun: PE \d+ \(pid \d+\) (gets no processor \(it could run\)|runs again)$`)

// expectAllreduce checks the output of the job.
func (b *besieged) expectAllreduce() {
	b.t.Helper()
	if n := strings.Count(b.stdout.String(), " of 8, node node"); n != 8 {
		b.t.Errorf("%d ranks have printed their line, want 8:\n%s", n, &b.stdout)
	}
}

// Strangers who come to all ports all the time do not keep the PEs of several nodes from joining, computing and ending.
func TestEmulatedFlood(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	began := time.Now()
	var does []stranger
	for _, s := range b.strangers() {
		does = append(does, s)
	}
	doors := slices.Concat(b.front, b.daemons, b.attach)
	ctx, stop := context.WithCancel(t.Context())
	var flood, begun sync.WaitGroup
	for range 8 {
		begun.Add(1)
		flood.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				d := doors[mathrand.IntN(len(doors))]
				d.visit("one of many", does[mathrand.IntN(len(does))], 50*time.Millisecond) // does not wait until it is closed
				if first {
					begun.Done()
				}
			}
		})
	}
	begun.Wait()
	b.letGo()
	b.expect(0)
	stop()
	flood.Wait()
	b.expectAllreduce()
	windows := 1 + int(time.Since(began)/(10*time.Second))
	if n, most := strings.Count(b.stderr.String(), "\n"), windows*11+clusterHosts*9; n > most {
		t.Errorf("the user was told of strangers in %d lines, want %d at most:\n%s", n, most, &b.stderr)
	}
}

// Strangers who come to the front end before its daemons do not keep the job from starting.
func TestStrangersAtStart(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	agent := filepath.Join(t.TempDir(), "agent")
	check(t, os.WriteFile(agent, []byte("until [ -e "+gate+` ]; do sleep 0.02; done; exec "$@"`+"\n"), 0o600))
	j := start(t, "--launch", "exec:sh "+agent, "--interface", "127.0.0.0/8", "--host", "a.invalid,b.invalid,c.invalid,d.invalid", "--launch-radix", "2", "echo", "here")
	var doors []door
	for begin := time.Now(); len(doors) == 0 && time.Since(begin) < testPatience; time.Sleep(10 * time.Millisecond) {
		doors = doorsOf(t, j.cmd.Process.Pid)
	}
	if len(doors) == 0 {
		t.Fatalf("the front end does not listen; stderr:\n%s", &j.stderr)
	}
	for i := range 100 {
		d := doors[i%len(doors)]
		conn, err := net.Dial(d.network, d.address)
		check(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		if i%4 == 0 {
			_, err = conn.Write([]byte{22, 3, 1}) // how a handshake begins
			check(t, err)
		}
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
	if n := strings.Count(j.stdout.String(), "here\n"); n != clusterHosts {
		t.Errorf("%d PEs have run, want %d:\n%s", n, clusterHosts, &j.stderr)
	}
}
