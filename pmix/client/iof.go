package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Output is text that a process wrote.
type Output struct {
	Source wire.Proc
	Stderr bool
	Text   []byte
}

// PullID names a pull.
type PullID uint64

// Streams is a set of outputs.
type Streams uint16

// The outputs.
const (
	Stdout = Streams(wire.IOFStdout)
	Stderr = Streams(wire.IOFStderr)
)

// IOFPull asks for what processes write from now on; a wildcard rank stands for a whole job.
//
// The handler is called by one goroutine for all of the client's pulls, in the order in which the server sends. While it
// takes its time the connection is not read beyond a bounded number of texts: it must not wait for this client's calls,
// and a server drops a tool that it outruns by far.
//
//   - Errors: a StatusError with wire.StatusErrNoPermissions for processes whose output is none of the caller's business.
func (c *Client) IOFPull(ctx context.Context, procs []wire.Proc, streams Streams, handler func(Output)) (PullID, error) {
	id := c.pulls.add(handler)
	r := &wire.IOFPullRequest{Procs: procs, Channels: wire.IOFChannel(streams), ID: uint64(id)}
	answer, err := c.call(ctx, "I/O forwarding", r)
	if err == nil {
		err = c.pulls.confirm(id, answer)
	}
	if err != nil {
		c.pulls.remove(id)
		return 0, err
	}
	return id, nil
}

// IOFDeregister ends a pull. What is on its way is dropped.
func (c *Client) IOFDeregister(ctx context.Context, id PullID) error {
	remote, ok := c.pulls.remove(id)
	if !ok {
		return fmt.Errorf("pmix I/O forwarding: pull %d is not known, want one that IOFPull returned", id)
	}
	return c.status(ctx, "I/O forwarding", &wire.IOFDeregisterRequest{ID: remote})
}

// IOFPush gives processes something to read; eof ends their input.
func (c *Client) IOFPush(ctx context.Context, procs []wire.Proc, data []byte, eof bool) error {
	if len(data) == 0 && !eof {
		return nil
	}
	r := &wire.IOFPushRequest{Procs: procs, Data: data}
	if eof {
		r.Info = []wire.Info{{Key: wire.KeyIOFComplete, Value: wire.BoolValue(true)}}
	}
	return c.status(ctx, "I/O forwarding", r)
}

// Bounds on output that waits, in bytes.
const (
	queuedOutput = 1 << 20 // for the handler
	earlyOutput  = 1 << 20 // of jobs whose spawn is not answered yet
)

// pull is somebody who wants output.
type pull struct {
	handler func(Output)
	remote  uint64
}

// pulls are a client's requests for output, and the output on its way to them.
//
// The server names a pull as the client does, except for that of a spawn, which has the number 0 and is told from others
// by the namespace. That is known only when the spawn is answered, which may be after the first output: until then it is
// kept.
type pulls struct {
	mu      sync.Mutex
	room    sync.Cond // the queue has become shorter, or the client is closed
	lastID  PullID
	all     map[PullID]*pull
	spawned map[string]func(Output)
	spawns  int // under way
	early   backlog
	queue   backlog
	running bool // a goroutine empties the queue
	closed  bool
}

// backlog is output that waits.
type backlog struct {
	texts []wire.IOFMessage
	bytes int
}

func (b *backlog) add(m wire.IOFMessage) {
	b.texts = append(b.texts, m)
	b.bytes += len(m.Data)
}

func newPulls() *pulls {
	p := &pulls{all: map[PullID]*pull{}, spawned: map[string]func(Output){}}
	p.room.L = &p.mu
	return p
}

func (p *pulls) add(handler func(Output)) PullID {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	p.all[p.lastID] = &pull{handler: handler}
	return p.lastID
}

// confirm notes the server's name for a pull.
func (p *pulls) confirm(id PullID, answer []byte) error {
	reply, err := wire.DecodeIOFPullReply(answer)
	if err != nil {
		return fmt.Errorf("pmix I/O forwarding: answer: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.all[id]; q != nil {
		q.remote = reply.ID
	}
	return statusError("I/O forwarding", reply.Status)
}

func (p *pulls) remove(id PullID) (remote uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.all[id]
	if !ok {
		return 0, false
	}
	delete(p.all, id)
	return q.remote, true
}

// beginSpawn says that a spawn that wants output is under way.
func (p *pulls) beginSpawn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawns++
}

// endSpawn says what came of a spawn: a namespace, or none.
func (p *pulls) endSpawn(nspace *string, handler func(Output)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawns--
	if *nspace != "" {
		p.spawned[*nspace] = handler
	}
	early := p.early
	p.early = backlog{}
	for _, m := range early.texts {
		p.sort(m)
	}
}

// pushed takes a frame that the server sent without being asked. It waits while too much is queued, until the client is
// closed.
func (p *pulls) pushed(body []byte) {
	m, err := wire.DecodeIOFMessage(body)
	if err != nil {
		return // a server that sends what is no text has none to tell
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.queue.bytes > queuedOutput && !p.closed {
		p.room.Wait()
	}
	p.sort(m)
}

// sort puts a text where it belongs. The caller holds the lock.
func (p *pulls) sort(m wire.IOFMessage) {
	_, known := p.spawned[m.Source.Nspace]
	switch {
	case p.closed:
	case m.ID != 0 || known:
		p.queue.add(m)
		if !p.running {
			p.running = true
			go p.empty()
		}
	case p.spawns > 0 && p.early.bytes+len(m.Data) <= earlyOutput:
		p.early.add(m)
	}
}

func (p *pulls) empty() {
	for {
		m, handler, ok := p.next()
		if !ok {
			return
		}
		if handler != nil {
			handler(Output{Source: m.Source, Stderr: m.Channel&wire.IOFStdout == 0, Text: m.Data})
		}
	}
}

// next takes a text from the queue and finds the handler for it.
func (p *pulls) next() (m wire.IOFMessage, handler func(Output), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.queue.texts) == 0 {
		p.running = false
		return wire.IOFMessage{}, nil, false
	}
	m = p.queue.texts[0]
	p.queue.texts = p.queue.texts[1:]
	p.queue.bytes -= len(m.Data)
	p.room.Signal()
	if m.ID == 0 {
		return m, p.spawned[m.Source.Nspace], true
	}
	if q := p.all[PullID(m.ID)]; q != nil {
		handler = q.handler
	}
	return m, handler, true
}

// close drops what has not been delivered. A handler that runs is the last one.
func (p *pulls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.queue, p.early = true, backlog{}, backlog{}
	p.room.Broadcast()
}
