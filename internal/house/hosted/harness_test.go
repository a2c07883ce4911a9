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

// asOshrun makes the test binary act as oshrun.
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

// patience is the time limit of one job.
const patience = 60 * time.Second

// result is the result of a job.
type result struct {
	t      *testing.T
	status int
	out    []string // lines, sorted
	said   string   // standard error
}

// oshrun runs a job to its end and checks that it leaves no process and no file. Every process of the job inherits one
// end of a pipe, so the pipe's end of file shows that the last process has ended.
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
	cmd.ExtraFiles = slices.Repeat([]*os.File{held}, 6) // the last one's number is none that oshrun uses for its PEs
	err = cmd.Run()
	check(t, held.Close())
	if ctx.Err() != nil {
		t.Fatalf("oshrun %s: still running after %v\n%s%s", args, patience, &out, &said)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	check(t, life.SetReadDeadline(time.Now().Add(patience)))
	if n, err := life.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("oshrun %s: processes are left behind", args)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("oshrun %s: files are left behind: %v, %v", args, left, err)
	}
	lines := slices.Sorted(strings.Lines(out.String()))
	return result{t, cmd.ProcessState.ExitCode(), lines, said.String()}
}

// want checks the exit status, and that standard error contains the words.
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

// wantLines checks standard output. Each format stands for one line of each of n ranks.
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

// killed is the status of a job with a PE that was killed.
const killed = 128 + int(syscall.SIGKILL)
