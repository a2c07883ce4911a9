package plan

import (
	"cmp"
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

// Request says how the PEs of a job are to be placed.
type Request struct {
	PEs      int
	Bind     Bind
	Map      Map
	Overload bool // several PEs may be bound to one core
	Limited  bool // the topology was limited: PEs that are not bound otherwise are to all of it
	Rank     Bind // which PE gets which of the places, see rank; BindDefault: as they are mapped
}

// Place is where a PE runs.
type Place struct {
	CPUs    []int  // processors that the PE may use, sorted; nil: any that the job may use
	Unit    string // what the processors are: "core 3", "numa 0", "hwthread 5"
	Sharers int    // PEs that have the same processors, this one included
}

// Procs returns how many threads should run Go code in the PE at a time. The job may
// use allowed processors.
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
// By default each PE is bound to its share of the cores:
//
//   - no two PEs share a core while another core is idle;
//   - the threads of a PE have room;
//   - several jobs on a node do not all crowd on its first cores.
//
// PEs that are mapped by core are bound to cores, as with mpirun, and likewise by
// other units. If there are more PEs than cores, no PE is bound.
//
// If a binding was asked for and there are more PEs than cores, or than hardware
// threads for BindHWThread, the error is a *TooFewError, unless overload is allowed.
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
	countSharers(places)
	if r.Bind != BindNone {
		t.rank(places, r.Rank)
	}
	return places, nil
}

// rank changes which PE has which place, and no place. PEs get places in turn from one unit after the other, and in a unit in
// the order of its cores. BindNone stands for the whole node: its places in the order of the cores.
func (t Topology) rank(places []Place, by Bind) {
	if by == BindDefault || slices.ContainsFunc(places, func(p Place) bool { return p.CPUs == nil }) {
		return
	}
	cores := t.cores()
	coreOf := map[int]int{} // by processor: its core, as an index
	for i := range cores {
		for _, id := range cores[i].ids {
			coreOf[id] = i
		}
	}
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(a, b Place) int {
		return cmp.Or(cmp.Compare(coreOf[a.CPUs[0]], coreOf[b.CPUs[0]]), cmp.Compare(a.CPUs[0], b.CPUs[0]))
	})
	unitOf := func(p *Place) int { return cores[coreOf[p.CPUs[0]]].unit(by, p.CPUs[0]) }
	var units, left []int
	of := map[int][]Place{} // by unit: its places that no PE has yet
	for i := range sorted {
		u := unitOf(&sorted[i])
		at := slices.Index(units, u)
		if at < 0 {
			at = len(units)
			units, left = append(units, u), append(left, 0)
		}
		left[at]++
		of[u] = append(of[u], sorted[i])
	}
	pe := 0
	eachInTurn(left, len(places), func(i int) {
		u := units[i]
		places[pe], of[u] = of[u][0], of[u][1:]
		pe++
	})
}

// unit returns the number of the unit that one of the core's processors is in.
func (c *core) unit(of Bind, cpu int) int {
	switch of {
	case BindNone:
		return 0
	case BindHWThread:
		return cpu
	case BindCore:
		return c.index
	}
	key, _ := keyOf(of)
	return key(c)
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

// thread returns the hardware thread of a PE. If PEs are mapped by hardware thread, it is the
// next one. Otherwise the PEs of a core take its threads by turns.
func (r *Request) thread(cores []core, pe int) Place {
	if r.Map == MapHWThread {
		_, id := nthThread(cores, pe)
		return onThread(id)
	}
	by := *r
	by.Bind = BindCore // neighbors do not share a core while another core has no PE
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

// share returns a PE's part of the cores. They are of one NUMA node, unless there
// are more nodes than PEs. A PE that has all cores is not bound.
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

// spread returns how many PEs go to each node. There are at least as many PEs as nodes, and at
// most as many as cores. Each node gets one PE. Each further PE goes to the node where a PE has
// most cores. So no core is left without a PE, and parts are as equal as the nodes allow.
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

// countSharers notes how many PEs share each place.
func countSharers(places []Place) {
	sharers := map[string]int{}
	for _, p := range places {
		sharers[p.Unit]++
	}
	for i := range places {
		places[i].Sharers = sharers[places[i].Unit]
	}
}

// Union returns how many processors the PEs have between them. The job may use allowed processors.
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
