package job

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// askOrders asks the step to send orders over conn, without segments. It returns the
// reply.
func (j *Job) askOrders(conn *os.File) (wire.AttachReply, error) {
	r, fds, err := requestAttach(conn, &wire.AttachRequest{Nspace: j.Nspace, PE: uint32(j.PE), Incarnation: firstIncarnation, Kind: wire.AskOrders})
	xunix.CloseFDs(fds) // the reply carries none
	if err != nil {
		return r, fmt.Errorf("orders of the step process: %w", err)
	}
	return r, nil
}

// serveOrders carries out orders until the connection ends.
func (j *Job) serveOrders(conn *os.File) {
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
			j.news.wakeUp()
			continue // OrderNews is not answered
		case wire.OrderStacks:
			text = stacks()
		case wire.OrderCalls:
			text = append(calls(), j.awaited()...)
		case wire.OrderProfile:
			j.profile.end()
		}
		if err := sendAnswer(conn, order.Order, text); err != nil {
			return // the step has closed the connection
		}
	}
}

// sendAnswer sends text in as many packets as it needs.
func sendAnswer(conn *os.File, order wire.Order, text []byte) error {
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

	stackMost  = 50 * time.Millisecond // longest wait for goroutines that are leaving a system call
	stackPause = time.Millisecond
)

// stacks returns the stacks of all goroutines but the caller's, as far as they fit into
// mostStacks.
func stacks() (text []byte) {
	for begin := time.Now(); ; {
		if text = goroutines(); !switching(text) || time.Since(begin) > stackMost {
			return text
		}
		<-time.After(stackPause)
	}
}

// switching reports whether a stack in the dump is meaningless. A goroutine that returns from a
// system call may have to give up its thread. The thread then makes it runnable and reads the
// time on its own stack. The runtime (1.26) reports that place as the place of the goroutine.
func switching(stacks []byte) bool { return bytes.Contains(stacks, []byte("\nruntime.mcall(")) }

// goroutines is stacks without the wait.
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
