package client

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/pmix/wire"
)

// What callers decide on; use errors.Is.
var (
	ErrNotFound       = errors.New("pmix: not found")
	ErrPartial        = errors.New("pmix: some were not found")
	ErrExists         = errors.New("pmix: exists already")
	ErrNoPermission   = errors.New("pmix: not permitted")
	ErrTimeout        = errors.New("pmix: timed out at the server")
	ErrLostConnection = errors.New("pmix: connection to the server lost")
	ErrProcFailed     = errors.New("pmix: a process that is needed has ended")
	ErrFinalized      = errors.New("pmix: client is finalized")
)

// StatusError is a request that did not end well: what was asked, and the status of the standard.
type StatusError struct {
	Op     string // "fence", "get job-1.3 key", ...
	Status wire.Status
}

// Error names the operation and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("pmix %s: %v (%d)", e.Op, e.Status, int32(e.Status))
}

// Is reports whether the status belongs to one of the package's sentinels.
func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case wire.StatusErrNotFound:
		return target == ErrNotFound
	case wire.StatusErrPartialSuccess:
		return target == ErrPartial
	case wire.StatusErrExists, wire.StatusErrDuplicateKey:
		return target == ErrExists
	case wire.StatusErrNoPermissions:
		return target == ErrNoPermission
	case wire.StatusErrTimeout:
		return target == ErrTimeout
	case wire.StatusErrLostConnection:
		return target == ErrLostConnection
	case wire.StatusErrProcAborted, wire.StatusErrProcRequestedAbort, wire.StatusErrProcTermWoSync,
		wire.StatusEventProcTerminated, wire.StatusErrProcKilledByCmd, wire.StatusErrProcAbortedBySig,
		wire.StatusErrExitNonzeroTerm, wire.StatusEventNodeDown:
		return target == ErrProcFailed
	default:
		return false
	}
}

func statusError(op string, status wire.Status) error {
	if status == wire.StatusSuccess {
		return nil
	}
	return &StatusError{Op: op, Status: status}
}
