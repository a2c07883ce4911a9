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

// A process of these tests has a mapping of its own of all segments. It is killed by
// taking that away at once: whatever instruction each of its goroutines is at, the next
// one that touches shared memory faults, also those in deferred calls. So nothing is
// written behind a kill, as with SIGKILL, and a kill costs microseconds.
type process struct {
	*node
	pe      int
	killed  atomic.Bool    // or is about to be
	memory  sync.Mutex     // held while that is taken away
	dead    bool           // all of it is
	mortal  bool           // it is to be killed
	withers atomic.Bool    // it dies where it folds, if it comes to that still
	of      sync.WaitGroup // goroutines
}

// processes starts one for each PE. Sleeps of those that are to be killed have to end, as
// the kernel does not wake who sleeps on memory that is gone.
func processes(t *testing.T, n int, heap uint64, victims []int) (all []*process) {
	t.Helper()
	files := segments(t, n, heap)
	page, err := failure.Create([16]byte{}, n)
	if err != nil {
		t.Fatal(err)
	}
	for pe := range n {
		policy := early
		policy.Crowded = n > 3
		mortal := slices.Contains(victims, pe)
		if mortal {
			policy.First, policy.Most = time.Millisecond, time.Millisecond
		}
		all = append(all, &process{node: mapped(t, files, page, policy), pe: pe, mortal: mortal})
	}
	for _, f := range files {
		_ = f.Close()
	}
	return all
}

// end gives the memory back, when all goroutines have ended, and keeps the addresses: the
// package knows teams of the dead by them.
func end(t *testing.T, all []*process) {
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

// run starts a goroutine of the process. What is in f is over when the process is killed.
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

// doomed returns 2 to most processes, and those of them, least or more but not all, that are
// to die, as a stream of random numbers of a seed has it.
func doomed(t *testing.T, seed, stream uint64, most, least int) (rng *rand.Rand, all []*process, victims []int) {
	t.Helper()
	rng = rand.New(rand.NewPCG(seed, stream))
	n := 2 + rng.IntN(most-1)
	victims = rng.Perm(n)[:least+rng.IntN(n-least)]
	return rng, processes(t, n, 1<<20, victims), victims
}

// ended returns when all goroutines of some processes have ended.
func ended(t *testing.T, what string, all []*process) {
	t.Helper()
	within(t, what, func() {
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

// publish tells the others of the death, as the step does, when the process is killed. It
// goes by a mapping of somebody who lives: another one may wither meanwhile.
//
// The process may have died between clearing a bell and waking who sleeps on it. A real
// sleep ends by its timeout then; here it has none, so that whatever else is not woken
// hangs. So who sleeps behind a bell that is clear is woken.
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
	tm, err := coll.New(coll.Config{
		Map: p.m.Map, Waiter: p.waiters[p.pe], Members: near(members...), Me: slices.Index(members, p.pe), ID: id, Failures: p.failures, Tolerant: tolerant,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// dying makes a call of fold one of the last instructions that a process executes: it
// gets no further than to a certain place in the destinations that it writes to next.
type dying struct {
	left *int
	p    *process
	rng  *rand.Rand
}

func (d dying) fold(acc, in []uint32) {
	if *d.left--; *d.left == 0 {
		d.p.wither(d.rng)
	}
	sum(acc, in)
}

// wither lets the process write no more than its own slots, what it says of its part, and
// the heaps of some, the last one's in part.
func (p *process) wither(rng *rand.Rand) {
	p.memory.Lock()
	defer p.memory.Unlock()
	if p.dead {
		return // what it is given back here it would write to behind its death
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

// TestKilledAnywhere kills processes at any instruction of random collectives on two
// teams that overlap, which their goroutines call side by side.
func TestKilledAnywhere(t *testing.T) {
	seeds(t, 400, 150, killedAnywhere)
}

// seeds calls f with so many seeds, or so few if tests are to be short, up to one with which it
// fails.
func seeds(t *testing.T, rounds, short uint64, f func(t *testing.T, seed uint64)) {
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

func killedAnywhere(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := doomed(t, seed, 6, 6, 1)
	n := len(all)
	teams := [][]int{upTo(n), rng.Perm(n)[:1+rng.IntN(n)]}
	slices.Sort(teams[1])
	from, steps := plays, acts
	if rng.IntN(2) == 0 { // those of which the dead leave parts undone
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
					defer p.withers.Store(false)
				}
				return a.act(t.Context())
			})
		}
	}
	killSome(t, rng, all, victims)
	ended(t, fmt.Sprint("seed ", seed), all)
	for k, members := range teams {
		alike(t, saw[k], members, victims)
	}
	end(t, all)
}

// TestKilledInLarge is TestKilledAnywhere in collectives of more than a mebibyte, and odd
// numbers of elements.
func TestKilledInLarge(t *testing.T) {
	const n = 300_001
	large := []play{
		broadcasts("Broadcast", n), reduces("Reduce", n, false), reduces("Reduce in place", n, true), gathers("FCollect", n),
		exchanges("Alltoall", n/2), collects("Collect", n), strided("AlltoallS", n/3), scans("Scan", n, true, false), scans("Scan exclusive", n, false, true),
	}
	seeds(t, 40, 8, func(t *testing.T, seed uint64) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 10))
		npes := 2 + rng.IntN(3)
		victims := rng.Perm(npes)[:1+rng.IntN(npes-1)]
		all, saw := processes(t, npes, 20<<20, victims), make([][]string, npes)
		for pe, p := range all {
			a := &actor{
				nd: p.node, tm: p.team(t, 5, upTo(npes), true), me: pe, pe: pe, apart: 10 << 20, from: large, acts: 4, end: 4,
				rng: rand.New(rand.NewPCG(seed, 11)),
			}
			if slices.Contains(victims, pe) {
				p.dieIn(a, rand.New(rand.NewPCG(seed, uint64(100+pe))))
			}
			p.run(t, func() error {
				defer func() { saw[pe] = a.saw }()
				defer p.withers.Store(false)
				return a.act(t.Context())
			})
		}
		killSome(t, rng, all, victims)
		ended(t, fmt.Sprint("seed ", seed), all)
		alike(t, saw, upTo(npes), victims)
		end(t, all)
	})
}

// dieIn lets the process die in the midst of a reduction, if it comes to one in some step.
func (p *process) dieIn(a *actor, rng *rand.Rand) {
	a.end = rng.IntN(a.acts)
	p.withers.Store(true)
	left := 1 + rng.IntN(6)
	a.last = func(int) coll.Op[uint32] { return dying{left: &left, p: p, rng: rng}.fold }
}

// killSome kills the victims one after the other or at once.
func killSome(t *testing.T, rng *rand.Rand, all []*process, victims []int) {
	t.Helper()
	together := rng.IntN(3) == 0
	for _, v := range victims {
		for k := rng.IntN(3000); k > 0 || all[v].withers.Load() && k > -100_000; k-- {
			runtime.Gosched()
		}
		all[v].die()
		if !together {
			turn(rng.IntN(300))
			all[v].publish(all)
		}
	}
	for _, v := range victims {
		all[v].publish(all)
	}
}

func turn(n int) {
	for range n {
		runtime.Gosched()
	}
}

// alike checks that all saw the same, those that were killed as far as they got.
func alike(t *testing.T, saw [][]string, members, victims []int) {
	t.Helper()
	var most []string
	for _, pe := range members {
		if len(saw[pe]) > len(most) {
			most = saw[pe]
		}
	}
	for _, pe := range members {
		if s := saw[pe]; !slices.Equal(s, most[:len(s)]) || len(s) < len(most) && !slices.Contains(victims, pe) {
			t.Errorf("PE %d saw %v, another one %v", pe, s, most)
		}
	}
}
