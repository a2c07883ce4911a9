package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// ErrWatched is the cause of an Add of a process that the Watch has already.
var ErrWatched = errors.New("it is watched already")

// Tier is how deaths are learnt of, from the best way to the last.
type Tier uint8

// The tiers.
const (
	BPF      Tier = iota + 1 // eBPF at the exit itself, before memory is given back
	ProcConn                 // process connector (netlink) and a pidfd each
	PIDFD                    // a pidfd each
	SIGCHLD                  // SIGCHLD and waitid, children only
)

var tierNames = []string{BPF: "bpf", ProcConn: "procconn", PIDFD: "pidfd", SIGCHLD: "sigchld"}

// String returns the name that ParseTier knows.
func (t Tier) String() string {
	if t >= BPF && t <= SIGCHLD {
		return tierNames[t]
	}
	return fmt.Sprintf("Tier(%d)", uint8(t))
}

// ParseTier returns the tier of a name: "bpf", "procconn", "pidfd" or "sigchld".
func ParseTier(text string) (Tier, error) {
	if i := slices.Index(tierNames, text); i > 0 {
		return Tier(i), nil
	}
	return 0, fmt.Errorf("tier %q, want one of %s", text, strings.Join(tierNames[BPF:], ", "))
}

// Config says how to watch.
type Config struct {
	Tier   Tier          // 0: the best that works; otherwise that one or an error
	Poll   time.Duration // between walks that look for stopped, stuck and starved processes; 0: none
	Report func(Report)  // called by one goroutine at a time, soon; must not block; may call Add and Remove, not Close
	Logger zerolog.Logger

	early bool // for tests: attach to signals although the exit comes before memory is given back
	alone bool // for tests: the program for kernels whose tracepoint has one argument
}

// Kind is what a Report says.
type Kind uint8

// The kinds.
const (
	Dead      Kind = iota + 1 // runs no more instruction of its program; memory and descriptors may still be held
	Released                  // memory is given back, the process can be reaped
	Stopped                   // by a signal or a debugger
	Continued                 // after Stopped
	Stuck                     // a thread is in uninterruptible sleep since the walk before
	Starved                   // runnable, and no thread had a processor since the walk before
	Running                   // after Stuck or Starved
	Unseen                    // the watch has failed: nothing more is reported of this process
)

var kindNames = []string{
	Dead: "dead", Released: "released", Stopped: "stopped", Continued: "continued",
	Stuck: "stuck", Starved: "starved", Running: "running", Unseen: "unseen",
}

// String returns the name in small letters.
func (k Kind) String() string {
	if k >= Dead && k <= Unseen {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Exit is how a process ended.
type Exit struct {
	Status syscall.WaitStatus // status, or signal and core dump
	Known  bool               // whether Status is; it may not be where the process is no child
	OOM    bool               // the out-of-memory killer chose it; only BPF knows
}

// Report is a piece of news of one process.
type Report struct {
	Kind Kind
	PID  int
	Tag  uint64        // what Add was given
	Exit Exit          // of Dead and Released
	At   time.Duration // CLOCK_MONOTONIC of the kernel's own event, 0 where there is none, or it came late (ProcConn)
	Tier Tier
}

// TierError says why a tier cannot be used.
type TierError struct {
	Tier    Tier
	Missing string // the capability ("CAP_BPF") or the feature of the kernel
	Err     error  // what the kernel said, if it was asked
}

func (e *TierError) Error() string {
	text := fmt.Sprintf("watch processes by %v: missing: %s", e.Tier, e.Missing)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *TierError) Unwrap() error { return e.Err }
