package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
)

// play is a job on a fake node whose PEs do what the test says. It runs in a synctest bubble, on the bubble's time.
type play struct {
	*fake
	t       *testing.T
	o       Options
	cfg     daemon.Config
	hooks   daemon.Hooks
	signals chan os.Signal
	cancel  context.CancelCauseFunc
	out     safeBuffer
	errs    safeBuffer
	done    chan struct{} // closed when the job is over
	status  int
	err     error
	begin   time.Time
}

// safeBuffer is a buffer that may be read and written concurrently.
type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(text)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// inPlay runs a job of n PEs on a fake node in a bubble, and the test beside it.
func inPlay(t *testing.T, n int, change func(o *Options), test func(t *testing.T, p *play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, n, change)
		p.start()
		test(t, p)
		select {
		case <-p.done:
		default:
			t.Errorf("the job is not over after the test; messages: %s", p.errs.String())
			for pe := range n {
				p.exits(pe, ending.End{})
			}
			<-p.done
		}
	})
}

func newPlay(t *testing.T, n int, change func(o *Options)) *play {
	t.Helper()
	p := &play{fake: newFake(0, n), t: t, signals: make(chan os.Signal, 8), done: make(chan struct{}), begin: time.Now()}
	p.o = Options{Apps: []App{{NPEs: n, Program: "program"}}, HeapSize: 1 << 20, Stdout: &p.out, Stderr: &p.errs, Signals: p.signals}
	if change != nil {
		change(&p.o)
	}
	return p
}

// start begins the job.
func (p *play) start() {
	ctx, cancel := context.WithCancelCause(p.t.Context())
	p.cancel = cancel
	at := fakeStarter{
		start: func(cfg daemon.Config, hooks daemon.Hooks) (Node, error) {
			p.cfg, p.hooks = cfg, hooks
			return p.fake, nil
		},
	}
	go func() {
		defer close(p.done)
		p.status, p.err = p.o.run(ctx, at)
	}()
	synctest.Wait()
}

// send reports an event and waits until it is handled.
func (p *play) send(e daemon.Event) {
	e.At, e.PID = time.Since(p.begin), p.PID(e.ID)
	p.events <- e
	synctest.Wait()
}

// fails reports that PEs are dead, each by the same end.
func (p *play) fails(end ending.End, pes ...int) {
	for _, pe := range pes {
		p.send(daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: pe}, End: end})
	}
}

// exits reports that a PE's process is reaped.
func (p *play) exits(pe int, end ending.End) {
	p.send(daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: pe}, End: end})
}

// after lets time pass.
func (p *play) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// ends waits for the end of the job and compares its status and messages.
func (p *play) ends(status int, messages ...string) {
	p.t.Helper()
	<-p.done
	if p.status != status || p.err != nil {
		p.t.Errorf("status %d, %v, want %d", p.status, p.err, status)
	}
	got := strings.Split(strings.TrimSuffix(p.errs.String(), "\n"), "\n")
	if len(messages) == 0 {
		messages = []string{""}
	}
	if !slices.Equal(got, messages) {
		p.t.Errorf("messages:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(messages, "\n"))
	}
}

// asked compares the node's calls, except launch and close, with want.
func (p *play) asked(want ...string) {
	p.t.Helper()
	got := slices.DeleteFunc(p.noted(), func(call string) bool { return call == "launch" || call == "close" })
	if !slices.Equal(got, want) {
		p.t.Errorf("the node was asked %q, want %q", got, want)
	}
}

// Ends of PEs in these tests.
var (
	crashed = ending.End{Signal: int(syscall.SIGSEGV), Core: true}
	quitted = ending.End{Signal: int(syscall.SIGTERM)}
)

// A job whose PEs finish ends with status 0, after it has printed their output.
func TestJobEndsWell(t *testing.T) {
	inPlay(t, 2, func(o *Options) { o.Verbose = true }, func(t *testing.T, p *play) {
		p.hooks.Output(daemon.ID{PE: 1}, daemon.Stdout, []byte("hello\n"))
		p.hooks.Notice("a notice")
		p.after(time.Second)
		p.exits(0, ending.End{})
		p.exits(1, ending.End{})
		p.ends(0, "oshrun: a notice", "oshrun: PE 0 (pid 1000) finished after 1s", "oshrun: PE 1 (pid 1001) finished after 1s")
		p.asked()
		if p.out.String() != "hello\n" {
			t.Errorf("output %q", p.out.String())
		}
		if got := p.noted(); !slices.Equal(got, []string{"launch", "close"}) {
			t.Errorf("calls %v, want one launch and one close", got)
		}
	})
}

// The first failure ends the job with its status. The other PEs are asked to end, and killed if they do not.
func TestFailureEndsTheJob(t *testing.T) {
	inPlay(t, 3, nil, func(_ *testing.T, p *play) {
		p.fails(crashed, 1)
		p.asked("refuse", "signal 15", "signal 18")
		p.exits(1, crashed)
		p.exits(0, quitted)
		p.after(grace)
		p.asked("refuse", "signal 15", "signal 18", "signal 9")
		p.exits(2, killed)
		p.ends(StatusSignal+11, "oshrun: PE 1 (pid 1001) was killed by signal 11 (SIGSEGV, core dumped) after 0s")
	})
}

// Each kind of failure has its own words and status.
func TestFailureWords(t *testing.T) {
	for _, x := range []struct {
		end    ending.End
		by     string
		status int
		want   string
	}{
		{ending.End{Code: 7}, "", 7, "exited with status 7"},
		{ending.End{Code: 137}, "", 137, "exited with status 137 (as a shell says of a program killed by signal 9, SIGKILL)"},
		{ending.End{Unfinished: true}, "", StatusError, "exited with status 0 without Finalize"},
		{ending.End{Signal: 9, OOM: true}, "", 137, "was killed by signal 9 (SIGKILL, out of memory)"},
		{ending.End{Signal: 9}, "PE 3", 137, "was killed by signal 9 (SIGKILL) at PE 3's request"},
	} {
		f, failed := failureOf(daemon.Event{PID: 5, End: x.end, By: x.by}, time.Second)
		if want := "PE 0 (pid 5) " + x.want + " after 1s"; !failed || f.String() != want || f.status != x.status {
			t.Errorf("%q with status %d, want %q with %d", f.String(), f.status, want, x.status)
		}
	}
	if f, failed := failureOf(daemon.Event{}, 0); failed {
		t.Errorf("an end without a fault counts as a failure: %v", &f)
	}
}

// With Recover the others go on, and the failures are listed at the end.
func TestRecoverGoesOn(t *testing.T) {
	inPlay(t, 3, func(o *Options) { o.Recover = true }, func(_ *testing.T, p *play) {
		p.fails(killed, 2, 0)
		p.exits(2, killed)
		p.exits(0, killed)
		p.after(time.Second)
		p.exits(1, ending.End{})
		p.ends(StatusTolerated,
			"oshrun: PE 2 (pid 1002) was killed by signal 9 (SIGKILL) after 0s; 2 PEs go on",
			"oshrun: PE 0 (pid 1000) was killed by signal 9 (SIGKILL) after 0s; 1 PE goes on",
			"oshrun: 2 of 3 PEs failed:",
			"oshrun:   PE 2 (pid 1002) was killed by signal 9 (SIGKILL) after 0s (learnt when its process could be reaped)",
			"oshrun:   PE 0 (pid 1000) was killed by signal 9 (SIGKILL) after 0s (learnt when its process could be reaped)")
		p.asked()
	})
}

// A long list of failures is cut. Each entry says how the failure was detected.
func TestManyFailures(t *testing.T) {
	const n = mostListed + 3
	inPlay(t, n, func(o *Options) { o.Recover = true }, func(t *testing.T, p *play) {
		for pe := range n {
			p.send(daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: pe}, End: killed, Tier: "pidfd"})
			p.exits(pe, killed)
		}
		<-p.done
		text := p.errs.String()
		if p.status != StatusSignal+9 {
			t.Errorf("status %d, want that of the first failure, as no PE finished", p.status)
		}
		if !strings.HasSuffix(text, "oshrun:   and 3 others\n") || strings.Count(text, "(learnt by pidfd)") != mostListed {
			t.Errorf("the list does not end with 3 others:\n%s", text)
		}
	})
}

// A PE that another PE has killed does not end the job.
func TestRequestedEndIsTolerated(t *testing.T) {
	inPlay(t, 2, nil, func(_ *testing.T, p *play) {
		p.send(daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: 1}, End: killed, By: "PE 0"})
		p.exits(1, killed)
		p.exits(0, ending.End{})
		p.ends(StatusTolerated,
			"oshrun: PE 1 (pid 1001) was killed by signal 9 (SIGKILL) at PE 0's request after 0s; 1 PE goes on",
			"oshrun: 1 of 2 PEs failed:",
			"oshrun:   PE 1 (pid 1001) was killed by signal 9 (SIGKILL) at PE 0's request after 0s (learnt when its process could be reaped)")
	})
}

// A PE ends the job with the status and the reason that it gives.
func TestAbort(t *testing.T) {
	for _, x := range []struct {
		status int
		msg    string
		want   int
		says   string
	}{
		{42, "no luck", 42, "oshrun: PE 1 (pid 1001) ended the job with status 42 after 0s: no luck"},
		{256, "N/A", 255, "oshrun: PE 1 (pid 1001) ended the job with status 256 after 0s"},
		{0, "ignored", 0, ""},
	} {
		inPlay(t, 2, nil, func(_ *testing.T, p *play) {
			p.send(daemon.Event{Kind: daemon.Abort, ID: daemon.ID{PE: 1}, Status: x.status, Msg: x.msg})
			p.send(daemon.Event{Kind: daemon.Abort, ID: daemon.ID{PE: 0}, Status: 7}) // too late to count
			p.asked("refuse", "signal 15", "signal 18")
			p.exits(0, quitted)
			p.exits(1, quitted)
			p.ends(x.want, x.says)
		})
	}
}

// The job waits for spawned jobs, unless they are dropped.
func TestSpawnedJobs(t *testing.T) {
	inPlay(t, 1, func(o *Options) { o.Verbose = true }, func(t *testing.T, p *play) {
		p.send(daemon.Event{Kind: daemon.Spawned, ID: daemon.ID{Job: 1}, NPEs: 2})
		p.send(daemon.Event{Kind: daemon.Spawned, ID: daemon.ID{Job: 2}, NPEs: 3})
		p.exits(0, ending.End{})
		p.send(daemon.Event{Kind: daemon.Dropped, ID: daemon.ID{Job: 2}})
		p.send(daemon.Event{Kind: daemon.Exited, ID: daemon.ID{Job: 1}})
		select {
		case <-p.done:
			t.Error("the job is over before PE 1.1 has ended")
		default:
		}
		p.send(daemon.Event{Kind: daemon.Exited, ID: daemon.ID{Job: 1, PE: 1}})
		p.ends(0, "oshrun: PE 0 (pid 1000) finished after 0s", "oshrun: PE 1.0 (pid 2000) finished after 0s", "oshrun: PE 1.1 (pid 2001) finished after 0s")
	})
}

// A PE whose program has gone counts as failed once its process is known to go on, and not before.
func TestForsakenPE(t *testing.T) {
	for name, forsaken := range map[string]bool{"forsaken": true, "has joined again": false} {
		t.Run(name, func(t *testing.T) {
			inPlay(t, 2, nil, func(_ *testing.T, p *play) {
				p.set(func() { p.forsaken = forsaken })
				p.send(daemon.Event{Kind: daemon.Lost, ID: daemon.ID{PE: 1}})
				p.after(lostPatience - time.Millisecond)
				p.asked()
				p.after(time.Millisecond)
				if !forsaken {
					p.asked("forsake 1")
					p.exits(0, ending.End{})
					p.exits(1, ending.End{})
					p.ends(0)
					return
				}
				p.asked("forsake 1", "refuse", "signal 15", "signal 18")
				p.exits(0, quitted)
				p.exits(1, quitted)
				p.ends(StatusError, "oshrun: PE 1 (pid 1001) lost its program after 0s: that ended without Finalize, and the process that started it goes on")
			})
		})
	}
}

// A PE whose shell is at work may start another program as long as that takes, within bounds.
func TestForsakenAtWork(t *testing.T) {
	for name, ends := range map[string]bool{"until it has started one": true, "for ever": false} {
		t.Run(name, func(t *testing.T) {
			inPlay(t, 1, nil, func(_ *testing.T, p *play) {
				p.set(func() { p.atWork, p.forsaken = true, !ends })
				p.send(daemon.Event{Kind: daemon.Lost, ID: daemon.ID{PE: 0}})
				p.after(workPatience - time.Second)
				p.asked()
				if ends {
					p.set(func() { p.atWork = false })
					p.after(idleLooks*lookInterval - time.Millisecond)
					p.asked()
					p.after(2 * time.Millisecond)
					p.asked("forsake 0")
					p.exits(0, ending.End{})
					p.ends(0)
					return
				}
				p.after(time.Second)
				p.asked("forsake 0", "refuse", "signal 15", "signal 18")
				p.exits(0, quitted)
				p.ends(StatusError, "oshrun: PE 0 (pid 1000) lost its program after 0s: that ended without Finalize, and the process that started it goes on")
			})
		})
	}
}

// The failure of a program whose shell goes on says how the program has ended.
func TestProgramOfShellFails(t *testing.T) {
	inPlay(t, 1, nil, func(_ *testing.T, p *play) {
		p.send(daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: 0}, End: killed, GoesOn: true})
		p.after(lostPatience)
		p.exits(0, quitted)
		p.ends(StatusError, "oshrun: PE 0 (pid 1000) lost its program after 0s: that was killed by signal 9 (SIGKILL), and the process that started it goes on")
	})
}

// It also does if the end of its connection was seen first.
func TestProgramOfShellIsLostFirst(t *testing.T) {
	inPlay(t, 1, nil, func(_ *testing.T, p *play) {
		p.set(func() { p.forsaken = true })
		p.send(daemon.Event{Kind: daemon.Lost, ID: daemon.ID{PE: 0}})
		p.after(lostPatience / 2)
		p.send(daemon.Event{Kind: daemon.Failed, ID: daemon.ID{PE: 0}, End: killed, GoesOn: true})
		p.after(lostPatience / 2)
		p.asked("forsake 0", "refuse", "signal 15", "signal 18")
		p.exits(0, quitted)
		p.ends(StatusError, "oshrun: PE 0 (pid 1000) lost its program after 1s: that was killed by signal 9 (SIGKILL), and the process that started it goes on")
	})
}

// Changes of a PE's state are reported, unless the user has turned that off or the job is ending.
func TestChangeIsSaid(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		inPlay(t, 1, func(o *Options) { o.Quiet = quiet }, func(_ *testing.T, p *play) {
			p.send(daemon.Event{Kind: daemon.Changed, State: "is stopped"})
			p.exits(0, ending.End{})
			if quiet {
				p.ends(0)
			} else {
				p.ends(0, "oshrun: PE 0 (pid 1000) is stopped")
			}
		})
	}
}

// A canceled job says why.
func TestCanceled(t *testing.T) {
	inPlay(t, 1, nil, func(_ *testing.T, p *play) {
		p.cancel(errors.New("no reason"))
		synctest.Wait()
		p.asked("refuse", "signal 15", "signal 18")
		p.exits(0, quitted)
		p.ends(StatusError, "oshrun: canceled: no reason")
	})
}
