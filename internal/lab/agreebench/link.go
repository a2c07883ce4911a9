package agreebench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/tcp"
)

// Time limits of connections. PEs take part in handshakes only while they are in an agreement, and wait for processors.
const (
	dialTimeout    = 20 * time.Second
	silenceTimeout = 20 * time.Second
)

// room is the buffer of a PE for received bytes. Messages are small.
const room = 64 << 10

// A frame has the bytes that follow (u16, little endian), the variant (u8), and a message of package agree.
const frameHeader = 3

// maxFrame is the greatest number of bytes after the length.
var maxFrame = 1 + agree.MostBytes(maxPEs, 0)

// link connects a PE with the others. A PE sends to another one on the connection that it has dialed.
type link struct {
	transport transport.Transport
	events    []transport.Event
	take      func(from int, variant byte, message []byte) error

	buffers [][]byte   // of posts; a post's token is the index of its buffer
	free    []uint64   // buffers that are in no post
	posted  [][]uint64 // by PE: buffers under way, in the order of posts
	partial [][]byte   // by PE: the beginning of a frame that has not come whole
	broken  []error    // by PE: why the connection to it has ended
}

// newTransport returns a transport of a PE, which listens on the loopback interface.
func newTransport(pes, me int, secret tcp.Secret, job [16]byte) (*tcp.Transport, error) {
	return tcp.New(tcp.Config{
		Self: me, Nodes: pes, Incarnation: 1, Secret: secret, Job: job,
		Listen:    []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)},
		Handshake: dialTimeout, Dial: dialTimeout, Silence: silenceTimeout, Pending: maxPEs, Alone: true, Room: room,
	})
}

// newLink connects by t, which is the link's from then on. take gets the messages that come, during poll.
func newLink(t transport.Transport, pes int, take func(from int, variant byte, message []byte) error) *link {
	return &link{
		transport: t, take: take,
		posted: make([][]uint64, pes), partial: make([][]byte, pes), broken: make([]error, pes),
	}
}

// send sends a message about a variant to a PE. It does not wait, and copies the message.
func (l *link) send(to int, variant byte, message []byte) error {
	token := uint64(len(l.buffers))
	if n := len(l.free); n > 0 {
		token = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.buffers = append(l.buffers, nil)
	}
	b := binary.LittleEndian.AppendUint16(l.buffers[token][:0], uint16(1+len(message)))
	b = append(append(b, variant), message...)
	l.buffers[token] = b
	if err := l.transport.Post(to, transport.Out, token, b); err != nil {
		return err
	}
	l.posted[to] = append(l.posted[to], token)
	return nil
}

// underWay reports whether the kernel lacks bytes of a message that was sent.
func (l *link) underWay() bool { return len(l.free) < len(l.buffers) }

// poll moves messages. It waits for that at most as long as the timeout. moved is false if nothing has happened.
func (l *link) poll(timeout time.Duration) (moved bool, err error) {
	if l.events, err = l.transport.Poll(l.events[:0], timeout); err != nil {
		return false, err
	}
	for i := range l.events {
		if err := l.handle(&l.events[i]); err != nil {
			return true, err
		}
	}
	return len(l.events) > 0, nil
}

func (l *link) handle(ev *transport.Event) error {
	switch {
	case ev.Lane == transport.In && ev.Kind == transport.Received:
		return l.receive(ev.Node, ev.Data)
	case ev.Lane == transport.In: // opened or broken: the next byte is the first of a frame
		l.partial[ev.Node] = l.partial[ev.Node][:0]
	case ev.Kind == transport.Sent:
		l.free = append(l.free, ev.Token)
		l.posted[ev.Node] = slices.Delete(l.posted[ev.Node], 0, 1) // Sent events come in the order of posts
	case ev.Kind == transport.Broken || ev.Kind == transport.Refused:
		l.free = append(l.free, l.posted[ev.Node]...)
		l.posted[ev.Node] = l.posted[ev.Node][:0]
		l.broken[ev.Node] = ev.Err
	}
	return nil
}

// receive gives all whole frames to take.
func (l *link) receive(from int, data []byte) error {
	if kept := l.partial[from]; len(kept) > 0 {
		data = append(kept, data...)
	}
	rest := data
	for len(rest) >= 2 {
		n := int(binary.LittleEndian.Uint16(rest))
		if n < 1 || n > maxFrame {
			return fmt.Errorf("%w of PE %d: frame of %d bytes, want 1 to %d", agree.ErrMessage, from, n, maxFrame)
		}
		if len(rest) < 2+n {
			break
		}
		if err := l.take(from, rest[2], rest[frameHeader:2+n]); err != nil {
			return err
		}
		rest = rest[2+n:]
	}
	l.partial[from] = append(l.partial[from][:0], rest...)
	return nil
}

// trouble returns what is known of broken connections to PEs that are not dead, or nil.
func (l *link) trouble(dead []int) error {
	for q, err := range l.broken {
		if err != nil && !slices.Contains(dead, q) {
			return fmt.Errorf("the connection to PE %d: %w", q, err)
		}
	}
	return nil
}

// close ends all connections.
func (l *link) close() error { return l.transport.Close() }
