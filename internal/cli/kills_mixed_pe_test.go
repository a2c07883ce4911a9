package cli

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// mixedPE is a PE of TestKillsInMixedPrograms. All PEs draw the same steps from the rng of collPE, and run all of them,
// whichever PEs die. For its own decisions, a PE uses its own rng.
type mixedPE struct {
	collPE
	me, n    int
	m        *mpi.World
	own      *rand.Rand
	step     uint64
	met      map[string]hash.Hash64 // by group: results that must be the same on all survivors
	accused  map[int]bool           // PEs that errors name as dead
	acked    []int                  // PEs whose deaths no longer end waits
	unheard  []int                  // the same, for messages from any source
	halves   [2]*shmem.Team         // even and odd PEs; nil where this PE is not
	strict   *shmem.Team            // a team of the survivors, agreed by all
	comm     *mpi.Comm              // the same PEs
	living   []int                  // the same PEs, by their world numbers
	failing  [2]bool                // collectives of strict and comm have failed
	box      oneSided
	letters  [2]shmem.Sym[uint64] // targets of PutSignal; sources and destinations of messages
	signals  shmem.Sym[uint64]    // one for each PE
	signaled []uint64             // how often each PE has signaled
	ident    shmem.Sym[uint64]
	lock     shmem.Lock
	guard    shmem.Sym[int64]
	objects  []object
	nextID   uint64
}

const identBase = 1000 // element 0 of ident is this plus the PE

// mixedSteps are the steps of which programs are mixed, with their shares.
var mixedSteps = []struct {
	name  string
	share int
	run   func(*mixedPE) error
}{
	{"one-sided", 3, (*mixedPE).move},
	{"signal", 2, (*mixedPE).signal},
	{"collective", 4, (*mixedPE).collective},
	{"strict collective", 2, (*mixedPE).strictly},
	{"messages", 4, (*mixedPE).exchange},
	{"deadline", 1, (*mixedPE).giveUp},
	{"mpi collective", 2, (*mixedPE).collectiveOfMPI},
	{"lock", 2, (*mixedPE).exclude},
	{"teams", 2, (*mixedPE).split},
	{"allocation", 3, (*mixedPE).allocate},
	{"agreement", 1, (*mixedPE).vote},
}

// testMixed is the program of the PEs. It runs random steps until the input of all living PEs has ended. It prints the
// failures that it has heard of, and the results that must be the same on all survivors.
func testMixed(args []string, stdout, stderr io.Writer) int {
	rank := os.Getenv("PMIX_RANK")
	fmt.Fprintf(stdout, "began %s %d\n", rank, os.Getpid())
	p := &mixedPE{met: map[string]hash.Hash64{}, accused: map[int]bool{}}
	err := p.enter(uint64(number(args[0])))
	if err != nil { // the program cannot begin
		fmt.Fprintf(stdout, "PE %s unready %s\n", rank, p.named(err))
		if err = p.leave(0); err != nil {
			fmt.Fprintf(stdout, "PE %s error after a failed start: %v\n", rank, err)
		}
		return 0
	}
	told := newToldOf()
	p.w.OnFailure(told.add)
	fmt.Fprintf(stdout, "ready %d\n", p.me)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		p.over.Store(true)
	}()
	err = p.loop()
	dead := p.w.Failed()
	accused := slices.Sorted(maps.Keys(p.accused))
	fmt.Fprintf(stdout, "PE %d accused %v\n", p.me, accused)
	if err != nil {
		fmt.Fprintf(stdout, "PE %d error step %d: %v\n", p.me, p.step, err)
		return 1
	}
	told.await(len(dead))
	fmt.Fprintf(stdout, "PE %d failed %v\nPE %d told %v\n", p.me, dead, p.me, told.all())
	for group, h := range p.met {
		fmt.Fprintf(stdout, "PE %d met %s: %x\n", p.me, group, h.Sum64())
	}
	fmt.Fprintf(stdout, "PE %d made %d steps\n", p.me, p.step)
	err = p.leave(p.rng.IntN(2))
	fmt.Fprintf(stdout, "PE %d left %v\n", p.me, err)
	return 0
}

// leave finalizes what was initialized. first says which package comes first.
func (p *mixedPE) leave(first int) error {
	calls := [2]func() error{func() error { return nil }, func() error { return nil }}
	if p.w != nil {
		calls[0] = p.w.Finalize
	}
	if p.m != nil {
		calls[1] = p.m.Finalize
	}
	return errors.Join(calls[first](), calls[1-first]())
}

// enter joins the job with both packages, in either order, and makes what the steps need.
func (p *mixedPE) enter(seed uint64) (err error) {
	first := func() (err error) { p.w, err = shmem.Init(); return err }
	second := func() (err error) { p.m, err = mpi.Init(); return err }
	if seed%2 == 0 {
		first, second = second, first
	}
	if err = first(); err == nil {
		err = second()
	}
	if err == nil {
		p.me, p.n = p.w.MyPE(), p.w.NPEs()
		err = p.begin(seed)
	}
	return err
}

// begin makes what the steps need. A death makes it fail on all living PEs, or on none.
func (p *mixedPE) begin(seed uint64) (err error) {
	if err = p.collPE.begin(seed); err != nil {
		return err
	}
	p.own = rand.New(rand.NewPCG(seed, uint64(p.me)+1))
	p.signaled = make([]uint64, p.n)
	need := func(x *shmem.Sym[uint64], n int) {
		if err == nil {
			*x, err = shmem.Calloc[uint64](p.w, n)
		}
	}
	need(&p.signals, p.n)
	need(&p.ident, 1)
	for i := range p.letters {
		need(&p.letters[i], p.n*mostLetters)
	}
	if err == nil {
		err = p.box.begin(p.w)
	}
	if err == nil {
		p.guard, err = shmem.Calloc[int64](p.w, guardCounts+p.n)
	}
	if err == nil {
		p.lock, err = shmem.NewLock(p.w)
	}
	for half := range 2 {
		if half < p.n && err == nil {
			p.halves[half], err = p.w.Team().SplitStrided(half, 2, (p.n-half+1)/2, nil)
		}
	}
	if err != nil {
		return err
	}
	p.ident.Local()[0] = identBase + uint64(p.me)
	if err = p.regroup(); err == nil {
		err = p.w.Barrier() // all have written ident
	}
	return err
}

// loop runs steps until all living PEs are to end.
func (p *mixedPE) loop() error {
	shares := 0
	for _, s := range mixedSteps {
		shares += s.share
	}
	for {
		for range 6 {
			p.step++
			k := p.rng.IntN(shares)
			i := 0
			for ; k >= mixedSteps[i].share; i++ {
				k -= mixedSteps[i].share
			}
			if err := mixedSteps[i].run(p); err != nil {
				return fmt.Errorf("%s: %w", mixedSteps[i].name, err)
			}
		}
		if over, err := p.meet(); err != nil || over {
			return err
		}
	}
}

// meet makes all survivors agree on whether to end, and on whether their strict team or communicator has failed on some
// PE. If so, they replace it.
func (p *mixedPE) meet() (over bool, err error) {
	const ends, well = 1, 2
	flags := uint64(well)
	if p.over.Load() {
		flags |= ends
	}
	if p.failing[0] || p.failing[1] {
		flags &^= well
	}
	if flags, err = p.w.Team().Agree(flags); err != nil {
		return false, fmt.Errorf("agreement about the end: %w", err)
	}
	p.note("world", "meet", flags)
	if flags&well == 0 {
		err = p.regroup()
	}
	return flags&ends != 0, err
}

// regroup makes a strict team and a communicator of the living PEs. It repeats that until all of them have both.
func (p *mixedPE) regroup() error {
	for {
		if p.comm != nil {
			if err := p.blame(p.comm.Free(), p.living); err != nil {
				return fmt.Errorf("Comm.Free: %w", err)
			}
		}
		if p.strict != nil {
			if err := p.blame(p.strict.Destroy(), nil); err != nil {
				return fmt.Errorf("Team.Destroy: %w", err)
			}
		}
		p.strict, p.comm, p.failing = nil, nil, [2]bool{}
		tm, err := p.w.Team().Shrink()
		if err != nil {
			return fmt.Errorf("Team.Shrink: %w", err)
		}
		if p.living, err = membersOf(tm, p.w.Team()); err != nil {
			return err
		}
		p.note("world", "living", p.living)
		p.strict, err = tm.SplitStrided(0, 1, tm.NPEs(), &shmem.TeamConfig{Mode: shmem.ModeStrict})
		p.note(fmt.Sprint(p.living), "strict", err == nil)
		if err == nil {
			p.comm, err = interop.CommOf(p.strict)
		}
		if err = p.blame(err, p.living); err != nil {
			return fmt.Errorf("regroup: %w", err)
		}
		if err = p.blame(tm.Destroy(), nil); err != nil {
			return fmt.Errorf("Team.Destroy: %w", err)
		}
		all := uint64(1)
		if p.comm == nil {
			all = 0
		}
		if all, err = p.w.Team().Agree(all); err != nil || all == 1 {
			return err
		}
	}
}

// membersOf returns a team's members by their numbers in another team.
func membersOf(tm, in *shmem.Team) (pes []int, err error) {
	for i := range tm.NPEs() {
		pe, ok := tm.Translate(i, in)
		if !ok {
			return nil, fmt.Errorf("number %d of %d is no member of the team of %d", i, tm.NPEs(), in.NPEs())
		}
		pes = append(pes, pe)
	}
	return pes, nil
}

// note records results that must be the same on all survivors of a group.
func (p *mixedPE) note(group string, what ...any) {
	h := p.met[group]
	if h == nil {
		h = fnv.New64a()
		p.met[group] = h
	}
	fmt.Fprintln(h, p.step, what)
}

// deaths returns the PEs that an error names as dead, and whether the error is about deaths at all. ranks maps ranks to
// PEs; nil is the identity.
func deaths(err error, ranks []int) (pes []int, of bool) {
	dead, lost := (*shmem.PEError)(nil), (*mpi.RankError)(nil)
	switch {
	case errors.As(err, &dead) && errors.Is(err, shmem.ErrPEDied):
		return dead.PEs, true
	case errors.As(err, &lost) && errors.Is(err, mpi.ErrDied):
		for _, rank := range lost.Ranks {
			if ranks != nil {
				rank = ranks[rank]
			}
			pes = append(pes, rank)
		}
		return pes, true
	}
	return nil, false
}

// named returns the PEs that a start-up error names, or the text of another error.
func (p *mixedPE) named(err error) string {
	if pes, of := deaths(err, p.living); of {
		return fmt.Sprint(pes)
	}
	return fmt.Sprintf("no error about deaths: %v", err)
}

// blame accepts an error that is about deaths only, and records the PEs that it names. ranks are as in deaths. The test
// knows who has died.
func (p *mixedPE) blame(err error, ranks []int, only ...int) error {
	pes, of := deaths(err, ranks)
	if !of {
		return err
	}
	known := p.w.Failed()
	for _, pe := range pes {
		p.accused[pe] = true
		if len(only) > 0 && !slices.Contains(only, pe) || !slices.Contains(known, pe) {
			return fmt.Errorf("names PE %d of %v, but known to be dead are %v: %w", pe, only, known, err)
		}
	}
	if len(pes) == 0 {
		return fmt.Errorf("names no PE: %w", err)
	}
	return nil
}

// dead says whether this PE knows that another one has died.
func (p *mixedPE) dead(pe int) bool { return slices.Contains(p.w.Failed(), pe) }

// gives returns element i of what a PE gives to another PE, or to all, in this step.
func (p *mixedPE) gives(from, to, i int) uint64 {
	x := p.step*0xd6e8feb86659fd93 + uint64(from<<8|to)*0x9e3779b97f4a7c15 + uint64(i)
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>31
}

// pass passes a random amount of time, or none, so that PEs meet differently each time.
func (p *mixedPE) pass() {
	if p.own.IntN(8) == 0 {
		spin(time.Duration(p.own.IntN(100)) * time.Microsecond)
	}
}
