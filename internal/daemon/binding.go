package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Binding says on which processors of their node the PEs of the first job run, see plan.Topology.Assign. It is plain data,
// which another process can be sent: each node assigns places to its own PEs.
type Binding struct {
	Bind     plan.Bind
	Map      plan.Map
	Rank     plan.Bind // which PE gets which place, see plan.Request
	Overload bool
	Report   bool  // the node's Report has a line for each PE
	CPUs     []int // the processors that the jobs may use; nil: any
}

// Assign returns the processors of this machine and the places of npes PEs on them. Both are nil if nobody has asked for a
// binding, and the processors are not known or not of interest. They are of interest if looks is true.
func (b *Binding) Assign(npes int, looks bool) (plan.Topology, []plan.Place, error) {
	wanted := b.Bind > plan.BindNone || b.CPUs != nil
	if b.Bind == plan.BindNone && !wanted && !b.Report && !looks {
		return nil, nil, nil
	}
	machine, err := xunix.Topology()
	if err != nil && !wanted {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, &HintError{fmt.Errorf("--bind-to %s: processors of this machine: %w", b.Bind, err), "--bind-to none"}
	}
	if b.CPUs != nil {
		if machine, err = machine.Limit(b.CPUs); err != nil {
			return nil, nil, &HintError{fmt.Errorf("--cpu-set %s: %w", plan.FormatList(b.CPUs), err), "oshrun --display allocation --do-not-launch true shows the processors of a machine"}
		}
	}
	places, err := machine.Assign(plan.Request{PEs: npes, Bind: b.Bind, Map: b.Map, Rank: b.Rank, Overload: b.Overload, Limited: b.CPUs != nil})
	if few := (*plan.TooFewError)(nil); errors.As(err, &few) {
		return nil, nil, &HintError{err, fmt.Sprintf("--bind-to %s:overload-allowed, or --bind-to none", few.Bind)}
	}
	return machine, places, err
}

// assignPlaces assigns places to the near PEs of the first job if the front end could not: this may be another machine. It
// returns what is to be reported about them.
func (c *Config) assignPlaces() (report []Bound, err error) {
	if !c.Share.isGiven() || c.Places != nil {
		return nil, nil
	}
	pes := c.Share.neighbors()
	if len(pes) == 0 { // the node is there for spawned jobs, which use these processors
		_, _, err := (&Binding{CPUs: c.Binding.CPUs}).Assign(1, false)
		return nil, err
	}
	machine, places, err := c.Binding.Assign(len(pes), false)
	if err != nil || machine == nil {
		return nil, err
	}
	all := make([]plan.Place, len(c.Share.Homes))
	for i, pe := range pes {
		all[pe] = places[i]
		if c.Binding.Report && c.Share.Homes[pe] == c.Share.Node {
			report = append(report, Bound{PE: pe, Text: machine.Report(pe, &places[i])})
		}
	}
	if slices.ContainsFunc(places, func(p plan.Place) bool { return p.CPUs != nil }) { // otherwise none is bound
		c.Places = all
	}
	return report, nil
}

// neighbors returns the PEs that divide the processors of this machine between them: those of this node, and those of all
// nodes, one node after the other, if these are one machine.
func (s *Share) neighbors() (pes []int) {
	for node := range s.Hosts {
		if node != s.Node && !s.Emulated {
			continue
		}
		for pe, home := range s.Homes {
			if home == node {
				pes = append(pes, pe)
			}
		}
	}
	return pes
}

// Report is what a node says of itself and of its PEs when it has started.
type Report struct {
	Bindings   []Bound  // where the PEs of the node run, in their order; only if Binding.Report asks for it
	Processors int      // how many the node's PEs may use at a time; 0: it is not known
	Agent      string   // the address of the node's agent; empty: there is none
	Programs   []string // by program of the first job: what tells its file from another one; empty: it does not run here
	Heartbeat  HeartbeatAt
}

// Bound says in words where a PE of the first job runs.
type Bound struct {
	PE   int
	Text string
}

// Report is Node.Report.
func (s *Step) Report() Report { return s.report }
