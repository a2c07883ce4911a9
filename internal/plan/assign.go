package plan

import (
	"fmt"
	"slices"
)

// Bind says how much of the node a PE may use.
type Bind uint8

// The bindings.
const (
	BindDefault Bind = iota // its share of the cores, see Assign
	BindNone
	BindCore
	BindNUMA
)

// Map says to which core a PE goes.
type Map uint8

// The mappings.
const (
	MapDefault Map = iota // MapSlot
	MapCore               // core after core
	MapSlot               // the same, but if bound to NUMA nodes in equal blocks, neighbors together
)

// Request is a job's wish.
type Request struct {
	PEs      int
	Bind     Bind
	Map      Map
	Overload bool // several PEs may be bound to one core
}

// Place is where a PE runs.
type Place struct {
	CPUs    []int  // that it may use, sorted; nil: any that the job may use
	Unit    string // what they are: "core 3", "numa 0"
	Sharers int    // PEs that have the same, this one included
}

// Procs returns how many threads should run Go code in the PE at a time, where
// so many processors are allowed to the job.
func (p *Place) Procs(allowed int) int {
	if p.CPUs != nil {
		allowed = len(p.CPUs)
	}
	return max(1, allowed/max(p.Sharers, 1))
}

// TooFewError reports a binding for which there are not enough cores.
type TooFewError struct {
	Bind       Bind
	PEs, Cores int
}

// Error says how many there are.
func (e *TooFewError) Error() string {
	return fmt.Sprintf("--bind-to %s: %d PEs, want at most %d, one for each core that may be used", e.Bind, e.PEs, e.Cores)
}

// Assign returns the place of each PE.
//
// By default each PE is bound to its share of the cores, so that no two PEs ever
// meet on one while another is idle, threads of a PE have room, and several jobs
// on a node do not all crowd on its first cores. PEs that are mapped by core are
// bound to cores, as with mpirun, and with more PEs than cores nobody is bound.
//
// More PEs than cores are refused where a binding was asked for, unless overload
// is allowed. The error is a *TooFewError.
func (t Topology) Assign(r Request) ([]Place, error) {
	cores := usable(t.cores())
	few := r.PEs > len(cores)
	bind := r.Bind
	switch {
	case bind == BindDefault && few:
		bind = BindNone
	case bind == BindDefault && r.Map == MapCore:
		bind = BindCore
	case bind > BindNone && few && (!r.Overload || len(cores) == 0):
		return nil, &TooFewError{Bind: bind, PEs: r.PEs, Cores: len(cores)}
	}
	places := make([]Place, r.PEs)
	for pe := range places {
		places[pe] = r.place(bind, cores, pe)
	}
	count(places)
	return places, nil
}

// place returns where a PE runs.
func (r *Request) place(bind Bind, cores []core, pe int) Place {
	switch bind {
	case BindDefault:
		return r.share(cores, pe)
	case BindCore:
		return on(cores[pe%len(cores)])
	case BindNUMA:
		at := r.slot(len(cores), pe)
		if r.Map == MapCore {
			at = pe % len(cores)
		}
		mine := node(cores, cores[at].node)
		p := on(mine...)
		p.Unit = fmt.Sprintf("numa %d", mine[0].node)
		return p
	default:
		return Place{}
	}
}

// slot returns the core at which the part of a PE begins if n cores are divided
// in order, as evenly as it goes.
func (r *Request) slot(n, pe int) int { return pe * n / r.PEs }

// share returns a PE's part of the cores: of those of one NUMA node unless there
// are more nodes than PEs. A PE that has all of them is not bound.
func (r *Request) share(cores []core, pe int) Place {
	if r.PEs == 1 {
		return Place{}
	}
	mine, index, of := cores, pe, r.PEs
	if nodes := byNode(cores); len(nodes) <= r.PEs {
		counts := spread(nodes, r.PEs)
		i := 0
		for ; index >= counts[i]; i++ {
			index -= counts[i]
		}
		mine, of = nodes[i], counts[i]
	}
	n := len(mine)
	return on(mine[index*n/of : (index+1)*n/of]...)
}

// byNode returns the cores of each NUMA node that has any.
func byNode(cores []core) (nodes [][]core) {
	var seen []int
	for _, c := range cores {
		if !slices.Contains(seen, c.node) {
			seen = append(seen, c.node)
			nodes = append(nodes, node(cores, c.node))
		}
	}
	return nodes
}

// spread says how many of the PEs, of which there are as many as nodes at least
// and as cores at most, go to each node: one, and the others one by one to where
// a PE has most cores, so that no core is left without one and PEs have equal parts as far
// as nodes allow.
func spread(nodes [][]core, pes int) []int {
	counts := make([]int, len(nodes))
	for i := range counts {
		counts[i] = 1
	}
	for range pes - len(nodes) {
		richest := 0
		for i := range nodes {
			if len(nodes[i])*counts[richest] > len(nodes[richest])*counts[i] {
				richest = i
			}
		}
		counts[richest]++
	}
	return counts
}

// on returns the place that is made of some cores.
func on(cores ...core) (p Place) {
	var numbers []int
	for _, c := range cores {
		p.CPUs = append(p.CPUs, c.may...)
		numbers = append(numbers, c.index)
	}
	slices.Sort(p.CPUs)
	p.Unit = "core " + FormatList(numbers)
	if len(cores) > 1 {
		p.Unit = "cores " + FormatList(numbers)
	}
	return p
}

// node returns the cores of a NUMA node.
func node(cores []core, number int) (some []core) {
	for _, c := range cores {
		if c.node == number {
			some = append(some, c)
		}
	}
	return some
}

// count notes how many PEs share each place.
func count(places []Place) {
	sharers := map[string]int{}
	for _, p := range places {
		sharers[p.Unit]++
	}
	for i := range places {
		places[i].Sharers = sharers[places[i].Unit]
	}
}

// Union returns how many processors the PEs have between them, where so many are
// allowed to the job.
func Union(places []Place, allowed int) int {
	all := map[int]bool{}
	for _, p := range places {
		if p.CPUs == nil {
			return allowed
		}
		for _, id := range p.CPUs {
			all[id] = true
		}
	}
	return len(all)
}
