package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/nodes"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

const rootHelp = `oshrun starts a program as the PEs of a job, prints their output and exits with
the job's status. The PEs run on this machine, or on the hosts of --host, --hostfile
or a job of Slurm.

Flags end at the first word that is not one: it is the program, and what
follows belongs to it. A program without a slash is a built-in one (graph500, bench),
otherwise it is searched in PATH, as -x may set it.

  oshrun -n 4 graph500 --scale 16
  oshrun -n 2 ./program -v
  oshrun --host a:4,b:4 ./mpi-program

A colon, as a word of its own, separates several programs of one job. Their PEs
are counted through; each program has its own -n, -x, --env, --wdir and hosts, and all other
flags stand before the first one.

  oshrun -n 1 ./master : -n 7 -x ROLE=worker ./worker

Other uses: oshrun info, licenses, doctor, sim, noise, detect-bench, detect-figures, agree-bench, ftco-bench, ulfm-bench, fa-bench, tune, help [exit-codes|environment|output|signals|stats|watchdog|mpirun], completion.

Most options of mpirun, mpiexec.hydra and srun are understood: oshrun help mpirun.`

// runFlags are the flags of a job.
type runFlags struct {
	n       int
	env     []string
	dir     string
	output  []string
	pty     bool
	noPTY   bool
	stdin   string
	timeout string
	heap    string
	recover bool
	uri     string
	verbose bool
	habits  bool // flags of other launchers that change nothing here
	passFlags
	processFlags
	watchdogFlags
	habitFlags
	nodeFlags
	mapping  plan.MapBy // what mapBy says
	rankUnit plan.Bind  // what rankBy says of PEs on a host
}

func (f *runFlags) register(fs *pflag.FlagSet) {
	fs.IntVarP(&f.n, "np", "n", runtime.NumCPU(), "number of PEs; also -np")
	fs.StringArrayVarP(&f.env, "x", "x", nil, "set `VAR=value` for the PEs, or pass VAR on. Without --env none all are passed on,\nto other hosts all but DISPLAY, SSH_* and others of this machine")
	f.registerPass(fs)
	fs.StringVar(&f.dir, "wdir", "", "working directory of the PEs")
	fs.StringSliceVar(&f.output, "output", nil, "tag, timestamp, merge, raw, dir=`D`, or several with commas: begin each line\nwith [PE]<stream>, with the time; stderr into stdout; bytes as they come,\nnot by lines; copy to D/rank.N/stdout and stderr; oshrun help output")
	fs.BoolVar(&f.pty, "pty", false, "let PEs write standard output to a pseudo terminal: programs then show lines at\nonce that they would hold back; the default where oshrun's own is a terminal")
	fs.BoolVar(&f.noPTY, "no-pty", false, "let PEs write standard output to a pipe in any case")
	fs.StringVar(&f.stdin, "stdin", "0", "which `PE` reads standard input: a number, all or none")
	fs.StringVar(&f.timeout, "timeout", "", "end the job after `time`: seconds, or 90s, 5m, 1h30m; exit status 124.\nSays in which call of the library each PE is, and for which PE it waits")
	fs.StringVar(&f.heap, "heap-size", "", "symmetric heap of each PE in `bytes`: 512M, 4G; otherwise SHMEM_SYMMETRIC_SIZE")
	fs.StringVar(&f.uri, "report-uri", "", "write to `file` how PMIx tools of the same user attach; -: to standard output")
	fs.BoolVar(&f.recover, "recover", false, "let the other PEs go on when one has failed; exit status 3 if they finish well")
	f.watchdogFlags.register(fs)
	f.registerProcesses(fs)
	f.registerHabits(fs)
	f.registerNodes(fs)
	f.registerRadix(fs)
	f.heartbeat.register(fs)
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say more: starts, ends, the library's log")
	fs.BoolVar(&f.crowded, "oversubscribe", false, "let hosts that are listed have more PEs than slots; this machine alone takes\nmore PEs than cores anyway")
	fs.BoolVar(&f.habits, "allow-run-as-root", false, "without effect: any user may run jobs")
}

// run starts the job.
func (f *runFlags) run(cmd *cobra.Command, args []string, stdin *os.File) error {
	if err := noneEmpty(cmd.Flags()); err != nil {
		return err
	}
	o, err := f.options(cmd, args)
	if err != nil {
		return err
	}
	o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if f.stdin != "none" && stdin != nil && xunix.Foreground(stdin.Fd()) {
		o.Stdin = stdin
	}
	signals := make(chan os.Signal, 64)
	for _, s := range launch.Signals() {
		if !signal.Ignored(s) || s == os.Interrupt { // as by nohup; a shell without job control ignores interrupts for what it puts in the background
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	mortal := outlivePipes() // the job is ended in order
	defer mortal()
	o.Signals, o.OwnsChildren = signals, true
	if o.Log, err = logger(f.verbose, hasColors(o.Stderr, os.Getenv("NO_COLOR"))); err != nil {
		return err
	}
	status, err := launch.Run(cmd.Context(), *o)
	if err != nil {
		return err
	}
	return &statusError{status: status}
}

// outlivePipes keeps this process alive when the reader of its output or of its messages is gone. SIGPIPE would end it without
// a word. It does not while the process receives the signal: the write fails instead. Ignoring the signal would do the same,
// and PEs would inherit that. The function that it returns
// ends this.
func outlivePipes() (mortal func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// noneEmpty refuses flags that are given without a value: an empty variable of
// a script, most likely.
func noneEmpty(fs *pflag.FlagSet) (err error) {
	wants := map[string]string{
		"wdir": "a directory", "output": outputWords, "timeout": "a positive number of seconds or a duration",
		"heap-size": "a size such as 512M", "stdin": "a PE, all or none", "report-uri": "a file or -",
		"bind-to": strings.Join(plan.BindWords(), ", "), "map-by": strings.Join(plan.MapByWords(), ", "), "pprof": "a directory", "stats": "table or json:FILE", "debug": "PEs such as 3 or 0,2-4",
		"cpu-set": "numbers of processors such as 0-3", "display": strings.Join(displayWords, ", "), "host": "a host", "hostfile": "a file",
		"output-filename": "a directory", "per-node": "a number of PEs", "emulate": "a number of nodes", "launch": launchWants, "prefix": "a directory", "interface": "a network", "data-interface": "a network", "port-range": "LOW-HIGH", "launch-timeout": "a number of seconds or a duration", "lease": "a number of seconds or a duration", "control": "tcp or stdio", "heartbeat-period": "off or a duration such as 100ms", "heartbeat-tier": strings.Join(heartbeatTiers, ", "), "partition": "end or continue", "coll-radix": "a radix from 2 to 64", "ppn": "a number of PEs", "nodes": "a number of hosts", "rank-by": strings.Join(plan.RankWords(), ", "),
		"env": strings.Join(envWords, " or "), "watchdog": "bpf, procconn, pidfd, sigchld or off", "hang-timeout": "a positive number of seconds or a duration",
	}
	fs.Visit(func(f *pflag.Flag) {
		if want := wants[f.Name]; want != "" && (f.Value.String() == "" || f.Value.String() == "[]") {
			err = usagef("", `--%s: "", want %s`, f.Name, want)
		}
	})
	return err
}

func (f *runFlags) options(cmd *cobra.Command, args []string) (*launch.Options, error) {
	apps, layout, err := f.apps(args, cmd.Flags(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	o := &launch.Options{Apps: apps, Layout: layout, Verbose: f.verbose, Recover: f.recover, ReportURI: f.uri}
	if f.emulate == "" {
		o.IsHere = newIsHere()
	}
	if err := errors.Join(f.setOutput(o), f.setStdin(o), f.setTimeout(o), f.setHeap(o), f.setWatchdog(o), f.setData(o)); err != nil {
		return nil, err
	}
	if _, err := f.radixGiven(); err != nil {
		return nil, err // also where the job has one node
	}
	if err := f.heartbeat.set(new(nodes.Config)); err != nil {
		return nil, err // likewise
	}
	if err := f.setBinding(o); err != nil {
		return nil, err // and nothing is made in the file system
	}
	if !layout.IsHere() {
		if f.isApart() && f.uri != "" {
			return nil, usagef("--emulate 2 without netns", "--report-uri: tools reach a job by loopback, and each node of --emulate %s has one of its own", f.emulate)
		}
		if host, elsewhere := layout.Elsewhere(0); elsewhere && f.uri != "" {
			return nil, usagef("--host with this machine first, or no --report-uri", "--report-uri: tools reach a job by loopback on the host of PE 0, which is %s, want PE 0 on this machine", host)
		}
		if err := errors.Join(f.checkElsewhere(), f.setLaunch()); err != nil {
			return nil, err
		}
		if err := f.setStarter(o); err != nil {
			return nil, err
		}
	}
	if layout.HasSpare() {
		if err := errors.Join(f.setLaunch(), f.setSpare(o)); err != nil {
			return nil, err
		}
	}
	if err := f.setHabits(o); err != nil || o.DryRun {
		return o, err
	}
	return o, f.setProcesses(o)
}

func (f *runFlags) setStdin(o *launch.Options) error {
	switch f.stdin {
	case "all":
		o.StdinTo = daemon.Readers{All: true}
		return nil
	case "none":
		return nil
	}
	rank, err := strconv.Atoi(f.stdin)
	if n := o.NPEs(); err != nil || rank < 0 || rank >= n {
		return usagef("--stdin all", "--stdin: %q, want a PE from 0 to %d, all or none", f.stdin, n-1)
	}
	o.StdinTo = daemon.Readers{PEs: []int{rank}}
	return nil
}

func (f *runFlags) setTimeout(o *launch.Options) (err error) {
	o.Timeout, err = duration("--timeout", f.timeout)
	return err
}

func (f *runFlags) setHeap(o *launch.Options) error {
	if f.heap == "" {
		return nil
	}
	size, err := envvar.ParseSize(f.heap)
	if err != nil {
		return usagef("--heap-size 2G", "--heap-size: %w", err)
	}
	o.HeapSize = size
	return nil
}

// logger returns what makes the log that -v and GOSHMEM_LOG ask for, nil for
// none.
func logger(verbose, colors bool) (func(w io.Writer) zerolog.Logger, error) {
	level, err := envvar.LogLevel(os.LookupEnv)
	if err != nil {
		return nil, usagef("oshrun help environment", "%w", err)
	}
	if verbose && level == envvar.LevelOff {
		level = envvar.LevelInfo
	}
	if level == envvar.LevelOff {
		return nil, nil
	}
	parsed, err := zerolog.ParseLevel(level.String())
	if err != nil {
		return nil, err
	}
	return func(w io.Writer) zerolog.Logger {
		console := zerolog.ConsoleWriter{Out: w, NoColor: !colors}
		return zerolog.New(console).Level(parsed).Hook(zerolog.HookFunc(stamp))
	}, nil
}

// stamp adds the time to a line of the log as it is to be shown. zerolog itself keeps times in
// whole seconds, by a variable for the whole process.
func stamp(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format(time.StampMicro))
}

// hasColors says whether text for w may be colored: on a terminal, unless NO_COLOR
// (https://no-color.org) is set to anything.
func hasColors(w io.Writer, noColor string) bool {
	f, isFile := w.(*os.File)
	return isFile && noColor == "" && xunix.IsTerminal(f.Fd())
}
