// Package minife solves Laplace's equation in the unit cube by finite elements, as the benchmark MiniFE does: trilinear elements, rows of 27 entries, and
// the method of conjugate gradients. The solution is compared with the exact one.
//
// Each iteration is a transaction (package mpi/ft). The ranks keep copies of their data at the next rank. If ranks die, the others go back to the last
// copies, and go on with new ranks in place of the dead, or without. The result is the same, bit for bit: sums are added box by box, and a box is the same
// whichever rank has it.
package minife

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
)

// Events of which Run tells, beside the phases of package ft.
const (
	EventDie    = "die"    // this rank is about to die by --kill
	EventFault  = "fault"  // operations of an iteration have failed at this rank
	EventReject = "reject" // the ranks have agreed to reject the iteration
	EventReload = "reload" // the data are restored, and the iterations go on
)

// options are the flags.
type options struct {
	size       [3]int
	iterations int
	every      int // iterations from one copy of the data to the next
	plain      bool
	policy     ft.Policy
	timeout    time.Duration
	fault      func(iteration int) // ends the process in some iteration; nil: none
	kills      map[int]int         // by rank: the iteration in which it dies
	stdout     io.Writer
	note       func(event string)
}

// parse reads the flags.
func parse(args []string) (*options, error) {
	o := &options{kills: map[int]int{}}
	set := flag.NewFlagSet("minife", flag.ExitOnError)
	nx := set.Int("nx", 16, "elements in the first dimension")
	ny := set.Int("ny", 0, "elements in the second one; 0: as many as in the first")
	nz := set.Int("nz", 0, "elements in the third one; 0: as many as in the first")
	set.IntVar(&o.iterations, "iterations", 200, "iterations, all of which are made")
	set.IntVar(&o.every, "checkpoint", 10, "how often the data are copied: after so many iterations")
	set.BoolVar(&o.plain, "plain", false, "no transactions: a death ends the program")
	set.DurationVar(&o.timeout, "timeout", time.Minute, "time for an iteration")
	policy := set.String("policy", "rebuild", "in place of dead ranks: rebuild (new ones, with their numbers), merge (new ones behind the others) or shrink (none)")
	kills := set.String("kill", "", "ranks that die, and in which iteration: 1@50,3@50")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	o.size = [3]int{*nx, *ny, *nz}
	for d := 1; d < 3; d++ {
		if o.size[d] == 0 {
			o.size[d] = o.size[0]
		}
	}
	if min(o.size[0], o.size[1], o.size[2]) < 2 || o.iterations < 1 || o.every < 1 || o.timeout <= 0 {
		return nil, fmt.Errorf("%v elements, %d iterations, a copy after %d, %v for an iteration, want 2 elements or more in each dimension, and positive numbers",
			o.size, o.iterations, o.every, o.timeout)
	}
	var known bool
	if o.policy, known = map[string]ft.Policy{"rebuild": ft.Rebuild, "merge": ft.Merge, "shrink": ft.Shrink}[*policy]; !known {
		return nil, fmt.Errorf("--policy %s, want rebuild, merge or shrink", *policy)
	}
	for _, kill := range strings.FieldsFunc(*kills, func(r rune) bool { return r == ',' }) {
		rank, iteration, is := strings.Cut(kill, "@")
		r, errRank := strconv.Atoi(rank)
		i, errIteration := strconv.Atoi(iteration)
		if !is || errRank != nil || errIteration != nil {
			return nil, fmt.Errorf("--kill %s, want ranks and iterations, as 1@50,3@50", *kills)
		}
		o.kills[r] = i
	}
	return o, nil
}

// Run is the program of each rank. It takes the flags of the command, which --help lists, prints the result to stdout at rank 0, and calls note, unless it
// is nil, at each event and at the end of each phase of a recovery (ft.Trace). A process that the others do not need any more returns nil.
func Run(args []string, stdout io.Writer, note func(event string)) error {
	err := run(args, stdout, note)
	if errors.Is(err, ft.ErrGivenUp) { // the others have begun anew with another process in place of this one
		return nil
	}
	return err
}

func run(args []string, stdout io.Writer, note func(event string)) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.stdout, o.note = stdout, note; note == nil {
		o.note = func(string) {}
	}
	w, err := ft.Init()
	if err != nil {
		return err
	}
	s := &solver{o: o, saved: newCheckpoints(), grid: box{hi: o.size}}
	boxes := w.Comm().Size()
	if w.Parent() != nil { // this process is in place of one of the first ranks
		if boxes, err = strconv.Atoi(os.Getenv(boxesVar)); err != nil {
			return fmt.Errorf("%s: %w", boxesVar, err)
		}
	} else if iteration, dies := o.kills[w.Comm().Rank()]; dies {
		o.fault = func(now int) {
			if now == iteration {
				o.note(EventDie)
				if self, err := os.FindProcess(os.Getpid()); err == nil {
					_ = self.Signal(syscall.SIGSEGV)
				}
				select {}
			}
		}
	}
	if boxes > o.size[0]*o.size[1]*o.size[2]/8 {
		return fmt.Errorf("%d ranks, want one for 8 of the %v elements at most", boxes, o.size)
	}
	s.boxes = bisect(s.grid, boxes)
	if o.plain {
		if err := s.solve(&ft.State{Comm: w.Comm(), Epoch: -1}); err != nil {
			return err
		}
		return w.Finalize()
	}
	command, err := ft.Self()
	if err != nil {
		return err
	}
	command.Env = []string{fmt.Sprintf("%s=%d", boxesVar, boxes)}
	if err := ft.Run(w, o.policy, command, s.solve, ft.Trace(func(done ft.Phase) { o.note(string(done)) })); err != nil {
		return err
	}
	return w.Finalize()
}

// boxesVar is the environment variable that tells new ranks how many boxes there are: as many as ranks at first.
const boxesVar = "MINIFE_BOXES"

// solve makes the iterations that are left, on the ranks that there are, and prints the result.
func (s *solver) solve(st *ft.State) error {
	s.c = st.Comm
	if err := s.restore((st.Epoch + 1) * s.o.every); err != nil {
		return err
	}
	st.Commit(s.iteration/s.o.every - 1)
	s.o.note(EventReload)
	for s.iteration < s.o.iterations {
		if err := s.iterate(); err != nil {
			return err
		}
		s.iteration++
		if s.iteration%s.o.every == 0 && !s.o.plain {
			s.saved.commit(s.iteration, s.rr)
			st.Commit(s.iteration/s.o.every - 1)
		}
	}
	return s.finish()
}

// finish computes the residual and the greatest error, and prints them at rank 0.
func (s *solver) finish() error {
	t := &tried{}
	if !s.o.plain {
		t.b = ft.Try(s.c, ft.Global)
	}
	rr, err := s.product(t, func(p *part) float64 { return dot(p.r, p.r) })
	worst, all := []float64{0}, []float64{0}
	for _, p := range s.parts {
		worst[0] = max(worst[0], p.worst(s.grid))
	}
	if err == nil {
		var reqs []mpi.Request
		q, failed := mpi.Iallreduce(s.c, all, worst, mpi.Max)
		t.add(&reqs, q, failed)
		err = t.wait(reqs, s.o.timeout)
	}
	if t.b != nil {
		if _, failed := t.b.Finish(nil, s.o.timeout).Wait(); failed != nil {
			return failed
		}
	}
	if s.c.Rank() == 0 && err == nil {
		_, err = fmt.Fprintf(s.o.stdout, "minife: %d x %d x %d elements, %d iterations: residual %.3e (%x), error at most %.4f\n",
			s.o.size[0], s.o.size[1], s.o.size[2], s.o.iterations, math.Sqrt(rr), math.Sqrt(rr), all[0])
	}
	return err
}
