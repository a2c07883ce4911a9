package cli

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
)

// watchdogFlags are the flags about how failures of PEs are noticed.
type watchdogFlags struct {
	watchdog  string
	hang      string
	newsDelay time.Duration
}

// newsDelayFlag is the flag by which ftco-bench has the news of deaths held back in its own jobs.
const newsDelayFlag = "lab-notice-delay"

// mostNewsDelay bounds the flag: the end of a job may have to wait for the news of its last deaths.
const mostNewsDelay = time.Minute

// watchdogOff is the value of --watchdog for none.
const watchdogOff = "off"

// watchdogWords are the values of --watchdog.
var watchdogWords = []string{
	kernel.BPF.String(), kernel.ProcConn.String(), kernel.PIDFD.String(), kernel.SIGCHLD.String(), watchdogOff,
}

func (f *watchdogFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.watchdog, "watchdog", "", "how deaths of PEs are learnt of: `bpf`, procconn, pidfd, sigchld, or off: when\nthey can be reaped. By default the best way that works; oshrun help watchdog")
	fs.StringVar(&f.hang, "hang-timeout", "", "report a PE that for `time` neither calls the library nor waits in it:\nseconds, or 90s, 5m; it is not ended. Put, PutNBI and P count\nfrom the next Quiet, Fence or signal on")
	fs.DurationVar(&f.newsDelay, newsDelayFlag, 0, "hold the news of each death back for `time`; only in jobs of oshrun ftco-bench")
	fs.Lookup(newsDelayFlag).Hidden = true
}

// completeValues says what completes the values of a job's flags. The value of any other flag
// is completed as a file.
func completeValues(cmd *cobra.Command) {
	completeFlags(cmd, map[string][]string{
		"watchdog": watchdogWords, "bind-to": plan.BindWords(), "map-by": plan.MapByWords(), "stdin": {"0", "all", "none"}, "env": envWords,
		"heartbeat-tier": heartbeatTiers, "partition": {partEnds, partGoesOn}, "heartbeat-period": {"100ms", heartbeatOff},
	})
	for name, words := range map[string][]string{"display": displayWords, "output": {"tag", "timestamp", "merge", "raw", "dir="}} {
		_ = cmd.RegisterFlagCompletionFunc(name, completeList(words)) // the flags are there
	}
	completeNothing(cmd, "np", "x", "timeout", "hang-timeout", "heap-size", "cpu-set", "debug", "host", "nodes", "per-node", "coll-radix")
	for _, name := range []string{"wdir", "pprof"} {
		_ = cmd.MarkFlagDirname(name)
	}
}

func (f *watchdogFlags) setWatchdog(o *launch.Options) error {
	switch f.watchdog {
	case "":
	case watchdogOff:
		o.Watchdog.Off = true
	default:
		tier, err := kernel.ParseTier(f.watchdog)
		if err != nil {
			return usagef("--watchdog pidfd", "--watchdog: %q, want bpf, procconn, pidfd, sigchld or off", f.watchdog)
		}
		o.Watchdog.Tier = tier
	}
	var err error
	o.Watchdog.Hang, err = duration("--hang-timeout", f.hang)
	return errors.Join(err, f.setNewsDelay(o))
}

// setNewsDelay refuses the delay in every job but those of ftco-bench: in others it could only do harm.
func (f *watchdogFlags) setNewsDelay(o *launch.Options) error {
	const hint = "oshrun ftco-bench --notice-delay 2s"
	switch {
	case f.newsDelay == 0:
		return nil
	case !o.Recover || slices.ContainsFunc(o.Apps, func(a launch.App) bool { return !isBuiltin(a, ftcoPE) }):
		return usagef(hint, "--%s: only jobs of oshrun ftco-bench have it", newsDelayFlag)
	case f.newsDelay < 0 || f.newsDelay > mostNewsDelay:
		return usagef(hint, "--%s: %v, want 0 to %v", newsDelayFlag, f.newsDelay, mostNewsDelay)
	}
	o.Watchdog.NewsDelay = f.newsDelay
	return nil
}

// duration reads the value of a flag: a number of seconds, or a duration; 0 if it
// is not given.
func duration(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d <= 0 {
		return 0, usagef(flag+" 90s", "%s: %q, want a positive number of seconds or a duration, such as 90s or 5m, of at most %.0fh",
			flag, text, math.Floor(time.Duration(math.MaxInt64).Hours()))
	}
	return d, nil
}

// watchdogRow is a row of watchdogRows.
type watchdogRow struct {
	Tier  string `json:"tier"`
	Needs string `json:"needs"`
	Learn string `json:"learns"`
}

// watchdogRows are the ways in which deaths are learnt of.
var watchdogRows = []watchdogRow{
	{"bpf", "root, or CAP_BPF and CAP_PERFMON; a kernel with BTF", "at the exit, before the kernel takes the PE's memory apart, which takes seconds for large heaps"},
	{"procconn", "CAP_NET_ADMIN on older kernels", "when the memory is given back, from the kernel's process connector"},
	{"pidfd", "Linux 5.3", "when the memory is given back, from a descriptor of the process"},
	{"sigchld", "nothing", "when the memory is given back, by a signal; not of programs that a shell has started"},
	{"off", "nothing", "when the process can be reaped, one goroutine each"},
}

func watchdogText() []byte {
	rows := [][]string{{"TIER", "NEEDS", "A DEATH IS LEARNT OF"}}
	for _, r := range watchdogRows {
		rows = append(rows, []string{r.Tier, r.Needs, r.Learn})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	b.WriteString(`
Without --watchdog the first of these is taken that works; -v says which, and why
none above it is. A tier that is asked for and does not work ends in status 4.

A PE has failed if it was killed by a signal, exited with a status other than 0,
or joined its job and left without Finalize. The others learn of it at once: calls
that need the dead return an error that names it, callbacks run, programs with a
PMIx handler get the event. Without --recover the job ends all the same.

PEs that are stopped, stuck in the kernel, or get no processor are reported once,
and never taken for dead; nor are those that --hang-timeout finds: that neither
enter a call of the library in that time nor wait in one for others. Put and PutNBI
do not count as calls there, as that would slow them down; all others do. Time in
which a PE is ready to run and has no processor does not count. With --watchdog off,
oshrun does not see which PEs are stopped, and --hang-timeout may report them as hung.
`)
	return b.Bytes()
}
