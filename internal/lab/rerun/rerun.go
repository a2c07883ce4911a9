// Package rerun runs this binary again, as oshrun with a job of its own. Experiments consist of such runs.
package rerun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// endTimeout is how long a run may take to end after SIGTERM. oshrun needs less than two seconds.
const endTimeout = 5 * time.Second

// tail is how many bytes at the end of a run's standard error are kept for its error.
const tail = 4 << 10

// Run is a run of this binary.
type Run struct {
	*exec.Cmd
	said last // the end of its standard error
}

// New returns a run of this binary with the given arguments, which the caller starts.
//
//   - Streams: standard input is empty. The end of standard error is kept for the error of Ended. The caller
//     may set the others.
//   - End: when ctx ends, the run gets SIGTERM, and SIGKILL five seconds later. The kernel kills it when this
//     process ends.
func New(ctx context.Context, args ...string) (*Run, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &Run{Cmd: exec.CommandContext(ctx, self, args...)}
	r.Args[0] = "oshrun"
	r.Stderr = &r.said
	r.SysProcAttr = xunix.ChildAttr()
	r.Cancel = func() error { return r.Process.Signal(syscall.SIGTERM) }
	r.WaitDelay = endTimeout
	return r, nil
}

// Listen copies the run's standard error to w as well. It must be called before the start.
func (r *Run) Listen(w io.Writer) { r.Stderr = io.MultiWriter(&r.said, w) }

// Ended returns the error of a run, given the result of Wait or Run: nil if its exit status is 0 or expected,
// otherwise a *FailedError.
func (r *Run) Ended(err error, expected ...int) error {
	if r.ProcessState == nil {
		return err
	}
	status := statusOf(r.ProcessState)
	if status == 0 || slices.Contains(expected, status) {
		return nil
	}
	return &FailedError{Command: strings.Join(r.Args, " "), Status: status, Said: r.said.String()}
}

// FailedError reports a run with an unexpected exit status.
type FailedError struct {
	Command string
	Status  int    // exit status as in a shell: 128+n if signal n ended the run
	Said    string // the end of its standard error
}

// Error returns the command, the exit status and the end of standard error.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("%s: exit status %d", e.Command, e.Status)
	if said := strings.TrimRight(e.Said, "\n"); said != "" {
		text += ":\n" + said
	}
	return text
}

// statusOf returns the exit status as in a shell.
func statusOf(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// last is a writer that keeps the last bytes.
type last struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *last) Write(b []byte) (int, error) {
	l.Buffer.Write(b)
	if over := l.Len() - tail; over > 0 {
		l.Next(over)
	}
	return len(b), nil
}

// StatusOf returns the exit status for the error of an experiment: that of the failed run, or other if the
// error has none.
func StatusOf(err error, other int) int {
	if failed, ok := errors.AsType[*FailedError](err); ok {
		return failed.Status
	}
	return other
}
