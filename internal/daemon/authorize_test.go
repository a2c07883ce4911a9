package daemon

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// pairOf returns both ends of a loopback connection as the server and a client
// in this process have them.
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

// A claim needs the job's name, a PE of it, and a socket in that PE's hands.
func TestAuthorize(t *testing.T) {
	s := startSleepers(t, 2)
	client, served := pairOf(t)
	for _, x := range []struct {
		nspace string
		rank   pmix.Rank
		want   string
	}{
		{"another", 0, "want a job of this step"},
		{s.jobs[0].nspace, 2, "one of its PEs"},
		{s.jobs[0].nspace, 1, "no process of PE 1"},
	} {
		if _, err := s.authorize(served, pmix.Proc{Nspace: x.nspace, Rank: x.rank}); err == nil || !strings.Contains(err.Error(), x.want) {
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
	if !holds(os.Getpid(), link) || holds(s.PID(ID{}), link) {
		t.Errorf("%s: held by this process %v and by PE 0 %v, want true and false", link, holds(os.Getpid(), link), holds(s.PID(ID{}), link))
	}
}

// The public name of the attach socket does not tell the job's.
func TestNamesAreIndependent(t *testing.T) {
	s := startSleepers(t, 1)
	_, secret, _ := strings.Cut(s.jobs[0].nspace, "-")
	if name := s.attach.Addr().String(); strings.Contains(name, secret) {
		t.Errorf("socket %s holds the job's name %s", name, s.jobs[0].nspace)
	}
}

// However much a PE says, the end of each finds room.
func TestExitedIsNotDropped(t *testing.T) {
	m := newMailbox()
	for range 100 * maxTalk {
		m.put(Event{Kind: Abort})
		m.put(Event{Kind: Lost})
	}
	for pe := range 3 {
		m.put(Event{Kind: Exited, ID: ID{PE: pe}})
	}
	if n := len(m.queue); n != maxTalk+3 {
		t.Errorf("%d events wait, want %d", n, maxTalk+3)
	}
	quit := make(chan struct{})
	defer close(quit)
	go m.run(quit)
	for range maxTalk {
		<-m.out
	}
	for pe := range 3 {
		if e := <-m.out; e.Kind != Exited || e.PE != pe {
			t.Errorf("event %+v, want the end of PE %d", e, pe)
		}
	}
}
