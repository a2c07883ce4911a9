package ftcobench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/shmem"
)

// The program of the PEs. All PEs reduce some times without failures. Then PE 0 reads the plan of the failures from its
// standard input and gives each PE its part in it. Survivors report their results and the times.

// Exit statuses of the program.
const (
	exitOK    = 0
	exitError = 1
)

// victimTimeout is how long a victim waits for its death.
const victimTimeout = 2 * time.Minute

// line is a line of output of a PE. Each PE prints one when it is ready; each survivor prints one with Seen.
type line struct {
	PE     int             `json:"pe"`
	PID    int             `json:"pid"`
	Parent int             `json:"parent"` // the process that has started the PE: that of its node
	Rounds []time.Duration `json:"rounds"` // how long the reductions without failures took
	// NotHere says why the job cannot do what the case asks for. The PE ends then.
	NotHere string `json:"not_here,omitempty"`
	Seen    *seen  `json:"seen,omitempty"`
}

// seen is the report of a survivor. Times are of CLOCK_MONOTONIC; 0 means never.
type seen struct {
	Called   time.Duration `json:"called"`           // when it called the reduction
	News     time.Duration `json:"news"`             // when the last news of a death that it waited for was on the failure page of its node
	Failed   time.Duration `json:"failed,omitempty"` // when the reduction failed, of a strict team
	Shrunk   time.Duration `json:"shrunk,omitempty"` // when the last Shrink returned, of a strict team
	Returned time.Duration `json:"returned"`         // when the reduction returned with a result

	Contributors []int  `json:"contributors"` // PEs whose data are in the result
	Wrong        string `json:"wrong,omitempty"`
	Error        string `json:"error,omitempty"`
}

// plan is what PE 0 reads: who dies, and when the reduction starts.
type plan struct {
	Start  time.Duration `json:"start"`  // of the reduction, on CLOCK_MONOTONIC
	Dead   []int         `json:"dead"`   // PEs that die
	Silent []int         `json:"silent"` // those of them that do not reduce, and wait for their deaths
	Killer int           `json:"killer"` // a silent PE that ends its own member upon the news of Of; -1: there is none
	Of     int           `json:"of"`     // a PE that dies first
	PID    int           `json:"pid"`    // the process that Killer kills: itself, or the agent of its node
}

// roles of a PE.
const (
	roleReduce = iota
	roleVictim // reduces, and then waits for its death
	roleSilent
	roleKiller
)

// Words of the part of a PE in the plan.
const (
	wordRole = iota
	wordStart
	wordOf
	wordPID
	planWords
)

// pe is a PE of a measurement.
type pe struct {
	w      *shmem.World
	t      *shmem.Team // of all PEs, with the mode of the case
	strict bool
	rounds int

	src, dst shmem.Sym[float64]
	part     shmem.Sym[int64] // this PE's part in the plan
	given    shmem.Sym[int64] // not 0 when part is there
	never    shmem.Sym[int64] // never set
	out      *json.Encoder
}

// Main runs the program and returns its exit status. args are the way, the faults, the number of doubles, and the number of
// reductions without failures.
func Main(args []string, stdout, stderr io.Writer) int {
	if err := runPE(args, stdout); err != nil {
		fmt.Fprintf(stderr, "ftco-pe: %v\n", err)
		return exitError
	}
	return exitOK
}

// runPE runs this PE's part of a measurement.
func runPE(args []string, stdout io.Writer) error {
	if len(args) != 4 {
		return fmt.Errorf("%d arguments, want 4: a way, faults, a number of doubles and of rounds; this program is part of oshrun ftco-bench, use that", len(args))
	}
	doubles, err := strconv.Atoi(args[2])
	rounds, err2 := strconv.Atoi(args[3])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	p := &pe{w: w, strict: args[0] == Strict, rounds: rounds, out: json.NewEncoder(stdout)}
	if err := p.allocate(doubles); err != nil {
		return err
	}
	missing, err := p.makeTeam(args[1] != "none")
	switch {
	case missing != nil:
		err = p.out.Encode(line{PE: w.MyPE(), NotHere: missing.Error()})
	case err == nil:
		err = p.run()
	}
	if err != nil {
		return err
	}
	return w.Finalize()
}

// allocate makes the symmetric objects.
func (p *pe) allocate(doubles int) (err error) {
	for _, x := range []struct {
		sym *shmem.Sym[int64]
		n   int
	}{{&p.part, planWords}, {&p.given, 1}, {&p.never, 1}} {
		if *x.sym, err = shmem.Calloc[int64](p.w, x.n); err != nil {
			return err
		}
	}
	for _, sym := range []*shmem.Sym[float64]{&p.src, &p.dst} {
		if *sym, err = shmem.Calloc[float64](p.w, doubles); err != nil {
			return err
		}
	}
	fill(p.src.Local(), p.w.MyPE())
	return nil
}

// makeTeam makes the team. If a strict team is going to fail, makeTeam first tries whether it can shrink. missing is the
// library's error if teams on several nodes cannot do that.
func (p *pe) makeTeam(fails bool) (missing, err error) {
	mode := shmem.ModeTolerant
	if p.strict {
		mode = shmem.ModeStrict
	}
	p.t, err = p.w.Team().SplitStrided(0, 1, p.w.NPEs(), &shmem.TeamConfig{Mode: mode})
	if err == nil && p.strict && fails {
		var same *shmem.Team
		if same, err = p.t.Shrink(); err == nil {
			err = same.Destroy()
		}
	}
	if errors.Is(err, shmem.ErrArgument) { // all arguments are good ones on one node
		return err, nil
	}
	return nil, err
}

// run reduces without failures, and then as the plan says, if there is one.
func (p *pe) run() error {
	took := make([]time.Duration, p.rounds)
	for i := range took {
		if err := p.t.Sync(); err != nil {
			return err
		}
		called := xunix.Monotonic()
		err := shmem.Reduce(p.t, p.dst, p.src, shmem.Sum)
		took[i] = xunix.Monotonic() - called
		if err != nil {
			return err
		}
		if wrong := p.check(allBelow(p.w.NPEs())); wrong != "" {
			return fmt.Errorf("a reduction without failures is wrong: %s", wrong)
		}
		clear(p.dst.Local())
	}
	if err := p.w.Barrier(); err != nil {
		return err
	}
	if err := p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid(), Parent: os.Getppid(), Rounds: took}); err != nil {
		return err
	}
	part, err := p.takePart()
	switch {
	case err != nil || part == nil:
		return err
	case part[wordRole] > roleVictim:
		return p.die(part)
	}
	sleepUntil(time.Duration(part[wordStart]))
	s := p.reduce()
	if part[wordRole] == roleVictim {
		return p.die(part) // the process that kills it may be late
	}
	return p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid(), Seen: s})
}

// takePart returns this PE's part in the plan. It is nil if there is no plan: the standard input of PE 0 has ended.
func (p *pe) takePart() ([]int64, error) {
	if p.w.MyPE() == 0 {
		if err := p.giveParts(); err != nil {
			return nil, err
		}
	}
	for {
		err := shmem.WaitUntil(p.w.Ctx(), p.given, shmem.NE, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, shmem.ErrPEDied) {
			return nil, err
		}
		p.w.AckFailed() // this PE is late: on a busy machine it has seen the part only after the first death
	}
	if p.given.Local()[0] < 0 {
		return nil, nil
	}
	return slices.Clone(p.part.Local()), nil
}

// giveParts reads the plan and gives all PEs their parts.
func (p *pe) giveParts() error {
	c := p.w.Ctx()
	text, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(text) == 0 {
		for q := range p.w.NPEs() {
			if err := shmem.P(c, p.given, -1, q); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	var all plan
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	give := func(do func(q int) error) error {
		for q := range p.w.NPEs() {
			if err := do(q); err != nil && !errors.Is(err, shmem.ErrPEDied) { // if this PE is late
				return err
			}
		}
		if err := c.Quiet(); err != nil && !errors.Is(err, shmem.ErrPEDied) {
			return err
		}
		return nil
	}
	if err := give(func(q int) error { return shmem.Put(c, p.part, all.partOf(q), q) }); err != nil {
		return err
	}
	return give(func(q int) error { return shmem.P(c, p.given, 1, q) })
}

// partOf returns the part of a PE.
func (x *plan) partOf(pe int) []int64 {
	part := []int64{wordRole: roleReduce, wordStart: int64(x.Start), wordOf: int64(x.Of), wordPID: int64(x.PID)}
	switch {
	case pe == x.Killer:
		part[wordRole] = roleKiller
	case slices.Contains(x.Silent, pe):
		part[wordRole] = roleSilent
	case slices.Contains(x.Dead, pe):
		part[wordRole] = roleVictim
	}
	return part
}

// die waits for the death of this PE. The killer first waits for the news of another death, and then kills its own member.
func (p *pe) die(part []int64) error {
	if part[wordRole] == roleKiller {
		for !slices.Contains(p.w.Failed(), int(part[wordOf])) {
			p.w.AckFailed()
			err := shmem.WaitUntil(p.w.Ctx(), p.never, shmem.NE, 0)
			if _, dead := errors.AsType[*shmem.PEError](err); !dead {
				return fmt.Errorf("wait for the death of PE %d: %w", part[wordOf], err)
			}
		}
		if err := xunix.Kill(int(part[wordPID]), syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %d: %w", part[wordPID], err)
		}
	}
	<-time.After(victimTimeout)
	return fmt.Errorf("the victim is alive after %v", victimTimeout)
}

// reduce reduces until there is a result, and checks it.
func (p *pe) reduce() *seen {
	s := &seen{Called: xunix.Monotonic()}
	team := p.t
	err := shmem.Reduce(team, p.dst, p.src, shmem.Sum)
	for p.strict && (errors.Is(err, shmem.ErrPEDied) || errors.Is(err, shmem.ErrTeamBroken)) {
		if s.Failed == 0 {
			s.Failed = xunix.Monotonic()
		}
		if team, err = team.Shrink(); err != nil {
			break
		}
		s.Shrunk = xunix.Monotonic()
		err = shmem.Reduce(team, p.dst, p.src, shmem.Sum)
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Returned = xunix.Monotonic()
	s.Contributors = allBelow(team.NPEs())
	if !p.strict {
		s.Contributors = team.Outcome().Contributors
	}
	for i, q := range s.Contributors {
		s.Contributors[i], _ = team.Translate(q, p.w.Team()) // a member of the team is one of the world
	}
	s.News = lastNews(s.Returned)
	s.Wrong = p.check(s.Contributors)
	return s
}

// lastNews returns when the last death was published on this node before a time; 0: none was.
func lastNews(until time.Duration) (last time.Duration) {
	page := job.Page()
	if page == nil {
		return 0
	}
	all, _ := page.All()
	for _, f := range all {
		if f.Stored <= until {
			last = max(last, f.Stored)
		}
	}
	return last
}

// sleepUntil sleeps until a time of CLOCK_MONOTONIC.
func sleepUntil(at time.Duration) { <-time.After(at - xunix.Monotonic()) }

// allBelow returns 0 to n-1.
func allBelow(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
