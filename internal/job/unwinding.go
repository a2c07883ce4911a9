package job

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// What Unwinding returns.
const (
	Panics = "panics"
	Exits  = "ends by runtime.Goexit"
)

// ExitPatience is how long Finalize waits for the other PEs on a stack that ends by
// runtime.Goexit. Go prints nothing there, so the wait hides nothing.
const ExitPatience = time.Second

// Unwinding says what unwinds the stack of the calling goroutine: "panics" or "ends by
// runtime.Goexit". It returns "" if the caller runs normally.
//
// Deferred functions run on top of the frame that unwinds, so that frame is looked for. After
// a panic was recovered the frame stays until the deferred function that called recover has
// returned; nothing tells that state from a panic that goes on.
//
//   - Cost: some microseconds.
func Unwinding() string {
	var room [64]uintptr
	pcs := room[:]
	n := runtime.Callers(2, pcs)
	for n == len(pcs) { // the stack may be deeper
		pcs = make([]uintptr, 4*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	for _, pc := range pcs[:n] {
		switch runtime.FuncForPC(pc - 1).Name() { // neither of these is ever put in line
		case "runtime.gopanic":
			return Panics
		case "runtime.Goexit":
			return Exits
		}
	}
	return ""
}

// UnwindingAdvice is what errors of calls say that are refused on a stack that unwinds as
// why says.
func UnwindingAdvice(why string) string {
	if why == Exits {
		return "the other PEs may never make this call; hint: call it before runtime.Goexit, t.FailNow or t.Skip, or on all PEs alike"
	}
	return "the other PEs may never make this call; hint: recover in a function that returns before it"
}

// WarnUnwinding tells the user that a Finalize was refused, whose error a deferred call drops.
func WarnUnwinding(err error) { fmt.Fprintf(os.Stderr, "goshmem: %v\n", err) }
