package ft

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/bridge"
)

// Code is a kind of fault.
type Code int

// The codes of faults. All but the first two are of requests.
const (
	SoftFault  = Code(bridge.SoftFault)  // a rank whose process has died: by a signal, for want of memory, or by its exit
	NodeLost   = Code(bridge.NodeLost)   // a rank that was lost with its node
	TimedOut   = Code(bridge.TimedOut)   // not complete in time
	Truncated  = Code(bridge.Truncated)  // a message that was longer than its buffer
	Withdrawn  = Code(bridge.Withdrawn)  // canceled, here or by the sender
	Broken     = Code(bridge.Broken)     // a collective that has failed without a death, or was given up; a communicator that is revoked
	RankLeft   = Code(bridge.RankLeft)   // of a request that needs a rank which has finalized, or freed the communicator
	PeerFailed = Code(bridge.PeerFailed) // of a request that needs a rank which has died
	Elsewhere  = Code(bridge.Elsewhere)  // given up because the block has failed at another rank
	InnerBlock = Code(bridge.InnerBlock) // of a block in the block; the codes of its requests are there as well
	OtherFault = Code(bridge.OtherFault) // any other error
	Raised     = Code(bridge.Raised)     // Request.RaiseError with an error that has no code
)

// AppCodes is how many codes a program has for itself.
const AppCodes = bridge.Codes - bridge.Application

// App returns code n of the program, from 0 to AppCodes-1.
func App(n int) Code {
	if n < 0 || n >= AppCodes {
		panic(fmt.Sprintf("ft.App: code %d, want 0 to %d", n, AppCodes-1))
	}
	return Code(bridge.Application + n)
}

// String says in words what the code means.
func (c Code) String() string { return Set(0).With(c).String() }

// Set is a set of codes.
type Set uint64

// SetOf returns a set of codes; of none, the set of all.
func SetOf(codes ...Code) (s Set) {
	for _, c := range codes {
		s = s.With(c)
	}
	if len(codes) == 0 {
		s--
	}
	return s
}

// With returns the set with one code more.
func (s Set) With(c Code) Set { return s | 1<<(uint(c)%bridge.Codes) }

// Has reports whether the set has any of these codes.
func (s Set) Has(codes ...Code) bool { return s&SetOf(codes...) != 0 }

// String says in words what the codes mean.
func (s Set) String() string { return bridge.NameCodes(uint64(s)) }

// Error is an error with a code of the program, for mpi.Request.RaiseError.
type Error struct {
	Code Code // of App
	Err  error
}

// Error returns what Err says.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// FaultCode is for package mpi.
func (e *Error) FaultCode() int { return int(e.Code) }
