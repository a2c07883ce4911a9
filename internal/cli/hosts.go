package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
)

// habitFlags are flags that options of other launchers are turned into. Hosts are only
// checked: a job runs on this machine.
type habitFlags struct {
	hosts     []string
	hostfile  string
	perNode   string
	ppn       string
	nodes     string
	xAll      []string
	files     string
	crowdless bool
	cpuSet    string
	display   []string
	dryRun    bool
	quiet     bool
}

// displayWords are what --display takes.
var displayWords = []string{"map", "allocation", "bind"}

func (f *habitFlags) registerHabits(fs *pflag.FlagSet) {
	fs.StringVar(&f.cpuSet, "cpu-set", "", "let the job use these processors only: `LIST` is 0-3,8")
	fs.StringSliceVar(&f.display, "display", nil, "show before the start: `map`: where each PE runs; allocation: the processors; bind:\nas --report-bindings")
	fs.BoolVar(&f.dryRun, "do-not-launch", false, "check and display all, and start nothing")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "no hints, and no word about PEs that are stopped, stuck or starved")
	fs.StringArrayVar(&f.hosts, "host", nil, "")
	fs.StringVar(&f.hostfile, "hostfile", "", "")
	fs.StringVar(&f.perNode, "per-node", "", "")
	fs.StringVar(&f.ppn, "ppn", "", "")
	fs.StringVar(&f.nodes, "nodes", "", "")
	fs.StringArrayVar(&f.xAll, "x-all", nil, "")
	fs.StringVar(&f.files, "output-filename", "", "")
	fs.BoolVar(&f.crowdless, "no-oversubscribe", false, "")
	for _, name := range hiddenFlags {
		fs.Lookup(name).Hidden = true // oshrun help mpirun explains them
	}
}

// hiddenFlags are what options of other launchers are turned into.
var hiddenFlags = []string{"host", "hostfile", "per-node", "ppn", "nodes", "x-all", "output-filename", "no-oversubscribe"}

// setHabits applies the flags of the whole job.
func (f *habitFlags) setHabits(o *launch.Options) error {
	for i := range o.Apps {
		o.Apps[i].Env = append(o.Apps[i].Env, f.xAll...)
	}
	if f.files != "" {
		dir, qualifiers, _ := strings.Cut(f.files, ":")
		o.Output.Dir, o.Output.ByJob = dir, true
		for q := range strings.SplitSeq(qualifiers, ",") {
			switch q {
			case "nocopy":
				o.Output.FilesOnly = true
			case "nojobid":
				o.Output.ByJob = false
			case "", "copy":
			default:
				return usagef("--output dir=logs", "--output-filename: %q, want DIR, perhaps with :nocopy or :nojobid", f.files)
			}
		}
	}
	for _, word := range f.display {
		switch word {
		case "map", "map-devel":
			o.Display.Map = true
		case "allocation", "alloc", "topo":
			o.Display.Allocation = true
		case "bind":
			o.Binding.Report = true
		default:
			return usagef("--display map,allocation", "--display: %q, want %s", word, strings.Join(displayWords, ", "))
		}
	}
	if f.cpuSet != "" {
		ids, err := plan.ParseList(f.cpuSet)
		if err != nil || len(ids) == 0 {
			return usagef("--cpu-set 0-3", "--cpu-set: %q, want numbers of processors such as 0-3,8", f.cpuSet)
		}
		o.Binding.CPUs = ids
	}
	o.DryRun, o.Quiet = f.dryRun, f.quiet
	if n := o.NPEs(); f.crowdless && n > runtime.NumCPU() {
		return usagef("leave out --nooversubscribe", "--nooversubscribe: %d PEs, want at most %d, one for each processor", n, runtime.NumCPU())
	}
	return nil
}

// errOneNode is why a job cannot have what a host list asks for.
var errOneNode = errors.New(oneNode)

// countPEs checks that hosts and numbers of nodes mean this machine, and returns how
// many PEs they ask for where -n does not: 0 if they do not say.
func (f *habitFlags) countPEs(n int, isGiven bool, here func(host string) bool) (int, error) {
	slots, err := f.slots(here)
	if err != nil {
		return 0, err
	}
	if f.nodes != "" && f.nodes != "1" && f.nodes != "1-1" {
		return 0, usagef(hintOneNode, "--nodes: %q, want 1: %w", f.nodes, errOneNode)
	}
	perNode := 0
	for name, text := range map[string]string{"-N": f.perNode, "-ppn": f.ppn} {
		if text == "" {
			continue
		}
		if perNode, err = strconv.Atoi(text); err != nil || perNode < 1 {
			return 0, usagef("oshrun -n 4 ./program", "%s: %q, want a number of PEs", name, text)
		}
		// mpirun's -N is a number of processes for a node, srun's one of nodes.
		if name == "-N" && isGiven && n > perNode && perNode != 1 {
			return 0, usagef("oshrun -n "+strconv.Itoa(n)+" ./program", "-N: %d for %d PEs would take several nodes: %w", perNode, n, errOneNode)
		}
	}
	if perNode > 0 {
		return perNode, nil
	}
	return slots, nil
}

// slots checks the hosts that are listed and returns how many PEs they have room
// for, as Open MPI counts: one where a list says nothing else, and in a file as many
// as there are processors.
func (f *habitFlags) slots(here func(host string) bool) (sum int, err error) {
	for _, list := range f.hosts {
		for host := range strings.SplitSeq(list, ",") {
			n, err := slotsOf(host, 1, here)
			if err != nil {
				return 0, usagef("leave the option out, or --host localhost", "--host %s: %w", visible(list), err)
			}
			sum += n
		}
	}
	if f.hostfile == "" {
		return sum, nil
	}
	text, err := os.ReadFile(f.hostfile)
	if err != nil {
		return 0, usagef("leave the option out", "--hostfile: %w", err)
	}
	line, inFile := 0, 0
	for words := range strings.Lines(string(text)) {
		line++
		words, _, _ = strings.Cut(words, "#")
		fields := strings.Fields(words)
		if len(fields) == 0 {
			continue
		}
		n := runtime.NumCPU()
		for _, field := range fields[1:] {
			if slots, ok := strings.CutPrefix(field, "slots="); ok {
				if n, err = strconv.Atoi(slots); err != nil {
					return 0, usagef("localhost slots=4", "--hostfile %s: line %d: %q, want a number", f.hostfile, line, field)
				}
			}
		}
		if n, err = slotsOf(fields[0], n, here); err != nil {
			return 0, usagef("leave the option out", "--hostfile %s: line %d: %w", f.hostfile, line, err)
		}
		inFile += n
	}
	if inFile == 0 {
		return 0, usagef("leave the option out", "--hostfile %s: no host in it, want this machine", f.hostfile)
	}
	if sum > 0 { // --host chooses among the lines
		return sum, nil
	}
	return inFile, nil
}

// slotsOf reads host or host:N and checks that it is this machine.
func slotsOf(text string, slots int, here func(host string) bool) (int, error) {
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "::1") {
		host = text[:i]
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n < 1 {
			return 0, fmt.Errorf("host %q, want NAME or NAME:PEs", text)
		}
		slots = n
	}
	if !here(host) {
		return 0, fmt.Errorf("host %q is not this machine: %w", host, errOneNode)
	}
	return slots, nil
}

// isHere says whether a host is this machine: by its name, with or without a domain,
// or by an address that it has. No name is looked up.
func isHere(host string) bool {
	own, err := os.Hostname()
	short := func(name string) string { first, _, _ := strings.Cut(name, "."); return strings.ToLower(first) }
	ip := net.ParseIP(host)
	switch {
	case host == "localhost":
		return true
	case ip == nil:
		return err == nil && host != "" && short(host) == short(own)
	}
	addrs, _ := net.InterfaceAddrs() // none: only loopback is known
	return ip.IsLoopback() || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// parseMapBy reads --map-by: a word of plan, perhaps with qualifiers of Open MPI.
func (f *runFlags) parseMapBy() (m plan.Map, err error) {
	word, qualifiers, _ := strings.Cut(strings.ToLower(f.mapBy), ":")
	if word == "ppr" {
		return 0, usagef("oshrun -n 4 --map-by socket ./program", "--map-by: %q, want %s: oshrun does not count PEs by unit", f.mapBy, strings.Join(plan.MapWords(), ", "))
	}
	for q := range strings.FieldsFuncSeq(qualifiers, func(r rune) bool { return r == ':' || r == ',' }) {
		switch q {
		case "oversubscribe", "span", "pe=1", "1":
		case "nooversubscribe":
			f.crowdless = true
		default:
			return 0, usagef(hintBind, "--map-by: %q, want %s; %q is not known", f.mapBy, strings.Join(plan.MapWords(), ", "), q)
		}
	}
	if m, err = plan.ParseMap(word); err != nil {
		return 0, usagef("--map-by core", "--map-by: %w", err)
	}
	return m, nil
}
