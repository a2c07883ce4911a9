package remote

import (
	"errors"
	"syscall"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// failure is an error on its way: its text, and what of its causes a front end acts on.
type failure struct {
	Text    string
	Hint    string        // of a daemon.HintError; empty: there is none
	Errno   syscall.Errno // 0: there is none
	Tier    kernel.Tier   // of a kernel.TierError, if Missing is not empty
	Missing string
}

func codeFailure(c *wire.Coder, v *failure) {
	c.String(&v.Text)
	c.String(&v.Hint)
	wire.Integer(c, &v.Errno)
	wire.Integer(c, &v.Tier)
	c.String(&v.Missing)
}

// failureOf returns what is sent of an error.
func failureOf(err error) failure {
	f := failure{Text: err.Error()}
	if hint := new(daemon.HintError); errors.As(err, &hint) {
		f.Hint = hint.Hint
	}
	_ = errors.As(err, &f.Errno) // it stays 0 if there is none
	if tier := new(kernel.TierError); errors.As(err, &tier) {
		f.Tier, f.Missing = tier.Tier, tier.Missing
	}
	return f
}

// NodeError is an error that another process has reported. errors.Is and errors.As find the
// causes that a front end acts on: syscall.Errno, *daemon.HintError and *kernel.TierError.
type NodeError struct {
	Text   string
	causes []error
}

// Error returns the text as the node had it.
func (e *NodeError) Error() string { return e.Text }

// Unwrap returns the causes that are known here.
func (e *NodeError) Unwrap() []error { return e.causes }

// error returns the error that was sent.
func (f *failure) error() error {
	e := &NodeError{Text: f.Text}
	if f.Hint != "" {
		e.causes = append(e.causes, &daemon.HintError{Err: errors.New(f.Text), Hint: f.Hint})
	}
	if f.Missing != "" {
		e.causes = append(e.causes, &kernel.TierError{Tier: f.Tier, Missing: f.Missing})
	}
	if f.Errno != 0 {
		e.causes = append(e.causes, f.Errno)
	}
	return e
}
