//go:build linux && !race

// The race detector makes atomic accesses in C, where a fault is no panic.

package coll_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A process of these tests has its own mapping of all segments. It is killed by unmapping them:
// whatever instruction each of its goroutines is at, its next access to shared memory faults, even
// in deferred calls. So nothing is written after a kill, as with SIGKILL, and a kill takes only
// microseconds.
type process struct {
	*node
	pe         int
	killed     atomic.Bool    // it is killed, or is about to be
	memory     sync.Mutex     // held while the mapping is taken away
	dead       bool           // the whole mapping is gone
	mortal     bool           // the test will kill it
	toRestrict atomic.Bool    // its writes get restricted when it next folds
	of         sync.WaitGroup // its goroutines
}

// newProcesses starts one process for each PE. Sleeps of processes that will be killed need a
// timeout, because the kernel does not wake sleepers on memory that is gone.
func newProcesses(t *testing.T, n int, heap uint64, victims []int) (all []*process) {
	t.Helper()
	files := newSegments(t, n, heap)
	page, err := failure.Create([16]byte{}, n)
	if err != nil {
		t.Fatal(err)
	}
	for pe := range n {
		policy := sleepEarly
		policy.Crowded = n > 3
		mortal := slices.Contains(victims, pe)
		if mortal {
			policy.First, policy.Most = time.Millisecond, time.Millisecond
		}
		all = append(all, &process{node: mapSegments(t, files, page, policy), pe: pe, mortal: mortal})
	}
	for _, f := range files {
		_ = f.Close()
	}
	return all
}

// unmapProcesses frees the memory when all goroutines have ended, but keeps the addresses
// reserved: the package knows teams of dead processes by them.
func unmapProcesses(t *testing.T, all []*process) {
	t.Helper()
	for _, p := range all {
		const how = syscall.MAP_FIXED | syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE
		at, size := uintptr(p.m.Segment(0)), uintptr(p.m.Stride()*p.m.Len())
		if _, _, errno := syscall.Syscall6(syscall.SYS_MMAP, at, size, syscall.PROT_NONE, how, ^uintptr(0), 0); errno != 0 {
			t.Fatal(os.NewSyscallError("mmap", errno))
		}
	}
	if err := all[0].page.Close(); err != nil {
		t.Fatal(err)
	}
}

// run starts a goroutine of the process. A kill ends f.
func (p *process) run(t *testing.T, f func() error) {
	t.Helper()
	p.of.Go(func() {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if r := recover(); r != nil && !p.killed.Load() {
				panic(r)
			}
		}()
		if err := f(); err != nil {
			t.Errorf("PE %d: %v", p.pe, err)
		}
	})
}

// newDoomed makes 2 to most processes and draws at least least, but not all, of them as victims,
// by the random numbers of a seed.
func newDoomed(t *testing.T, seed, stream uint64, most, least int) (rng *rand.Rand, all []*process, victims []int) {
	t.Helper()
	rng = rand.New(rand.NewPCG(seed, stream))
	n := 2 + rng.IntN(most-1)
	victims = rng.Perm(n)[:least+rng.IntN(n-least)]
	return rng, newProcesses(t, n, 1<<20, victims), victims
}

// waitForProcesses waits until all goroutines of some processes have ended.
func waitForProcesses(t *testing.T, what string, all []*process) {
	t.Helper()
	mustFinish(t, what, func() {
		for _, p := range all {
			p.of.Wait()
		}
	})
}

// die kills the process.
func (p *process) die() {
	p.memory.Lock()
	defer p.memory.Unlock()
	p.dead = true
	p.killed.Store(true)
	protect(unsafe.Slice((*byte)(p.m.Segment(0)), p.m.Stride()*p.m.Len()), syscall.PROT_NONE)
}

// publish publishes the death as the step does, once the process is killed. It uses the mapping of
// a living process, because another one's writes may be restricted.
//
// The process may have died between clearing a bell and waking the sleeper. A real sleep would end
// by its timeout; here it has none, so that any other missing wake-up is a hang. So publish wakes
// the sleepers on clear bells.
func (p *process) publish(others []*process) {
	p.page.Publish(p.pe, 1, failure.ByExit(1), 0)
	lives := others[slices.IndexFunc(others, func(o *process) bool { return !o.mortal })]
	for _, o := range others {
		if o == p || o.killed.Load() {
			continue
		}
		bell := &lives.m.Control(o.pe).Bell
		if atomic.LoadUint32(&bell.Sleeping)&layout.BellAsleep == 0 {
			xunix.FutexWake(&bell.Sleeping, 1<<30)
		}
		rma.Rouse(bell)
	}
}

// team returns the process's side of a team.
func (p *process) team(t *testing.T, id int, members []int, tolerant bool) *coll.Team {
	t.Helper()
	cfg := p.config(id, slices.Index(members, p.pe), members)
	cfg.Tolerant = tolerant
	return newTeam(t, cfg)
}

// dying makes one call of fold one of the last instructions of its process: the process gets only
// as far as a random place in the destinations that it writes next.
type dying struct {
	left *int
	p    *process
	rng  *rand.Rand
}

func (d dying) fold(acc, in []uint32) {
	if *d.left--; *d.left == 0 {
		d.p.restrictWrites(d.rng)
	}
	sum(acc, in)
}

// restrictWrites lets the process write only its own slots, usually the words about its part, and
// the heaps of some PEs, the last of them in part.
func (p *process) restrictWrites(rng *rand.Rand) {
	p.memory.Lock()
	defer p.memory.Unlock()
	if p.dead {
		return // memory that it got back here, it would write after its death
	}
	p.killed.Store(true)
	all := unsafe.Slice((*byte)(p.m.Segment(0)), p.m.Stride()*p.m.Len())
	protect(all, syscall.PROT_READ)
	mine := p.m.Control(p.pe)
	protect(unsafe.Slice((*byte)(unsafe.Pointer(&mine.Slots)), unsafe.Sizeof(mine.Slots)), syscall.PROT_READ|syscall.PROT_WRITE)
	if rng.IntN(8) > 0 {
		protect(unsafe.Slice((*byte)(unsafe.Pointer(&mine.Teams)), unsafe.Sizeof(mine.Teams)), syscall.PROT_READ|syscall.PROT_WRITE)
	}
	last := rng.IntN(p.m.Len() + 1)
	for i := range p.m.Len() {
		heap := all[i*p.m.Stride():][layout.HeapOffset:p.m.Size()]
		if i == last {
			heap = heap[:rng.IntN(len(heap)>>12+1)<<12]
		}
		if i <= last && len(heap) > 0 {
			protect(heap, syscall.PROT_READ|syscall.PROT_WRITE)
		}
	}
}

func protect(memory []byte, how int) {
	if err := syscall.Mprotect(memory, how); err != nil {
		panic(err)
	}
}

// TestKilledAnywhere kills processes at any instruction of random collectives on two overlapping
// teams, which their goroutines call in parallel.
func TestKilledAnywhere(t *testing.T) {
	forEachSeed(t, 400, 150, testKilledAnywhere)
}

// forEachSeed calls f with rounds seeds, or with short ones if tests are short, until one fails.
func forEachSeed(t *testing.T, rounds, short uint64, f func(t *testing.T, seed uint64)) {
	t.Helper()
	if testing.Short() {
		rounds = short
	}
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+rounds; seed++ {
		if f(t, seed); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func testKilledAnywhere(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := newDoomed(t, seed, 6, 6, 1)
	n := len(all)
	teams := [][]int{firstPEs(n), rng.Perm(n)[:1+rng.IntN(n)]}
	slices.Sort(teams[1])
	from, steps := plays, acts
	if rng.IntN(2) == 0 { // collectives of which the dead leave parts undone
		from = slices.DeleteFunc(slices.Clone(plays), func(p play) bool { return p.n < many || p.all || strings.HasPrefix(p.name, "Broad") })
		steps = 5
	}
	saw := make([][][]string, len(teams)) // by team and PE
	for k, members := range teams {
		saw[k] = make([][]string, n)
		for me, pe := range members {
			p := all[pe]
			a := &actor{
				nd: p.node, tm: p.team(t, 5+k, members, true), me: me, pe: pe, base: uint64(k) * 512 << 10, from: from, acts: steps,
				rng: rand.New(rand.NewPCG(seed, uint64(7+k))), end: steps,
			}
			if k == 0 && slices.Contains(victims, pe) && rng.IntN(4) > 0 {
				p.dieIn(a, rand.New(rand.NewPCG(seed, uint64(100+pe))))
			}
			p.run(t, func() error {
				defer func() { saw[k][pe] = a.saw }()
				if k == 0 {
					defer p.toRestrict.Store(false)
				}
				return a.act(t.Context())
			})
		}
	}
	killVictims(t, rng, all, victims)
	waitForProcesses(t, fmt.Sprint("seed ", seed), all)
	for k, members := range teams {
		wantSameSeen(t, saw[k], members, victims)
	}
	unmapProcesses(t, all)
}

// TestKilledInLarge is TestKilledAnywhere for collectives of more than a mebibyte, and odd numbers
// of elements.
func TestKilledInLarge(t *testing.T) {
	const n = 300_001
	large := []play{
		broadcasts("Broadcast", n), reduces("Reduce", n, false), reduces("Reduce in place", n, true), gathers("FCollect", n),
		exchanges("Alltoall", n/2), collects("Collect", n), strided("AlltoallS", n/3), scans("Scan", n, true, false), scans("Scan exclusive", n, false, true),
	}
	forEachSeed(t, 40, 8, func(t *testing.T, seed uint64) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 10))
		npes := 2 + rng.IntN(3)
		victims := rng.Perm(npes)[:1+rng.IntN(npes-1)]
		all, saw := newProcesses(t, npes, 20<<20, victims), make([][]string, npes)
		for pe, p := range all {
			a := &actor{
				nd: p.node, tm: p.team(t, 5, firstPEs(npes), true), me: pe, pe: pe, apart: 10 << 20, from: large, acts: 4, end: 4,
				rng: rand.New(rand.NewPCG(seed, 11)),
			}
			if slices.Contains(victims, pe) {
				p.dieIn(a, rand.New(rand.NewPCG(seed, uint64(100+pe))))
			}
			p.run(t, func() error {
				defer func() { saw[pe] = a.saw }()
				defer p.toRestrict.Store(false)
				return a.act(t.Context())
			})
		}
		killVictims(t, rng, all, victims)
		waitForProcesses(t, fmt.Sprint("seed ", seed), all)
		wantSameSeen(t, saw, firstPEs(npes), victims)
		unmapProcesses(t, all)
	})
}

// dieIn makes the process die in the middle of a reduction, if a later step has one.
func (p *process) dieIn(a *actor, rng *rand.Rand) {
	a.end = rng.IntN(a.acts)
	p.toRestrict.Store(true)
	left := 1 + rng.IntN(6)
	a.last = func(int) coll.Op[uint32] { return dying{left: &left, p: p, rng: rng}.fold }
}

// killVictims kills the victims one after the other or at the same time.
func killVictims(t *testing.T, rng *rand.Rand, all []*process, victims []int) {
	t.Helper()
	together := rng.IntN(3) == 0
	for _, v := range victims {
		for k := rng.IntN(3000); k > 0 || all[v].toRestrict.Load() && k > -100_000; k-- {
			runtime.Gosched()
		}
		all[v].die()
		if !together {
			yieldTimes(rng.IntN(300))
			all[v].publish(all)
		}
	}
	for _, v := range victims {
		all[v].publish(all)
	}
}

func yieldTimes(n int) {
	for range n {
		runtime.Gosched()
	}
}

// wantSameSeen checks that all members saw the same, and those that were killed a part of it.
func wantSameSeen(t *testing.T, saw [][]string, members, victims []int) {
	t.Helper()
	var most []string
	for _, pe := range members {
		if len(saw[pe]) > len(most) {
			most = saw[pe]
		}
	}
	for _, pe := range members {
		if s := saw[pe]; !slices.Equal(s, most[:len(s)]) || len(s) < len(most) && !slices.Contains(victims, pe) {
			t.Errorf("PE %d saw %v, but another one saw %v", pe, s, most)
		}
	}
}
