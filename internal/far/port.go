package far

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Config is what a Port works with.
type Config struct {
	Wire  *layout.Wire   // the wire region of this PE
	Base  unsafe.Pointer // this PE's segment
	Size  uint64         // bytes of the segment
	Agent *layout.Bell   // the agent's bell
	Event int            // the agent's event descriptor
	// Operations is where the Port counts the operations that it begins; nil: nowhere. Long operations count once, although
	// they take several records.
	Operations *uint64
	Express    *layout.ExpressTraffic // where it counts the bytes of express sockets; nil: nowhere
	// Waiter waits on this PE's bell.
	Waiter *wait.Waiter
	// Home returns the node of a PE and the PE's index there.
	Home  func(pe layout.PE) (node int, local layout.Local)
	Nodes int // at most layout.WireNodes
	// Dead returns an error that names the PE if the PE or its node is known to be dead, nil otherwise.
	Dead func(pe layout.PE) error
	// Lost returns an error if a node as a whole is known to be dead, nil otherwise. The agent has dropped the node
	// before. If Lost is nil, no node is ever known to be lost, and waits for one end by their contexts alone.
	//
	//   - Dead and Lost must not call the Port, which may hold its lock.
	Lost func(node int) error
	// Line is this PE's line to the agent, by which it gets express sockets. 0: it gets none.
	Line        int
	PE          layout.PE // this PE, and its incarnation, as express sockets name it
	Incarnation uint32
}

// Port gives operations to the agent. A process has one Port for its job. Any goroutine may call its methods.
type Port struct {
	mu      wait.Lock
	wire    *layout.Wire
	streams []stream // by class*nodes + node
	nodes   int
	home    func(pe layout.PE) (int, layout.Local)
	agent   *layout.Bell
	event   int
	recent  target  // of the latest operation; its PE is -1 before the first one
	locked  bool    // membarrier does not order the two sides: load the block's state after a locked instruction
	tail    uint64  // Wire.Tail
	begun   *uint64 // Config.Operations

	segment segment
	waiter  *wait.Waiter
	deaths  deaths
	pool    pool

	slots     [layout.WireSlots]slot
	freeSlots []uint16
	pieces    uint32 // bit i: piece i is free
	quotas    quotas
	waits     slotWaits
	pendings  int             // slots that have a Pending
	express   *expressSockets // nil: there are none
}

// New returns a Port. If an earlier Port of this process has used the region, the new one goes on where that one
// stopped; the earlier one must not be used any more.
func New(c Config) (*Port, error) {
	switch {
	case c.Wire == nil || c.Base == nil || c.Agent == nil || c.Waiter == nil || c.Home == nil || c.Dead == nil:
		return nil, errors.New("far: Wire, Base, Agent, Waiter, Home or Dead is nil, want all of them")
	case c.Nodes < 1 || c.Nodes > layout.WireNodes:
		return nil, fmt.Errorf("far: %d nodes, want 1 to %d", c.Nodes, layout.WireNodes)
	}
	p := &Port{
		wire: c.Wire, segment: segment{c.Base, c.Size}, agent: c.Agent, event: c.Event, waiter: c.Waiter, home: c.Home,
		begun: cmp.Or(c.Operations, new(uint64)), nodes: c.Nodes, streams: make([]stream, layout.WireClasses*c.Nodes), pieces: 1<<layout.WirePieces - 1,
		recent: target{pe: -1},
	}
	for i := range p.streams {
		class, node := i/c.Nodes, i%c.Nodes
		p.streams[i] = stream{done: &c.Wire.Done[class][node], class: uint32(class), node: int32(node), peer: -1}
	}
	p.quotas.slots, p.quotas.pieces = newQuota(layout.WireSlots, c.Nodes, reserveSlots), newQuota(layout.WirePieces, c.Nodes, 0)
	p.waits = slotWaits{freed: make([]uint32, c.Nodes), of: make([]int32, c.Nodes)}
	p.deaths = deaths{c.Waiter.Epoch, c.Dead, c.Lost}
	p.pool.wire, p.pool.deaths = c.Wire, &p.deaths
	if !c.Waiter.Expedited() {
		rma.AskLocked(c.Agent)
	}
	p.locked = atomic.LoadUint32(&c.Agent.Sleeping)&layout.BellAsk != 0
	if c.Line > 0 {
		node, local := c.Home(c.PE)
		p.express = &expressSockets{
			p: p, line: c.Line, node: node, local: uint16(local), incarnation: c.Incarnation,
			client: express.NewClient(c.Nodes), sockets: make([]*expressSocket, c.Nodes),
			traffic: cmp.Or(c.Express, new(layout.ExpressTraffic)),
		}
	}
	if err := p.resume(); err != nil {
		return nil, err
	}
	return p, nil
}

// target is the PE of an operation.
type target struct {
	pe    layout.PE
	node  int
	local layout.Local
}

func (p *Port) target(pe layout.PE) target {
	node, local := p.home(pe)
	return target{pe, node, local}
}

// Touched names the nodes that a context has sent records to, and its last record there. The zero value is an empty one. The
// operations of a Port add to it; Quiet empties it. It must be used with one Port. Operations may have nil in its place: no
// Quiet then waits for them.
type Touched struct {
	// Changed is called when the first record since the last Quiet is about to be sent, with false, and when nothing is left
	// that a Quiet would wait for, with true. The Port is locked then: Changed must neither call it nor wait. It is set before
	// the first operation; nil: nobody listens.
	Changed func(empty bool)

	last  []uint64 // by node: the number after the context's last record; 0: none since the last Quiet
	nodes []int32  // the nodes whose last is not 0
	// many is the length of nodes, less only after the answers from a node that was removed were given to their Pendings. A
	// Quiet that finds 0 has nothing to wait for, and needs no lock.
	many uint32
}

// IsEmpty says whether a Quiet has nothing to wait for.
func (t *Touched) IsEmpty() bool { return atomic.LoadUint32(&t.many) == 0 }

// count sets many, and says so if it becomes 0 or is 0 no more. It sets many first: who looks at it then, and listens to
// Changed from the same moment on, misses nothing.
func (t *Touched) count() {
	was, now := t.many, uint32(len(t.nodes))
	rma.StoreRelease32(&t.many, now)
	if (was == 0) != (now == 0) && t.Changed != nil {
		t.Changed(now == 0)
	}
}

// add notes a record. The caller holds the port's lock.
func (t *Touched) add(node, nodes int, next uint64) {
	if t != nil && node < len(t.last) && t.last[node] != 0 {
		t.last[node] = next
		return
	}
	t.addFirst(node, nodes, next)
}

// addFirst is add for the first record since the last Quiet. It is not inlined, so that add is.
//
//go:noinline
func (t *Touched) addFirst(node, nodes int, next uint64) {
	if t == nil {
		return
	}
	if t.last == nil {
		t.last = make([]uint64, nodes)
	}
	if t.last[node] == 0 {
		t.nodes = append(t.nodes, int32(node))
		t.count()
	}
	t.last[node] = next
}

// forget removes the node at position i of the list if its last record is still the given one.
func (t *Touched) forget(i int, node int, last uint64) {
	if t.last[node] != last || i >= len(t.nodes) || int(t.nodes[i]) != node {
		return
	}
	t.last[node] = 0
	end := len(t.nodes) - 1
	t.nodes[i] = t.nodes[end]
	t.nodes = t.nodes[:end]
}

// remember takes back that nodes were forgotten. It gets pairs of a node and its last record.
func (t *Touched) remember(pairs []uint64, nodes int) {
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if node := int(pairs[0]); t.last[node] == 0 {
			t.add(node, nodes, pairs[1])
		}
	}
}

// at returns entry i of the list.
func (t *Touched) at(i int) (node int, last uint64, ok bool) {
	if i >= len(t.nodes) {
		return 0, 0, false
	}
	node = int(t.nodes[i])
	return node, t.last[node], true
}

// Quiet returns when all records that t knows of are executed. The data of gets that t knows of is in place, and their
// Pendings are done.
//
//   - Errors: those of lost nodes, which t then forgets; the cause of ctx; wait.ErrClosed. A dead PE on a living
//     node is no error here: records to it count as executed.
func (p *Port) Quiet(ctx context.Context, t *Touched) error { return p.quiet(ctx, t, -1) }

// QuietPE is Quiet for the records to the node of a PE.
func (p *Port) QuietPE(ctx context.Context, t *Touched, pe layout.PE) error {
	return p.quiet(ctx, t, p.target(pe).node)
}

// quiet is Quiet for one node, or for all of them if only is negative. It visits the list from the end. Others may add to
// the list and remove from it meanwhile: a removal moves an entry that this loop has visited, or a new one, to
// a place that the loop may visit again.
func (p *Port) quiet(ctx context.Context, t *Touched, only int) error {
	if t == nil || t.IsEmpty() {
		return nil
	}
	p.mu.Lock()
	n := len(t.nodes)
	p.mu.Unlock()
	var failed error
	var lost []uint64 // node and last record, of each lost node
	for i := n - 1; i >= 0; i-- {
		p.mu.Lock()
		node, last, ok := t.at(i)
		s := &p.streams[node]
		peer := s.peer
		p.mu.Unlock()
		if !ok || only >= 0 && node != only {
			continue
		}
		err := p.awaitNode(ctx, s, last, peer)
		if err != nil {
			err = fmt.Errorf("quiet: %d of %d records to node %d are executed: %w", s.executed(), last, node, err)
			if !isDeath(err) { // the next Quiet tells of lost nodes: an error of theirs alone says that all else is done
				p.mu.Lock()
				t.remember(lost, p.nodes)
				p.mu.Unlock()
				return err
			}
			failed, lost = errors.Join(failed, err), append(lost, uint64(node), last)
		}
		p.mu.Lock()
		t.forget(i, node, last)
		if p.pendings > 0 {
			p.harvest()
		}
		t.count()
		p.mu.Unlock()
	}
	return failed
}
