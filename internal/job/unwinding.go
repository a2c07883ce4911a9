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

// ExitPatience bounds Finalize's wait for the other PEs on a stack that ends by
// runtime.Goexit. Go prints nothing in that case, so the wait delays no message.
const ExitPatience = time.Second

// Unwinding returns what unwinds the stack of the calling goroutine: Panics or Exits. It
// returns "" if the caller runs normally.
//
// Deferred functions run on top of the frame that unwinds, so Unwinding searches the stack for
// that frame. After a recovered panic the frame stays until the deferred function that called
// recover has returned. That state cannot be told from a panic that goes on.
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
		switch runtime.FuncForPC(pc - 1).Name() { // neither function is ever inlined
		case "runtime.gopanic":
			return Panics
		case "runtime.Goexit":
			return Exits
		}
	}
	return ""
}

// UnwindingAdvice returns the end of an error for a call that is refused on an unwinding stack;
// why is the result of Unwinding.
func UnwindingAdvice(why string) string {
	if why == Exits {
		return "the other PEs may never make this call; hint: call it before runtime.Goexit, t.FailNow or t.Skip, or on all PEs alike"
	}
	return "the other PEs may never make this call; hint: recover in a function that returns before it"
}

// WarnUnwinding prints the error of a refused Finalize, because a deferred call drops it.
func WarnUnwinding(err error) { fmt.Fprintf(os.Stderr, "goshmem: %v\n", err) }
