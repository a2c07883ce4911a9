package fabench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/examples/minife/minife"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Exit statuses of the program of the ranks.
const (
	exitOK    = 0
	exitError = 1
)

// plan is what a rank does beside its application. It is the first argument of the program; the flags of the application follow.
type plan struct {
	App    string `json:"app"`
	Killed string `json:"killed"` // file for the times of victims
	Node   bool   `json:"node"`   // a victim kills its node
}

// stamp is an event of a rank.
type stamp struct {
	Event string        `json:"event"`
	At    time.Duration `json:"at"`
}

// line is the line of output of a rank that lives.
type line struct {
	Program string  `json:"program"` // lineMark
	Stamps  []stamp `json:"stamps"`
	Result  string  `json:"result,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// lineMark tells lines of this program from other output.
const lineMark = "fa-pe"

// Main runs the program and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	if err := runPE(args, stdout); err != nil {
		fmt.Fprintf(stderr, "fa-pe: %v\n", err)
		return exitError
	}
	return exitOK
}

// parsePlan returns the plan in the arguments of the program.
func parsePlan(args []string) (p plan, err error) {
	const hint = "this program is part of oshrun fa-bench, use that"
	if len(args) == 0 {
		return p, errors.New("no arguments, want a plan; " + hint)
	}
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return p, fmt.Errorf("plan: %w; %s", err, hint)
	}
	return p, measure.CheckWords("plan", []string{p.App}, AppNames())
}

// runPE runs a rank of an application.
func runPE(args []string, stdout io.Writer) (err error) {
	p, err := parsePlan(args)
	if err != nil {
		return err
	}
	r := recorder{plan: p}
	if p.Killed != "" {
		if r.file, err = os.OpenFile(p.Killed, os.O_WRONLY|os.O_APPEND, 0); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.file.Close()) }()
	}
	var result bytes.Buffer
	l := line{Program: lineMark}
	err = findApp(p.App).Run(args[1:], &result, r.note)
	if l.Stamps, l.Result = r.stamps, result.String(); err != nil {
		l.Error = err.Error()
	}
	return errors.Join(err, json.NewEncoder(stdout).Encode(l))
}

// recorder notes the events of a rank.
type recorder struct {
	plan
	file   *os.File // for the time of a victim; nil: nobody dies
	stamps []stamp
}

// note notes an event. With the event of its own death, a victim of case node does not return.
func (r *recorder) note(event string) {
	now := xunix.Monotonic()
	if event != minife.EventDie {
		r.stamps = append(r.stamps, stamp{event, now})
		return
	}
	if r.file == nil {
		return
	}
	if r.Node {
		fmt.Fprintf(os.Stderr, "fa-pe: %v\n", r.killNode()) // the job misses the time of the death
		return
	}
	// Go's own handler prints all goroutines first, which a program in C does not.
	if err := xunix.DefaultAction(syscall.SIGSEGV); err != nil {
		fmt.Fprintf(os.Stderr, "fa-pe: %v\n", err)
		return
	}
	r.writeTime()
}

// writeTime writes the time of a death. If that fails, the job misses it.
func (r *recorder) writeTime() {
	_, _ = r.file.Write(binary.LittleEndian.AppendUint64(nil, uint64(xunix.Monotonic())))
}

// killNode kills all processes of this rank's node, the daemon first and this one last. If this process ends meanwhile, the others end without their
// daemon. killNode returns only if it fails.
func (r *recorder) killNode() error {
	all, err := rerun.LookAtProcesses()
	if err != nil {
		return err
	}
	node, err := all.NodeOf(os.Getppid())
	if err != nil {
		return err
	}
	self := all[os.Getpid()]
	node = slices.DeleteFunc(node, func(p rerun.Process) bool { return p.PID == self.PID })
	r.writeTime()
	for i := range node {
		if err := node[i].Kill(syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := self.Kill(syscall.SIGKILL); err != nil {
		return err
	}
	<-time.After(time.Minute)
	return errors.New("the victim still runs a minute after its SIGKILL")
}
