package daemon

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// packetPair returns two ends of a connection that keeps packets apart.
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

// A PE that has the reply to its request takes orders, even before the step begins to read answers. An order and news
// that were given before the reply follow it.
func TestOrdersFollowReply(t *testing.T) {
	s := startSleepers(t, 1)
	p := s.jobs[0].procs[0]
	ends := packetPair(t)
	tk := newTaker(ends[0])
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
	err := s.employ(tk, p, func() error {
		go func() { answers <- s.Ask(wire.OrderProfile, 10*time.Second) }()
		s.mu.Lock()
		employed := p.orders == tk
		p.job.stirred = true
		s.mu.Unlock()
		if !employed || len(tk.turn) == 0 {
			t.Error("the reply goes to a PE that takes no orders yet, or may have one before it")
		}
		if takers := s.toStir(); len(takers) != 0 {
			t.Errorf("%d PEs get news before their reply, want none", len(takers))
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
	go func() { _ = s.obey(tk, p) }()
	if _, err := ends[1].Write((&wire.OrderPacket{Order: wire.OrderProfile, Last: true}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; len(a) != 1 || !a[0].Asked || !a[0].Done {
		t.Errorf("answers %+v, want a complete one", a)
	}

	// Who does not get the reply leaves the orders to whom they went before.
	lost := newTaker(ends[0])
	if err := s.employ(lost, p, func() error { return syscall.EPIPE }); err == nil || p.orders != tk {
		t.Errorf("error %v, orders go to the process that has no reply: %v", err, p.orders == lost)
	}
	// An order does not wait for its turn for longer than it may.
	lost.turn <- struct{}{}
	if _, done, late := lost.ask(wire.OrderProfile, time.Now()); done || !late {
		t.Errorf("done %v, late %v of an order that does not get its turn", done, late)
	}

	// The last reply to a request of segments or of orders makes the PE one that takes orders.
	ends = packetPair(t)
	for _, kind := range []uint32{wire.AskSegments, wire.AskOrders} {
		tk := newTaker(ends[0])
		if last, err := s.hand(tk, p, wire.AttachRequest{Kind: kind}); !last || err != nil || p.orders != tk || !tk.replied {
			t.Errorf("request of kind %d: last %v, error %v, orders go to another: %v", kind, last, err, p.orders != tk)
		}
	}
}
