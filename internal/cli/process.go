package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
)

// processFlags are the flags about the processes of a job: where they run and
// what is to be known of them.
type processFlags struct {
	bindTo string
	mapBy  string
	report bool
	stacks bool
	pprof  string
	stats  string
	debug  string
}

func (f *processFlags) registerProcesses(fs *pflag.FlagSet) {
	fs.StringVar(&f.bindTo, "bind-to", "", "bind each PE to a `core`, hwthread, l3cache, numa node, socket, or none;\ncore:overload-allowed lets several share one. By default each PE has its share\nof the cores, and with more PEs than cores none is bound. Each host binds its\nown PEs")
	fs.StringVar(&f.mapBy, "map-by", "", "`core`: PEs go to the cores one by one, and are bound to them; likewise\nhwthread, l3cache, numa, socket: in turn; slot, the default: in order, bound to\nmore than a core in equal blocks, neighbors together. On several hosts, these\nfill the slots of one host after the other; node: one PE on each host in turn;\nppr:N:node: N on each; seq: one on each line of --hostfile")
	fs.BoolVar(&f.report, "report-bindings", false, "say at the start where each PE runs")
	fs.BoolVar(&f.stacks, "stacks", false, "when --timeout is over, or on SIGQUIT (Ctrl-\\), print the stacks of all\ngoroutines of the PEs that are Go programs")
	fs.StringVar(&f.pprof, "pprof", "", "write a CPU and a heap profile of each PE to `DIR`/pe.N.cpu.pprof and\npe.N.heap.pprof when it ends; names of PEs of spawned job J begin with job.J.\nOne that is killed leaves none; oshrun says\nwhich PEs have left none, and why. Each host keeps the profiles of\nits own PEs")
	fs.StringVar(&f.stats, "stats", "", "print at the end what each PE has used, as a table, or, as\n--stats=`json:FILE`, write it to a file; oshrun help stats")
	fs.Lookup("stats").NoOptDefVal = statsAlone
	fs.StringVar(&f.debug, "debug", "", "let these `PEs` (3, or 0,2-4) wait for a debugger before their program begins, and\nsay how to attach one; --timeout then does not count, and no timeout reports\nthem; docs/debugging.md")
}

// statsAlone is what --stats without a value stands for.
const statsAlone = "table"

// setProcesses applies the flags.
func (f *processFlags) setProcesses(o *launch.Options) error {
	o.Stacks = f.stacks
	if err := f.setDebug(o); err != nil {
		return err // before files are made
	}
	return errors.Join(f.setPprof(o), f.setStats(o))
}

// setDebug reads which PEs wait for a debugger.
func (f *processFlags) setDebug(o *launch.Options) error {
	if f.debug == "" {
		return nil
	}
	pes, err := plan.ParseList(f.debug)
	if n := o.NPEs(); err != nil || len(pes) == 0 || pes[len(pes)-1] >= n {
		return usagef("oshrun -n 4 --debug 3 ./program", "--debug: %q, want PEs from 0 to %d, such as 3 or 0,2-4", f.debug, n-1)
	}
	o.Debug = pes
	return nil
}

func (f *runFlags) setBinding(o *launch.Options) (err error) {
	b := &o.Binding
	b.Report = f.report
	if f.bindTo != "" {
		if b.Bind, b.Overload, err = plan.ParseBind(f.bindTo); err != nil {
			return usagef("--bind-to core", "--bind-to: %w", err)
		}
	}
	b.Map, b.Rank = f.mapping.Map, f.rankUnit
	if f.mapping.Span && !o.Layout.IsHere() {
		return usagef("--map-by node", "--map-by: %q: qualifier span, want none on several hosts: their PEs are not spread as if they were one", f.mapBy)
	}
	if unit := f.mapping.Unit; unit > plan.BindNone && f.bindTo == "" && b.Map == plan.MapDefault {
		b.Bind, b.Overload = unit, true // ppr:N:unit says how many PEs share one
	}
	return nil
}

// setPprof tells the hosts of the directory, which make it, and the PEs.
func (f *processFlags) setPprof(o *launch.Options) error {
	if f.pprof == "" {
		return nil
	}
	dir, err := filepath.Abs(f.pprof) // PEs may have another working directory
	if err != nil {
		return &launch.SetUpError{Err: fmt.Errorf("--pprof %s: %w", f.pprof, err), Hint: "choose another directory"}
	}
	o.Pprof = dir
	for i := range o.Apps {
		o.Apps[i].Env = append(o.Apps[i].Env, envvar.Pprof+"="+dir)
	}
	return nil
}

func (f *processFlags) setStats(o *launch.Options) error {
	switch name, isJSON := strings.CutPrefix(f.stats, "json:"); {
	case f.stats == "":
		return nil
	case f.stats == statsAlone:
		o.Stats = statsTable
		return nil
	case isJSON && name != "":
		file, err := os.Create(name) // now: at the end it would be too late to say that it does not work
		if err != nil {
			return &launch.SetUpError{Err: fmt.Errorf("--stats: %w", err), Hint: "choose another file"}
		}
		o.Stats = func(s *launch.Stats) ([]byte, error) { return nil, writeStats(file, s) }
		return nil
	default:
		return usagef("--stats=json:FILE", "--stats: %q, want table or json:FILE", f.stats)
	}
}
