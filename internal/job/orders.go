package job

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// askOrders asks the step for its orders over conn, where nothing else is wanted
// of it. It returns what the reply says of the job.
func (j *Job) askOrders(conn *net.UnixConn) (wire.AttachReply, error) {
	r, fds, err := request(conn, &wire.AttachRequest{Nspace: j.Nspace, PE: uint32(j.PE), Incarnation: incarnation, Kind: wire.AskOrders})
	xunix.CloseFDs(fds) // there are none
	if err != nil {
		return r, fmt.Errorf("orders of the step process: %w", err)
	}
	return r, nil
}

// obey carries out orders until the connection ends.
func (j *Job) obey(conn *net.UnixConn) {
	packet := make([]byte, wire.MaxPacket)
	for {
		n, err := conn.Read(packet)
		if n == 0 || err != nil {
			return
		}
		order, err := wire.ParseOrder(packet[:n])
		if err != nil {
			fmt.Fprintf(os.Stderr, "goshmem: PE %d: %v\n", j.PE, err)
			return
		}
		var text []byte
		switch order.Order {
		case wire.OrderNews:
			j.news.look()
			continue // without an answer
		case wire.OrderStacks:
			text = stacks()
		case wire.OrderCalls:
			text = append(calls(), j.awaited()...)
		case wire.OrderProfile:
			j.profile.end()
		}
		if err := answer(conn, order.Order, text); err != nil {
			return // the step is gone, or has lost interest
		}
	}
}

// answer sends text in as many packets as it needs.
func answer(conn *net.UnixConn, order wire.Order, text []byte) error {
	for {
		part := text[:min(len(text), wire.MaxText)]
		text = text[len(part):]
		p := wire.OrderPacket{Order: order, Last: len(text) == 0, Text: string(part)}
		if _, err := conn.Write(p.Append(nil)); err != nil || p.Last {
			return err
		}
	}
}

const (
	firstStacks = 64 << 10
	mostStacks  = 16 << 20

	stackMost  = 50 * time.Millisecond // for looks at goroutines that are between a system call and their next step
	stackPause = time.Millisecond
)

// stacks returns the stacks of all goroutines but the one that asks, as far as
// they fit into mostStacks.
func stacks() (text []byte) {
	for begin := time.Now(); ; {
		if text = goroutines(); !switching(text) || time.Since(begin) > stackMost {
			return text
		}
		<-time.After(stackPause)
	}
}

// switching says whether stacks hold one that says nothing. A thread whose goroutine has come
// back from a system call, without leave to run on, makes it runnable and then asks for the time
// on the thread's own stack. The runtime (1.26) takes where a thread asks for the time for where
// its goroutine is.
func switching(stacks []byte) bool { return bytes.Contains(stacks, []byte("\nruntime.mcall(")) }

// goroutines is stacks at this moment.
func goroutines() []byte {
	for size := firstStacks; ; size *= 2 {
		text := make([]byte, size)
		n := runtime.Stack(text, true)
		if n < size || size >= mostStacks {
			_, others, _ := bytes.Cut(text[:n], []byte("\n\n"))
			return others
		}
	}
}
