package coll

import (
	"errors"
	"fmt"
)

// Errors that every collective may return.
var (
	// ErrBroken reports a broken team: a collective of some member ended by its deadline, or
	// members called different collectives (OtherError). The members no longer agree on
	// which step they are in.
	ErrBroken = errors.New("team is broken: an earlier collective on it was canceled or timed out, or its members called different ones")
	// ErrConcurrent reports a second collective on a team while one is under
	// way in this process.
	ErrConcurrent = errors.New("another collective is under way on this team in this PE")
	// ErrReleased reports a team that was released.
	ErrReleased = errors.New("team was released")
)

// DeadError reports members that have died: the collective, and every later one of
// a strict team, cannot end.
type DeadError struct{ Members []int } // indices in the team, ascending

// Error names the members.
func (e *DeadError) Error() string { return fmt.Sprintf("members %v of the team have died", e.Members) }

// LeftError reports a member that left the team for good before it entered the
// collective that this PE is in: it will never come.
type LeftError struct{ Member int }

// Error names the member.
func (e *LeftError) Error() string { return fmt.Sprintf("member %d has left the team", e.Member) }

// LateError reports a wait that was ended by its context or by Finalize before a member
// came. Member is the first one that was waited for in vain; others may be missing too.
type LateError struct {
	Member int
	Err    error // what ended the wait
}

// Error names the member and what ended the wait.
func (e *LateError) Error() string { return fmt.Sprintf("waiting for member %d: %v", e.Member, e.Err) }

// Unwrap returns what ended the wait.
func (e *LateError) Unwrap() error { return e.Err }

// lateError returns the error of a wait for member i that ended with err, which may be nil.
func lateError(i int, err error) error {
	if err == nil {
		return nil
	}
	return &LateError{Member: i, Err: err}
}

// OtherError reports a member that was in another collective, or in the same one
// with another root, length, object, or size of elements.
type OtherError struct{ Member int }

// Error names the member.
func (e *OtherError) Error() string {
	return fmt.Sprintf("member %d called another collective, or with other arguments", e.Member)
}
