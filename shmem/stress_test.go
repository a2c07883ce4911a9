package shmem_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The stress tests have jobs make random operations of all families. All PEs draw the same random
// numbers. So each PE knows what all of them do: it makes its own part, keeps a serial model of
// the memory of all PEs, and after each step compares its memory with the model.

var (
	stressTime = flag.Duration("stress", 0, "how long each stress test lasts; 2s with -short, 5s without")
	stressSeed = flag.Uint64("seed", 0, "run a stress test once, with this seed from an earlier failure")
)

// seedVar tells PEs the first seed.
const seedVar = "GOSHMEM_STRESS_SEED"

// eachSeed calls run with one seed after the other until the time is over. In a PE it goes through
// all seeds that its parent may have reached.
func eachSeed(t *testing.T, run func(seed uint64)) {
	t.Helper()
	if seed, err := strconv.ParseUint(os.Getenv(seedVar), 10, 64); err == nil {
		for ; ; seed++ {
			run(seed)
		}
	}
	seed, lasts := *stressSeed, *stressTime
	if seed == 0 {
		seed = rand.Uint64() >> 16
	}
	t.Setenv(seedVar, fmt.Sprint(seed))
	if lasts == 0 {
		if lasts = 5 * time.Second; testing.Short() {
			lasts = 2 * time.Second
		}
	}
	jobs := 0
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); seed++ {
		run(seed)
		if jobs++; t.Failed() {
			t.Logf("to reproduce: go test -run '^%s$' ./shmem -seed %d", t.Name(), seed)
		}
		if *stressSeed != 0 {
			break
		}
	}
	t.Logf("%d jobs", jobs)
}

// stressSizes contains small jobs more often.
var stressSizes = []int{1, 2, 2, 3, 3, 4, 5, 8}

func TestStress(t *testing.T) {
	eachSeed(t, func(seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		npes := stressSizes[rng.IntN(len(stressSizes))]
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			s := newStress(t, w, rng)
			for range 200 {
				s.step()
			}
			s.end()
		})
	})
}

const (
	stressRoom  = 96 // elements that a PE may write on each other PE
	stressWords = 16 // words for atomic operations, besides one for each PE
)

// stress is a PE's view of a stress job.
type stress struct {
	t      *testing.T
	w      *shmem.World
	rng    *rand.Rand // draws the same on all PEs
	me, n  int
	done   []string   // the last steps
	puts   [2]modeled // written by turns: the other one is only read
	turn   int
	words  modeled // for atomic operations
	flags  modeled // for waits: element i counts the signals of PE i
	teams  []*stressTeam
	values uint64 // every put writes different values
}

// modeled is a symmetric object and its expected contents on each PE.
type modeled struct {
	x     shmem.Sym[uint64]
	model [][]uint64
}

// stressTeam is a team and the context on it that operations use.
type stressTeam struct {
	members []int // numbers in the world
	team    *shmem.Team
	ctx     *shmem.Ctx
	me      int // -1: not a member
}

func newStress(t *testing.T, w *shmem.World, rng *rand.Rand) *stress {
	t.Helper()
	s := &stress{t: t, w: w, rng: rng, me: w.MyPE(), n: w.NPEs()}
	s.puts[0], s.puts[1] = s.object(s.n*stressRoom), s.object(s.n*stressRoom)
	s.words, s.flags = s.object(stressWords+s.n), s.object(s.n)
	world := &stressTeam{team: w.Team(), ctx: w.Ctx(), me: s.me}
	for pe := range s.n {
		world.members = append(world.members, pe)
	}
	s.teams = []*stressTeam{world}
	return s
}

func (s *stress) object(n int) modeled {
	m := modeled{x: must(shmem.Calloc[uint64](s.w, n))(s.t)}
	for range s.n {
		m.model = append(m.model, make([]uint64, n))
	}
	return m
}

// ok fails the test on an error, and logs the last steps.
func (s *stress) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.fatalf("%v", err)
	}
}

func (s *stress) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("PE %d of %d: %s\nsteps:\n%s", s.me, s.n, fmt.Sprintf(format, args...), strings.Join(s.done[max(0, len(s.done)-8):], "\n"))
}

// note logs what a step is about to do.
func (s *stress) note(format string, args ...any) {
	s.done = append(s.done, fmt.Sprintf(format, args...))
}

// pick draws one of a few values.
func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// value draws a value that no other put writes.
func (s *stress) value() uint64 {
	s.values++
	return s.values<<32 | uint64(s.rng.Uint32())
}

// stressSteps are the kinds of steps.
var stressSteps []func(s *stress)

// step makes a random step and compares.
func (s *stress) step() {
	s.t.Helper()
	stressSteps[s.rng.IntN(len(stressSteps))](s)
	s.compare()
}

// compare completes all operations and compares this PE's memory with the model.
func (s *stress) compare() {
	s.t.Helper()
	for _, tm := range s.teams[1:] {
		if tm.me >= 0 {
			s.ok(tm.ctx.Quiet())
		}
	}
	s.ok(s.w.Barrier())
	s.match("first object", s.puts[0])
	s.match("second object", s.puts[1])
	s.match("words", s.words)
	s.match("flags", s.flags)
	s.ok(s.w.Team().Sync()) // no PE goes on before all have compared
	s.turn = 1 - s.turn
}

func (s *stress) match(what string, m modeled) {
	s.t.Helper()
	if have := m.x.Local(); !slices.Equal(have, m.model[s.me]) {
		for i, v := range have {
			if want := m.model[s.me][i]; v != want {
				s.fatalf("%s: element %d is %#x, want %#x", what, i, v, want)
			}
		}
	}
}

// end destroys all teams and frees all objects.
func (s *stress) end() {
	s.t.Helper()
	for len(s.teams) > 1 {
		s.dropTeam(len(s.teams) - 1)
	}
	for _, m := range []modeled{s.puts[0], s.puts[1], s.words, s.flags} {
		s.ok(shmem.Free(s.w, m.x))
	}
}

// pickTeam draws a team. Its context is nil if this PE is no member.
func (s *stress) pickTeam() *stressTeam { return s.teams[s.rng.IntN(len(s.teams))] }

// linger lets other PEs run first, now and then.
func (s *stress) linger() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}
