//go:build linux

package kernel

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestMain(m *testing.M) {
	testenv.OwnSession()
	goleak.VerifyTestMain(m)
}

// tooLong is the time after which a waiting test fails.
const tooLong = 60 * time.Second

// log collects reports.
type log struct {
	mu   sync.Mutex
	all  []Report
	news chan struct{} // receives after each report
}

func newLog() *log { return &log{news: make(chan struct{}, 1)} }

func (l *log) add(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// every returns all reports.
func (l *log) every() []Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// of returns the reports with a tag.
func (l *log) of(tag uint64) (out []Report) {
	for _, r := range l.every() {
		if r.Tag == tag {
			out = append(out, r)
		}
	}
	return out
}

// await waits for the first report with a kind and a tag.
func (l *log) await(t *testing.T, tag uint64, kind Kind) Report {
	t.Helper()
	over := time.After(tooLong)
	for {
		for _, r := range l.of(tag) {
			if r.Kind == kind {
				return r
			}
		}
		select {
		case <-l.news:
		case <-over:
			t.Fatalf("no report %v of tag %d in %v; got reports %+v", kind, tag, tooLong, l.of(tag))
		}
	}
}

// awaitEnd waits for the end of a process. It fails unless the last reports of its tag are Dead
// and Released, each once.
func (l *log) awaitEnd(t *testing.T, tag uint64) (dead, released Report) {
	t.Helper()
	released = l.await(t, tag, Released)
	all := l.of(tag)
	if len(all) < 2 || all[len(all)-1].Kind != Released || all[len(all)-2].Kind != Dead {
		t.Fatalf("got reports %+v, want Dead and Released last", all)
	}
	for _, r := range all[:len(all)-2] {
		if r.Kind == Dead || r.Kind == Released {
			t.Fatalf("got reports %+v, want Dead and Released once each", all)
		}
	}
	return all[len(all)-2], released
}

// mayLackTime reports whether a Dead may lack a time: the tier is ProcConn, and the notice of the
// end came so late that the connector no longer waited for it. The process was told to end at the
// time before or later, and its notice had arrived at the time told.
func mayLackTime(w *Watch, dead Report, before, told time.Duration) bool {
	return w.Tier() == ProcConn && dead.At == 0 && told-before >= noticeTimeout
}

// open opens a watch that the test closes.
func open(t *testing.T, cfg Config) (*Watch, *log) {
	t.Helper()
	if cfg.Tier == BPF {
		testenv.Need(t, testenv.EBPF)
	}
	l := newLog()
	cfg.Report = l.add
	cfg.Logger = zerolog.New(zerolog.NewTestWriter(t))
	w, err := Open(cfg)
	var missing *TierError
	if cfg.Tier == ProcConn && errors.As(err, &missing) {
		t.Skip(err) // this tier works only in the machine's own namespaces
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w, l
}

// openAny opens a watch with the best tier that this process can use.
func openAny(t *testing.T) (*Watch, *log) {
	t.Helper()
	return open(t, Config{})
}

// tiers runs a test in each tier.
func tiers(t *testing.T, f func(t *testing.T, w *Watch, l *log)) {
	for tier := BPF; tier <= SIGCHLD; tier++ {
		t.Run(tier.String(), func(t *testing.T) {
			w, l := open(t, Config{Tier: tier})
			f(t, w, l)
		})
	}
}

// victim is a process of testdata/victim.c.
type victim struct {
	*exec.Cmd
	t    testing.TB
	out  *bufio.Reader
	pipe *os.File // the pipe that out reads from
	in   *os.File
}

// spawn starts a victim and waits until it is ready.
func spawn(t testing.TB, args ...string) *victim {
	t.Helper()
	v := begin(t, args...)
	v.ready()
	return v
}

func begin(t testing.TB, args ...string) *victim {
	t.Helper()
	program := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "victim.c"))
	return launch(t, append([]string{program}, args...)...)
}

// launch starts a program that uses the protocol of victims.
func launch(t testing.TB, args ...string) *victim {
	t.Helper()
	v := &victim{Cmd: exec.Command(args[0], args[1:]...), t: t}
	v.Dir = t.TempDir() // for core dumps
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	v.out, v.pipe, v.in = bufio.NewReader(out), out, in
	v.Stdin, v.Stdout = stdin, theirs
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	theirs.Close()
	t.Cleanup(func() {
		in.Close()
		if v.ProcessState == nil {
			v.Process.Kill()
			v.Process.Wait()
		}
		out.Close()
	})
	return v
}

// line reads a line of the victim's output.
func (v *victim) line() string {
	v.t.Helper()
	if err := v.pipe.SetReadDeadline(time.Now().Add(tooLong)); err != nil {
		v.t.Fatal(err)
	}
	text, err := v.out.ReadString('\n')
	if err != nil {
		v.t.Fatalf("%v printed %q: %v", v.Args, text, err)
	}
	return strings.TrimSpace(text)
}

func (v *victim) ready() {
	v.t.Helper()
	if text := v.line(); text != "ready" {
		v.t.Fatalf("%v printed %q, want ready", v.Args, text)
	}
}

// number reads the number of a process.
func (v *victim) number() int {
	v.t.Helper()
	pid, err := strconv.Atoi(v.line())
	if err != nil {
		v.t.Fatal(err)
	}
	return pid
}

// act makes the victim act.
func (v *victim) act() {
	v.t.Helper()
	if _, err := v.in.Write([]byte{'\n'}); err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) pid() int { return v.Process.Pid }

// reap waits for the victim's end and returns its status.
func (v *victim) reap() syscall.WaitStatus {
	v.t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(v.pid(), &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			v.t.Fatal(err)
		}
		v.ProcessState = &os.ProcessState{}
		return status
	}
}
