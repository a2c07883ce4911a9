package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/shmem"
)

// roleEnv makes this test program a PE and says what the PE does; argEnv is its argument.
const (
	roleEnv = "GOSHMEM_TEST_ROLE"
	argEnv  = "GOSHMEM_TEST_ARG"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == agentRole {
		if err := playAgent(os.Args[2]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Getenv(argEnv)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the main function of a PE that is a Go program.
func play(role, arg string) error {
	switch role {
	case "dial": // connects to a port and stays
		conn, err := net.Dial("tcp4", arg)
		if err != nil {
			return err
		}
		fmt.Println("connected")
		_, err = conn.Read(make([]byte, 1))
		return err
	case "attach":
		return playAttach()
	case "exchange":
		return playExchange()
	case "watch":
		return playWatch()
	case "shmem":
		_, err := shmem.Init()
		return err
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

// playAttach asks for the job's segments, prints what it got, and answers one order.
func playAttach() error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: os.Getenv(envvar.Step), Net: "unixpacket"})
	if err != nil {
		return err
	}
	pe, err := strconv.Atoi(os.Getenv(envvar.PMIxRank))
	if err != nil {
		return err
	}
	req := wire.AttachRequest{Nspace: os.Getenv(envvar.PMIxNamespace), PE: uint32(pe)}
	if err := xunix.SendFDs(conn, req.Append(nil), nil); err != nil {
		return err
	}
	packet, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
	if err != nil {
		return err
	}
	r, err := wire.ParseAttachReply(packet)
	if err != nil {
		return err
	}
	fmt.Printf("%d PEs, %d segments, %d descriptors, page %t %s\n", r.NPEs, r.Count, len(fds), r.Page, r.Err)
	for {
		packet, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
		xunix.CloseFDs(fds)
		if err != nil {
			return err
		}
		o, err := wire.ParseOrder(packet)
		if err != nil {
			return err
		}
		if o.Order == wire.OrderNews {
			fmt.Println("alert")
			continue
		}
		for _, part := range []wire.OrderPacket{{Order: o.Order, Text: "one "}, {Order: o.Order, Text: "two", Last: true}} {
			if _, err := conn.Write(part.Append(nil)); err != nil {
				return err
			}
		}
	}
}

// testStep is a step under test, with the lines that its PEs write.
type testStep struct {
	*Step
	t     *testing.T
	lines chan string // "PE: text"
	said  chan string // notices to the user
}

// deadline limits the wait for something that should come at once.
const deadline = 20 * time.Second

// shell returns a program of n PEs that runs a shell script.
func shell(n int, script string) App {
	return App{NPEs: n, Path: "/bin/sh", Name: "sh", Args: []string{"-c", script}, Env: os.Environ()}
}

// player returns a program of n PEs in which this test program plays a role.
func player(n int, role, arg string) App {
	return App{
		NPEs: n, Path: os.Args[0], Name: "player",
		Env: append(os.Environ(), roleEnv+"="+role, argEnv+"="+arg),
	}
}

// startTest starts a step with a job of the given programs.
func startTest(t *testing.T, apps []App, change ...func(*settings)) *testStep {
	t.Helper()
	s := &testStep{t: t, lines: make(chan string, 1000), said: make(chan string, 1000)}
	config := sleepers(t, 1, append([]func(*settings){func(c *settings) {
		c.Apps, c.MostPEs = apps, 8
		c.Output = func(id ID, _ Stream, text []byte) {
			for line := range strings.Lines(string(text)) {
				s.lines <- id.String() + ": " + strings.TrimRight(line, "\r\n")
			}
		}
		c.Notice = func(text string) { s.said <- text }
	}}, change...)...)
	var err error
	if s.Step, err = config.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pe returns a PE of the first job.
func (s *testStep) pe(number int) *localPE {
	s.t.Helper()
	var p *localPE
	s.table.update(ID{PE: number}, func(q *localPE) { p = q })
	if p == nil {
		s.t.Fatalf("PE %d was not started", number)
	}
	return p
}

// name returns the PMIx name of a PE of the first job, or of all its PEs.
func (s *testStep) name(rank pmix.Rank) pmix.Proc {
	return pmix.Proc{Nspace: s.table.job(0).nspace, Rank: rank}
}

// receive returns the next value.
func receive[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(deadline):
		t.Fatalf("no %s", what)
	}
	return got
}

// line returns the next line of any PE.
func (s *testStep) line() string { s.t.Helper(); return receive(s.t, "line of a PE", s.lines) }

// number returns the number in the next line of any PE.
func (s *testStep) number() int {
	s.t.Helper()
	return numberOf(s.t, s.line())
}

// numberOf returns the number in a line of a PE.
func numberOf(t *testing.T, line string) int {
	t.Helper()
	_, text, _ := strings.Cut(line, ": ")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("line %q, want a number", line)
	}
	return n
}

// procs returns its arguments as a list.
func procs(names ...pmix.Proc) []pmix.Proc { return names }

// wantNotice checks the next notice to the user.
func (s *testStep) wantNotice(want string) {
	s.t.Helper()
	if got := receive(s.t, "notice", s.said); !strings.Contains(got, want) {
		s.t.Errorf("the user is told %q, want it to contain %q", got, want)
	}
}

// next returns the next event, which must be of the given kind.
func (s *testStep) next(kind Kind) Event { s.t.Helper(); return nextOf(s.t, s.Step, kind) }

// awaitExit returns the end of a PE's process. All events before it must be of that PE, too.
func (s *testStep) awaitExit(pe int) Event {
	s.t.Helper()
	for {
		select {
		case e := <-s.Events():
			if e.PE != pe {
				s.t.Fatalf("event %+v, want one of PE %d", e, pe)
			}
			if e.Kind == Exited {
				return e
			}
		case <-time.After(deadline):
			s.t.Fatalf("PE %d is still running", pe)
		}
	}
}

// awaitState waits until process pid is in a state.
func awaitState(t *testing.T, pid int, what string, in func(process) bool) {
	t.Helper()
	for begin := time.Now(); !in(look(pid)); time.Sleep(time.Millisecond) {
		if time.Since(begin) > deadline {
			t.Fatalf("process %d is %+v, want it %s", pid, look(pid), what)
		}
	}
}

// kill sends a signal to a process.
func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// needProgram skips a test if a program is not installed.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("no %s: %v", name, err)
	}
}
