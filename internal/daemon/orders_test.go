package daemon

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// packetPair returns both ends of a connection that preserves packet boundaries.
func packetPair(t *testing.T) (ends [2]*net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends
}

// A PE takes orders once it has the reply to its request, even before the step reads answers. An order and news that
// were given before the reply follow it.
func TestOrdersFollowReply(t *testing.T) {
	s := startSleepers(t, 1)
	p := s.table.jobs[0].procs[0]
	ends := packetPair(t)
	tk := newOrderLine(ends[0])
	read := func() []byte {
		t.Helper()
		if err := ends[1].SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		packet, fds, err := xunix.RecvFDs(ends[1], wire.MaxPacket, wire.MaxSegments)
		xunix.CloseFDs(fds)
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	answers := make(chan []Answer, 1)
	err := s.attach.startOrders(tk, p, func() error {
		go func() { answers <- s.Ask(wire.OrderProfile, 10*time.Second) }()
		s.table.mu.Lock()
		employed := p.orders == tk
		p.job.alertDue = true
		s.table.mu.Unlock()
		if !employed || len(tk.turn) == 0 {
			t.Error("during the reply, want the connection to take the PE's orders and its turn to be held")
		}
		if lines := s.failures.alerts.receivers(); len(lines) != 0 {
			t.Errorf("%d PEs get news before their reply, want none", len(lines))
		}
		_, err := ends[0].Write([]byte("reply"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(read()); got != "reply" {
		t.Errorf("first packet %q, want the reply", got)
	}
	if o, err := wire.ParseOrder(read()); err != nil || o.Order != wire.OrderProfile {
		t.Fatalf("second packet: %+v, %v, want the order", o, err)
	}
	go func() { _ = tk.takeAnswers(p.id, s.background.closing) }()
	if _, err := ends[1].Write((&wire.OrderPacket{Order: wire.OrderProfile, Last: true}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; len(a) != 1 || !a[0].Asked || !a[0].Done {
		t.Errorf("answers %+v, want a complete one", a)
	}

	// If the reply cannot be sent, orders still go where they went before.
	lost := newOrderLine(ends[0])
	if err := s.attach.startOrders(lost, p, func() error { return syscall.EPIPE }); err == nil || p.orders != tk {
		t.Errorf("error %v, orders go to the process that has no reply: %v", err, p.orders == lost)
	}
	// An order waits for its turn up to its deadline only.
	lost.turn <- struct{}{}
	if _, done, late := lost.ask(wire.OrderProfile, time.Now()); done || !late {
		t.Errorf("done %v, late %v for an order that does not get its turn, want only late", done, late)
	}

	// The last reply to a request for segments or for orders makes the connection the one that takes the PE's orders.
	ends = packetPair(t)
	for _, kind := range []uint32{wire.AskSegments, wire.AskOrders} {
		tk := newOrderLine(ends[0])
		if last, err := s.attach.sendSegments(tk, p, wire.AttachRequest{Kind: kind}); !last || err != nil || p.orders != tk || !tk.replied {
			t.Errorf("request of kind %d: last %v, error %v, orders go to another: %v", kind, last, err, p.orders != tk)
		}
	}
}

// A PE gets its job's segments and failure page, hears of failures, and answers orders. The answers say which PEs take no
// orders, have ended or have left.
func TestAskPEs(t *testing.T) {
	s := startTest(t, []App{player(1, "attach", ""), shell(3, "exec sleep 1000")})
	if line := s.line(); line != "0: 4 PEs, 4 segments, 5 descriptors, page true " {
		t.Fatalf("line %q, want the segments of PE 0", line)
	}
	host := pmixHost{s.clients}
	host.ClientConnected(s.name(1), s.pe(1).pid)
	host.ClientFinalized(s.name(1))
	answers := s.Ask(wire.OrderStacks, deadline)
	if len(answers) != 4 {
		t.Fatalf("%d answers, want 4", len(answers))
	}
	if a := answers[0]; !a.Asked || !a.Done || string(a.Text) != "one two" || a.PID != s.PID(a.ID) {
		t.Errorf("answer %+v, want a complete one", a)
	}
	if a := answers[1]; a.Asked || a.Done || !a.Left || a.Ended {
		t.Errorf("answer %+v of a PE that has left", a)
	}
	if a := answers[2]; a.Asked || a.Left || a.Ended {
		t.Errorf("answer %+v of a PE that runs and takes no orders", a)
	}

	host.ClientConnected(s.name(3), s.pe(3).pid)
	kill(t, s.pe(3).pid, syscall.SIGKILL)
	s.next(Failed)
	if line := s.line(); line != "0: alert" {
		t.Errorf("line %q, want PE 0 alerted of PE 3's failure", line)
	}
	s.next(Exited)
	kill(t, s.pe(0).pid, syscall.SIGSTOP)
	awaitState(t, s.pe(0).pid, "stopped", stopped)
	for _, a := range s.Ask(wire.OrderCalls, 10*time.Millisecond) {
		if a.PE == 0 && (a.Done || !a.Late || a.Ended) || a.PE == 3 && !a.Ended {
			t.Errorf("answer %+v", a)
		}
	}
	ended, left := s.orders.stateOf(s.pe(3))
	if !ended || left {
		t.Errorf("PE 3 has ended %v and left %v, want true and false", ended, left)
	}
}

// Go programs of a PE print their stacks and end. Other programs get no signal.
func TestQuitGo(t *testing.T) {
	s := startTest(t, []App{player(1, "sleep", ""), shell(1, `"`+os.Args[0]+`"; echo over`), shell(1, "exec sleep 1000")}, func(c *settings) {
		c.Apps[1].Env = append(c.Apps[1].Env, roleEnv+"=sleep")
	})
	for range 2 {
		if _, text, _ := strings.Cut(s.line(), ": "); text != "ready" {
			t.Fatalf("line %q", text)
		}
	}
	for pe, want := range []bool{true, true, false} {
		if got := s.HasGo(ID{PE: pe}); got != want {
			t.Errorf("PE %d has Go programs: got %v", pe, got)
		}
	}
	if s.HasGo(ID{Job: 4}) {
		t.Error("a PE of no job has Go programs")
	}
	s.QuitGo(ID{Job: 4}, time.Hour)
	s.QuitGo(ID{PE: 2}, time.Millisecond)
	if look(s.pe(2).pid).over() {
		t.Error("a program that is not Go got SIGQUIT")
	}
	for pe := range 2 {
		s.QuitGo(ID{PE: pe}, deadline)
		select {
		case <-s.pe(pe).reaped:
		default:
			t.Errorf("PE %d has not ended", pe)
		}
		stacks := false
		for len(s.lines) > 0 {
			stacks = strings.Contains(s.line(), "SIGQUIT") || stacks
		}
		if !stacks {
			t.Errorf("PE %d has written no stacks", pe)
		}
	}
}
