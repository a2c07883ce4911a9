package daemon

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// A PE joins and leaves by either protocol. One that loses its connection may be declared failed, unless another
// process of the PE joins again.
func TestJoinAndLeave(t *testing.T) {
	s := startTest(t, []App{shell(3, "exec sleep 1000")})
	host, pmi := pmixHost{s.clients}, pmiHost{s.clients}
	host.ClientConnected(s.name(0), s.pe(0).pid)
	pmi.ClientJoined(s.name(1))
	host.ClientConnected(s.name(2), 0)
	host.ClientConnected(s.name(7), 1) // no such PE
	select {
	case <-s.table.joined:
	default:
		t.Error("all PEs have joined, and no event says so")
	}
	if s.Forsake(ID{PE: 0}) {
		t.Error("a PE that is in its job is declared failed")
	}

	host.ClientFinalized(s.name(0))
	kill(t, s.pe(0).pid, syscall.SIGTERM)
	if e := s.next(Failed); e.PE != 0 || e.End != (ending.End{Signal: int(syscall.SIGTERM)}) {
		t.Errorf("event %+v, want PE 0 ended by SIGTERM and not unfinished", e)
	}
	s.next(Exited)

	pmi.ClientLost(s.name(1))
	s.next(Lost)
	pmi.ClientJoined(s.name(1)) // a shell starts another program
	if s.Forsake(ID{PE: 1}) {
		t.Error("a PE that has joined again is declared failed")
	}
	pmi.ClientLost(s.name(1))
	s.next(Lost)
	if !s.Forsake(ID{PE: 1}) {
		t.Error("a PE that has lost its connection cannot be declared failed")
	}
	if e := s.next(Failed); e.PE != 1 || !e.End.Unfinished || !e.GoesOn {
		t.Errorf("event %+v, want PE 1 unfinished, and that its process runs on", e)
	}
	if s.Forsake(ID{Job: 3}) {
		t.Error("a PE that does not exist is declared failed")
	}

	host.ClientLost(s.name(9))     // no such PE
	pmi.ClientFinalized(s.name(2)) // so the end of its process is no failure
	kill(t, s.pe(2).pid, syscall.SIGKILL)
	if e := s.next(Failed); e.PE != 2 || e.End.Unfinished {
		t.Errorf("event %+v, want PE 2, finished", e)
	}
}

// A PE that aborts its own job is reported, by either protocol, whether it names nobody or all PEs. A PE that aborts
// others has them killed at its request.
func TestAbort(t *testing.T) {
	s := startTest(t, []App{shell(3, "exec sleep 1000")})
	host, pmi := pmixHost{s.clients}, pmiHost{s.clients}
	for pe := range 3 {
		host.ClientConnected(s.name(pmix.Rank(pe)), s.pe(pe).pid)
	}
	host.Abort(s.name(0), []pmix.Proc{s.name(2), s.name(2), s.name(8)}, 7, "")
	if e := s.next(Failed); e.PE != 2 || e.End.Signal != 9 || e.By != "PE 0" {
		t.Errorf("event %+v, want PE 2 killed for PE 0", e)
	}
	if e := s.next(Exited); e.PE != 2 || e.By != "PE 0" {
		t.Errorf("event %+v, want the end of PE 2's process, for PE 0", e)
	}
	for name, abort := range map[string]func(){
		"in one word": func() { host.Abort(s.name(0), nil, 7, "enough") },
		"all":         func() { host.Abort(s.name(0), []pmix.Proc{s.name(1), s.name(0)}, 7, "enough") },
		"wildcard":    func() { host.Abort(s.name(0), []pmix.Proc{s.name(pmix.RankWildcard)}, 7, "enough") },
	} {
		abort()
		if e := s.next(Abort); e.PE != 0 || e.Status != 7 || e.Msg != "enough" || e.Written != (Written{}) {
			t.Errorf("%s: event %+v, want PE 0, 7, \"enough\", and when its outputs were passed on", name, e)
		}
	}
	pmi.Abort(s.name(1), 3)
	if e := s.next(Abort); e.PE != 1 || e.Status != 3 {
		t.Errorf("event %+v, want PE 1 and 3", e)
	}
	pmi.Abort(s.name(5), 3) // no such PE
	s.events.emit(Event{Kind: Dropped})
	s.next(Dropped)

	// A tool is no PE: it can only have PEs killed.
	host.Abort(pmix.Proc{Nspace: "tool"}, []pmix.Proc{s.name(0)}, 1, "")
	if e := s.next(Failed); e.PE != 0 || e.By == "" || strings.HasPrefix(e.By, "PE") {
		t.Errorf("event %+v, want PE 0 killed for a tool", e)
	}
}

// PEs can stop, continue, signal and end others. An end by a signal that another PE sent is wanted; an end by any other
// signal is not.
func TestControl(t *testing.T) {
	s := startTest(t, []App{shell(5, "exec sleep 1000"), shell(1, `trap "" TERM; echo ready; while :; do sleep 1000; done`)})
	host := pmixHost{s.clients}
	if line := s.line(); line != "5: ready" {
		t.Fatalf("line %q", line)
	}
	control := func(pe int, a server.ControlAction) { host.Control(s.name(0), []pmix.Proc{s.name(pmix.Rank(pe))}, a) }
	control(1, server.ControlAction{Pause: true})
	awaitState(t, s.pe(1).pid, "stopped", stopped)
	control(1, server.ControlAction{Resume: true})
	awaitState(t, s.pe(1).pid, "running", runs)
	for _, x := range []struct {
		pe     int
		action server.ControlAction
		sig    syscall.Signal
	}{
		{1, server.ControlAction{Signal: int(syscall.SIGUSR1)}, syscall.SIGUSR1},
		{2, server.ControlAction{Kill: true}, syscall.SIGKILL},
		{3, server.ControlAction{Terminate: true}, syscall.SIGTERM},
		{5, server.ControlAction{Terminate: true}, syscall.SIGKILL}, // ignores SIGTERM
	} {
		control(x.pe, x.action)
		if e := s.next(Failed); e.PE != x.pe || e.End.Signal != int(x.sig) || e.By != "PE 0" {
			t.Errorf("%+v: event %+v, want PE %d ended by signal %d for PE 0", x.action, e, x.pe, x.sig)
		}
		s.next(Exited)
	}
	control(4, server.ControlAction{Signal: int(xunix.SIGCONT)})
	kill(t, s.pe(4).pid, syscall.SIGKILL)
	if e := s.next(Failed); e.PE != 4 || e.By != "" {
		t.Errorf("event %+v, want PE 4, at no request", e)
	}
}

// What PEs log goes to the output that they name.
func TestLog(t *testing.T) {
	type text struct {
		stream Stream
		text   string
	}
	var got []text
	c := &clients{log: func(s Stream, b []byte) { got = append(got, text{s, string(b)}) }}
	pmixHost{c}.Log(pmix.Proc{}, false, []byte("out"))
	pmixHost{c}.Log(pmix.Proc{}, true, []byte("err"))
	if len(got) != 2 || got[0] != (text{Stdout, "out"}) || got[1] != (text{Stderr, "err"}) {
		t.Errorf("logged %v", got)
	}
	pmixHost{&clients{}}.Log(pmix.Proc{}, false, []byte("nobody listens"))
}

// A PE reads what a tool pushes to its input, up to the end. Text for a PE without input is lost, and one notice says so.
func TestPushedInput(t *testing.T) {
	s := startTest(t, []App{shell(2, "cat; echo end")}, func(c *settings) {
		c.StdinTo = Readers{PEs: []int{0}} // its input stays open and empty, as nothing is fed
	})
	if line := s.line(); line != "1: end" {
		t.Fatalf("line %q, want the end of the PE that has no input", line)
	}
	host := pmixHost{s.clients}
	host.Stdin([]pmix.Proc{s.name(0)}, []byte("one\n"), false)
	if line := s.line(); line != "0: one" {
		t.Errorf("line %q", line)
	}
	host.Stdin([]pmix.Proc{s.name(pmix.RankWildcard)}, []byte("two\n"), true)
	s.wantNotice("standard input of PE 1 is lost")
	host.Stdin([]pmix.Proc{s.name(1)}, []byte("again\n"), false)
	for _, want := range []string{"0: two", "0: end"} {
		if line := s.line(); line != want {
			t.Errorf("line %q, want %q", line, want)
		}
	}
	if len(s.said) > 0 {
		t.Errorf("second notice %q, want none", <-s.said)
	}
}

// If a PE does not read what is pushed, its input ends when too much is queued.
func TestPushedTooMuch(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var said []string
	in := newInput(func(format string, _ ...any) { said = append(said, format) }, nil)
	in.addReader(ID{}, w)
	in.push(ID{}, make([]byte, 1<<20), false) // more than a pipe holds, so the writer waits
	in.push(ID{}, make([]byte, pushedMost+1), false)
	in.push(ID{}, []byte("ignored"), false)
	if len(said) != 1 || !strings.Contains(said[0], "does not read") {
		t.Errorf("told %q, want a notice that the PE does not read", said)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) >= 1<<20 {
		t.Errorf("%d bytes, %v, want the end before all of the first text", len(rest), err)
	}
}
