package launch

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// Display says what is shown of a job before it starts.
type Display struct {
	Map        bool // which program each PE runs, and where
	Allocation bool // the machine's processors and which of them the job may use
}

func (d *Display) any() bool { return d.Map || d.Allocation }

// display shows what is asked for. Machine is nil where nothing is known of it.
func (o *Options) display(p *printer, machine plan.Topology, cfg *daemon.Config) {
	if !o.Layout.IsHere() {
		o.displayLayout(p)
		return
	}
	host := hostname()
	var text []byte
	if o.Display.Allocation {
		text = fmt.Appendf(text, "allocation: %s\n", allocation(host, machine))
	}
	if o.Display.Map {
		text = fmt.Appendf(text, "map: %d PEs on %s\n", o.NPEs(), host)
	}
	pe := 0
	for i := 0; o.Display.Map && i < len(cfg.Apps); i++ {
		for range cfg.Apps[i].NPEs {
			where := fmt.Sprintf("PE %d is not bound", pe)
			if machine != nil {
				where = machine.Report(pe, &cfg.Places[pe])
			}
			text = fmt.Appendf(text, "%s, program %s\n", where, Printable(cfg.Apps[i].Name))
			pe++
		}
	}
	if len(text) > 0 {
		p.printLines(text)
	}
}

// allocation describes the processors of a machine.
func allocation(host string, machine plan.Topology) string {
	if machine == nil {
		return host + ", its processors are not known"
	}
	return fmt.Sprintf("%s, %d cores, processors %s: %s", host, machine.Cores(), plan.FormatList(machine.Allowed()), machine.Draw(&plan.Place{}))
}

// displayLayout shows what is asked for of a job on other machines.
func (o *Options) displayLayout(p *printer) {
	var text string
	if o.Display.Allocation {
		text += o.Layout.AllocationText()
	}
	if o.Display.Map {
		names := make([]string, len(o.Apps))
		for i := range o.Apps {
			if names[i] = o.Apps[i].Name; names[i] == "" {
				names[i] = o.Apps[i].Program
			}
			names[i] = Printable(names[i])
		}
		text += o.Layout.MapText(names)
	}
	if text != "" {
		p.printLines([]byte(text))
	}
}
