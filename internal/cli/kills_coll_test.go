package cli

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// trial is a collective in the loop of TestKillsInCollectives. Its contributors determine what the result must be.
type trial struct {
	name    string
	all     bool // source and destination have a block of n for each PE
	inPlace bool
	call    func(p *collPE, dst, src shmem.Sym[uint64], n, root int) error
	// want returns what element j of the destination must be; false: it keeps its old value.
	want func(p *collPE, n, root, j int) (v uint64, ok bool)
}

// rooted says whether only the root contributes.
func (tr *trial) rooted() bool { return strings.HasPrefix(tr.name, "broadcast") }

func sumUpTo(most func(me int) int) func(p *collPE, n, root, j int) (uint64, bool) {
	return func(p *collPE, _, _, j int) (v uint64, _ bool) {
		for _, i := range p.who {
			if i < most(p.tm.MyPE()) {
				v += p.given(i, j)
			}
		}
		return v, true
	}
}

func reduce(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
	return shmem.Reduce(p.tm, dst, src, shmem.Sum)
}

// fold returns the fold of what the contributors give as element j, in the order of the team.
func (p *collPE) fold(j int, op shmem.Op[uint64]) (uint64, bool) {
	var acc, in [1]uint64
	for k, i := range p.who {
		if in[0] = p.given(i, j); k == 0 {
			acc = in
		} else {
			op(acc[:], in[:])
		}
	}
	return acc[0], true
}

// combineInOrder does not commute.
func combineInOrder(acc, in []uint64) {
	for i := range acc {
		acc[i] = acc[i]*3 ^ in[i]
	}
}

func reduceInOrder(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
	return shmem.Reduce(p.tm, dst, src, combineInOrder)
}

func inOrder(p *collPE, _, _, j int) (uint64, bool) { return p.fold(j, combineInOrder) }

// addFloats adds two numbers of 32 bits, which round, in each element.
func addFloats(acc, in []uint64) {
	for i := range acc {
		lo := math.Float32frombits(uint32(acc[i])) + math.Float32frombits(uint32(in[i]))
		hi := math.Float32frombits(uint32(acc[i]>>32)) + math.Float32frombits(uint32(in[i]>>32))
		acc[i] = uint64(math.Float32bits(hi))<<32 | uint64(math.Float32bits(lo))
	}
}

// finite clears bits of both exponents, so that sums are finite.
const finite = 1<<30 | 1<<62

func reduceFloats(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
	p.mask = finite
	for j, v := range src.Local() {
		src.Local()[j] = v &^ finite
	}
	return shmem.Reduce(p.tm, dst, src, addFloats)
}

func floatSum(p *collPE, _, _, j int) (uint64, bool) { return p.fold(j, addFloats) }

func (p *collPE) contributed(i int) bool { return slices.Contains(p.who, i) }

var everybody = sumUpTo(func(int) int { return 1 << 30 })

var trials = []trial{
	{"sync", false, false, func(p *collPE, _, _ shmem.Sym[uint64], _, _ int) error { return p.tm.Sync() }, nil},
	{"barrier", false, false, func(p *collPE, _, _ shmem.Sym[uint64], _, _ int) error {
		err := p.w.Barrier()
		return errors.Join(err, p.tm.Sync())
	}, nil},
	{"broadcast", false, false, func(p *collPE, dst, src shmem.Sym[uint64], _, root int) error {
		return shmem.Broadcast(p.tm, dst, src, root)
	}, func(p *collPE, _, root, j int) (uint64, bool) { return p.given(root, j), p.contributed(root) }},
	{"reduce", false, false, reduce, everybody},
	{"reduce in place", false, true, reduce, everybody},
	{"reduce in order", false, false, reduceInOrder, inOrder},
	{"reduce in order, in place", false, true, reduceInOrder, inOrder},
	{"reduce floats", false, false, reduceFloats, floatSum},
	{"reduce floats in place", false, true, reduceFloats, floatSum},
	{"broadcast in place", false, true, func(p *collPE, dst, src shmem.Sym[uint64], _, root int) error {
		return shmem.Broadcast(p.tm, dst, src, root)
	}, func(p *collPE, _, root, j int) (uint64, bool) { return p.given(root, j), p.contributed(root) }},
	{"reduce value", false, false, func(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
		v, err := shmem.ReduceValue(p.tm, src.Local()[0], shmem.Sum)
		if err == nil {
			dst.Local()[0] = v
		}
		return err
	}, func(p *collPE, n, root, j int) (uint64, bool) {
		v, _ := everybody(p, n, root, j)
		return v, j == 0
	}},
	{"broadcast value", false, false, func(p *collPE, dst, src shmem.Sym[uint64], _, root int) error {
		v, err := shmem.BroadcastValue(p.tm, [2]uint64(src.Local()), root)
		if err == nil {
			copy(dst.Local(), v[:])
		}
		return err
	}, func(p *collPE, _, root, j int) (uint64, bool) { return p.given(root, j), j < 2 && p.contributed(root) }},
	{"inscan", false, false, func(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
		return shmem.SumInScan(p.tm, dst, src)
	}, sumUpTo(func(me int) int { return me + 1 })},
	{"exscan in place", false, true, func(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
		return shmem.SumExScan(p.tm, dst, src)
	}, sumUpTo(func(me int) int { return me })},
	{"fcollect", true, false, func(p *collPE, dst, src shmem.Sym[uint64], n, _ int) error {
		return shmem.FCollect(p.tm, dst, src.Slice(0, n))
	}, func(p *collPE, n, _, j int) (uint64, bool) { return p.given(j/n, j%n), p.contributed(j / n) }},
	{"collect", true, false, func(p *collPE, dst, src shmem.Sym[uint64], n, _ int) error {
		return shmem.Collect(p.tm, dst, src.Slice(0, n-p.tm.MyPE()))
	}, func(p *collPE, n, _, j int) (uint64, bool) {
		for _, i := range p.who {
			if j < n-i {
				return p.given(i, j), true
			}
			j -= n - i
		}
		return 0, false
	}},
	{"alltoall", true, false, func(p *collPE, dst, src shmem.Sym[uint64], _, _ int) error {
		return shmem.Alltoall(p.tm, dst, src)
	}, func(p *collPE, n, _, j int) (uint64, bool) {
		return p.given(j/n, p.tm.MyPE()*n+j%n), p.contributed(j / n)
	}},
	{"alltoalls", true, false, func(p *collPE, dst, src shmem.Sym[uint64], n, _ int) error {
		return shmem.AlltoallS(p.tm, dst, src, shmem.Stride{Dst: 1, Src: 1, N: n})
	}, func(p *collPE, n, _, j int) (uint64, bool) {
		return p.given(j/n, p.tm.MyPE()*n+j%n), p.contributed(j / n)
	}},
}

// collPE is a PE of TestKillsInCollectives.
type collPE struct {
	w        *shmem.World
	teams    []*shmem.Team
	src, dst shmem.Sym[uint64]
	rng      *rand.Rand // the same sequence on all PEs
	tm       *shmem.Team
	round    uint64
	who      []int // contributors
	most     int   // elements that are given in one attempt
	mask     uint64
	over     atomic.Bool
}

// given returns element j that team member i gives in this round.
func (p *collPE) given(i, j int) uint64 {
	x := p.round<<40 ^ uint64(i)<<20 ^ uint64(j) ^ 0x9e3779b97f4a7c15
	x *= 0xbf58476d1ce4e5b9
	return (x ^ x>>29) &^ p.mask
}

const (
	mostGiven  = 2500
	largeGiven = 25_000 // of those attempts that are so large that PEs of several nodes divide them
)

func (p *collPE) begin(seed uint64) (err error) {
	p.rng = rand.New(rand.NewPCG(seed, 0))
	p.most = max(p.most, mostGiven)
	n := p.w.NPEs()
	if p.src, err = shmem.Alloc[uint64](p.w, p.most*n); err == nil {
		p.dst, err = shmem.Alloc[uint64](p.w, p.most*n)
	}
	if err != nil {
		return err
	}
	turned, err := p.w.Team().SplitStrided(n-1, -1, n, nil)
	if err != nil {
		return err
	}
	// The same PEs in the order of their numbers, so that contributors are easy to name.
	other, err := turned.SplitStrided(n-1, -1, n, nil)
	p.teams = []*shmem.Team{p.w.Team(), other, p.w.Shared()}
	if p.w.Shared().NPEs() < n { // PEs of different nodes see different things there
		p.teams = p.teams[:2]
	}
	return err
}

// attempt is a trial with its arguments, the same on all PEs.
type attempt struct {
	trial
	n, root int
	large   bool // source and destination have elements for all PEs in any case
}

// draw draws the next attempt.
func (p *collPE) draw() attempt {
	a := attempt{trial: trials[p.rng.IntN(len(trials))], n: 1 + p.rng.IntN(40), root: p.rng.IntN(p.w.NPEs())}
	if p.rng.IntN(2) == 0 {
		a.n = mostGiven - p.rng.IntN(500)
	}
	a.n = min(a.n+p.w.NPEs(), mostGiven)
	if p.most > mostGiven && p.rng.IntN(3) == 0 {
		a.n, a.large = p.most-p.rng.IntN(p.most/2), true
	}
	p.round++
	return a
}

// try runs one collective on a team. It returns a description that must be the same on all survivors.
func (p *collPE) try(tm *shmem.Team, tr attempt) (saw string, err error) {
	p.tm = tm
	n, root := tr.n, tr.root%tm.NPEs()
	size := n
	if tr.all || tr.large {
		size *= tm.NPEs()
	}
	p.mask = 0
	src, dst := p.src.Slice(0, size), p.dst.Slice(0, size)
	if tr.inPlace {
		dst = src
	}
	const stale = 0xdeadbeef
	for j := range dst.Local() {
		dst.Local()[j] = stale
	}
	me := p.tm.MyPE()
	for j := range src.Local() {
		src.Local()[j] = p.given(me, j)
	}
	err = tr.call(p, dst, src, n, root)
	o := p.tm.Outcome()
	p.who = o.Contributors
	saw = fmt.Sprint(p.round, tr.name, o)
	var dead *shmem.PEError
	if errors.As(err, &dead) && tr.rooted() && slices.Equal(dead.PEs, []int{p.inWorld(root)}) && slices.Equal(o.Failed, []int{root}) {
		err = nil
	}
	if err == nil && !tr.rooted() && !slices.Contains(p.who, me) {
		err = errors.New("a survivor is not among the contributors")
	}
	for j, v := range dst.Local() {
		if err != nil || tr.want == nil {
			break
		}
		want, ok := tr.want(p, n, root, j)
		switch {
		case !ok && tr.inPlace:
			want = p.given(me, j)
		case !ok:
			want = stale
		}
		if v != want {
			err = fmt.Errorf("element %d is %#x, want %#x (%v)", j, v, want, ok)
		}
	}
	if err != nil {
		err = fmt.Errorf("round %d, %s of %d elements in place %v, %v: %w", p.round, tr.name, n, tr.inPlace, o, err)
	}
	return saw, err
}

// inWorld returns the world's PE number of team member i.
func (p *collPE) inWorld(i int) int {
	pe, _ := p.tm.Translate(i, p.w.Team())
	return pe
}

// testCollectives is the program of the PEs. It runs collectives until the input of all living PEs has ended, and
// prints the results.
func testCollectives(args []string, stdout, stderr io.Writer) int {
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	p, me := &collPE{w: w}, w.MyPE()
	if len(args) > 1 {
		p.most = largeGiven
	}
	if err = p.begin(uint64(number(args[0]))); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "began %d %d\nready %d\n", me, os.Getpid(), me)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		p.over.Store(true)
	}()
	h := fnv.New64()
	for flags := uint64(0); flags == 0 && err == nil; {
		for range 8 {
			var saw string
			a := p.draw()
			if saw, err = p.try(p.teams[p.rng.IntN(len(p.teams))], a); err != nil {
				break
			}
			_, _ = io.WriteString(h, saw)
		}
		mine := uint64(0)
		if p.over.Load() {
			mine = 1
		}
		if err == nil {
			flags, err = p.teams[p.rng.IntN(len(p.teams))].Agree(mine)
		}
	}
	if err == nil {
		err = p.regroup(h)
	}
	if err != nil {
		fmt.Fprintf(stdout, "PE %d error %v\n", me, err)
		return 1
	}
	fmt.Fprintf(stdout, "PE %d saw %d rounds, %x\n", me, p.round, h.Sum64())
	if err = w.Finalize(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "PE %d left <nil>\n", me)
	return 0
}

// regroup makes a team of the survivors and uses it.
func (p *collPE) regroup(saw io.Writer) error {
	failed, err := p.w.Team().Validate()
	if err != nil {
		return err
	}
	fmt.Fprint(saw, failed)
	s, err := p.w.Team().Shrink()
	if err != nil {
		return err
	}
	if got := s.NPEs() + len(failed); got != p.w.NPEs() {
		return fmt.Errorf("the survivors' team has %d PEs, and %v of %d are dead", s.NPEs(), failed, p.w.NPEs())
	}
	x, y := p.src.Slice(0, 1), p.dst.Slice(0, 1)
	x.Local()[0] = 1
	if err = shmem.Reduce(s, y, x, shmem.Sum); err == nil && y.Local()[0] != uint64(s.NPEs()) {
		return fmt.Errorf("%d survivors, but the count is %d", s.NPEs(), y.Local()[0])
	}
	return errors.Join(err, s.Destroy())
}

// TestKillsInCollectives kills PEs at random moments of random collectives under --recover. All survivors see the same
// results, each contribution is in a result exactly once, and no PE hangs.
func TestKillsInCollectives(t *testing.T) {
	t.Parallel()
	jobs := killsOr(200)
	seed := uint64(time.Now().UnixNano())
	const streams = 3
	for stream := range streams {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(stream)))
			for i := stream; i < jobs; i += streams {
				k := killing{t: t, rng: rng, family: fmt.Sprint("collectives ", i), n: 2 + rng.IntN(5)}
				if k.collectives(i); t.Failed() {
					t.Fatalf("in job %d of seed %d, %d: %d PEs", i, seed, stream, k.n)
				}
			}
		})
	}
}

// collectives runs one job.
func (k *killing) collectives(seed int) {
	j := prepare(k.t, "-n", fmt.Sprint(k.n), "--recover", "--stdin", "all", "t-coll", fmt.Sprint(seed))
	theirs, input, err := os.Pipe()
	check(k.t, err)
	j.cmd.Stdin, j.theirs = theirs, append(j.theirs, theirs)
	j.begin()
	k.await(j, k.n)
	victims, over := k.kill(j)
	check(k.t, input.Close())
	status, stderr := j.endedAfter(testPatience, func() { <-over })
	slices.Sort(victims)
	said := j.stdout.String()
	if status != 3 || strings.Contains(said, " error ") {
		k.t.Errorf("killed %v: status %d, want 3\n%s\n%s", victims, status, said, stderr)
	}
	first := ""
	for pe := range k.n {
		saw, _ := after(said, fmt.Sprintf("PE %d saw ", pe))
		left, _ := after(said, fmt.Sprintf("PE %d left ", pe))
		if slices.Contains(victims, pe) {
			continue
		}
		if first == "" {
			first = saw
		}
		if saw == "" || saw != first || left != "<nil>" {
			k.t.Errorf("killed %v: PE %d saw %q, another one %q, and left %q\n%s\n%s", victims, pe, saw, first, left, said, stderr)
		}
	}
}
