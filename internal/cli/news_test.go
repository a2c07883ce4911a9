package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
)

// ends are the ways in which rank 1 of testdata/news.c and testNews may end, with the event's code and oshrun's message.
var ends = map[string]struct {
	code int
	said string
}{
	"kill":    {-402, "was killed by signal 9 (SIGKILL)"},
	"segv":    {-402, "was killed by signal 11 (SIGSEGV"},
	"exit":    {-404, "exited with status 7"},
	"leave":   {-200, "exited with status 0 without Finalize"},
	"command": {-400, "was killed by signal 9 (SIGKILL) at PE 0's request"},
	"abort":   {-8, "was killed by signal 9 (SIGKILL) at PE 1's request"},
}

// PMIx clients that registered a handler hear how a process has ended, even if they register afterwards. Others do not.
func TestEndsAreEvents(t *testing.T) {
	prog := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "news.c"), testenv.LibPMIx)
	for how, want := range ends {
		t.Run("libpmix "+how, func(t *testing.T) { hearOfEnd(t, how, want.code, want.said, prog, how) })
	}
}

// Clients in Go hear the same, although Go's runtime turns such signals into a status.
func TestEndsAreEventsInGo(t *testing.T) {
	for how, want := range ends {
		if how == "segv" {
			continue
		}
		t.Run(how, func(t *testing.T) { hearOfEnd(t, how, want.code, want.said, "t-news", how) })
	}
}

// Clients hear the same on every tier that works here.
func TestEndsAreEventsOnEveryTier(t *testing.T) {
	for _, tier := range usableTiers(t) {
		t.Run(tier, func(t *testing.T) {
			want := ends["kill"]
			hearOfEnd(t, "kill", want.code, want.said, "--watchdog", tier, "t-news", "kill")
		})
	}
}

func hearOfEnd(t *testing.T, how string, code int, said string, args ...string) {
	t.Helper()
	j := start(t, append([]string{"-n", "4", "--recover"}, args...)...)
	j.expect(3, "1 of 4 PEs failed:", "PE 1 (pid", said)
	want := []string{
		"rank 0 goes on", fmt.Sprintf("rank 0 hears %d about 1", code), "rank 2 goes on",
		fmt.Sprintf("rank 2 hears %d about 1", code), "rank 3 goes on",
	}
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", how, got, want)
	}
}

// testNews is testdata/news.c in Go.
func testNews(args []string, stdout, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	c, err := client.Init(ctx)
	if err == nil {
		err = play(ctx, c, args[0], stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "rank %v goes on\n", c.Rank())
	return 0
}

func play(ctx context.Context, c *client.Client, how string, stdout io.Writer) error {
	heard := make(chan struct{}, 1)
	listen := func() error {
		codes := []codec.Status{
			codec.StatusErrProcAbortedBySig, codec.StatusErrExitNonzeroTerm, codec.StatusErrProcTermWoSync,
			codec.StatusErrProcKilledByCmd, codec.StatusErrProcRequestedAbort,
		}
		_, err := c.Events.Register(ctx, codes, client.HandlerOptions{}, func(ev *client.Event) client.Result {
			fmt.Fprintf(stdout, "rank %v hears %d about %v\n", c.Rank(), int(ev.Status), ev.Affected[0].Rank)
			heard <- struct{}{}
			return client.Result{Status: codec.StatusEventActionComplete}
		})
		return err
	}
	meet := func(ranks ...codec.Rank) error {
		var procs []codec.Proc
		for _, r := range ranks {
			procs = append(procs, codec.Proc{Nspace: c.Nspace(), Rank: r})
		}
		return c.FenceProcs(ctx, procs, client.FenceOptions{})
	}
	if c.Rank() == 0 {
		if err := listen(); err != nil {
			return err
		}
	}
	if err := meet(0, 1, 2, 3); err != nil {
		return err
	}
	switch {
	case c.Rank() == 1:
		return end(c, how)
	case c.Rank() == 0 && how == "command":
		if err := c.ControlProcs(ctx, []codec.Proc{{Nspace: c.Nspace(), Rank: 1}}, client.Control{Kill: true}); err != nil {
			return err
		}
	}
	if c.Rank() == 0 {
		<-heard
	}
	if err := meet(0, 2, 3); err != nil {
		return err
	}
	if c.Rank() == 2 {
		if err := listen(); err != nil {
			return err
		}
		<-heard
	}
	if err := meet(0, 2, 3); err != nil {
		return err
	}
	return c.Finalize(ctx)
}

// end ends the process.
func end(c *client.Client, how string) error {
	switch how {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		os.Exit(7)
	case "leave":
		os.Exit(0)
	case "abort":
		if err := c.Abort(9, "not wanted", c.Proc()); err != nil {
			return err
		}
	}
	select {}
}
