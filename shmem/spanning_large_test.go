package shmem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// largeCall is a collective of a team that spans nodes, made in the way of large data.
type largeCall struct {
	kind    string // reduce, broadcast, fcollect
	inPlace bool
	blocks  bool
	shares  bool
	n, root int
}

func (l largeCall) String() string {
	return fmt.Sprintf("%s of %d, in place %t, blocks %t, shares %t, root %d", l.kind, l.n, l.inPlace, l.blocks, l.shares, l.root)
}

// mixAffine is an operator that does not commute. Its result depends on the order, and on each operand.
func mixAffine(acc, in []float32) {
	for i := range acc {
		acc[i] = acc[i]*1.25 + in[i]
	}
}

// begin returns the destination and the course of the call.
func (l largeCall) begin(t *Team, dst, src Sym[float32], op Op[float32]) (*destination, coll.Words, int, course) {
	words := coll.Words{uint64(l.n), src.off, dst.off}
	if l.kind == "reduce" {
		r, c := newReducing(t.spanning("Reduce", callReduce, 4), dst, src.Slice(0, l.n), l.blocks, l.shares)
		fold := func(in contributors) error { return r.fold(in, op) }
		c.steps = slices.Insert(c.steps, 0, fold)
		return r.destination, words, 4 * l.n, c
	}
	s := t.spanning("Broadcast", callBroadcast, 4)
	pieces, bytes := fcollectPieces(src.off, 4*l.n), 4*l.n*t.NPEs()
	if l.kind == "broadcast" {
		s.root, bytes = l.root, 4*l.n
		pieces = func(contributors) []piece { return []piece{{l.root, src.off, 0, bytes}} }
	}
	d := &destination{s: s, off: dst.off, keeps: t.upper.Tolerant()}
	x := spreading{d, pieces, l.shares}
	return d, words, bytes, d.course(x.steps()...)
}

// given is element j of what member i gives: sums of these round.
func (l largeCall) given(i, j int) float32 { return float32(i+1)*1.1 + float32(j)*0.3 }

// want returns what the destination has after the call, of elements that it had before. who contributed.
func (l largeCall) want(who []int, op Op[float32], before []float32) []float32 {
	all := slices.Clone(before)
	for k, i := range who {
		one := make([]float32, l.n)
		for j := range one {
			one[j] = l.given(i, j)
		}
		switch {
		case l.kind == "fcollect":
			copy(all[i*l.n:], one)
		case k == 0:
			copy(all, one)
		case l.kind == "reduce":
			op(all[:l.n], one)
		}
	}
	return all
}

// check compares the destination of a member after the call.
func (l largeCall) check(f *farJob, t *Team, dst Sym[float32], who []int, op Op[float32], before []float32) error {
	got, want := memory(f, dst, int(t.group.pe(t.me))), l.want(who, op, before)
	for j := range want {
		if got[j] != want[j] {
			return fmt.Errorf("%v: element %d is %v, want %v of contributors %d", l, j, got[j], want[j], who)
		}
	}
	return nil
}

// farFloats allocates two objects on each PE.
func farFloats(t *testing.T, f *farJob, n int) [][2]Sym[float32] {
	t.Helper()
	objects := make([][2]Sym[float32], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		for k := range objects[w.MyPE()] {
			if objects[w.MyPE()][k], err = Alloc[float32](w, n); err != nil {
				return err
			}
		}
		return nil
	})
	return objects
}

// fill prepares the objects of a member for a call, and returns the destination and what it has.
func (l largeCall) fill(f *farJob, t *Team, x [2]Sym[float32]) (dst Sym[float32], before []float32) {
	pe := int(t.group.pe(t.me))
	dst = x[1]
	if l.inPlace {
		dst = x[0]
	}
	for j := range memory(f, x[1], pe) {
		memory(f, x[1], pe)[j] = -7
	}
	for j := range l.n {
		memory(f, x[0], pe)[j] = l.given(t.me, j)
	}
	return dst, slices.Clone(memory(f, dst, pe))
}

// The ways of large data give the bytes of a fold by one PE, whatever the nodes are like: sums of float32, whose order counts, and of an
// operator that does not commute.
func TestFarBlocks(t *testing.T) {
	layouts := [][]int{{2, 1, 2}, {1, 1}, {1, 3}, {4, 1}}
	if testing.Short() {
		layouts = layouts[:1]
	}
	for _, near := range layouts {
		f := newFarJob(t, near...)
		const most = 20_011
		objects := farFloats(t, f, most*len(f.worlds))
		f.each(t, func(w *World) error {
			npes := w.NPEs()
			back, err := w.Team().SplitStrided(npes-1, -1, npes, &TeamConfig{Mode: ModeTolerant})
			if err != nil {
				return err
			}
			for k, l := range largeCalls(most) {
				team, op := []*Team{w.Team(), back}[k%2], []Op[float32]{Sum[float32], mixAffine}[k/2%2]
				l.root %= npes
				x := objects[w.MyPE()]
				dst, before := l.fill(f, team, x)
				d, words, bytes, c := l.begin(team, dst, x[0], op)
				if err := d.run(words, bytes, c); err != nil {
					return fmt.Errorf("%v on %d: %w", l, near, err)
				}
				who := allBelow(npes)
				if l.kind == "broadcast" {
					who = []int{l.root}
				}
				if err := l.check(f, team, dst, who, op, before); err != nil {
					return fmt.Errorf("%v: %w", near, err)
				}
			}
			return back.Destroy()
		})
	}
}

// largeCalls returns calls of all kinds, of up to so many elements.
func largeCalls(most int) (all []largeCall) {
	for i, n := range []int{0, 1, 63, most} {
		for k := range 64 { // each one on both teams, with both operators
			l := largeCall{kind: "reduce", n: n, inPlace: k&4 != 0, blocks: k&8 != 0, shares: k&16 != 0, root: i + k}
			if k&32 != 0 {
				l.kind = []string{"broadcast", "fcollect"}[k>>3&1]
			}
			l.inPlace = l.inPlace && l.kind != "fcollect"
			l.blocks = l.blocks || l.inPlace // in place, results go where others read
			all = append(all, l)
		}
	}
	return all
}

// death is when a PE dies in a collective.
type death struct {
	pe    int
	node  bool // with its node, of which it is the only PE
	at    int  // step; beyond the last one: when memory is restored
	after bool // when its part of the step is done, and not before
}

// farDeaths is a collective in which PEs die.
type farDeaths struct {
	*farJob
	t      *testing.T
	call   largeCall
	op     Op[float32]
	deaths []death
	died   []chan struct{} // by PE
	once   sync.Mutex      // one dies after the other
}

// die ends a PE. It never returns: a dead PE does nothing more.
func (f *farDeaths) die(d death) {
	f.once.Lock()
	if d.node {
		node, _ := f.home(f.worlds[d.pe].session.h.me)
		f.lose(f.t, node)
	} else {
		f.kill(d.pe)
	}
	f.once.Unlock()
	close(f.died[d.pe])
	select {}
}

// dying returns a function that calls part, and ends the PE before it or after it if that is when it dies.
func (f *farDeaths) dying(pe, at int, part func(in contributors) error) func(in contributors) error {
	return func(in contributors) error {
		for _, d := range f.deaths {
			if d.pe == pe && d.at == at && !d.after {
				f.die(d)
			}
		}
		err := part(in)
		for _, d := range f.deaths {
			if d.pe == pe && d.at == at && d.after {
				f.die(d)
			}
		}
		return err
	}
}

// make makes the collective as one PE.
func (f *farDeaths) make(team *Team, x [2]Sym[float32], tolerant bool) error {
	l, pe := f.call, int(team.group.pe(team.me))
	dst, before := l.fill(f.farJob, team, x)
	d, words, bytes, c := l.begin(team, dst, x[0], f.op)
	for k, step := range c.steps {
		c.steps[k] = f.dying(pe, k, step)
	}
	if restore := c.restore; restore != nil {
		c.restore = func() {
			_ = f.dying(pe, len(c.steps), func(contributors) error { restore(); return nil })(contributors{})
		}
	}
	err := d.run(words, bytes, c)
	o := team.Outcome()
	dead := func(i int) bool { return slices.ContainsFunc(f.deaths, func(d death) bool { return d.pe == i }) }
	switch {
	case !tolerant || l.kind == "broadcast" && dead(l.root) && err != nil:
		e, is := errors.AsType[*PEError](err)
		if !is || !errors.Is(err, ErrPEDied) || !dead(e.PEs[0]) {
			return fmt.Errorf("%w, want a death", err)
		}
		if tolerant {
			return l.check(f.farJob, team, dst, nil, f.op, before)
		}
		return nil
	case err != nil:
		return err
	case l.kind != "broadcast":
		for i := range team.NPEs() {
			if !dead(i) && !slices.Contains(o.Contributors, i) {
				return fmt.Errorf("PE %d lives, and the contributors are %d", i, o.Contributors)
			}
		}
	}
	return l.check(f.farJob, team, dst, o.Contributors, f.op, before)
}

// Whoever dies in whichever step of a collective of large data, PE or node: on a tolerant team all survivors get the fold of
// the same contributors, and each of them is one. On a strict team they get an error.
func TestFarBlocksDeaths(t *testing.T) {
	jobs := 100
	if testing.Short() {
		jobs = 16
	}
	for seed := range uint64(jobs) {
		rng := rand.New(rand.NewPCG(seed, 3))
		calls := largeCalls(3001)
		l := calls[len(calls)-1-rng.IntN(64)]
		f := &farDeaths{t: t, call: l, op: []Op[float32]{Sum[float32], mixAffine}[rng.IntN(2)]}
		tolerant := rng.IntN(4) > 0
		f.call.root %= 5
		for _, pe := range rng.Perm(5)[:1+rng.IntN(2)] {
			f.deaths = append(f.deaths, death{pe, pe == 2, rng.IntN(4), rng.IntN(2) == 0})
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f.run(t, tolerant)
			if t.Failed() {
				t.Logf("%v, tolerant %t, deaths %+v", f.call, tolerant, f.deaths)
			}
		})
	}
}

// run runs a job: two PEs, one, and two.
func (f *farDeaths) run(t *testing.T, tolerant bool) {
	t.Helper()
	f.farJob, f.t = newFarJob(t, 2, 1, 2), t
	npes := len(f.worlds)
	steps := f.call.steps()
	for i := range f.deaths { // beyond what there is: in the last step
		f.deaths[i].at = min(f.deaths[i].at, steps)
		if !tolerant {
			f.deaths[i].at = min(f.deaths[i].at, steps-1)
		}
	}
	for range npes {
		f.died = append(f.died, make(chan struct{}))
	}
	objects := farFloats(t, f.farJob, npes*f.call.n)
	type report struct {
		contributors []int
		err          error
	}
	reports := make([]*report, npes)
	var mu sync.Mutex
	f.each(t, func(w *World) error {
		pe := w.MyPE()
		mode := ModeStrict
		if tolerant {
			mode = ModeTolerant
		}
		team, err := w.Team().SplitStrided(0, 1, npes, &TeamConfig{Mode: mode})
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- f.make(team, objects[pe], tolerant) }()
		select {
		case <-f.died[pe]:
			return nil
		case err = <-ended:
		}
		mu.Lock()
		defer mu.Unlock()
		if reports[pe] = (&report{team.Outcome().Contributors, nil}); tolerant {
			for i, r := range reports {
				if r != nil && !slices.Equal(r.contributors, reports[pe].contributors) {
					err = errors.Join(err, fmt.Errorf("contributors %d, of PE %d %d", reports[pe].contributors, i, r.contributors))
				}
			}
		}
		return err
	})
}

// steps returns how many steps the call has.
func (l largeCall) steps() (n int) {
	n = 1
	reads := l.kind != "reduce" || l.blocks // there is something to spread
	if l.kind == "reduce" && l.blocks {
		n++
	}
	if l.shares && reads {
		n++
	}
	return n
}

// An operator that panics on one PE breaks the team for the others, who do not hang.
func TestFarBlocksPanic(t *testing.T) {
	f := newFarJob(t, 2, 1)
	objects := farFloats(t, f, 3003)
	f.each(t, func(w *World) (err error) {
		team, err := w.Team().SplitStrided(0, 1, 3, &TeamConfig{Mode: ModeTolerant})
		if err != nil {
			return err
		}
		op := Sum[float32]
		if w.MyPE() == 1 {
			op = func([]float32, []float32) { panic("operator of PE 1") }
			defer func() {
				if p := recover(); p != "operator of PE 1" {
					err = fmt.Errorf("panic %v, and error %w", p, err)
				}
			}()
		}
		l := largeCall{kind: "reduce", inPlace: true, blocks: true, shares: true, n: 1001}
		dst, _ := l.fill(f, team, objects[w.MyPE()])
		d, words, bytes, c := l.begin(team, dst, objects[w.MyPE()][0], op)
		if err := d.run(words, bytes, c); !errors.Is(err, ErrTeamBroken) {
			return fmt.Errorf("%w, want ErrTeamBroken", err)
		}
		return nil
	})
}
