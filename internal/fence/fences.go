package fence

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// maxAhead is the number of fences of one set that a server may have under way. So many fences ahead of the machine a
// deadline may pass.
const maxAhead = 1024

// Layout says where processes are.
type Layout struct {
	Me    int // this node
	Nodes int // number of nodes
	// NodeOf returns the node of a process. It must know the processes of a job before the server of this node does.
	NodeOf func(p codec.Proc) (node int, ok bool)
	// Radix is that of the tree of nodes, the same on all nodes; 0: tree.DefaultRadix.
	Radix int
}

// OutputKind is the kind of an output.
type OutputKind uint8

// The outputs.
const (
	Send    OutputKind = iota + 1 // send Message to node To
	Called                        // call FenceCalled of the local server with Call
	Expired                       // call FenceExpired of the local server with Call
	Done                          // call FenceDone of the local server with ID, Status and Data
	Fault                         // Err says what another node, the local server or the machine has done wrong
)

// Output is what the driver is to do, in the order of the outputs.
type Output struct {
	Kind    OutputKind
	To      int
	Message *Message
	Call    server.FenceCall
	ID      server.FenceID
	Status  codec.Status
	Data    []byte
	Err     error
}

// Fences is one node's part in the fences of a job. It is a pure core: each method appends to out what the driver is to
// do.
//
// A set of processes keeps its machine for as long as their jobs run, because the machine numbers the fences of the set.
// Between two fences it holds no data. The servers bound the number of sets.
type Fences struct {
	layout Layout
	sets   map[server.FenceSet]*set
	dead   map[int]bool
	// unplaced are fences that the local server has handed in although Layout.NodeOf does not know a participant. The
	// server has its answer, an error. The other nodes get the error as this node's part when they call the fence.
	unplaced map[server.FenceID]codec.Status
	jobs     jobs
}

// NewFences returns the part of a node in which no fence has begun.
func NewFences(l Layout) (*Fences, error) {
	if l.Radix == 0 {
		l.Radix = tree.DefaultRadix
	}
	switch {
	case l.Nodes < 1 || l.Me < 0 || l.Me >= l.Nodes:
		return nil, fmt.Errorf("fences: node %d of %d, want a node from 0 to %d", l.Me, l.Nodes, l.Nodes-1)
	case l.NodeOf == nil:
		return nil, errors.New("fences: NodeOf is nil, want a function")
	case l.Radix < 2:
		return nil, fmt.Errorf("fences: radix %d, want 2 or more", l.Radix)
	}
	return &Fences{
		layout: l, sets: map[server.FenceSet]*set{}, dead: map[int]bool{}, unplaced: map[server.FenceID]codec.Status{},
		jobs: jobs{added: map[string]uint64{}},
	}, nil
}

func fault(out []Output, format string, args ...any) []Output {
	return append(out, Output{Kind: Fault, Err: fmt.Errorf(format, args...)})
}

// Grow takes the news that the job has so many nodes from now on. It has never fewer than before. No set changes, as no
// process changes its node.
func (f *Fences) Grow(nodes int) { f.layout.Nodes = max(f.layout.Nodes, nodes) }

// HandIn takes the local server's part of a fence.
func (f *Fences) HandIn(part *server.FencePart, out []Output) []Output {
	s, out := f.findSet(&part.FenceCall, out)
	if s == nil {
		f.unplaced[part.ID] = codec.StatusErrNotFound
		return append(out, Output{Kind: Done, ID: part.ID, Status: codec.StatusErrNotFound})
	}
	return s.handIn(part, out)
}

// Expire takes the news that a deadline has passed at the local server.
func (f *Fences) Expire(call *server.FenceCall, out []Output) []Output {
	s, out := f.findSet(call, out)
	if s == nil {
		return out
	}
	return s.learn(knownCall{seq: call.ID.Seq, spares: call.Spares, expired: true}, f.layout.Me, out)
}

// Receive takes a message of another node.
func (f *Fences) Receive(from int, m *Message, out []Output) []Output {
	if f.dead[from] {
		return out
	}
	s := f.sets[m.ID.FenceSet]
	if m.Kind == msgCall {
		var err error
		if s, err = f.findCalled(from, m); err != nil {
			return fault(out, "node %d calls fence %v: %w", from, m.ID, err)
		}
		out = s.learn(knownCall{seq: m.ID.Seq, spares: m.Spares, expired: m.Expired}, from, out)
		return f.handInUnplaced(s, m, out)
	}
	if s == nil {
		return fault(out, "node %d sends a message of fence %v, which no node has called", from, m.ID)
	}
	return s.receive(from, m, out)
}

// NodeDead takes the news of a node's death. The call of each fence goes out again first, because the tree changes.
func (f *Fences) NodeDead(node int, out []Output) []Output {
	if node < 0 || node >= f.layout.Nodes || node == f.layout.Me || f.dead[node] {
		return out
	}
	f.dead[node] = true
	for _, id := range slices.SortedFunc(maps.Keys(f.sets), compareSets) {
		out = f.sets[id].nodeDead(node, out)
	}
	return out
}

func compareSets(a, b server.FenceSet) int {
	return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Procs, b.Procs))
}

// findSet returns the set of a fence that the local server names, a new one if there is none. It returns nil if the
// nodes of the set are not known.
func (f *Fences) findSet(call *server.FenceCall, out []Output) (*set, []Output) {
	if s := f.sets[call.ID.FenceSet]; s != nil {
		return s, out
	}
	nodes, err := f.nodesOf(call.Procs)
	if err != nil {
		return nil, fault(out, "fence %v of the local server: %w", call.ID, err)
	}
	s, err := f.newSet(call.ID.FenceSet, nodes, rangesOf(call.Procs))
	if err != nil {
		return nil, fault(out, "fence %v of the local server: %w", call.ID, err)
	}
	return s, out
}

// nodesOf returns the nodes of some processes, ascending.
func (f *Fences) nodesOf(procs []codec.Proc) (nodes []int, err error) {
	in := make([]bool, f.layout.Nodes)
	for _, p := range procs {
		node, ok := f.layout.NodeOf(p)
		if !ok {
			return nil, fmt.Errorf("the node of process %v is not known", p)
		}
		if node < 0 || node >= len(in) {
			return nil, fmt.Errorf("process %v is on node %d, want a node from 0 to %d", p, node, len(in)-1)
		}
		in[node] = true
	}
	for node, takesPart := range in {
		if takesPart {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// findCalled returns the set of a fence that another node calls, a new one if there is none.
func (f *Fences) findCalled(from int, m *Message) (*set, error) {
	s := f.sets[m.ID.FenceSet]
	if s != nil && !slices.Equal(s.nodes, m.Nodes) {
		return nil, fmt.Errorf("among nodes %v, want %v as before", m.Nodes, s.nodes)
	}
	for i, node := range m.Nodes {
		if node < 0 || node >= f.layout.Nodes || i > 0 && node <= m.Nodes[i-1] {
			return nil, fmt.Errorf("among nodes %v, want ascending numbers below %d", m.Nodes, f.layout.Nodes)
		}
	}
	if !slices.Contains(m.Nodes, from) {
		return nil, fmt.Errorf("among nodes %v, want itself to take part", m.Nodes)
	}
	if s == nil {
		var err error
		if s, err = f.newSet(m.ID.FenceSet, m.Nodes, m.Procs); err != nil {
			return nil, err
		}
	}
	if m.ID.Seq > s.returned+1+maxAhead {
		return nil, fmt.Errorf("%d have ended, want a number of at most %d", s.returned, s.returned+1+maxAhead)
	}
	return s, nil
}

// handInUnplaced hands in the error of this node if the local server has had its answer already.
func (f *Fences) handInUnplaced(s *set, m *Message, out []Output) []Output {
	status, ok := f.unplaced[m.ID]
	if !ok {
		return out
	}
	delete(f.unplaced, m.ID)
	return s.handIn(&server.FencePart{FenceCall: server.FenceCall{ID: m.ID, Spares: m.Spares}, Status: status}, out)
}
