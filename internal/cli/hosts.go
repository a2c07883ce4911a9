package cli

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
)

// habitFlags are flags that options of other launchers are turned into.
type habitFlags struct {
	hosts     []string
	hostfile  string
	perNode   string
	ppn       string
	nodes     string
	rankBy    string
	files     string
	launcher  string   // the command in place of ssh
	onlyHere  []string // options that need this machine alone
	crowdless bool
	crowded   bool
	cpuSet    string
	display   []string
	dryRun    bool
	quiet     bool
}

// displayWords are what --display takes.
var displayWords = []string{"map", "allocation", "bind"}

func (f *habitFlags) registerHabits(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.hosts, "host", nil, "run PEs on the `HOSTS` a:4,b:4, with 4 slots each, or choose among those of a file or of\nSlurm; docs/nodes.md")
	fs.StringVar(&f.hostfile, "hostfile", "", "run PEs on the hosts of this `FILE`, with lines such as: a slots=4 max-slots=8")
	fs.StringVar(&f.nodes, "nodes", "", "use the first `N` hosts")
	fs.StringVar(&f.perNode, "per-node", "", "run `N` PEs on each host, with -n at most N; also -N")
	fs.StringVar(&f.cpuSet, "cpu-set", "", "let the job use these processors only: `LIST` is 0-3,8")
	fs.StringSliceVar(&f.display, "display", nil, "show before the start: `map`: where each PE runs; allocation: the processors; bind:\nas --report-bindings")
	fs.BoolVar(&f.dryRun, "do-not-launch", false, "check and display all, and start nothing")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "no hints, and no word about PEs that are stopped, stuck or starved")
	fs.StringVar(&f.ppn, "ppn", "", "")
	fs.StringVar(&f.rankBy, "rank-by", "", "")
	fs.StringVar(&f.files, "output-filename", "", "")
	fs.StringVar(&f.launcher, "launcher-command", "", "")
	fs.StringArrayVar(&f.onlyHere, "only-here", nil, "")
	fs.BoolVar(&f.crowdless, "no-oversubscribe", false, "")
	for _, name := range hiddenFlags {
		fs.Lookup(name).Hidden = true // oshrun help mpirun explains them
	}
}

// hiddenFlags are what options of other launchers are turned into.
var hiddenFlags = []string{"ppn", "rank-by", "x-all", "env-all", "output-filename", "no-oversubscribe", "launcher-command", "only-here"}

// setHabits applies the flags of the whole job.
func (f *habitFlags) setHabits(o *launch.Options) error {
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
	if n := o.NPEs(); f.crowdless && o.Layout == nil && n > runtime.NumCPU() {
		return usagef("leave out --nooversubscribe", "--nooversubscribe: %d PEs, want at most %d, one for each processor", n, runtime.NumCPU())
	}
	return nil
}

// checkElsewhere refuses options that have no effect where a job has several hosts, and should have one.
func (f *habitFlags) checkElsewhere() error {
	if len(f.onlyHere) == 0 {
		return nil
	}
	name := f.onlyHere[0]
	why, hint := "oshrun copies no files to other hosts", "leave the option out; programs and files have the same path on all hosts"
	switch strings.TrimLeft(name, "-") {
	case "enable-x":
		why, hint = "oshrun passes on no display", "oshrun -x DISPLAY, with a display that all hosts reach"
	case "localhost":
		why, hint = "daemons find this machine by its addresses", "oshrun --interface eth0, or 10.0.0.0/8"
	case "order-nodes":
		why, hint = "hosts are used in the order in which they are listed", "leave the option out"
	case "max-vm-size":
		why, hint = "oshrun has a daemon on each host with PEs", "oshrun --nodes 4 uses the first 4 hosts"
	}
	return usagef(hint, "%s: %s", name, why)
}

// setLaunch makes a command in place of ssh the way in which daemons are started.
func (f *runFlags) setLaunch() error {
	words, err := splitWords(f.launcher)
	switch {
	case err != nil:
		return usagef(hintTable, "a command in place of ssh: %q: %w", f.launcher, err)
	case len(words) == 0:
		return nil
	case f.launch != "" && f.launch != "ssh":
		return usagef("leave one out", "--launch %s, and %s in place of ssh: they exclude each other", f.launch, f.launcher)
	}
	f.launch = "exec:" + f.launcher
	if filepath.Base(words[0]) == "ssh" {
		f.launch += " -o BatchMode=yes" // it must not ask for anything
	}
	f.launch += " {host}"
	return nil
}

// newIsHere returns what says whether a host is this machine.
func newIsHere() func(host string) bool {
	own, _ := os.Hostname() // without one, no host has this name
	return isHereBy(own)
}

// isHereBy does so for a machine with a name: by this name, where a domain that one side lacks does not
// count, by the name that Slurm has for it, or by an address. No name is looked up.
func isHereBy(own string) func(host string) bool {
	slurm, _ := os.LookupEnv("SLURMD_NODENAME") // where several nodes of Slurm are one machine
	addrs := sync.OnceValue(func() []net.Addr {
		addrs, _ := net.InterfaceAddrs() // none: only loopback is known
		return addrs
	})
	return func(host string) bool {
		if strings.EqualFold(host, "localhost") {
			return true
		}
		ip := net.ParseIP(host)
		if ip == nil {
			return host != "" && (sameHost(host, own) || strings.EqualFold(host, slurm))
		}
		return ip.IsLoopback() || slices.ContainsFunc(addrs(), func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
	}
}

// sameHost says whether two names can be one host's: they are the same, or are so without the domain that one of them has.
func sameHost(a, b string) bool {
	shortA, _, hasA := strings.Cut(a, ".")
	shortB, _, hasB := strings.Cut(b, ".")
	return strings.EqualFold(a, b) || hasA != hasB && strings.EqualFold(shortA, shortB)
}
