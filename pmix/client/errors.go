package client

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Errors that callers decide on with errors.Is.
var (
	ErrNotFound       = errors.New("pmix: not found")
	ErrPartial        = errors.New("pmix: only some were found")
	ErrExists         = errors.New("pmix: already exists")
	ErrNoPermission   = errors.New("pmix: not permitted")
	ErrTimeout        = errors.New("pmix: timed out at the server")
	ErrLostConnection = errors.New("pmix: connection to the server lost")
	ErrProcFailed     = errors.New("pmix: a participating process has ended")
	ErrFinalized      = errors.New("pmix: client is finalized")
)

// StatusError reports a request that failed, with the status of the standard.
type StatusError struct {
	Op     string // "fence", "get job-1.3 key", ...
	Status codec.Status
}

// Error names the operation and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("pmix %s: %v (%d)", e.Op, e.Status, int32(e.Status))
}

// Is reports whether target is the sentinel that the status belongs to.
func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case codec.StatusErrNotFound:
		return target == ErrNotFound
	case codec.StatusErrPartialSuccess:
		return target == ErrPartial
	case codec.StatusErrExists, codec.StatusErrDuplicateKey:
		return target == ErrExists
	case codec.StatusErrNoPermissions:
		return target == ErrNoPermission
	case codec.StatusErrTimeout:
		return target == ErrTimeout
	case codec.StatusErrLostConnection:
		return target == ErrLostConnection
	case codec.StatusErrProcAborted, codec.StatusErrProcRequestedAbort, codec.StatusErrProcTermWoSync,
		codec.StatusEventProcTerminated, codec.StatusErrProcKilledByCmd, codec.StatusErrProcAbortedBySig,
		codec.StatusErrExitNonzeroTerm, codec.StatusEventNodeDown:
		return target == ErrProcFailed
	default:
		return false
	}
}

func statusError(op string, status codec.Status) error {
	if status == codec.StatusSuccess {
		return nil
	}
	return &StatusError{Op: op, Status: status}
}
