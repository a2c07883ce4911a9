package daemon

import "sync"

// maxTalk is how many events may wait that PEs can make as many of as they like.
const maxTalk = 1024

// Mailbox passes events on in order. The sender never waits for the receiver.
type Mailbox struct {
	out  chan Event
	wake chan struct{}

	mu    sync.Mutex
	queue []Event
}

// NewMailbox returns an empty mailbox, which Run is to empty.
func NewMailbox() *Mailbox {
	return &Mailbox{out: make(chan Event), wake: make(chan struct{}, 1)}
}

// Out returns the events in the order in which Put has taken them.
func (m *Mailbox) Out() <-chan Event { return m.out }

// Put adds an event. Where too many wait, events that a PE can cause as often as it likes are dropped.
func (m *Mailbox) Put(e Event) {
	m.mu.Lock()
	talk := e.Kind == Lost || e.Kind == Abort
	if !talk || len(m.queue) < maxTalk {
		m.queue = append(m.queue, e)
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// removeFirst takes the oldest event out of the queue; false: there is none.
func (m *Mailbox) removeFirst() (e Event, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return e, false
	}
	e = m.queue[0]
	m.queue = m.queue[1:]
	return e, true
}

// Run hands the events out until quit is closed.
func (m *Mailbox) Run(quit <-chan struct{}) {
	for {
		e, ok := m.removeFirst()
		if !ok {
			select {
			case <-m.wake:
			case <-quit:
				return
			}
			continue
		}
		select {
		case m.out <- e:
		case <-quit:
			return
		}
	}
}
