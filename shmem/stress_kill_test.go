package shmem_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// TestStressKills has PEs die at random points of random operations. What survivors
// must hold to in each step: operations fail on the dead alone, and what survivors do among
// themselves is as if nobody had died; a tolerant collective is that of its contributors,
// who are the same for all survivors and have all survivors among them; a strict one is
// whole or fails; agreements are agreed upon.
func TestStressKills(t *testing.T) {
	eachSeed(t, func(seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		npes := 2 + rng.IntN(7)
		victims := rng.Perm(npes)[:1+rng.IntN(min(3, npes-1))]
		slices.Sort(victims)
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			newKills(t, w, rng, victims).run()
		}, shmemtest.Recover(victims...))
	})
}

const killSteps = 60

// kills is a PE's view of a job under stress whose PEs die.
type kills struct {
	*stress
	victims []int
	fuse    int               // operations of this PE until it dies; -1: it does not
	met     [killSteps]string // what survivors have to meet alike, by step
	history modeled           // its hashes
	acked   []int
	at      int                      // number of the step
	src     shmem.Sym[uint64]        // one word for each PE, of collectives
	dst     shmem.Sym[uint64]        //
	strict  map[*stressTeam]struct{} // teams whose collectives fail for a death
	broken  map[*stressTeam]bool     // of these, those that have failed
}

func newKills(t *testing.T, w *shmem.World, rng *rand.Rand, victims []int) *kills {
	t.Helper()
	k := &kills{
		stress: newStress(t, w, rng), victims: victims, fuse: -1,
		strict: map[*stressTeam]struct{}{}, broken: map[*stressTeam]bool{},
	}
	k.history = k.object(killSteps)
	k.src = must(shmem.Calloc[uint64](w, k.n))(t)
	k.dst = must(shmem.Calloc[uint64](w, k.n*k.n))(t)
	for range 3 {
		mode := pick(rng, shmem.ModeStrict, shmem.ModeTolerant)
		start := rng.IntN(k.n)
		stride := 1 + rng.IntN(2)
		size := 1 + rng.IntN((k.n-1-start)/stride+1)
		var members []int
		for i := range size {
			members = append(members, start+i*stride)
		}
		k.adopt(members, must(w.Team().SplitStrided(start, stride, size, &shmem.TeamConfig{Mode: mode}))(t))
		if mode == shmem.ModeStrict {
			k.strict[k.teams[len(k.teams)-1]] = struct{}{}
		}
	}
	ok(t, w.Barrier())
	for _, pe := range victims {
		if fuse := 1 + rng.IntN(8*killSteps); pe == k.me {
			k.fuse = fuse
		}
	}
	return k
}

func (k *kills) dies(pe int) bool { return slices.Contains(k.victims, pe) }

// burn is called at each operation. A victim dies at one of them, or soon after.
func (k *kills) burn() {
	if k.fuse--; k.fuse == 0 {
		if rand.IntN(2) == 0 {
			die()
		}
		go func() {
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			die()
		}()
	}
}

// blame checks that an error is none, or names victims alone, which it returns.
func (k *kills) blame(err error) []int {
	k.t.Helper()
	if err == nil {
		return nil
	}
	e, is := errors.AsType[*shmem.PEError](err)
	if !is || len(e.PEs) == 0 || !errors.Is(err, shmem.ErrPEDied) {
		k.fatalf("%v, want none or a PEError of dead PEs", err)
	}
	for _, pe := range e.PEs {
		if !k.dies(pe) {
			k.fatalf("%v, but PE %d lives", err, pe)
		}
	}
	return e.PEs
}

// remember keeps what all survivors have to have met alike in this step.
func (k *kills) remember(what ...any) {
	h := fnv.New64a()
	fmt.Fprint(h, what...)
	k.history.x.Local()[k.at] = h.Sum64()
	k.met[k.at] = fmt.Sprint(k.done[len(k.done)-1], what)
}

func (k *kills) run() {
	k.t.Helper()
	steps := []func(){k.move, k.move, k.count, k.hear, k.collective, k.collective, k.collective, k.agree, k.allocate}
	for k.at = range killSteps {
		steps[k.rng.IntN(len(steps))]()
		k.settle()
	}
	if k.dies(k.me) {
		die()
	}
	for !slices.Equal(k.w.Failed(), k.victims) {
		runtime.Gosched()
	}
	k.w.AckFailed()
	k.survivors()
}

// settle is what compare is without deaths: it looks at what survivors have written.
func (k *kills) settle() {
	k.t.Helper()
	k.burn()
	k.ok(k.w.Barrier())
	for _, m := range k.puts {
		for pe := range k.n {
			part := func(x []uint64) []uint64 { return x[pe*stressRoom : (pe+1)*stressRoom] }
			if have, want := part(m.x.Local()), part(m.model[k.me]); !k.dies(pe) && !slices.Equal(have, want) {
				k.fatalf("what PE %d put is %#x, want %#x", pe, have, want)
			}
		}
	}
	for pe := range k.n {
		if have, want := k.words.x.Local()[stressWords+pe], k.words.model[k.me][stressWords+pe]; !k.dies(pe) && have != want {
			k.fatalf("what PE %d counted is %d, want %d", pe, have, want)
		}
	}
	k.burn()
	k.ok(k.w.Team().Sync())
	k.turn = 1 - k.turn
}

// move is puts and gets among all PEs, the dead included.
func (k *kills) move() {
	k.t.Helper()
	k.note("move")
	c, to, from := k.w.Ctx(), k.puts[k.turn], k.puts[1-k.turn]
	for pe := range k.n {
		for range k.rng.IntN(5) {
			target, first := k.rng.IntN(k.n), k.rng.IntN(stressRoom)
			n := 1 + k.rng.IntN(stressRoom-first)
			other, get := k.rng.IntN(k.n), k.rng.IntN(2) == 0
			values := make([]uint64, n)
			for i := range values {
				values[i] = k.value()
			}
			model := to.model[target][pe*stressRoom+first:][:n]
			if !get {
				copy(model, values)
			}
			if pe != k.me {
				continue
			}
			k.burn()
			if !get {
				k.only(target, shmem.Put(c, to.x.Slice(pe*stressRoom+first, pe*stressRoom+first+n), values, target))
				continue
			}
			want := from.model[target][other*stressRoom+first:][:n]
			if err := shmem.Get(c, values, from.x.Slice(other*stressRoom+first, other*stressRoom+first+n), target); err != nil {
				k.only(target, err)
			} else if !k.dies(other) && !k.dies(target) && !slices.Equal(values, want) {
				k.fatalf("got %#x of PE %d, want %#x", values, target, want)
			}
		}
	}
}

// only checks that an operation on a PE failed for that PE alone, if at all.
func (k *kills) only(target int, err error) {
	k.t.Helper()
	if dead := k.blame(err); err != nil && !slices.Equal(dead, []int{target}) {
		k.fatalf("%v, of an operation on PE %d", err, target)
	}
}

// count is atomic updates among all PEs, of a word for each pair.
func (k *kills) count() {
	k.t.Helper()
	k.note("count")
	for pe := range k.n {
		for range k.rng.IntN(8) {
			target := k.rng.IntN(k.n)
			word := &k.words.model[target][stressWords+pe]
			*word++
			if pe != k.me {
				continue
			}
			k.burn()
			old, err := shmem.AtomicFetchInc(k.w.Ctx(), k.words.x.At(stressWords+pe), target)
			if k.only(target, err); err == nil && !k.dies(target) && old != *word-1 {
				k.fatalf("counted %d on PE %d, want %d", old, target, *word-1)
			}
		}
	}
}

// hear has each PE told by the previous one. Who is told by a dead one learns that.
func (k *kills) hear() {
	k.t.Helper()
	distance := 1 + k.rng.IntN(k.n)
	k.note("hear over %d", distance)
	next, previous := (k.me+distance)%k.n, (k.me+k.n-distance%k.n)%k.n
	for pe := range k.n {
		k.flags.model[(pe+distance)%k.n][pe]++
	}
	c := k.w.Ctx()
	k.burn()
	k.only(next, c.SignalAdd(k.flags.x.At(k.me), 1, next))
	for !slices.Contains(k.acked, previous) { // nobody waits for one that is known to be dead
		k.burn()
		_, err := c.SignalWaitUntil(k.flags.x.At(previous), shmem.GE, k.flags.model[k.me][previous])
		if k.blame(err); err == nil {
			return
		}
		k.acked = k.w.AckFailed()
	}
}

// collective is one of a team, tolerant or strict.
func (k *kills) collective() {
	k.t.Helper()
	tm := k.pickTeam()
	_, strict := k.strict[tm]
	n, kind := len(tm.members), k.rng.IntN(4)
	values := make([]uint64, n)
	for i := range values {
		values[i] = k.value()
	}
	root := k.rng.IntN(n)
	k.note("collective %d of %v, strict %v, root %d", kind, tm.members, strict, root)
	if tm.me < 0 {
		return
	}
	src, dst := k.src.At(0), k.dst.Slice(0, 1)
	src.Local()[0] = values[tm.me]
	dst.Local()[0] = 0
	if kind == 1 {
		dst = k.dst.Slice(0, n)
		clear(dst.Local())
	}
	k.burn()
	if err := tm.team.Sync(); err != nil { // before it, a destination is not ready everywhere
		k.failed(tm, strict, err)
		return
	}
	k.burn()
	var err error
	switch kind {
	case 0:
		err = shmem.Reduce(tm.team, dst, src, shmem.Sum)
	case 1:
		err = shmem.FCollect(tm.team, dst, src)
	case 2:
		err = shmem.Broadcast(tm.team, dst, src, root)
	case 3:
		err = shmem.SumInScan(tm.team, dst, src)
	}
	if err != nil {
		if !strict && kind == 2 && k.dies(tm.members[root]) {
			if k.blame(err); tm.team == k.w.Team() {
				k.remember("no root")
			}
			return
		}
		k.failed(tm, strict, err)
		return
	}
	k.whole(tm, strict, kind, root, values, dst.Local())
}

// failed looks at the error of a collective.
func (k *kills) failed(tm *stressTeam, strict bool, err error) {
	k.t.Helper()
	if !strict {
		k.fatalf("a tolerant collective fails: %v", err)
	}
	k.blame(err)
	k.broken[tm] = true
}

// whole checks the result of a collective that has not failed.
func (k *kills) whole(tm *stressTeam, strict bool, kind, root int, values, have []uint64) {
	k.t.Helper()
	who := tm.team.Outcome().Contributors
	for i, pe := range tm.members {
		in := slices.Contains(who, i)
		if kind != 2 && !in && (strict || !k.dies(pe)) {
			k.fatalf("PE %d is not among the contributors %v of %v", pe, who, tm.members)
		}
	}
	if strict && k.broken[tm] {
		k.fatalf("a collective is whole after one that failed for a death")
	}
	want := make([]uint64, len(have))
	switch kind {
	case 0, 3:
		for _, i := range who {
			if kind == 0 || i <= tm.me {
				want[0] += values[i]
			}
		}
	case 1:
		for _, i := range who {
			want[i] = values[i]
		}
	case 2:
		want[0] = values[root]
	}
	if !slices.Equal(have, want) {
		k.fatalf("the collective of %v gives %#x, want %#x", who, have, want)
	}
	if tm.team == k.w.Team() { // of which all survivors are
		k.remember(who)
	}
}

// agree is agreements: no survivor's vote is missed, and all learn the same.
func (k *kills) agree() {
	k.t.Helper()
	validate := k.rng.IntN(2) == 0
	k.note("agree, validate %v", validate)
	k.burn()
	if validate {
		dead := must(k.w.Team().Validate())(k.t)
		for _, pe := range dead {
			if !k.dies(pe) {
				k.fatalf("PE %d lives, and Validate gives %v", pe, dead)
			}
		}
		k.remember(dead)
		return
	}
	flags := must(k.w.Team().Agree(^(uint64(1) << k.me)))(k.t)
	for pe := range 64 {
		if agreed := flags>>pe&1 == 0; pe < k.n && !k.dies(pe) && !agreed || pe >= k.n && agreed {
			k.fatalf("Agree gives %#x, and PE %d lives", flags, pe)
		}
	}
	k.remember(flags)
}

// allocate makes an object on all PEs, or on none.
func (k *kills) allocate() {
	k.t.Helper()
	n := 1 + k.rng.IntN(1000)
	k.note("allocate %d", n)
	k.burn()
	x, err := shmem.Alloc[uint64](k.w, n)
	k.blame(err)
	if err == nil {
		k.burn()
		k.blame(shmem.Free(k.w, x))
	}
	k.remember(err == nil, k.w.Heap())
}

// survivors is the end: a team of them, on which all is as ever.
func (k *kills) survivors() {
	k.t.Helper()
	if dead := must(k.w.Team().Validate())(k.t); !slices.Equal(dead, k.victims) {
		k.fatalf("Validate gives %v, want %v", dead, k.victims)
	}
	team := must(k.w.Team().Shrink())(k.t)
	var living []int
	for pe := range k.n {
		if !k.dies(pe) {
			living = append(living, pe)
		}
	}
	var members []int
	for i := range team.NPEs() {
		pe, _ := team.Translate(i, k.w.Team())
		members = append(members, pe)
	}
	if !slices.Equal(members, living) || members[team.MyPE()] != k.me {
		k.fatalf("the survivors' team has %v, want %v", members, living)
	}
	c := must(team.NewCtx())(k.t)
	theirs := make([]uint64, killSteps)
	for i, pe := range members {
		ok(k.t, shmem.Get(c, theirs, k.history.x, i))
		for step, v := range theirs {
			if mine := k.history.x.Local()[step]; v != mine {
				k.fatalf("step %d ended otherwise on PE %d than here: %s", step, pe, k.met[step])
			}
		}
	}
	k.src.Local()[0] = 1 << k.me
	k.ok(team.Sync())
	k.ok(shmem.Reduce(team, k.dst.Slice(0, 1), k.src.At(0), shmem.Sum))
	want := uint64(0)
	for _, pe := range living {
		want |= 1 << pe
	}
	if v := k.dst.Local()[0]; v != want {
		k.fatalf("the survivors' sum is %#x, want %#x", v, want)
	}
	k.ok(c.Destroy())
	k.ok(team.Destroy())
}
