package plan

import (
	"fmt"
	"slices"
)

// Bind says how much of the node a PE may use.
type Bind uint8

// The bindings.
const (
	BindDefault Bind = iota // see Assign
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
	MapSlot               // in blocks: equally many PEs on each NUMA node, neighbors together
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
// More PEs than cores are refused where a binding was asked for, unless overload
// is allowed. The error is a *TooFewError.
func (t Topology) Assign(r Request) ([]Place, error) {
	cores := usable(t.cores())
	bind := r.Bind
	if bind == BindDefault {
		bind = r.usual(cores)
	}
	if bind != BindNone && r.PEs > len(cores) && (!r.Overload || len(cores) == 0) {
		return nil, &TooFewError{Bind: bind, PEs: r.PEs, Cores: len(cores)}
	}
	places := make([]Place, r.PEs)
	for pe := range places {
		at := pe % max(len(cores), 1)
		if r.Map != MapCore && bind == BindNUMA {
			at = pe * len(cores) / r.PEs
		}
		switch bind {
		case BindCore:
			places[pe] = Place{CPUs: cores[at].may, Unit: fmt.Sprintf("core %d", cores[at].index)}
		case BindNUMA:
			places[pe] = Place{CPUs: node(cores, cores[at].node), Unit: fmt.Sprintf("numa %d", cores[at].node)}
		default:
		}
	}
	count(places)
	return places, nil
}

// usual is the binding where none was asked for. As with mpirun, PEs that are
// mapped by core are bound to cores, others to NUMA nodes, and with more PEs than
// cores nobody is bound. A job of fewer PEs than there are NUMA nodes is not
// bound either: its PEs have threads, and would leave a part of the node idle.
func (r *Request) usual(cores []core) Bind {
	nodes := map[int]bool{}
	for _, c := range cores {
		nodes[c.node] = true
	}
	switch {
	case r.PEs > len(cores):
		return BindNone
	case r.Map == MapCore:
		return BindCore
	case r.PEs < len(nodes):
		return BindNone
	default:
		return BindNUMA
	}
}

// node returns the usable processors of a NUMA node.
func node(cores []core, number int) (ids []int) {
	for _, c := range cores {
		if c.node == number {
			ids = append(ids, c.may...)
		}
	}
	slices.Sort(ids)
	return ids
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
