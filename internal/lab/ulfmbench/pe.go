package ulfmbench

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/mpi"
)

// Exit statuses of the program of the ranks.
const (
	exitOK    = 0
	exitError = 1
)

// warmUp is how many calls of the case and of Allreduce are not measured at first. They open what calls need.
const warmUp = 10

// pause is how long the rank that revokes or dies waits behind the last barrier, so that all others are in their calls.
const pause = 5 * time.Millisecond

// waits lists the phases of revoke: the calls in which the others wait.
var waits = []string{InRecv, InBarrier}

// plan is what the ranks of a job do. It is the argument of their program.
type plan struct {
	Case    string `json:"case"`
	Samples int    `json:"samples"`
	Calls   int    `json:"calls"`
	Seed    uint64 `json:"seed"`
	Dead    []int  `json:"dead"`   // the victims, ascending
	Killed  string `json:"killed"` // file for the time of the victim of barrier, recvany or respawn
}

// line is the line of output of a survivor.
type line struct {
	Rank   int     `json:"rank"`
	Record *record `json:"record,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// record is what a survivor measured.
type record struct {
	First   time.Duration              `json:"first,omitempty"`   // how long the first call took
	Rounds  []round                    `json:"rounds,omitempty"`  // of the steady phase
	Revoked map[string][]time.Duration `json:"revoked,omitempty"` // by phase of revoke: when Revoke was called (rank 0), or ErrRevoked returned
	Learned time.Duration              `json:"learned,omitempty"` // when the error of the death returned
	Steps   map[string]time.Duration   `json:"steps,omitempty"`   // by phase of respawn: when it was over
	Wrong   map[string]wrongs          `json:"wrong,omitempty"`   // by phase
}

// round is a sample of the steady phase: the time of a batch of each kind.
type round struct {
	Call      time.Duration `json:"call"`
	Allreduce time.Duration `json:"allreduce"`
}

// wrongs counts wrong results.
type wrongs struct {
	Count int    `json:"count"`
	What  string `json:"what"` // the last one, in words
}

// wrongOf returns the wrong results of a phase, and whether there are any. A victim has none.
func (r *record) wrongOf(phase string) (wrongs, bool) {
	if r == nil {
		return wrongs{}, false
	}
	w, ok := r.Wrong[phase]
	return w, ok
}

// pe is a rank of a measurement.
type pe struct {
	plan
	record
	c     *mpi.Comm // all ranks
	rest  *mpi.Comm // the survivors; c while nobody has died
	phase string
}

// Main runs the program and returns its exit status. The argument is the plan.
func Main(args []string, stdout, stderr io.Writer) int {
	if err := runPE(args, stdout); err != nil {
		fmt.Fprintf(stderr, "ulfm-pe: %v\n", err)
		return exitError
	}
	return exitOK
}

// parsePlan returns the plan in the arguments of the program.
func parsePlan(args []string) (p plan, err error) {
	const hint = "this program is part of oshrun ulfm-bench, use that"
	if len(args) != 1 {
		return p, fmt.Errorf("%d arguments, want 1: a plan; %s", len(args), hint)
	}
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return p, fmt.Errorf("plan: %w; %s", err, hint)
	}
	return p, measure.CheckWords("plan", []string{p.Case}, Cases)
}

// runPE runs this rank's part of a measurement.
func runPE(args []string, stdout io.Writer) error {
	plan, err := parsePlan(args)
	if err != nil {
		return err
	}
	w, err := mpi.Init()
	if err != nil {
		return err
	}
	if parents := w.Parent(); parents != nil {
		return errors.Join(join(parents), w.Finalize())
	}
	p := &pe{plan: plan, c: w.Comm(), rest: w.Comm()}
	out := json.NewEncoder(stdout)
	if err := p.run(); err != nil {
		return errors.Join(err, out.Encode(line{Rank: p.c.Rank(), Error: err.Error()}))
	}
	if err := out.Encode(line{Rank: p.c.Rank(), Record: &p.record}); err != nil {
		return err
	}
	return w.Finalize()
}

// run measures. At its end it waits for the other survivors: output would slow down those that still measure.
func (p *pe) run() error {
	var err error
	switch c := (cell{name: p.Case}); {
	case c.awaitsDeath():
		err = p.awaitDeath()
	case c.makesCalls():
		err = p.measureCalls()
	default:
		err = p.measureRevocations()
	}
	if err != nil {
		return err
	}
	return p.rest.Barrier()
}

// countWrong counts a wrong result of the current phase.
func (p *pe) countWrong(format string, args ...any) {
	if p.Wrong == nil {
		p.Wrong = make(map[string]wrongs)
	}
	p.Wrong[p.phase] = wrongs{p.Wrong[p.phase].Count + 1, fmt.Sprintf(format, args...)}
}

// isVictim says whether this rank is to kill itself.
func (p *pe) isVictim() bool { return slices.Contains(p.Dead, p.c.Rank()) }

// die kills this process.
func die() error {
	if err := xunix.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	<-time.After(time.Minute)
	return errors.New("the victim still runs a minute after its SIGKILL")
}

// measureCalls measures the case's calls, and Allreduce beside them.
func (p *pe) measureCalls() error {
	p.phase = Steady
	for _, name := range []string{Allreduce, p.Case} {
		if _, err := p.runBatch(name, warmUp); err != nil {
			return fmt.Errorf("warming up %s: %w", name, err)
		}
	}
	if len(p.Dead) > 0 {
		if err := p.measureFirst(); err != nil {
			return fmt.Errorf("first call: %w", err)
		}
	}
	p.phase = Steady
	names := []string{Allreduce, p.Case}
	rng := rand.New(rand.NewPCG(p.Seed, 0))
	for i := range p.Samples {
		var took [2]time.Duration
		for _, k := range rng.Perm(len(names)) {
			var err error
			if took[k], err = p.runBatch(names[k], p.Calls); err != nil {
				return fmt.Errorf("%s, sample %d of %d: %w", names[k], i+1, p.Samples, err)
			}
		}
		p.Rounds = append(p.Rounds, round{Allreduce: took[0], Call: took[1]})
	}
	return nil
}

// measureFirst measures the call during which the victims die. Then all survivors know and acknowledge the deaths.
func (p *pe) measureFirst() error {
	p.phase = First
	if err := p.c.Barrier(); err != nil {
		return err
	}
	if p.isVictim() {
		return die()
	}
	took, err := p.call(p.Case)
	p.First = max(took, 1)
	switch named := errors.Is(err, mpi.ErrDied); {
	case err != nil && !named:
		return err
	case !named && (p.Case == Agree || p.Case == Iagree):
		p.countWrong("%s reports no death", p.Case)
	}
	return p.leaveDead()
}

// leaveDead waits until all deaths are known, acknowledges them, and makes the communicator of the survivors.
func (p *pe) leaveDead() (err error) {
	for len(p.c.Failed()) < len(p.Dead) {
		<-time.After(time.Millisecond)
	}
	p.c.AckFailed()
	if p.rest, err = p.c.Shrink(); err != nil {
		return err
	}
	return p.rest.Barrier()
}

// awaitDeath measures when this rank learns of the victim's death, in Barrier or Recv.
func (p *pe) awaitDeath() (err error) {
	p.phase = Death
	file, err := os.OpenFile(p.Killed, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for range 2 {
		if err := p.c.Barrier(); err != nil {
			return err
		}
	}
	if p.isVictim() {
		<-time.After(pause)
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(xunix.Monotonic()))
		if _, err := file.Write(b[:]); err != nil {
			return err
		}
		return die()
	}
	if p.Case == RecvAny {
		_, err = mpi.Recv(p.c, make([]uint64, 1), mpi.AnySource, 1)
	} else {
		err = p.c.Barrier()
	}
	p.Learned = xunix.Monotonic()
	if !errors.Is(err, mpi.ErrDied) {
		p.countWrong("%s returns %v, want %v", p.Case, err, mpi.ErrDied)
	}
	if p.Case == Respawn {
		return p.replaceDead()
	}
	return p.leaveDead()
}

// measureRevocations measures revocations of communicators in which all ranks but rank 0 wait.
func (p *pe) measureRevocations() error {
	p.Revoked = make(map[string][]time.Duration)
	rng := rand.New(rand.NewPCG(p.Seed, 0))
	for i := range p.Samples {
		for _, k := range rng.Perm(len(waits)) {
			p.phase = waits[k]
			at, err := p.revoke()
			if err != nil {
				return fmt.Errorf("revocation %d of %d in %s: %w", i+1, p.Samples, p.phase, err)
			}
			p.Revoked[p.phase] = append(p.Revoked[p.phase], at)
		}
	}
	return nil
}

// revoke makes a communicator, which rank 0 revokes. It returns the time of the call at rank 0, and that of the error at
// all others.
func (p *pe) revoke() (at time.Duration, err error) {
	d, err := p.c.Dup()
	if err != nil {
		return 0, err
	}
	if err := p.c.Barrier(); err != nil {
		return 0, err
	}
	if p.c.Rank() == 0 {
		<-time.After(pause)
		at = xunix.Monotonic()
		if err := d.Revoke(); err != nil {
			return 0, err
		}
	} else {
		if p.phase == InBarrier {
			err = d.Barrier()
		} else {
			_, err = mpi.Recv(d, make([]uint64, 1), 0, 1)
		}
		at = xunix.Monotonic()
		if !errors.Is(err, mpi.ErrRevoked) {
			p.countWrong("%s returns %v, want %v", p.phase, err, mpi.ErrRevoked)
		}
	}
	if err := p.c.Barrier(); err != nil {
		return 0, err
	}
	return at, d.Free()
}
