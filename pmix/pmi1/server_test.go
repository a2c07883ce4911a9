package pmi1

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

const patience = 20 * time.Second

// notes is a host that records its upcalls.
type notes struct {
	mu     sync.Mutex
	heard  []string
	news   chan struct{}
	spawns chan *SpawnRequest
}

func newNotes() *notes {
	return &notes{news: make(chan struct{}, 1024), spawns: make(chan *SpawnRequest, 16)}
}

func (n *notes) note(text string) {
	n.mu.Lock()
	n.heard = append(n.heard, text)
	n.mu.Unlock()
	n.news <- struct{}{}
}

func (n *notes) ClientJoined(p codec.Proc)    { n.note("joined " + p.Nspace) }
func (n *notes) ClientFinalized(p codec.Proc) { n.note("finalized " + p.Nspace) }
func (n *notes) ClientLost(p codec.Proc)      { n.note("lost " + p.Nspace) }
func (n *notes) Abort(p codec.Proc, status int) {
	n.note("abort " + p.Nspace + " " + string(rune('0'+status%10)))
}
func (n *notes) Spawn(r *SpawnRequest) { n.spawns <- r }

// await waits until an upcall has come the given number of times.
func (n *notes) await(t testing.TB, text string, times int) {
	t.Helper()
	for end := time.After(patience); ; {
		n.mu.Lock()
		count := 0
		for _, h := range n.heard {
			if h == text {
				count++
			}
		}
		heard := slices.Clone(n.heard)
		n.mu.Unlock()
		if count >= times {
			return
		}
		select {
		case <-n.news:
		case <-end:
			t.Fatalf("upcalls %q, want %q %d times", heard, text, times)
		}
	}
}

func serve(t testing.TB, jobs ...WorldSpec) (*Server, *notes) {
	t.Helper()
	n := newNotes()
	s, err := Start(Config{Host: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, j := range jobs {
		if err := s.AddJob(j); err != nil {
			t.Fatal(err)
		}
	}
	return s, n
}

// client is a process's end of a connection.
type client struct {
	t testing.TB
	f *os.File
	r *bufio.Reader
}

func connect(t testing.TB, s *Server, p codec.Proc) *client {
	t.Helper()
	f, err := s.Connect(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &client{t, f, bufio.NewReader(f)}
}

func (c *client) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.f, strings.ReplaceAll(text, ";", "\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) want(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		if got, err := c.r.ReadString('\n'); got != want+"\n" || err != nil {
			c.t.Fatalf("answer %q, %v; want %q", got, err, want)
		}
	}
}

const welcome = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"

func TestServer(t *testing.T) {
	s, n := serve(t, WorldSpec{Nspace: "a", Procs: make([]Proc, 3)})
	if err := s.AddJob(WorldSpec{Nspace: "a", Procs: make([]Proc, 3)}); err == nil {
		t.Error("a job was added twice")
	}
	if _, err := s.Connect(codec.Proc{Nspace: "a", Rank: 3}); err == nil {
		t.Error("a process that does not exist was connected")
	}
	if env := s.Environ(codec.Proc{Nspace: "a", Rank: 2}, 7); len(env) == 0 || env[0] != "PMI_FD=7" {
		t.Errorf("environment %q", env)
	}
	if env := s.Environ(codec.Proc{Nspace: "b", Rank: 2}, 7); env != nil {
		t.Errorf("environment %q for an unknown process", env)
	}
	var all []*client
	for rank := range 3 {
		c := connect(t, s, codec.Proc{Nspace: "a", Rank: codec.Rank(rank)})
		all = append(all, c)
		c.say(hello)
		c.want(welcome)
	}
	n.await(t, "joined a", 3)
	for round := range 3 {
		for i := range all {
			all[(i+round)%3].say("cmd=barrier_in;")
		}
		for _, c := range all {
			c.want("cmd=barrier_out rc=0")
		}
	}
	all[0].say("cmd=barrier_in;")
	all[1].say(one + two)
	r := <-n.spawns
	s.SpawnDone(r.ID, errors.New("no room"))
	all[1].want("cmd=spawn_result rc=-1 msg=spawn_failed:_no_room")
	all[1].say(one + two)
	r = <-n.spawns
	s.SpawnDone(r.ID, nil)
	all[1].want("cmd=spawn_result rc=0 msg=success")
	all[1].say("cmd=abort exitcode=7;")
	n.await(t, "abort a 7", 1)
	_ = all[2].f.Close()
	n.await(t, "lost a", 1)
	all[0].want("cmd=barrier_failed rc=-1 msg=rank_2_has_left")
	all[0].say("cmd=finalize;")
	all[0].want("cmd=finalize_ack rc=0")
	n.await(t, "finalized a", 1)
	if rest, err := all[0].r.ReadString('\n'); rest != "" || !errors.Is(err, io.EOF) {
		t.Errorf("after finalize %q, %v", rest, err)
	}
	s.ProcExited(codec.Proc{Nspace: "a", Rank: 1}, false)
	if rest, err := all[1].r.ReadString('\n'); rest != "" || !errors.Is(err, io.EOF) {
		t.Errorf("after the end of the process %q, %v", rest, err)
	}
	s.RemoveJob("a")
	if _, err := s.Connect(codec.Proc{Nspace: "a", Rank: 0}); err == nil {
		t.Error("a process of a removed job was connected")
	}
}

// TestDeafClient: a client that floods the server and reads nothing is disconnected. Another one is served meanwhile.
func TestDeafClient(t *testing.T) {
	s, n := serve(t, WorldSpec{Nspace: "deaf", Procs: make([]Proc, 1)}, WorldSpec{Nspace: "good", Procs: make([]Proc, 1)})
	deaf := connect(t, s, codec.Proc{Nspace: "deaf"})
	good := connect(t, s, codec.Proc{Nspace: "good"})
	good.say(hello)
	good.want(welcome)
	deaf.say(hello)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := io.WriteString(deaf.f, "cmd=get_my_kvsname\n"); err != nil {
				ended <- err
				return
			}
		}
	}()
	for flooding := true; flooding; {
		good.say("cmd=get_appnum;")
		good.want("cmd=appnum appnum=0")
		select {
		case <-ended:
			flooding = false
		default:
		}
	}
	n.await(t, "lost deaf", 1)
	good.say("cmd=get_appnum;")
	good.want("cmd=appnum appnum=0")
}

// TestCloseWhileConnected: Close ends all connections.
func TestCloseWhileConnected(t *testing.T) {
	s, _ := serve(t, WorldSpec{Nspace: "a", Procs: make([]Proc, 2)})
	c, silent := connect(t, s, codec.Proc{Nspace: "a"}), connect(t, s, codec.Proc{Nspace: "a", Rank: 1})
	c.say(hello)
	c.want(welcome)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	for _, c := range []*client{c, silent} {
		if rest, err := c.r.ReadString('\n'); rest != "" || !errors.Is(err, io.EOF) {
			t.Errorf("after Close %q, %v", rest, err)
		}
	}
	if _, err := s.Connect(codec.Proc{Nspace: "a"}); err == nil {
		t.Error("a closed server accepted a process")
	}
	s.ProcExited(codec.Proc{Nspace: "a"}, false)
}

// BenchmarkRound measures a request and its answer.
func BenchmarkRound(b *testing.B) {
	s, _ := serve(b, WorldSpec{Nspace: "a", Procs: make([]Proc, 1)})
	c := connect(b, s, codec.Proc{Nspace: "a"})
	c.say(hello)
	c.want(welcome)
	for b.Loop() {
		c.say("cmd=get_appnum;")
		c.want("cmd=appnum appnum=0")
	}
}
