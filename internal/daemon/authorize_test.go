package daemon

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
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
		rank   uint32
		want   string
	}{
		{"another", 0, "want this job"},
		{s.Nspace(), 2, "want this job and a PE below 2"},
		{s.Nspace(), 1, "no process of PE 1"},
	} {
		if _, err := s.authorize(served, x.nspace, x.rank); err == nil || !strings.Contains(err.Error(), x.want) {
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
	if !holds(os.Getpid(), link) || holds(s.PID(0), link) {
		t.Errorf("%s: held by this process %v and by PE 0 %v, want true and false", link, holds(os.Getpid(), link), holds(s.PID(0), link))
	}
}

// The public name of the attach socket does not tell the job's.
func TestNamesAreIndependent(t *testing.T) {
	s := startSleepers(t, 1)
	_, secret, _ := strings.Cut(s.Nspace(), "-")
	if name := s.attach.Addr().String(); strings.Contains(name, secret) {
		t.Errorf("socket %s holds the job's name %s", name, s.Nspace())
	}
}

// However much a PE says, the end of each finds room.
func TestExitedIsNotDropped(t *testing.T) {
	s := &Step{events: make(chan Event, 4*3+16), procs: make([]*proc, 3), cfg: Config{Logger: zerolog.Nop()}}
	for range 100 {
		s.emit(Event{Kind: Abort})
		s.emit(Event{Kind: Lost})
	}
	for pe := range s.procs {
		s.emit(Event{Kind: Exited, PE: pe})
	}
	ends := 0
	for len(s.events) > 0 {
		if e := <-s.events; e.Kind == Exited {
			ends++
		}
	}
	if ends != 3 {
		t.Errorf("%d ends were reported, want 3", ends)
	}
}
