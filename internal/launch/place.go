package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Binding says on which processors the PEs run, see plan.Topology.Assign.
type Binding struct {
	Bind     plan.Bind
	Map      plan.Map
	Overload bool
	Report   bool // say it for each PE at the start
	// CPUs are the processors that the job may use; nil: all that this process may.
	CPUs []int
}

// place says on which processors the PEs run. It returns the machine's processors if it had to look at them.
func (o *Options) place(cfg *daemon.Config) (plan.Topology, error) {
	b := &o.Binding
	if !o.Layout.IsHere() {
		if b.Bind > plan.BindNone || b.CPUs != nil || b.Report {
			return nil, &SetUpError{Err: errors.New("--bind-to, --cpu-set and --report-bindings: PEs on several nodes are not bound yet, want a job without these options"), Hint: "--bind-to none"}
		}
		return nil, nil
	}
	wanted := b.Bind > plan.BindNone || b.CPUs != nil
	if b.Bind == plan.BindNone && !wanted && !b.Report && !o.Display.any() {
		return nil, nil
	}
	machine, err := xunix.Topology()
	if err != nil && !wanted {
		return nil, nil // the PEs are not bound: nobody has asked for it
	}
	if err != nil {
		return nil, &SetUpError{Err: fmt.Errorf("--bind-to %s: processors of this machine: %w", b.Bind, err), Hint: "--bind-to none"}
	}
	if b.CPUs != nil {
		if machine, err = machine.Limit(b.CPUs); err != nil {
			return nil, &SetUpError{Err: fmt.Errorf("--cpu-set %s: %w", plan.FormatList(b.CPUs), err), Hint: "oshrun --display allocation --do-not-launch true shows the processors"}
		}
	}
	places, err := machine.Assign(plan.Request{PEs: o.NPEs(), Bind: b.Bind, Map: b.Map, Overload: b.Overload, Limited: b.CPUs != nil})
	if few := (*plan.TooFewError)(nil); errors.As(err, &few) {
		return nil, &SetUpError{Err: err, Hint: fmt.Sprintf("--bind-to %s:overload-allowed, or --bind-to none", few.Bind)}
	}
	cfg.Places, cfg.CPUs = places, b.CPUs
	return machine, err
}

// share returns how many threads run Go code at a time in a PE that is not bound. It divides the
// processors that this process may use, which may be fewer than the machine has.
func share(npes int) int { return max(1, runtime.GOMAXPROCS(0)/npes) }

// reportBindings says where each PE runs.
func (r *run) reportBindings(machine plan.Topology, places []plan.Place) {
	if !r.o.Binding.Report {
		return
	}
	host := hostname()
	var text []byte
	for pe := range places {
		pid := r.cluster.PID(daemon.ID{PE: pe})
		text = fmt.Appendf(text, "[%s:%d] %s\n", host, pid, machine.Report(pe, &places[pe]))
	}
	r.out.printLines(text)
}

// hostname returns the name of this machine.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}
