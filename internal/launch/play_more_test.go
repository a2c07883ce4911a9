package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// The time limit ends the job, with a message that says where its PEs are.
func TestTimeout(t *testing.T) {
	inPlay(t, 3, func(o *Options) { o.Timeout = time.Minute }, func(_ *testing.T, p *play) {
		p.set(func() {
			p.answers = []daemon.Answer{
				{ID: daemon.ID{PE: 0}, Asked: true, Done: true, Text: []byte("is in Barrier\n2")},
				{ID: daemon.ID{PE: 2}, Asked: true, Late: true},
			}
		})
		p.exits(1, ending.End{})
		p.after(time.Minute)
		p.asked("refuse", fmt.Sprintf("ask %d, %v", wire.OrderCalls, callsAtMost), "signal 15", "signal 18")
		p.exits(0, quitted)
		p.exits(2, quitted)
		p.ends(StatusTimeout,
			"oshrun: timeout: --timeout 1m0s is over; still running: PE 0 (pid 1000), PE 2 (pid 1002)",
			"oshrun: PE 0 is in Barrier, and waits for PE 2",
			"oshrun: PE 2 did not say within 500ms where it is: it is stopped, or has no processor")
	})
}

// Time passes only while the job is not stopped. The list of running PEs is cut.
func TestTimeoutOfMany(t *testing.T) {
	inPlay(t, 20, func(o *Options) { o.Timeout = time.Minute }, func(t *testing.T, p *play) {
		p.set(func() {
			for pe := range 20 {
				p.answers = append(p.answers, daemon.Answer{ID: daemon.ID{Job: pe, PE: pe}, Done: true, Text: fmt.Appendf(nil, "is at %d", pe)})
			}
			for range mostCalls {
				p.answers = append(p.answers, daemon.Answer{ID: daemon.ID{Job: len(p.answers)}, Ended: true})
			}
		})
		p.after(time.Minute)
		for pe := range 20 {
			p.exits(pe, quitted)
		}
		<-p.done
		if text := p.errs.String(); !strings.Contains(text, "PE 15 (pid 1015), ...\n") || !strings.Contains(text, "oshrun: and PEs at 20 more places; --stacks shows all\n") {
			t.Errorf("want the messages cut:\n%s", text)
		}
	})
}

// Stacks come from the PEs' answers, or from Go's runtime.
func TestStacks(t *testing.T) {
	inPlay(t, 4, func(o *Options) { o.Stacks = true }, func(t *testing.T, p *play) {
		p.set(func() {
			p.answers = []daemon.Answer{
				{ID: daemon.ID{PE: 0}, PID: 1000, Done: true, Text: []byte("goroutine 1")},
				{ID: daemon.ID{PE: 1}, PID: 1001, Text: []byte("goroutine 2")},
				{ID: daemon.ID{PE: 2}, PID: 1002},
			}
		})
		p.signals <- syscall.SIGQUIT
		synctest.Wait()
		p.asked("refuse", fmt.Sprintf("ask %d, %v", wire.OrderStacks, stacksAtMost), "signal 15", "signal 18")
		for pe := range 4 {
			p.exits(pe, quitted)
		}
		p.ends(StatusSignal+3,
			"oshrun: SIGQUIT: ending 4 PEs",
			"oshrun: stacks of PE 0 (pid 1000):", "goroutine 1",
			"oshrun: stacks of PE 1 (pid 1001):", "goroutine 2",
			"oshrun: the stacks of PE 1 are not complete",
			"oshrun: stacks of PE 2 (pid 1002): none, it is not a Go program")
	})
	inPlay(t, 1, func(o *Options) { o.Stacks, o.Timeout = true, time.Second }, func(_ *testing.T, p *play) {
		p.set(func() { p.answers, p.isGo = []daemon.Answer{{PID: 1000, Asked: true, Done: true}}, true })
		p.after(time.Second)
		p.asked("refuse", fmt.Sprintf("ask %d, %v", wire.OrderCalls, callsAtMost), fmt.Sprintf("ask %d, %v", wire.OrderStacks, stacksAtMost), "quit 0", "signal 15", "signal 18")
		p.exits(0, quitted)
		p.ends(StatusTimeout, "oshrun: timeout: --timeout 1s is over; still running: PE 0 (pid 1000)", "oshrun: PE 0 ",
			"oshrun: stacks of PE 0 (pid 1000), from its runtime:")
	})
}

// The first interrupt asks the PEs to end and the second kills them. Other signals are passed on.
func TestSignalsOfTheUser(t *testing.T) {
	inPlay(t, 2, nil, func(_ *testing.T, p *play) {
		for _, sig := range []syscall.Signal{xunix.SIGUSR1, xunix.SIGUSR2, xunix.SIGWINCH, xunix.SIGCONT} {
			p.signals <- sig
			synctest.Wait()
		}
		p.asked(fmt.Sprint("signal ", int(xunix.SIGUSR1)), fmt.Sprint("signal ", int(xunix.SIGUSR2)), fmt.Sprint("signal ", int(xunix.SIGWINCH)), fmt.Sprint("signal ", int(xunix.SIGCONT)))
		p.set(func() { p.calls = nil })
		p.signals <- syscall.SIGINT
		synctest.Wait()
		p.asked("refuse", "signal 2", "signal 18")
		p.signals <- syscall.SIGINT
		synctest.Wait()
		p.asked("refuse", "signal 2", "signal 18", "signal 9")
		p.exits(0, killed)
		p.exits(1, killed)
		p.ends(StatusInterrupted, "oshrun: SIGINT: ending 2 PEs (interrupt again to kill them at once)", "oshrun: interrupted twice: killing all PEs")
	})
	inPlay(t, 1, nil, func(_ *testing.T, p *play) {
		p.signals <- syscall.SIGHUP
		synctest.Wait()
		p.signals <- syscall.SIGTERM // too late to change anything
		synctest.Wait()
		p.exits(0, quitted)
		p.ends(StatusSignal+1, "oshrun: SIGHUP: ending 1 PEs")
	})
	if len(Signals()) != 9 || ends(xunix.SIGUSR1) || !ends(syscall.SIGHUP) {
		t.Errorf("signals %v, or the subset that ends a job, are not as wanted", Signals())
	}
}

// If a job is about to stop when a signal ends it, its PEs are continued, so that they can end.
func TestEndWhileStopping(t *testing.T) {
	inPlay(t, 1, nil, func(_ *testing.T, p *play) {
		p.signals <- xunix.SIGTSTP
		synctest.Wait()
		p.after(stopTick) // the run looks, and PE 0 has not stopped
		p.asked("suspend")
		p.signals <- syscall.SIGTERM
		synctest.Wait()
		p.asked("suspend", "refuse", "signal 18", "signal 15", "signal 18")
		p.signals <- xunix.SIGTSTP // a job that is ending does not stop
		synctest.Wait()
		p.exits(0, quitted)
		p.ends(StatusSignal+15, "oshrun: SIGTERM: ending 1 PEs")
	})
}

// Output that cannot be written ends the job. A closed pipe is no error to report.
func TestUnwrittenOutput(t *testing.T) {
	for err, x := range map[error]struct {
		status int
		says   []string
	}{
		syscall.EPIPE:        {StatusPipe, nil},
		errors.New("broken"): {StatusError, []string{"oshrun: write output: broken"}},
	} {
		out := &failing{err: err}
		inPlay(t, 1, func(o *Options) { o.Stdout = out }, func(_ *testing.T, p *play) {
			p.hooks.Output(daemon.ID{}, daemon.Stdout, []byte("text\n"))
			synctest.Wait()
			p.asked("refuse", "signal 15", "signal 18")
			p.exits(0, quitted)
			if out.tried != "text\n" {
				t.Errorf("tried to write %q", out.tried)
			}
			<-p.done
			if p.status != x.status {
				t.Errorf("status %d, want %d", p.status, x.status)
			}
		})
	}
}

// The message on output that could not be written names its files, and the job ends with that status.
func TestTornFiles(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for pe := range 2 {
		rank := filepath.Join(dir, fmt.Sprintf("rank.%d", pe))
		if err := errors.Join(os.Mkdir(rank, 0o700), os.Symlink("/dev/full", filepath.Join(rank, "stdout"))); err != nil {
			t.Fatal(err)
		}
	}
	inPlay(t, 2, func(o *Options) { o.Output.Dir = dir }, func(t *testing.T, p *play) {
		for pe := range 2 {
			p.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, []byte("text\n"))
			synctest.Wait()
		}
		p.exits(0, quitted)
		p.exits(1, quitted)
		<-p.done
		text := p.errs.String()
		if p.status != StatusError || !strings.Contains(text, "no space left on device") ||
			!strings.Contains(text, "output is missing at the end of 2 files: "+filepath.Join(dir, "rank.0/stdout")+", ") {
			t.Errorf("status %d, messages:\n%s", p.status, text)
		}
	})
}

// A signal after the end of all PEs cuts output that is not read.
func TestInterruptedWhileOutputWaits(t *testing.T) {
	reader := slowReader{make(chan struct{})}
	synctest.Test(t, func(t *testing.T) {
		reader = slowReader{make(chan struct{})}
		p := newPlay(t, 1, func(o *Options) { o.Stdout, o.Stderr = reader, reader })
		p.start()
		p.hooks.Output(daemon.ID{}, daemon.Stdout, []byte("text\n"))
		p.exits(0, ending.End{})
		p.after(time.Hour) // any time, as the job has ended well
		select {
		case <-p.done:
			t.Error("the job is over although its output is not read")
		default:
		}
		p.signals <- xunix.SIGUSR1 // asks for nothing
		p.signals <- syscall.SIGTERM
		synctest.Wait()
		close(reader.takes)
		<-p.done
		if p.status != StatusSignal+15 {
			t.Errorf("status %d, want that of SIGTERM", p.status)
		}
	})
}

// A job that cannot be started returns an error with a hint, and leaves nothing behind.
func TestSetUpFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := 1 << (addressBits - 30)
	for name, x := range map[string]struct {
		change     func(p *play)
		want, hint string
	}{
		"no PEs":        {func(p *play) { p.o.Apps[0].NPEs = 0 }, "number of PEs: 0, want 1 or more, and at most 1024 on a node", "a smaller -n"},
		"too many PEs":  {func(p *play) { p.o.Apps[0].NPEs = 1025 }, "number of PEs: 1025, want 1 or more, and at most 1024 on a node", "a smaller -n"},
		"an empty app":  {func(p *play) { p.o.Apps = append(p.o.Apps, App{Program: "two"}) }, "number of PEs of two: 0, want 1 or more", ""},
		"GOMAXPROCS":    {func(p *play) { p.o.Apps[0].Env = []string{"GOMAXPROCS=many"} }, "GOMAXPROCS", ""},
		"size of heaps": {func(p *play) { p.o.HeapSize, p.o.Apps[0].Env = 0, []string{"SHMEM_SYMMETRIC_SIZE=much"} }, "SHMEM_SYMMETRIC_SIZE", ""},
		"large heaps": {
			func(p *play) { p.o.HeapSize = 1 << 46 },
			fmt.Sprintf("heap size 64T (--heap-size or SHMEM_SYMMETRIC_SIZE) of 2 PEs: every PE maps all heaps, want at most 128T together, %dG each", full/2-1),
			fmt.Sprintf("--heap-size %dG, or fewer PEs", full/2-1),
		},
		"a large heap": {
			func(p *play) { p.o.HeapSize, p.o.Apps[0].NPEs = 1<<47, 1 },
			"heap size 128T (--heap-size or SHMEM_SYMMETRIC_SIZE) of 1 PE: every PE maps all heaps, want at most 128T together, 64T each",
			"--heap-size 64T",
		},
		"folder":            {func(p *play) { p.o.Output.Dir = file }, "output of PE 0: mkdir", "choose another --output dir"},
		"report":            {func(p *play) { p.o.ReportURI = file + "/uri" }, "--report-uri: ", "choose another file"},
		"launch":            {func(p *play) { p.launched = errors.New("start PE 1") }, "start PE 1", ""},
		"launch, files":     {func(p *play) { p.launched = syscall.EMFILE }, "too many open files", "fewer PEs, or a higher limit: ulimit -n; oshrun doctor says how many files a job takes"},
		"launch, processes": {func(p *play) { p.launched = syscall.EAGAIN }, "resource temporarily unavailable", "fewer PEs, or a higher limit of processes: ulimit -u"},
		"launch, hint":      {func(p *play) { p.launched = &daemon.HintError{Err: errors.New("broken"), Hint: "mend it"} }, "broken", "mend it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t, 2, nil)
				x.change(p)
				p.start()
				<-p.done
				set := new(SetUpError)
				if p.status != StatusSetUp || !errors.As(p.err, &set) || !strings.Contains(p.err.Error(), x.want) || set.Hint != x.hint || errors.Unwrap(set) == nil {
					t.Errorf("status %d, error %v, hint %q; want %q and %q", p.status, p.err, set.Hint, x.want, x.hint)
				}
				if calls := p.noted(); slices.Contains(calls, "launch") != slices.Contains(calls, "close") && name != "report" {
					t.Errorf("calls %v, want the node closed", calls)
				}
			})
		})
	}
}

// The error of a node that cannot be started has a hint, too.
func TestStartFails(t *testing.T) {
	for _, x := range []struct {
		err  error
		hint string
	}{
		{errors.New("broken"), "oshrun doctor says what this machine can do"},
		{&daemon.HintError{Err: errors.New("broken"), Hint: "mend it"}, "mend it"},
		{&kernel.TierError{Tier: kernel.BPF, Missing: "CAP_BPF"}, "--watchdog bpf takes CAP_BPF; without the flag, the best way that works is taken"},
	} {
		for _, early := range []bool{false, true} {
			p := newPlay(t, 1, nil)
			at := fakeStarter{
				check: func(*daemon.Config) error {
					if early {
						return x.err
					}
					return nil
				},
				start: func(daemon.Config, daemon.Hooks) (Node, error) { return nil, x.err },
			}
			status, err := p.o.run(t.Context(), at)
			set := new(SetUpError)
			if status != StatusSetUp || !errors.Is(err, x.err) || !errors.As(err, &set) || !early && set.Hint != x.hint {
				t.Errorf("status %d, error %v, hint %q, want %q", status, err, set.Hint, x.hint)
			}
		}
	}
}

// A dry run starts nothing and makes no files.
func TestDryRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	p := newPlay(t, 2, func(o *Options) {
		o.DryRun, o.Display, o.Output.Dir = true, Display{Map: true, Allocation: true}, dir
		o.Apps = append(o.Apps, App{NPEs: 1, Program: "other\x1b", Name: "oth\x1ber"})
	})
	at := fakeStarter{
		start: func(daemon.Config, daemon.Hooks) (Node, error) {
			t.Error("a node was started")
			return nil, errors.New("never")
		},
	}
	status, err := p.o.run(t.Context(), at)
	text := p.errs.String()
	if status != StatusOK || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	for _, want := range []string{"allocation: " + hostname(), "map: 3 PEs on " + hostname() + "\n", "PE 0 ", ", program program\n", `, program oth\x1ber` + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("output lacks %q:\n%s", want, text)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made, and a dry run has no output")
	}
	if got := allocation("here", nil); got != "here, its processors are not known" {
		t.Errorf("output %q", got)
	}
}

// Bindings are reported with processes, and a binding that is impossible is refused.
func TestBindings(t *testing.T) {
	if machine, err := xunix.Topology(); err != nil || len(machine.Allowed()) == 0 {
		t.Skipf("processors are unknown: %v", err)
	}
	inPlay(t, 2, func(o *Options) {
		o.Binding = daemon.Binding{Bind: plan.BindCore, Overload: true, Report: true}
	}, func(t *testing.T, p *play) {
		p.exits(0, ending.End{})
		p.exits(1, ending.End{})
		<-p.done
		for pe := range 2 {
			if want := fmt.Sprintf("[%s:%d] ", hostname(), 1000+pe); !strings.Contains(p.errs.String(), want) {
				t.Errorf("messages lack %q:\n%s", want, p.errs.String())
			}
		}
		if len(p.cfg.Places) != 2 || p.cfg.Places[0].CPUs == nil {
			t.Errorf("places %+v, want two", p.cfg.Places)
		}
	})
	for name, x := range map[string]struct {
		b    daemon.Binding
		npes int
		want string
	}{
		"no such processor": {daemon.Binding{CPUs: []int{8000}}, 1, "--cpu-set 8000: processor 8000"},
		"too few":           {daemon.Binding{Bind: plan.BindCore}, 1000, ""},
	} {
		p := newPlay(t, x.npes, func(o *Options) { o.Binding = x.b })
		_, err := p.o.run(t.Context(), fakeStarter{})
		set := new(SetUpError)
		if !errors.As(err, &set) || !strings.Contains(err.Error(), x.want) || set.Hint == "" {
			t.Errorf("%s: %v, want an error with a hint", name, err)
		}
	}
}

// The job's statistics are printed at the end, in the order of PEs.
func TestStatsOfJob(t *testing.T) {
	for _, fault := range []error{nil, errors.New("broken")} {
		var seen Stats
		inPlay(t, 2, func(o *Options) {
			o.Stats = func(s *Stats) ([]byte, error) { seen = *s; return []byte("figures\n"), fault }
		}, func(t *testing.T, p *play) {
			p.after(time.Second)
			p.send(daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: 1}, Usage: daemon.Usage{User: 1, System: 2, MaxRSS: 1 << 30, Voluntary: 3, Involuntary: 4}, Ran: 5})
			p.exits(0, ending.End{})
			if fault == nil {
				p.ends(0, "figures")
			} else {
				p.ends(StatusError, "figures", "oshrun: --stats: broken")
			}
			want := PEStats{ID: "1", PID: 1001, Wall: 5, User: 1, System: 2, MaxRSS: 1 << 30, Voluntary: 3, Involuntary: 4, id: daemon.ID{PE: 1}}
			if len(seen.PEs) != 2 || seen.PEs[1] != want || seen.Tier != "fake" || seen.Wall != time.Second || !p.cfg.Memory {
				t.Errorf("%+v, want %+v last", seen, want)
			}
		})
	}
}

// The address for tools is in a file while the job runs, or on standard output.
func TestReportURI(t *testing.T) {
	path := filepath.Join(t.TempDir(), "uri")
	inPlay(t, 1, func(o *Options) { o.ReportURI = path }, func(t *testing.T, p *play) {
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), p.uri+"\n") || !p.cfg.Tools {
			t.Errorf("the file contains %q, %v, want %s", text, err, p.uri)
		}
		p.exits(0, ending.End{})
		p.ends(0)
		if _, err := os.Stat(path); err == nil {
			t.Error("the file still exists after the job")
		}
	})
	inPlay(t, 1, func(o *Options) { o.ReportURI = "-" }, func(t *testing.T, p *play) {
		p.exits(0, ending.End{})
		p.ends(0)
		if got := p.out.String(); got != p.uri+"\n" {
			t.Errorf("%q on standard output, want %s", got, p.uri)
		}
	})
}

// PEs are asked for their profiles before they are ended. A message names those that left none.
func TestProfilesAreCollected(t *testing.T) {
	inPlay(t, 2, func(o *Options) { o.Pprof = t.TempDir() }, func(_ *testing.T, p *play) {
		p.set(func() { p.answers = []daemon.Answer{{ID: daemon.ID{PE: 1}, Asked: true, Late: true}} })
		p.signals <- syscall.SIGTERM
		synctest.Wait()
		p.asked("refuse", fmt.Sprintf("ask %d, %v", wire.OrderProfile, profileAtMost), "signal 15", "signal 18")
		p.exits(0, quitted)
		p.exits(1, quitted)
		p.ends(StatusSignal+15, "oshrun: SIGTERM: ending 2 PEs",
			"oshrun: --pprof: no profile of PE 0: it was killed by signal 15 (SIGTERM)",
			"oshrun: --pprof: no profile of PE 1: it was asked for it at the end of the job and did not answer within 500ms")
	})
}
