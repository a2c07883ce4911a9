package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Forwarding carries the input and output of other processes.
type Forwarding struct {
	session *session
	outputs *outputs
}

// Output is text that a process wrote.
type Output struct {
	Source codec.Proc
	Stderr bool
	Text   []byte
}

// PullID names a pull.
type PullID uint64

// Streams is a set of outputs.
type Streams uint16

// The outputs.
const (
	Stdout = Streams(codec.IOFStdout)
	Stderr = Streams(codec.IOFStderr)
)

// Pull asks for what processes write from now on; a wildcard rank stands for a whole job.
//
// One goroutine calls the handlers of all pulls of the client, in the order in which the server sends the texts. While
// handlers fall behind, the client queues a bounded amount of text and then stops reading from the connection. So a
// handler must not wait for a call of this client, and a server may drop a tool that falls far behind.
//
//   - Errors: a StatusError with codec.StatusErrNoPermissions for processes whose output the caller may not read.
func (f *Forwarding) Pull(ctx context.Context, procs []codec.Proc, streams Streams, handler func(Output)) (PullID, error) {
	id := f.outputs.addPull(handler)
	r := &codec.IOFPullRequest{Procs: procs, Channels: codec.IOFChannel(streams), ID: uint64(id)}
	answer, err := f.session.request(ctx, "I/O forwarding", r)
	if err == nil {
		err = f.outputs.confirmPull(id, answer)
	}
	if err != nil {
		f.outputs.removePull(id)
		return 0, err
	}
	return id, nil
}

// Deregister ends a pull. Output on its way to the handler is dropped.
func (f *Forwarding) Deregister(ctx context.Context, id PullID) error {
	remote, ok := f.outputs.removePull(id)
	if !ok {
		return fmt.Errorf("pmix I/O forwarding: unknown pull %d, want one that Pull returned", id)
	}
	return f.session.requestStatus(ctx, "I/O forwarding", &codec.IOFDeregisterRequest{ID: remote})
}

// Push sends data to the standard input of processes; eof ends their input.
func (f *Forwarding) Push(ctx context.Context, procs []codec.Proc, data []byte, eof bool) error {
	if len(data) == 0 && !eof {
		return nil
	}
	r := &codec.IOFPushRequest{Procs: procs, Data: data}
	if eof {
		r.Info = []codec.Info{{Key: codec.KeyIOFComplete, Value: codec.BoolValue(true)}}
	}
	return f.session.requestStatus(ctx, "I/O forwarding", r)
}

// Bounds on waiting output, in bytes.
const (
	maxQueuedOutput = 1 << 20 // output that waits for handlers
	maxEarlyOutput  = 1 << 20 // output of jobs whose spawn is not answered yet
)

// pull is one request for output.
type pull struct {
	handler func(Output)
	remote  uint64 // the server's name for the pull
}

// outputs holds a client's requests for output, and the output on its way to their handlers.
//
// Output carries the client's name for the pull. Output of a spawned job carries the number 0 instead, and only its
// namespace tells it from other jobs' output. The client learns the namespace from the answer to the spawn, which may
// come after the first output: until then early keeps that output.
type outputs struct {
	mu      sync.Mutex
	room    sync.Cond // signaled when queue becomes shorter, or the client is closed
	lastID  PullID
	pulls   map[PullID]*pull
	spawned map[string]func(Output) // handlers of spawned jobs by namespace
	spawns  int                     // number of spawns under way that want output
	early   backlog                 // output of jobs whose spawn is not answered yet
	queue   backlog                 // output that waits for handlers
	running bool                    // a goroutine drains the queue
	closed  bool
}

// backlog is a list of waiting texts.
type backlog struct {
	texts []codec.IOFMessage
	bytes int // length of all texts
}

func (b *backlog) add(m codec.IOFMessage) {
	b.texts = append(b.texts, m)
	b.bytes += len(m.Data)
}

func newOutputs() *outputs {
	o := &outputs{pulls: map[PullID]*pull{}, spawned: map[string]func(Output){}}
	o.room.L = &o.mu
	return o
}

func (o *outputs) addPull(handler func(Output)) PullID {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastID++
	o.pulls[o.lastID] = &pull{handler: handler}
	return o.lastID
}

// confirmPull decodes the answer to a pull and notes the server's name for it.
func (o *outputs) confirmPull(id PullID, answer []byte) error {
	reply, err := codec.DecodeIOFPullReply(answer)
	if err != nil {
		return fmt.Errorf("pmix I/O forwarding: answer: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.pulls[id]; q != nil {
		q.remote = reply.ID
	}
	return statusError("I/O forwarding", reply.Status)
}

// removePull removes a pull and returns the server's name for it.
func (o *outputs) removePull(id PullID) (remote uint64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok := o.pulls[id]
	if !ok {
		return 0, false
	}
	delete(o.pulls, id)
	return q.remote, true
}

// beginSpawn notes that a spawn that wants output is under way.
func (o *outputs) beginSpawn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spawns++
}

// endSpawn notes the result of a spawn, a namespace or none, and sorts the early output.
func (o *outputs) endSpawn(nspace *string, handler func(Output)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spawns--
	if *nspace != "" {
		o.spawned[*nspace] = handler
	}
	early := o.early
	o.early = backlog{}
	for _, m := range early.texts {
		o.enqueue(m)
	}
}

// receive handles a frame with output from the server. While the queue is full, it waits, until the client is closed.
func (o *outputs) receive(body []byte) {
	m, err := codec.DecodeIOFMessage(body)
	if err != nil {
		return // malformed output is dropped
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queue.bytes > maxQueuedOutput && !o.closed {
		o.room.Wait()
	}
	o.enqueue(m)
}

// enqueue queues a text for its handler, keeps it with the early output, or drops it. The caller holds the lock.
func (o *outputs) enqueue(m codec.IOFMessage) {
	_, known := o.spawned[m.Source.Nspace]
	switch {
	case o.closed:
	case m.ID != 0 || known:
		o.queue.add(m)
		if !o.running {
			o.running = true
			go o.drain()
		}
	case o.spawns > 0 && o.early.bytes+len(m.Data) <= maxEarlyOutput:
		o.early.add(m)
	}
}

// drain calls handlers until the queue is empty.
func (o *outputs) drain() {
	for {
		m, handler, ok := o.dequeue()
		if !ok {
			return
		}
		if handler != nil {
			handler(Output{Source: m.Source, Stderr: m.Channel&codec.IOFStdout == 0, Text: m.Data})
		}
	}
}

// dequeue removes the first text from the queue and returns it with its handler; nil if its pull has ended.
func (o *outputs) dequeue() (m codec.IOFMessage, handler func(Output), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.queue.texts) == 0 {
		o.running = false
		return codec.IOFMessage{}, nil, false
	}
	m = o.queue.texts[0]
	o.queue.texts = o.queue.texts[1:]
	o.queue.bytes -= len(m.Data)
	o.room.Signal()
	if m.ID == 0 {
		return m, o.spawned[m.Source.Nspace], true
	}
	if q := o.pulls[PullID(m.ID)]; q != nil {
		handler = q.handler
	}
	return m, handler, true
}

// close drops all output that has not been delivered. No handler is called after the one that runs.
func (o *outputs) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue, o.early = true, backlog{}, backlog{}
	o.room.Broadcast()
}
