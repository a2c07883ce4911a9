package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/cli"
)

// asOshrun makes the test binary behave as oshrun.
const asOshrun = "GOSHMEM_TEST_AS_OSHRUN"

func TestMain(m *testing.M) {
	if os.Getenv(asOshrun) != "" {
		os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv(aloneVar) != "" {
		os.Exit(alone())
	}
	os.Exit(m.Run())
}

// patience is the deadline of one job.
const patience = 60 * time.Second

// result is what a job left.
type result struct {
	t      *testing.T
	status int
	out    []string // lines, sorted
	said   string   // on standard error
}

// oshrun runs a job to its end and checks that it leaves no process and no file.
// Every process of the job inherits the end of a pipe, which tells when the last
// one is gone.
func oshrun(t *testing.T, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, self, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second
	tmp := t.TempDir()
	cmd.Env = append(os.Environ(), asOshrun+"=1", "TMPDIR="+tmp)
	life, held, err := os.Pipe()
	check(t, err)
	defer life.Close()
	cmd.ExtraFiles = slices.Repeat([]*os.File{held}, 6) // the last one has no number that oshrun gives its PEs
	err = cmd.Run()
	check(t, held.Close())
	if ctx.Err() != nil {
		t.Fatalf("oshrun %s: not over after %v\n%s%s", args, patience, &out, &said)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	check(t, life.SetReadDeadline(time.Now().Add(patience)))
	if n, err := life.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("oshrun %s: processes are left", args)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("oshrun %s: files are left: %v, %v", args, left, err)
	}
	lines := slices.Sorted(strings.Lines(out.String()))
	return result{t, cmd.ProcessState.ExitCode(), lines, said.String()}
}

// want checks the exit status and what was said on standard error.
func (r result) want(status int, words ...string) {
	r.t.Helper()
	if r.status != status {
		r.t.Errorf("status %d, want %d; standard error:\n%s", r.status, status, r.said)
	}
	for _, w := range words {
		if !strings.Contains(r.said, w) {
			r.t.Errorf("standard error lacks %q:\n%s", w, r.said)
		}
	}
}

// wantLines checks standard output: each format stands for a line of each of n
// ranks.
func (r result) wantLines(n int, formats ...string) {
	r.t.Helper()
	var want []string
	for _, f := range formats {
		for rank := range n {
			want = append(want, strings.ReplaceAll(f, "#", fmt.Sprint(rank))+"\n")
		}
	}
	slices.Sort(want)
	if d := cmp.Diff(want, r.out); d != "" {
		r.t.Errorf("output (-want +got):\n%s\nstandard error:\n%s", d, r.said)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// killed is the status of a job of which a PE was killed.
const killed = 128 + int(syscall.SIGKILL)
