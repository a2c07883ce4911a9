package job

import (
	"fmt"
	"iter"
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// homes says where the PEs of a job are, as the page of a node's agent says it. It is a copy: processes of the node can write
// the page.
type homes struct {
	npes  int
	parts []layout.NodePart // by node, up to the last one with PEs
	runs  []run             // if there is no list: nodes with PEs, in the order of their PEs
	list  []layout.PE       // as AgentPage.List; nil if each node's PEs have consecutive numbers
	// A PE's place in runs is pe/each if each is not 0: all nodes but the last one have so many PEs, the last one has no
	// more. Otherwise at has what is known of the PE.
	each uint32
	at   []uint32 // by PE: the node << localBits, and the index there
}

// run is the PEs of a node, which have consecutive numbers.
type run struct {
	node  int
	first layout.PE
	count int
}

// localBits is the number of bits of homes.at that an index on a node takes: a node has at most layout.MaxLocal PEs.
const localBits = 16

// The conversions fail to compile if an index or a node does not fit into homes.at.
const (
	_ = uint(1<<localBits - layout.MaxLocal)
	_ = uint(1<<(32-localBits) - layout.WireNodes)
)

// readHomes reads an agent's page. Nodes have all PEs of the job, each once.
func readHomes(page *layout.AgentPage) (h homes, err error) {
	nodes := len(page.Parts)
	for nodes > 1 && page.Parts[nodes-1].Count == 0 {
		nodes--
	}
	h.parts = slices.Clone(page.Parts[:nodes])
	for node, part := range h.parts {
		if part.Count > layout.MaxLocal {
			return h, fmt.Errorf("node %d has %d PEs, want at most %d", node, part.Count, layout.MaxLocal)
		}
		h.npes += int(part.Count)
	}
	if list := page.List(); list != nil {
		return h, h.readList(slices.Clone(list))
	}
	for node, part := range h.parts {
		if part.Count > 0 {
			h.runs = append(h.runs, run{node, layout.PE(part.First), int(part.Count)})
		}
	}
	slices.SortFunc(h.runs, func(x, y run) int { return int(x.first - y.first) })
	next := layout.PE(0)
	for _, r := range h.runs {
		if r.first != next {
			return h, fmt.Errorf("node %d has PEs from %d on, want %d: nodes have all PEs of the job, each once", r.node, r.first, next)
		}
		next += layout.PE(r.count)
	}
	h.index()
	return h, nil
}

// index makes each or at from runs. Each operation on a far PE looks for its home.
func (h *homes) index() {
	last := len(h.runs) - 1
	if last < 0 {
		return
	}
	each := h.runs[0].count
	isRegular := h.runs[last].count <= each
	for _, r := range h.runs[:last] {
		isRegular = isRegular && r.count == each
	}
	if isRegular {
		h.each = uint32(each)
		return
	}
	for _, r := range h.runs {
		for i := range r.count {
			h.at = append(h.at, uint32(r.node)<<localBits|uint32(i))
		}
	}
}

// readList reads the list of an agent's page.
func (h *homes) readList(list []uint32) error {
	if len(list) != h.npes {
		return fmt.Errorf("a list of %d PEs, want %d, as many as the nodes have", len(list), h.npes)
	}
	h.list, h.at = make([]layout.PE, h.npes), make([]uint32, h.npes)
	seen := make([]bool, h.npes)
	next := 0
	for node, part := range h.parts {
		if part.Count > 0 && int(part.First) != next {
			return fmt.Errorf("PEs of node %d are listed from place %d on, want %d", node, part.First, next)
		}
		for i := range int(part.Count) {
			pe := list[next]
			if pe >= uint32(h.npes) || seen[pe] || i > 0 && pe < list[next-1] {
				return fmt.Errorf("place %d of the list has PE %d, want all PEs below %d once, and those of node %d ascending", next, pe, h.npes, node)
			}
			h.list[next], h.at[pe], seen[pe] = layout.PE(pe), uint32(node)<<localBits|uint32(i), true
			next++
		}
	}
	return nil
}

// home returns the node of a PE of the job, and the PE's index there.
func (h *homes) home(pe layout.PE) (node int, local layout.Local) {
	if h.each != 0 {
		r := &h.runs[uint32(pe)/h.each]
		return r.node, layout.Local(pe - r.first)
	}
	at := h.at[pe]
	return int(at >> localBits), layout.Local(at & (1<<localBits - 1))
}

// pes returns the PEs of a node, ascending.
func (h *homes) pes(node int) iter.Seq[layout.PE] {
	var part layout.NodePart
	if node < len(h.parts) { // the nodes behind have none
		part = h.parts[node]
	}
	return func(yield func(layout.PE) bool) {
		for i := part.First; i < part.First+part.Count; i++ {
			pe := layout.PE(i)
			if h.list != nil {
				pe = h.list[i]
			}
			if !yield(pe) {
				return
			}
		}
	}
}

// nodeOf returns the PEs of the node of a PE of the job, ascending.
func (h *homes) nodeOf(pe layout.PE) []layout.PE {
	node, _ := h.home(pe)
	return slices.Collect(h.pes(node))
}

// checkPlace returns an error if a node of these homes does not have the near PEs of a place.
func (h *homes) checkPlace(p Place) error {
	if h.npes != p.NPEs {
		return fmt.Errorf("agent page: the nodes have %d PEs, want the %d of the job", h.npes, p.NPEs)
	}
	node, first := h.home(p.PE(0))
	if first != 0 || int(h.parts[node].Count) != p.Near {
		return fmt.Errorf("agent page: the node of PE %d has %d PEs, want %s", p.PE(0), h.parts[node].Count, p)
	}
	for i := range layout.Local(p.Near) {
		if at, local := h.home(p.PE(i)); at != node || local != i {
			return fmt.Errorf("agent page: PE %d is PE %d of node %d, want %d of %d", p.PE(i), local, at, i, node)
		}
	}
	return nil
}
