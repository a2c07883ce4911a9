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
	BindSocket
	BindHWThread
	BindL3
)

// Map says to which core a PE goes.
type Map uint8

// The mappings.
const (
	MapDefault  Map = iota // MapSlot
	MapCore                // core after core
	MapSlot                // the same, but if bound to more than a core in equal blocks, neighbors together
	MapNUMA                // in turn to the NUMA nodes, there core after core
	MapSocket              // in turn to the sockets
	MapHWThread            // hardware thread after hardware thread
	MapL3                  // in turn to the cores that share an L3 cache
)

// bindOf is the binding that a mapping brings with it where none is asked for.
var bindOf = map[Map]Bind{MapCore: BindCore, MapNUMA: BindNUMA, MapSocket: BindSocket, MapHWThread: BindHWThread, MapL3: BindL3}

// Request is a job's wish.
type Request struct {
	PEs      int
	Bind     Bind
	Map      Map
	Overload bool // several PEs may be bound to one core
	Limited  bool // the topology was limited: PEs that are not bound otherwise are to all of it
}

// Place is where a PE runs.
type Place struct {
	CPUs    []int  // that it may use, sorted; nil: any that the job may use
	Unit    string // what they are: "core 3", "numa 0", "hwthread 5"
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

// TooFewError reports a binding for which there are not enough cores, or hardware
// threads.
type TooFewError struct {
	Bind       Bind
	PEs, Units int
}

// Error says how many there are.
func (e *TooFewError) Error() string {
	unit := "core"
	if e.Bind == BindHWThread {
		unit = "hardware thread"
	}
	return fmt.Sprintf("--bind-to %s: %d PEs, want at most %d, one for each %s that may be used", e.Bind, e.PEs, e.Units, unit)
}

// Assign returns the place of each PE.
//
// By default each PE is bound to its share of the cores, so that no two PEs ever
// meet on one while another is idle, threads of a PE have room, and several jobs
// on a node do not all crowd on its first cores. PEs that are mapped by core are
// bound to cores, as with mpirun, and likewise by other units; with more PEs than
// cores nobody is bound.
//
// More PEs than cores, or hardware threads if bound to those, are refused where a
// binding was asked for, unless overload is allowed. The error is a *TooFewError.
func (t Topology) Assign(r Request) ([]Place, error) {
	cores := usable(t.cores())
	asked := r.Bind
	if r.Bind == BindDefault {
		r.Bind = bindOf[r.Map]
	}
	units := len(cores)
	if r.Bind == BindHWThread {
		units = len(t.Allowed())
	}
	if few := r.PEs > units; few && asked == BindDefault {
		r.Bind = BindNone
	} else if asked > BindNone && (few && !r.Overload || units == 0) {
		return nil, &TooFewError{Bind: asked, PEs: r.PEs, Units: units}
	}
	places := make([]Place, r.PEs)
	for pe := range places {
		places[pe] = r.place(cores, pe)
		if places[pe].CPUs == nil && r.Limited {
			places[pe].CPUs = t.Allowed()
			places[pe].Unit = "processors " + FormatList(places[pe].CPUs)
		}
	}
	count(places)
	return places, nil
}

// place returns where a PE runs.
func (r *Request) place(cores []core, pe int) Place {
	switch r.Bind {
	case BindDefault:
		return r.share(cores, pe)
	case BindNone:
		return Place{}
	case BindHWThread:
		return r.thread(cores, pe)
	}
	at := r.anchor(cores, pe)
	if r.Bind == BindCore {
		return on(at)
	}
	key, name := keyOf(r.Bind)
	p := on(group(cores, key, key(&at))...)
	p.Unit = fmt.Sprintf("%s %d", name, key(&at))
	return p
}

// keyOf returns what the cores of a unit have in common, and the unit's name.
func keyOf(b Bind) (key func(*core) int, name string) {
	switch b {
	case BindSocket:
		return func(c *core) int { return c.pkg }, "socket"
	case BindL3:
		return func(c *core) int { return c.l3 }, "l3cache"
	default:
		return func(c *core) int { return c.node }, "numa"
	}
}

// anchor returns the core to which a PE is mapped; around it the PE is bound.
func (r *Request) anchor(cores []core, pe int) core {
	switch r.Map {
	case MapNUMA, MapSocket, MapL3:
		key, _ := keyOf(bindOf[r.Map])
		groups := split(cores, key)
		mine := groups[pe%len(groups)]
		return mine[pe/len(groups)%len(mine)]
	case MapHWThread:
		at, _ := nthThread(cores, pe)
		return at
	case MapCore:
		return cores[pe%len(cores)]
	}
	if r.Bind == BindCore {
		return cores[pe%len(cores)]
	}
	return cores[r.slot(len(cores), pe)]
}

// thread returns the hardware thread of a PE: the next one where PEs are mapped by
// hardware thread. Otherwise PEs that have each other's core take its threads by turns.
func (r *Request) thread(cores []core, pe int) Place {
	if r.Map == MapHWThread {
		_, id := nthThread(cores, pe)
		return onThread(id)
	}
	by := *r
	by.Bind = BindCore // neighbors do not share a core while another one has nobody
	at, before := by.anchor(cores, pe), 0
	for other := range pe {
		if by.anchor(cores, other).index == at.index {
			before++
		}
	}
	return onThread(at.may[before%len(at.may)])
}

// onThread returns the place that is one hardware thread.
func onThread(id int) Place {
	return Place{CPUs: []int{id}, Unit: fmt.Sprintf("hwthread %d", id)}
}

// nthThread returns hardware thread number n of the cores, core after core, and its
// core. It begins again after the last one.
func nthThread(cores []core, n int) (core, int) {
	total := 0
	for _, c := range cores {
		total += len(c.may)
	}
	n %= total
	for _, c := range cores {
		if n < len(c.may) {
			return c, c.may[n]
		}
		n -= len(c.may)
	}
	panic("plan: fewer threads than counted")
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
	node, _ := keyOf(BindNUMA)
	if nodes := split(cores, node); len(nodes) <= r.PEs {
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

// split returns the cores of each unit that has any.
func split(cores []core, key func(*core) int) (units [][]core) {
	var seen []int
	for i := range cores {
		if k := key(&cores[i]); !slices.Contains(seen, k) {
			seen = append(seen, k)
			units = append(units, group(cores, key, k))
		}
	}
	return units
}

// group returns the cores of one unit.
func group(cores []core, key func(*core) int, of int) (some []core) {
	for i := range cores {
		if key(&cores[i]) == of {
			some = append(some, cores[i])
		}
	}
	return some
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
