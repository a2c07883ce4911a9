package mpi

import "github.com/goshmem/goshmem/symheap/layout"

// message is a message that an arriving cell announces, that a receive has met, or that is a record of keptStore.
type message struct {
	env     envelope
	data    []byte    // of a whole message
	size    int       // bytes of the message
	pe      layout.PE // PE of the sender
	sender  uint64    // of an announced message: number of the send there; 0: a whole message
	offset  uint64    // of an announced message: offset of the data in the sender's segment; 0: not there
	addr    uint64    // of an announced message: address of the data in the sender's memory; used if offset is 0
	waits   *request  // of a message of this process to itself: the synchronous send that waits until it is received
	hoarded int32     // of a whole message of another process: its part of what is kept of its sender
	far     bool      // of an announced message: the sender is on another node
}

// hasShare reports whether the message was announced with a share.
func (m *message) hasShare() bool {
	return m.sender != 0 && uint32(m.sender) < layout.Shares && !m.far
}

// messagePool keeps messages and their buffers for use again.
type messagePool struct {
	free []*message
	kept int // bytes in free: buffers, and bufferLeast for each message
}

const (
	poolMost    = 1 << 20 // bytes that a pool keeps at most
	bufferLeast = 128     // bytes of a new buffer at least
)

// get returns a message with n bytes of data.
func (p *messagePool) get(n int) *message {
	if last := len(p.free) - 1; last >= 0 {
		m := p.free[last]
		p.free = p.free[:last]
		p.kept -= cap(m.data) + bufferLeast
		if cap(m.data) < n {
			m.data = make([]byte, n)
		}
		m.data = m.data[:n]
		return m
	}
	m := &message{}
	if n > 0 {
		m.data = make([]byte, n, max(n, bufferLeast))
	}
	return m
}

// put gives a message back.
func (p *messagePool) put(m *message) {
	if p.kept+cap(m.data)+bufferLeast > poolMost {
		return
	}
	*m = message{data: m.data[:0]}
	p.kept += cap(m.data) + bufferLeast
	p.free = append(p.free, m)
}
