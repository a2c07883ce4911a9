package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// CPU is one processor as the kernel counts them: a hardware thread.
type CPU struct {
	ID      int  // the kernel's number
	Package int  // the socket
	Core    int  // a number that the threads of one core have in common
	Node    int  // the NUMA node
	L3      int  // a number that the processors with one L3 cache have in common
	Allowed bool // the job may use it
}

// Topology is the processors of a node, in any order.
type Topology []CPU

// Allowed returns the numbers of the processors that may be used, sorted.
func (t Topology) Allowed() (ids []int) {
	for _, c := range t {
		if c.Allowed {
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Limit returns the topology with only the given processors allowed. All of them
// must be allowed in t.
func (t Topology) Limit(ids []int) (Topology, error) {
	allowed := t.Allowed()
	for _, id := range ids {
		if !slices.Contains(allowed, id) {
			return nil, fmt.Errorf("processor %d, want one of %s, which the job may use", id, FormatList(allowed))
		}
	}
	limited := slices.Clone(t)
	for i := range limited {
		limited[i].Allowed = slices.Contains(ids, limited[i].ID)
	}
	return limited, nil
}

// Cores returns the number of cores of which at least one thread may be used.
func (t Topology) Cores() int { return len(usable(t.cores())) }

// core is the threads of a core.
type core struct {
	index int   // place among all cores of the node
	ids   []int // numbers of all threads, sorted
	may   []int // numbers of the threads that may be used, sorted
	pkg   int
	node  int
	l3    int
}

// cores returns all cores in the order in which PEs are mapped to them: by socket, in a
// socket by NUMA node.
func (t Topology) cores() (all []core) {
	sorted := slices.SortedFunc(slices.Values(t), func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	for i, c := range sorted {
		if before := sorted[max(i-1, 0)]; i == 0 || before.Package != c.Package || before.Node != c.Node || before.Core != c.Core {
			all = append(all, core{index: len(all), pkg: c.Package, node: c.Node, l3: c.L3})
		}
		last := &all[len(all)-1]
		last.ids = append(last.ids, c.ID)
		if c.Allowed {
			last.may = append(last.may, c.ID)
		}
	}
	return all
}

func usable(all []core) (some []core) {
	for _, c := range all {
		if len(c.may) > 0 {
			some = append(some, c)
		}
	}
	return some
}
