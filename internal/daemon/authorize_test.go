package daemon

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// pairOf returns both ends of a loopback connection: the client's and the server's.
func pairOf(t *testing.T) (client, served net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if served, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	return client, served
}

// A claim needs the job's name, a PE of the job, and a socket that the PE holds.
func TestAuthorize(t *testing.T) {
	s := startSleepers(t, 2)
	a := &authorizer{table: s.table, private: s.private, reporter: s.reporter}
	client, served := pairOf(t)
	for _, x := range []struct {
		nspace string
		rank   pmix.Rank
		want   string
	}{
		{"another", 0, "want a job of this step"},
		{s.table.jobs[0].nspace, 2, "one of its PEs"},
		{s.table.jobs[0].nspace, 1, "no process of PE 1"},
	} {
		if _, err := a.authorize(served, pmix.Proc{Nspace: x.nspace, Rank: x.rank}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("claim of %s, %d: %v, want an error with %q", x.nspace, x.rank, err, x.want)
		}
	}
	file, err := client.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !holdsFile(os.Getpid(), link) || holdsFile(s.PID(ID{}), link) {
		t.Errorf("%s: held by this process %v and by PE 0 %v, want true and false", link, holdsFile(os.Getpid(), link), holdsFile(s.PID(ID{}), link))
	}
}

// The attach socket's name is public, so it must not reveal the job's name.
func TestNamesAreIndependent(t *testing.T) {
	s := startSleepers(t, 1)
	_, secret, _ := strings.Cut(s.table.jobs[0].nspace, "-")
	if name := s.attach.address(); strings.Contains(name, secret) {
		t.Errorf("socket %s contains the job's name %s", name, s.table.jobs[0].nspace)
	}
}

// The end of each PE has room in the queue, however many events a PE causes.
func TestExitedIsNotDropped(t *testing.T) {
	m := NewMailbox()
	for range 100 * maxTalk {
		m.Put(Event{Kind: Abort})
		m.Put(Event{Kind: Lost})
	}
	for pe := range 3 {
		m.Put(Event{Kind: Exited, ID: ID{PE: pe}})
	}
	if n := len(m.queue); n != maxTalk+3 {
		t.Errorf("%d events wait, want %d", n, maxTalk+3)
	}
	quit := make(chan struct{})
	defer close(quit)
	go m.Run(quit)
	for range maxTalk {
		<-m.Out()
	}
	for pe := range 3 {
		if e := <-m.Out(); e.Kind != Exited || e.PE != pe {
			t.Errorf("event %+v, want the end of PE %d", e, pe)
		}
	}
}

// dialers starts two PEs that connect to a listener of the test: PE 0 itself, and a child of PE 1. It returns the
// server's ends of the connections in the order of the PEs.
func dialers(t *testing.T, change ...func(*settings)) (s *testStep, served []net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	direct, child := player(1, "dial", at), player(1, "dial", at)
	child.Path, child.Name, child.Args = "/bin/sh", "sh", []string{"-c", `"` + os.Args[0] + `" & wait`}
	s = startTest(t, []App{direct, child}, change...)
	served = make([]net.Conn, 2)
	a := &authorizer{table: s.table, private: s.private, reporter: s.reporter}
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		pe := 0
		if _, err := a.findHolder(conn, s.name(0)); err != nil {
			pe = 1
		}
		served[pe] = conn
	}
	return s, served
}

// A PE may be claimed by its process and by descendants of that process, and by no other. The directory for files of
// programs is made for programs that are not Go.
func TestAuthorizePEs(t *testing.T) {
	s, served := dialers(t)
	a := &authorizer{table: s.table, private: s.private, reporter: s.reporter}
	for pe, conn := range served {
		pid, err := a.authorize(conn, s.name(pmix.Rank(pe)))
		if err != nil || !s.pe(pe).descends(pid) || (pid == s.pe(pe).pid) != (pe == 0) {
			t.Errorf("PE %d: process %d, %v; want the PE's own process: %v", pe, pid, err, pe == 0)
		}
		if isForeign(conn) {
			t.Errorf("PE %d: a process of this user counts as another user's", pe)
		}
		if tool, err := a.authorizeTool(conn); err != nil || tool != pid {
			t.Errorf("PE %d: tool is process %d, %v; want %d", pe, tool, err, pid)
		}
	}
	for range mostRefusals + 1 {
		if _, err := a.authorize(served[0], s.name(1)); err == nil || !strings.Contains(err.Error(), "no process of PE 1") {
			t.Errorf("PE 0 claims to be PE 1: %v, want a refusal", err)
		}
	}
	for range mostRefusals {
		s.wantNotice("a client of the PMIx server is refused")
	}
	s.wantNotice("of further clients that are refused")
	if len(s.said) > 0 {
		t.Errorf("notice %q of one more refusal, want none", <-s.said)
	}
	if s.private.lock != nil {
		t.Error("the directory exists although all programs are Go")
	}
	s.private.provideFor(s.pe(1).pid, s.reporter) // a shell
	if _, err := os.Stat(s.private.path); err != nil {
		t.Errorf("no directory for a program that is not Go: %v", err)
	}

	kill(t, s.pe(0).pid, syscall.SIGKILL)
	s.awaitExit(0)
	if _, err := a.authorize(served[0], s.name(0)); err == nil || !strings.Contains(err.Error(), "PE 0 has failed") {
		t.Errorf("claim of a PE that has failed: %v, want a refusal", err)
	}
	if _, err := a.authorize(served[0], pmix.Proc{Nspace: s.table.job(0).nspace, Rank: pmix.RankWildcard}); err == nil {
		t.Error("a claim of all PEs is granted")
	}
}

// Concurrent callers share a census, which begins after the last of them has asked.
func TestCensusIsShared(t *testing.T) {
	s, served := dialers(t)
	sock, _, err := peerSocket(served[1])
	if err != nil {
		t.Fatal(err)
	}
	var c census
	var asked sync.WaitGroup
	for range 20 {
		asked.Go(func() {
			if pids := c.survey()[linkTo(sock)]; len(pids) != 1 || !s.pe(1).descends(pids[0]) {
				t.Errorf("processes %v hold the socket of PE 1, want one of PE 1", pids)
			}
		})
	}
	asked.Wait()
}
