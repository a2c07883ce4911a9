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

// ErrWatched is the cause of a failed Add: the Watch has the process already.
var ErrWatched = errors.New("the process is watched already")

// Tier is a way to learn of deaths. Lower values are better.
type Tier uint8

// The tiers.
const (
	BPF      Tier = iota + 1 // eBPF program at the exit, before memory is freed (Linux 6.16)
	ProcConn                 // process connector (netlink), and a pidfd for each process
	PIDFD                    // a pidfd for each process
	SIGCHLD                  // SIGCHLD and waitid; children only
)

var tierNames = []string{BPF: "bpf", ProcConn: "procconn", PIDFD: "pidfd", SIGCHLD: "sigchld"}

// String returns the name that ParseTier accepts.
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
	Tier Tier          // the tier to use; 0: the best one that works
	Poll time.Duration // time between walks that look for stopped, stuck and starved processes; 0: no walks

	// Report is called for each event, by one goroutine at a time. It must not block: later events wait for
	// it. It may call Add and Remove, but not Close.
	Report func(Report)
	Logger zerolog.Logger

	early bool // tests: load the signal program although the kernel reports exits early
	alone bool // tests: load the exit program for kernels whose tracepoint has one argument
	whole bool // tests: read all types of the kernel, as after a failure to read those that are needed
}

// Kind is the event that a Report is about.
type Kind uint8

// The kinds.
const (
	Dead      Kind = iota + 1 // no thread runs any more; memory and descriptors may still be held
	Released                  // memory is freed; the process can be reaped
	Stopped                   // all threads are stopped by a signal or a debugger
	Continued                 // Stopped has ended
	Stuck                     // a thread has been in uninterruptible sleep since the walk before
	Starved                   // a thread is runnable, and no thread has had a processor since the walk before
	Running                   // Stuck or Starved has ended
	Unseen                    // the watch has failed: nothing more is reported of this process
)

var kindNames = []string{
	Dead: "dead", Released: "released", Stopped: "stopped", Continued: "continued",
	Stuck: "stuck", Starved: "starved", Running: "running", Unseen: "unseen",
}

// String returns the name in lower case.
func (k Kind) String() string {
	if k >= Dead && k <= Unseen {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Exit is how a process ended.
type Exit struct {
	Status syscall.WaitStatus // exit status, or signal and core dump
	Known  bool               // Status is known; it may be unknown for a process that is not a child
	OOM    bool               // the out-of-memory killer chose the process; only BPF knows
}

// Report is one event of one process.
type Report struct {
	Kind Kind
	PID  int
	Tag  uint64        // argument of Add
	Exit Exit          // set for Dead and Released
	At   time.Duration // Dead: CLOCK_MONOTONIC of the kernel's event; 0: none, or it came too late (ProcConn)
	Tier Tier          // tier of the Watch
}

// TierError says why a tier does not work here.
type TierError struct {
	Tier    Tier
	Missing string // the capability ("CAP_BPF") or the kernel feature that is missing
	Err     error  // the kernel's error; nil: no call was made
}

func (e *TierError) Error() string {
	text := fmt.Sprintf("watch processes by %v: missing: %s", e.Tier, e.Missing)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *TierError) Unwrap() error { return e.Err }
