package fence

import (
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// Server is what the driver needs of this node's server: [server.Server]. A method must not call the driver before it
// returns.
type Server interface {
	FenceCalled(call server.FenceCall)
	FenceExpired(call server.FenceCall)
	FenceDone(id server.FenceID, status codec.Status, data []byte)
	Fetched(p codec.Proc, key string, status codec.Status, packed []byte)
	Serve(p codec.Proc, key string, reply func(status codec.Status, packed []byte))
}

// Config says what a driver connects.
type Config struct {
	Layout
	// Send sends a frame to another node. Frames arrive in order, each once, or not at all if a node dies. Send must not
	// block, and must not call the driver. A caller of Take or NodeDead must not hold a lock that Send takes.
	Send func(node int, f wire.Frame)
	// Fault reports that another node or the local server has broken the protocol: an error of the program, after which
	// fences may not end. Fault must not call the driver. Nil: nobody is told.
	Fault func(err error)
}

// Driver runs Fences, and requests for data, between the server of this node and those of the others. It is the server's
// [server.Remote].
//
//   - Concurrent calls: all methods.
type Driver struct {
	cfg Config

	mu       sync.Mutex
	fences   *Fences
	fetches  fetches
	arriving map[stream]*wire.Assembly
	server   hook.Late[Server] // there from Start on
	outputs  []Output          // room
}

// messageRoom is the room that most messages need beside the value.
const messageRoom = 256

// stream is what one node sends of one kind: its messages come whole, one after the other.
type stream struct {
	node int
	kind wire.Kind
}

var _ server.Remote = (*Driver)(nil)

// New returns a driver. It works at once, and calls the server from Start on.
//
//   - Errors: a layout that cannot be.
func New(cfg Config) (*Driver, error) {
	if cfg.Send == nil {
		return nil, fmt.Errorf("fence driver of node %d: Send is nil, want a function", cfg.Me)
	}
	f, err := NewFences(cfg.Layout)
	if err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, fences: f, arriving: map[stream]*wire.Assembly{}, fetches: fetches{pending: map[uint64]fetch{}}}, nil
}

// Start gives the driver its server, whose Config.Remote is the driver. What other nodes have asked of the server before
// follows now.
func (d *Driver) Start(s Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server.Set(s)
}

func (d *Driver) report(err error) {
	if d.cfg.Fault != nil {
		d.cfg.Fault(err)
	}
}

// Fence implements server.Remote.
func (d *Driver) Fence(part server.FencePart) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.carryOut(d.fences.HandIn(&part, d.outputs[:0]))
}

// Expire implements server.Remote.
func (d *Driver) Expire(call server.FenceCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.carryOut(d.fences.Expire(&call, d.outputs[:0]))
}

// JobAdded implements server.Remote.
func (d *Driver) JobAdded(nspace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fences.JobAdded(nspace)
}

// JobOver implements server.Remote.
func (d *Driver) JobOver(nspace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fences.JobOver(nspace)
}

// Take takes a frame of another node. Frames of other kinds than those of this package are none of the driver's.
func (d *Driver) Take(node int, f wire.Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.Kind != wire.KindFence && f.Kind != wire.KindFetch && f.Kind != wire.KindFetched || d.fences.dead[node] {
		return
	}
	if node < 0 || node >= d.fences.layout.Nodes || node == d.cfg.Me {
		d.report(fmt.Errorf("frame of kind %#x from node %d, want a node from 0 to %d other than %d", f.Kind, node, d.fences.layout.Nodes-1, d.cfg.Me))
		return
	}
	from := stream{node, f.Kind}
	a := d.arriving[from]
	if a == nil {
		a = &wire.Assembly{}
		d.arriving[from] = a
	}
	message, whole, err := a.Add(f.Body, maxBody)
	if err == nil && whole {
		err = d.takeMessage(from, message)
	}
	if err != nil {
		d.report(fmt.Errorf("node %d, frame of kind %#x: %w", node, f.Kind, err))
	}
}

// takeMessage takes a whole message of another node.
func (d *Driver) takeMessage(from stream, message []byte) error {
	switch from.kind {
	case wire.KindFetch:
		return d.serveFetch(from.node, message)
	case wire.KindFetched:
		return d.takeFetched(from.node, message)
	default:
		m, err := ParseMessage(message)
		if err != nil {
			return err
		}
		d.carryOut(d.fences.Receive(from.node, m, d.outputs[:0]))
		return nil
	}
}

// Grow tells the driver that the job has so many nodes from now on.
func (d *Driver) Grow(nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fences.Grow(nodes)
}

// NodeDead tells the driver that another node has died: none of its processes runs any more. Fences and requests that
// need the node end. The driver takes no frame of the node after that.
func (d *Driver) NodeDead(node int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range []wire.Kind{wire.KindFence, wire.KindFetch, wire.KindFetched} {
		delete(d.arriving, stream{node, kind})
	}
	d.carryOut(d.fences.NodeDead(node, d.outputs[:0]))
	d.failFetches(node)
}

// carryOut does what the core asks for.
func (d *Driver) carryOut(outputs []Output) {
	for i := range outputs {
		switch o := outputs[i]; o.Kind { // a copy: a call may wait for Start
		case Send:
			d.send(o.To, wire.KindFence, o.Message.Append(make([]byte, 0, len(o.Message.Value)+messageRoom)))
		case Called:
			d.server.Call(func(s Server) { s.FenceCalled(o.Call) })
		case Expired:
			d.server.Call(func(s Server) { s.FenceExpired(o.Call) })
		case Done:
			d.server.Call(func(s Server) { s.FenceDone(o.ID, o.Status, o.Data) })
		case Fault:
			d.report(o.Err)
		}
	}
	clear(outputs)
	d.outputs = outputs[:0]
}

// send sends a message to another node.
func (d *Driver) send(node int, kind wire.Kind, message []byte) {
	if d.fences.dead[node] {
		return
	}
	for _, body := range wire.Split(message) {
		d.cfg.Send(node, wire.Frame{Kind: kind, Body: body})
	}
}
