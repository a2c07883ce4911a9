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

// TestStressKills has PEs die at random points of random operations. Every step must keep these
// rules:
//
//   - operations fail only on dead PEs, and the survivors' work among themselves is as if no PE
//     had died;
//   - a tolerant collective has the data of its contributors, who are the same on all survivors
//     and include all of them;
//   - a strict collective is complete or fails;
//   - all survivors get the same result of an agreement.
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

// kills is a PE's view of a stress job whose PEs die.
type kills struct {
	*stress
	victims []int
	opsLeft int               // operations of this PE until it dies; -1: it does not die
	seen    [killSteps]string // what all survivors must see alike, by step
	history modeled           // hashes of seen
	acked   []int
	at      int                      // the number of the step
	src     shmem.Sym[uint64]        // one word for each PE, for collectives
	dst     shmem.Sym[uint64]        // n words for each PE, for collectives
	strict  map[*stressTeam]struct{} // teams whose collectives fail after a death
	broken  map[*stressTeam]bool     // those of them whose collectives have failed
}

func newKills(t *testing.T, w *shmem.World, rng *rand.Rand, victims []int) *kills {
	t.Helper()
	k := &kills{
		stress: newStress(t, w, rng), victims: victims, opsLeft: -1,
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
		k.addTeam(members, must(w.Team().SplitStrided(start, stride, size, &shmem.TeamConfig{Mode: mode}))(t))
		if mode == shmem.ModeStrict {
			k.strict[k.teams[len(k.teams)-1]] = struct{}{}
		}
	}
	ok(t, w.Barrier())
	for _, pe := range victims {
		if fuse := 1 + rng.IntN(8*killSteps); pe == k.me {
			k.opsLeft = fuse
		}
	}
	return k
}

func (k *kills) isVictim(pe int) bool { return slices.Contains(k.victims, pe) }

// countDown is called before each operation. A victim dies at one of them, or soon after.
func (k *kills) countDown() {
	if k.opsLeft--; k.opsLeft == 0 {
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

// victimsOf returns the PEs that an error names. They must be victims, and err must be nil or a
// PEError.
func (k *kills) victimsOf(err error) []int {
	k.t.Helper()
	if err == nil {
		return nil
	}
	e, is := errors.AsType[*shmem.PEError](err)
	if !is || len(e.PEs) == 0 || !errors.Is(err, shmem.ErrPEDied) {
		k.fatalf("error %v, want none or a PEError of dead PEs", err)
	}
	for _, pe := range e.PEs {
		if !k.isVictim(pe) {
			k.fatalf("error %v names PE %d, which lives", err, pe)
		}
	}
	return e.PEs
}

// remember records what all survivors must see alike in this step.
func (k *kills) remember(what ...any) {
	h := fnv.New64a()
	fmt.Fprint(h, what...)
	k.history.x.Local()[k.at] = h.Sum64()
	k.seen[k.at] = fmt.Sprint(k.done[len(k.done)-1], what)
}

func (k *kills) run() {
	k.t.Helper()
	steps := []func(){k.putsAndGets, k.putsAndGets, k.count, k.hear, k.collective, k.collective, k.collective, k.agree, k.allocate}
	for k.at = range killSteps {
		steps[k.rng.IntN(len(steps))]()
		k.checkMemory()
	}
	if k.isVictim(k.me) {
		die()
	}
	for !slices.Equal(k.w.Failed(), k.victims) {
		runtime.Gosched()
	}
	k.w.AckFailed()
	k.survivors()
}

// checkMemory is compare for jobs with deaths: it checks only what survivors wrote.
func (k *kills) checkMemory() {
	k.t.Helper()
	k.countDown()
	k.ok(k.w.Barrier())
	for _, m := range k.puts {
		for pe := range k.n {
			part := func(x []uint64) []uint64 { return x[pe*stressRoom : (pe+1)*stressRoom] }
			if have, want := part(m.x.Local()), part(m.model[k.me]); !k.isVictim(pe) && !slices.Equal(have, want) {
				k.fatalf("the values that PE %d put are %#x, want %#x", pe, have, want)
			}
		}
	}
	for pe := range k.n {
		if have, want := k.words.x.Local()[stressWords+pe], k.words.model[k.me][stressWords+pe]; !k.isVictim(pe) && have != want {
			k.fatalf("the count of PE %d is %d, want %d", pe, have, want)
		}
	}
	k.countDown()
	k.ok(k.w.Team().Sync())
	k.turn = 1 - k.turn
}

// putsAndGets puts to and gets from all PEs, including dead ones.
func (k *kills) putsAndGets() {
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
			k.countDown()
			if !get {
				k.onlyTarget(target, shmem.Put(c, to.x.Slice(pe*stressRoom+first, pe*stressRoom+first+n), values, target))
				continue
			}
			want := from.model[target][other*stressRoom+first:][:n]
			if err := shmem.Get(c, values, from.x.Slice(other*stressRoom+first, other*stressRoom+first+n), target); err != nil {
				k.onlyTarget(target, err)
			} else if !k.isVictim(other) && !k.isVictim(target) && !slices.Equal(values, want) {
				k.fatalf("got %#x from PE %d, want %#x", values, target, want)
			}
		}
	}
}

// onlyTarget checks that an operation either succeeded or failed because of its target alone.
func (k *kills) onlyTarget(target int, err error) {
	k.t.Helper()
	if dead := k.victimsOf(err); err != nil && !slices.Equal(dead, []int{target}) {
		k.fatalf("error %v of an operation on PE %d", err, target)
	}
}

// count makes atomic updates among all PEs. Each pair of PEs has a word.
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
			k.countDown()
			old, err := shmem.AtomicFetchInc(k.w.Ctx(), k.words.x.At(stressWords+pe), target)
			if k.onlyTarget(target, err); err == nil && !k.isVictim(target) && old != *word-1 {
				k.fatalf("fetched %d from PE %d, want %d", old, target, *word-1)
			}
		}
	}
}

// hear has each PE wait for a signal of an earlier PE. If that one is dead, the wait says so.
func (k *kills) hear() {
	k.t.Helper()
	distance := 1 + k.rng.IntN(k.n)
	k.note("hear over %d", distance)
	next, previous := (k.me+distance)%k.n, (k.me+k.n-distance%k.n)%k.n
	for pe := range k.n {
		k.flags.model[(pe+distance)%k.n][pe]++
	}
	c := k.w.Ctx()
	k.countDown()
	k.onlyTarget(next, c.SignalAdd(k.flags.x.At(k.me), 1, next))
	for !slices.Contains(k.acked, previous) { // no PE waits for one that it knows to be dead
		k.countDown()
		_, err := c.SignalWaitUntil(k.flags.x.At(previous), shmem.GE, k.flags.model[k.me][previous])
		if k.victimsOf(err); err == nil {
			return
		}
		k.acked = k.w.AckFailed()
	}
}

// collective makes a collective of a team, tolerant or strict.
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
	k.countDown()
	if err := tm.team.Sync(); err != nil { // before it, the destination is not ready on all members
		k.checkFailed(tm, strict, err)
		return
	}
	k.countDown()
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
		if !strict && kind == 2 && k.isVictim(tm.members[root]) {
			if k.victimsOf(err); tm.team == k.w.Team() {
				k.remember("no root")
			}
			return
		}
		k.checkFailed(tm, strict, err)
		return
	}
	k.checkResult(tm, strict, kind, root, values, dst.Local())
}

// checkFailed checks the error of a collective.
func (k *kills) checkFailed(tm *stressTeam, strict bool, err error) {
	k.t.Helper()
	if !strict {
		k.fatalf("a tolerant collective failed: %v", err)
	}
	k.victimsOf(err)
	k.broken[tm] = true
}

// checkResult checks the result of a collective that did not fail.
func (k *kills) checkResult(tm *stressTeam, strict bool, kind, root int, values, have []uint64) {
	k.t.Helper()
	who := tm.team.Outcome().Contributors
	for i, pe := range tm.members {
		in := slices.Contains(who, i)
		if kind != 2 && !in && (strict || !k.isVictim(pe)) {
			k.fatalf("PE %d is not among the contributors %v of %v", pe, who, tm.members)
		}
	}
	if strict && k.broken[tm] {
		k.fatalf("a collective of a strict team succeeded after one that failed because of a death")
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
		k.fatalf("the collective of %v has the result %#x, want %#x", who, have, want)
	}
	if tm.team == k.w.Team() { // all survivors are members of it
		k.remember(who)
	}
}

// agree makes agreements: every survivor's vote counts, and all get the same result.
func (k *kills) agree() {
	k.t.Helper()
	validate := k.rng.IntN(2) == 0
	k.note("agree, validate %v", validate)
	k.countDown()
	if validate {
		dead := must(k.w.Team().Validate())(k.t)
		for _, pe := range dead {
			if !k.isVictim(pe) {
				k.fatalf("PE %d lives, but Validate returned %v", pe, dead)
			}
		}
		k.remember(dead)
		return
	}
	flags := must(k.w.Team().Agree(^(uint64(1) << k.me)))(k.t)
	for pe := range 64 {
		if agreed := flags>>pe&1 == 0; pe < k.n && !k.isVictim(pe) && !agreed || pe >= k.n && agreed {
			k.fatalf("Agree returned %#x without the flag of PE %d, which lives", flags, pe)
		}
	}
	k.remember(flags)
}

// allocate allocates an object on all PEs, or fails on all.
func (k *kills) allocate() {
	k.t.Helper()
	n := 1 + k.rng.IntN(1000)
	k.note("allocate %d", n)
	k.countDown()
	x, err := shmem.Alloc[uint64](k.w, n)
	k.victimsOf(err)
	if err == nil {
		k.countDown()
		k.victimsOf(shmem.Free(k.w, x))
	}
	k.remember(err == nil, k.w.Heap())
}

// survivors ends the job: the survivors make a team on which everything works again.
func (k *kills) survivors() {
	k.t.Helper()
	if dead := must(k.w.Team().Validate())(k.t); !slices.Equal(dead, k.victims) {
		k.fatalf("Validate returned %v, want %v", dead, k.victims)
	}
	team := must(k.w.Team().Shrink())(k.t)
	var living []int
	for pe := range k.n {
		if !k.isVictim(pe) {
			living = append(living, pe)
		}
	}
	var members []int
	for i := range team.NPEs() {
		pe, _ := team.Translate(i, k.w.Team())
		members = append(members, pe)
	}
	if !slices.Equal(members, living) || members[team.MyPE()] != k.me {
		k.fatalf("the survivors' team has the PEs %v, want %v", members, living)
	}
	c := must(team.NewCtx())(k.t)
	theirs := make([]uint64, killSteps)
	for i, pe := range members {
		ok(k.t, shmem.Get(c, theirs, k.history.x, i))
		for step, v := range theirs {
			if mine := k.history.x.Local()[step]; v != mine {
				k.fatalf("step %d ended differently on PE %d than here: %s", step, pe, k.seen[step])
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
