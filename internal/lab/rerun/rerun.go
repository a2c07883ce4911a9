// Package rerun runs this very binary again, as oshrun with a job of its own:
// experiments are made of such runs.
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

// patience is how long a run that was asked to end may take for it; oshrun needs
// less than two seconds.
const patience = 5 * time.Second

// tail is how much of what a run says is kept for a message.
const tail = 4 << 10

// Run is a run to come.
type Run struct {
	*exec.Cmd
	said last
}

// New returns a run of this binary with the given arguments. It has no standard
// input, and what it writes to standard error is kept for the error of Ended;
// the other streams are the caller's to set. It is asked to end when ctx ends,
// and is killed if this process is.
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
	r.WaitDelay = patience
	return r, nil
}

// Listen passes on to w what the run writes to standard error, as it comes.
func (r *Run) Listen(w io.Writer) { r.Stderr = io.MultiWriter(&r.said, w) }

// Ended makes of what Wait or Run returned an error that says what was run, how
// it ended and what it said last; nil if it ended well or with a status that is
// expected.
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

// FailedError is the end of a run that did not do what it was started for.
type FailedError struct {
	Command string
	Status  int    // as a shell has it: 128+n if signal n ended it
	Said    string // the end of its standard error
}

// Error says all of it.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("%s: exit status %d", e.Command, e.Status)
	if said := strings.TrimRight(e.Said, "\n"); said != "" {
		text += ":\n" + said
	}
	return text
}

// statusOf is the exit status as a shell has it.
func statusOf(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// last keeps the end of what is written to it.
type last struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *last) Write(b []byte) (int, error) {
	l.Buffer.Write(b)
	if over := l.Len() - tail; over > 0 {
		l.Next(over)
	}
	return len(b), nil
}

// Load returns the load of the machine over 1, 5 and 15 minutes, which says how
// quiet it was; empty if it is not known.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}

// StatusOf returns the exit status that the error of an experiment stands for:
// that of the run that failed, otherwise the given one.
func StatusOf(err error, other int) int {
	if failed, ok := errors.AsType[*FailedError](err); ok {
		return failed.Status
	}
	return other
}
