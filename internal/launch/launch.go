// Package launch runs a job from its command line to its exit status: it
// starts the nodes, decides what each end of a PE means for the job, forwards
// signals, keeps time and prints the PEs' output.
//
// The package sees the nodes through Cluster and Node. Only startHere knows that
// the node of this process is a daemon.Step.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The exit statuses of oshrun that are not those of a PE.
const (
	StatusOK          = 0
	StatusError       = 1 // a PE left without Finalize; output could not be written
	StatusUsage       = 2
	StatusTolerated   = 3 // PEs failed, and others went on and finished
	StatusSetUp       = 4
	StatusTimeout     = 124
	StatusSignal      = 128 // plus the signal's number
	StatusInterrupted = StatusSignal + int(syscall.SIGINT)
	StatusPipe        = StatusSignal + int(syscall.SIGPIPE) // nobody reads the output any more
)

// grace is the time between asking PEs to end and killing them. All is over within
// two seconds: grace and the times for unread output and messages leave a third of a
// second, in which the kernel frees the PEs' heaps.
const grace = 750 * time.Millisecond

// App is a program and how many PEs run it. The PEs of a job's apps are counted
// through.
type App struct {
	NPEs    int
	Program string   // as the user wrote it: the node searches it in PATH of Env if it has no slash
	Args    []string // its arguments
	Name    string   // argument 0; empty: Program
	Env     []string // its environment; nil: this process's
	Dir     string   // its working directory, on all nodes; empty: this process's
}

// Options says what to run and how.
type Options struct {
	Apps     []App
	Layout   *plan.Layout                // on which hosts the PEs run; nil: on this machine
	Exported func(env []string) []string // what programs on other hosts get of an environment of this one; nil: all
	IsHere   func(host string) bool      // says whether a host's name is this machine's; nil: none is
	HeapSize uint64                      // bytes; 0: what the environment of the first app says, or the default
	Output   Output
	PTY      PTY // whether PEs write their standard output to pseudo terminals
	Stdin    *os.File
	StdinTo  daemon.Readers // which PEs read Stdin; zero: PE 0
	Timeout  time.Duration  // 0: none
	Stacks   bool           // at a timeout, or SIGQUIT, Go PEs say where they are
	Pprof    string         // directory for profiles of the PEs on each host; empty: none
	Binding  daemon.Binding
	Stats    func(*Stats) ([]byte, error) // makes lines to be printed at the end; nil: none
	Verbose  bool
	Quiet    bool // nothing is said of PEs that are stopped, stuck or starved
	Display  Display
	Debug    []int // PEs that wait for a debugger at their first instruction
	DryRun   bool  // nothing is started once all is checked and displayed
	// Recover lets the other PEs go on when one has failed.
	Recover bool
	// DataNetwork is the interface by which PEs are to reach those of other nodes, see daemon.Config.
	DataNetwork string
	DataPorts   [2]uint16       // the lowest and the highest port at which agents may listen; zero: any
	Watchdog    daemon.Watchdog // how ends of PEs are learnt of
	// ReportURI is a file for what tools need to attach, - for standard output;
	// empty: none may.
	ReportURI string
	Stdout    io.Writer
	Stderr    io.Writer
	Signals   <-chan os.Signal // to be forwarded; may be nil
	// Log returns a logger that writes to w, which never blocks. Nil: there is no log.
	Log func(w io.Writer) zerolog.Logger
	// OwnsChildren says that this process has no children but the job's.
	OwnsChildren bool
	// Starter starts the nodes of the layout. Nil: the layout is this machine.
	Starter Starter
}

// SetUpError reports a job that could not be started.
type SetUpError struct {
	Err  error
	Hint string
}

// Error returns the cause.
func (e *SetUpError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SetUpError) Unwrap() error { return e.Err }

// Run runs a job to its end and returns its exit status. It writes the output of the PEs and its
// own messages to Stdout and Stderr. An error is a *SetUpError, and nothing was run.
func Run(ctx context.Context, o Options) (status int, err error) {
	at := Starter(hereStarter{})
	switch {
	case o.growsHere():
		at = localStarter{Starter: o.Starter}
	case o.Starter != nil:
		at = o.Starter
	}
	return o.run(ctx, at)
}

// run is Run with what starts the node.
func (o *Options) run(ctx context.Context, at Starter) (status int, err error) {
	cfg, err := o.config()
	if err != nil {
		return StatusSetUp, err
	}
	if err := at.Check(&cfg); err != nil {
		return StatusSetUp, &SetUpError{Err: err, Hint: hintAt(err)}
	}
	machine, err := o.place(&cfg)
	if err != nil {
		return StatusSetUp, err
	}
	if o.DryRun {
		o.Output.Dir = "" // no files of PEs that there will not be
	}
	p, err := newPrinter(o)
	if err != nil {
		return StatusSetUp, &SetUpError{Err: err, Hint: "choose another --output dir"}
	}
	cfg.Raw, cfg.Merge, cfg.PTY = p.o.Raw, p.o.Merge, o.pty()
	o.display(p, machine, &cfg)
	if o.DryRun {
		p.flush()
		return StatusOK, p.close()
	}
	span := o.span()
	input := o.feeders(span.nodes())
	logger := o.logger(p)
	further := &spawns{o: o, mostOnNode: cfg.MostPEs}
	began := time.Now()
	nodes, early, err := o.startNodes(ctx, at, cfg, func(node int) daemon.Hooks {
		hooks := o.hooks(p, logger)
		hooks.Credit = func(c daemon.Credit) { input.credit(node, c) }
		hooks.Spawn, hooks.Began = further.take, began
		return hooks
	})
	if early.end > 0 {
		p.message("%v", err)
		p.flush()
		return StatusSignal + int(early.end), p.close()
	}
	if err != nil {
		p.flush() // what is displayed comes before the error
		_ = p.close()
		return StatusSetUp, &SetUpError{Err: err, Hint: hintAtStart(err)}
	}
	cluster := NewCluster(nodes, span.Homes)
	startGrowth(cluster, span, o.spare())
	further.begin(cluster)
	takeBack, err := o.reportURI(cluster, p)
	if err != nil {
		err = errors.Join(err, cluster.Close())
		p.flush()
		return StatusSetUp, &SetUpError{Err: errors.Join(err, p.close()), Hint: "choose another file"}
	}
	defer takeBack()
	r := newRun(o, cluster, p)
	r.log = logger
	if err := cluster.Launch(); err != nil {
		r.left, r.ending, r.status = 0, true, StatusSetUp
		r.finish(ctx)
		return r.status, &SetUpError{Err: err, Hint: hintAt(err)}
	}
	for _, s := range early.kept {
		r.signal(s)
	}
	input.begin(cluster, func(text string) {
		r.log.Error().Msg(text)
		p.message("%s", text)
	})
	defer input.end()
	r.reportBindings(machine, cfg.Places, span)
	o.printDebug(cluster, p)
	r.loop(ctx)
	r.orders.Wait()
	close(r.over)
	r.tier = cluster.Tier()
	r.conclude()
	r.finish(ctx)
	return r.status, nil
}

// hintAtStart says what helps where a node cannot be set up.
func hintAtStart(err error) string {
	if tier := new(kernel.TierError); errors.As(err, &tier) {
		return fmt.Sprintf("--watchdog %v takes %s; without the flag, the best way that works is taken", tier.Tier, tier.Missing)
	}
	if hint := hintAt(err); hint != "" {
		return hint
	}
	return "oshrun doctor says what this machine can do"
}

// hintAt says what helps a job that could not be launched; empty: that is not known.
func hintAt(err error) string {
	hint := new(daemon.HintError)
	switch {
	case errors.As(err, &hint):
		return hint.Hint
	case errors.Is(err, syscall.EMFILE):
		return "fewer PEs, or a higher limit: ulimit -n; oshrun doctor says how many files a job takes"
	case errors.Is(err, syscall.EAGAIN):
		return "fewer PEs, or a higher limit of processes: ulimit -u"
	}
	return ""
}

// config turns the options into what the node runs.
func (o *Options) config() (daemon.Config, error) {
	n := o.span().mostOnNode(o.NPEs())
	if n < 1 || n > layout.MaxLocal {
		return daemon.Config{}, &SetUpError{Err: fmt.Errorf("number of PEs: %d, want %s", n, WantPEs()), Hint: "a smaller -n"}
	}
	cfg := daemon.Config{HeapSize: o.HeapSize, StdinTo: o.readers(), OwnsChildren: o.OwnsChildren, Watchdog: o.Watchdog, EndsFirst: !o.Recover && o.span().nodes() == 1, Recover: o.Recover, Tools: o.ReportURI != "", Memory: o.Stats != nil, Debug: o.Debug, Profiles: o.Pprof, DataNetwork: o.DataNetwork, AgentPorts: o.DataPorts}
	for i := range o.Apps {
		app, err := o.Apps[i].config(n)
		if err == nil && app.Dir == "" && !o.Layout.IsHere() {
			app.Dir, err = ownDir()
		}
		if err != nil {
			return daemon.Config{}, err
		}
		if app.Dir == "" && o.growsHere() {
			app.Dir, _ = ownDir() // without one, jobs that PEs spawn elsewhere start where the daemons do
		}
		cfg.Apps = append(cfg.Apps, app)
	}
	if cfg.HeapSize == 0 {
		var err error
		if cfg.HeapSize, err = envvar.HeapSize(lookupIn(cfg.Apps[0].Env)); err != nil {
			return daemon.Config{}, &SetUpError{Err: err}
		}
	}
	if err := fits(cfg.HeapSize, n); err != nil {
		return daemon.Config{}, err
	}
	cfg.MostPEs = mostPEs(cfg.HeapSize)
	cfg.Terminal = o.Stdin != nil && xunix.IsTerminal(o.Stdin.Fd())
	return cfg, nil
}

// hooks returns what the nodes call.
func (o *Options) hooks(p *printer, logger zerolog.Logger) daemon.Hooks {
	return daemon.Hooks{
		Output: p.write, OutputEnd: p.end, Log: p.log, Logger: logger,
		Notice: func(text string) { p.message("%s", text) },
	}
}

func (o *Options) logger(w io.Writer) zerolog.Logger {
	if o.Log == nil {
		return zerolog.Nop()
	}
	return o.Log(w)
}

// NPEs returns how many PEs the job has.
func (o *Options) NPEs() (n int) {
	for i := range o.Apps {
		n += o.Apps[i].NPEs
	}
	return n
}

// config turns an app of a job of n PEs into what the node runs.
func (a *App) config(n int) (daemon.App, error) {
	if a.NPEs < 1 {
		return daemon.App{}, &SetUpError{Err: fmt.Errorf("number of PEs of %s: %d, want 1 or more", a.Program, a.NPEs)}
	}
	env := a.Env
	if env == nil {
		env = os.Environ()
	}
	app := daemon.App{NPEs: a.NPEs, Program: a.Program, Args: a.Args, Name: a.Name, Env: inherited(env), Dir: a.Dir}
	if app.Name == "" {
		app.Name = a.Program
	}
	if abs, err := filepath.Abs(a.Dir); err == nil && a.Dir != "" { // otherwise the node sees it from its own directory
		app.Dir = abs
	}
	procs, set := lookupIn(app.Env)(envvar.MaxProcs)
	if _, err := envvar.Procs(lookupIn(app.Env)); err != nil && procs != "" { // Go's runtime would take no notice of it
		return daemon.App{}, &SetUpError{Err: err}
	}
	if !set {
		app.Procs = share(n)
	}
	return app, nil
}

// ownDir returns the working directory of this process, by the name in PWD if that is right: other hosts may not have the
// directories that a symbolic link stands for here.
func ownDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", &SetUpError{Err: fmt.Errorf("working directory of oshrun: %w, want one that other hosts have, too", err), Hint: "--wdir DIR"}
	}
	return dir, nil
}

// addressBits is the size of a process's address space where it is smallest.
const addressBits = 47

// WantPEs says how many PEs a job can have.
func WantPEs() string { return fmt.Sprintf("1 or more, and at most %d on a node", layout.MaxLocal) }

// fits checks that a PE can map the segments of all.
func fits(heap uint64, npes int) error {
	if npes <= mostPEs(heap) {
		return nil
	}
	most := mostHeap(npes)
	pes, hint := "1 PE", "--heap-size "+most
	if npes > 1 {
		pes, hint = fmt.Sprintf("%d PEs", npes), hint+", or fewer PEs"
	}
	return &SetUpError{
		Err: fmt.Errorf("heap size %s (--heap-size or %s) of %s: every PE maps all heaps, want at most %s together, %s each",
			envvar.FormatSize(heap), envvar.SymmetricSize, pes, envvar.FormatSize(1<<addressBits), most),
		Hint: hint,
	}
}

// mostHeap returns how large the heap of each PE of a job may be, in whole gibibytes.
func mostHeap(npes int) string {
	size := uint64(1<<addressBits) / uint64(npes) >> 30
	for npes > mostPEs(size<<30) {
		size--
	}
	return envvar.FormatSize(size << 30)
}

// mostPEs returns how many PEs with heaps of a size a job can have.
func mostPEs(heap uint64) int {
	size, err := layout.SegmentSize(heap)
	if err != nil {
		return 0
	}
	each := size + 2*layout.Align // a gap after each, and what rounding takes
	return int(min(layout.MaxLocal, (1<<addressBits)/each))
}

// inherited drops from an environment what belongs to an outer launcher: a PE
// must not find two launchers.
//
// In a job of Slurm but not in a step of it, programs of Open MPI take themselves for the only process of their job, by
// SLURM_NODELIST. That is the old name of SLURM_JOB_NODELIST, which stays.
func inherited(env []string) []string {
	_, inStep := lookupIn(env)("SLURM_STEP_ID")
	var kept []string
	for _, kv := range env {
		if !inStep && strings.HasPrefix(kv, "SLURM_NODELIST=") {
			continue
		}
		if strings.HasPrefix(kv, "PMIX_") || strings.HasPrefix(kv, "PMI_") || strings.HasPrefix(kv, envvar.Step+"=") {
			continue
		}
		kept = append(kept, kv)
	}
	return kept
}

// lookupIn looks up variables in an environment; the last setting counts.
func lookupIn(env []string) envvar.Lookup {
	return func(name string) (string, bool) {
		for _, kv := range slices.Backward(env) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
}
