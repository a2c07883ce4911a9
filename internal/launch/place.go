package launch

import (
	"fmt"
	"os"
	"runtime"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// place says on which processors the PEs run. It returns the machine's processors if it had to look at them. On other
// machines the nodes do that.
func (o *Options) place(cfg *daemon.Config) (machine plan.Topology, err error) {
	cfg.Binding = o.Binding
	if !o.Layout.IsHere() {
		return nil, nil
	}
	machine, cfg.Places, err = o.Binding.Assign(o.NPEs(), o.Display.any())
	if err != nil {
		return nil, &SetUpError{Err: err, Hint: hintAt(err)}
	}
	return machine, nil
}

// share returns how many threads run Go code at a time in a PE that is not bound. It divides the
// processors that this process may use, which may be fewer than the machine has.
func share(npes int) int { return max(1, runtime.GOMAXPROCS(0)/npes) }

// reportBindings says where each PE runs. Other machines are asked for its process, which may take time.
func (r *run) reportBindings(machine plan.Topology, places []plan.Place, s Span) {
	switch {
	case !r.o.Binding.Report:
	case !r.o.Layout.IsHere():
		r.orders.Go(func() {
			if text := bindingsOf(r.cluster, s); len(text) > 0 {
				r.out.printLines(text)
			}
		})
	default:
		host := hostname()
		var text []byte
		for pe := range places {
			text = appendBinding(text, host, r.cluster.PID(daemon.ID{PE: pe}), machine.Report(pe, &places[pe]))
		}
		r.out.printLines(text)
	}
}

// appendBinding appends the line about a PE.
func appendBinding(text []byte, host string, pid int, report string) []byte {
	return fmt.Appendf(text, "[%s:%d] %s\n", host, pid, report)
}

// bindingsOf returns a line about each PE of the first job, in their order. A node that could not find out where its PEs run
// has no lines.
func bindingsOf(c *Cluster, s Span) (text []byte) {
	all := c.Report().Bindings
	pids := make([]int, len(all))
	c.each(func(node int, n Node) {
		for i, b := range all {
			if s.isHome(node, b.PE) {
				pids[i] = n.PID(daemon.ID{PE: b.PE})
			}
		}
	})
	for i, b := range all {
		text = appendBinding(text, s.Hosts[c.home(daemon.ID{PE: b.PE})].Name, pids[i], b.Text)
	}
	return text
}

// hostname returns the name of this machine.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}
