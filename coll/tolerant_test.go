package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// tolerantTeam returns one PE's side of a tolerant team of all PEs.
func (nd *node) tolerantTeam(t *testing.T, me int) *coll.Team {
	t.Helper()
	cfg := nd.config(0, me, firstPEs(nd.m.Len()))
	cfg.Tolerant = true
	return newTeam(t, cfg)
}

// A play is a collective whose result can be computed from its contributors. src and dst are
// elements of a member's heap: its contribution and its destination.
type play struct {
	name string
	n    int // elements for one member
	all  bool
	in   bool // in place
	call func(ctx context.Context, tm *coll.Team, b coll.Buffers, root, me int, op coll.Op[uint32]) error
	// want writes the expected destination of member me to w, except elements that stay unchanged.
	want func(g *given, me, root int, w []uint32)
}

// given is what some members contribute in one step.
type given struct {
	step, n int
	who     []int
}

// of is element j of a member's contribution.
func (g *given) of(i, j int) uint32 {
	x := uint64(g.step)<<40 ^ uint64(i)<<20 ^ uint64(j) ^ 0x9e3779b97f4a7c15
	x *= 0xbf58476d1ce4e5b9
	return uint32(x>>29) ^ uint32(x)
}

// put writes the contribution of member i to w, from its element first on.
func (g *given) put(w []uint32, i, first int) {
	for j := range w {
		w[j] = g.of(i, first+j)
	}
}

func (g *given) sum(j int) (v uint32) {
	for _, i := range g.who {
		v += g.of(i, j)
	}
	return v
}

// add writes the sum of some members' contributions to w.
func (g *given) add(w []uint32, who []int) {
	clear(w)
	for _, i := range who {
		for j := range w {
			w[j] += g.of(i, j)
		}
	}
}

func reduces(name string, n int, in bool) play {
	return play{
		name, n, false, in,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, op coll.Op[uint32]) error {
			return coll.Reduce(ctx, tm, b, op)
		},
		func(g *given, _, _ int, w []uint32) { g.add(w, g.who) },
	}
}

func broadcasts(name string, n int) play {
	return play{
		name, n, false, false,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, root, _ int, _ coll.Op[uint32]) error {
			return coll.Broadcast[uint32](ctx, tm, b, root)
		},
		func(g *given, _, root int, w []uint32) {
			if slices.Contains(g.who, root) {
				g.put(w, root, 0)
			}
		},
	}
}

func gathers(name string, n int) play {
	return play{
		name, n, true, false,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, _ coll.Op[uint32]) error {
			return coll.FCollect[uint32](ctx, tm, b)
		},
		func(g *given, _, _ int, w []uint32) {
			for _, i := range g.who {
				g.put(w[i*g.n:(i+1)*g.n], i, 0)
			}
		},
	}
}

func exchanges(name string, n int) play {
	return play{
		name, n, true, false,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, _ coll.Op[uint32]) error {
			return coll.Alltoall[uint32](ctx, tm, b)
		},
		func(g *given, me, _ int, w []uint32) {
			for _, i := range g.who {
				g.put(w[i*g.n:(i+1)*g.n], i, me*g.n)
			}
		},
	}
}

// collects has member i contribute i elements less than the most.
func collects(name string, n int) play {
	return play{
		name, n, true, false,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, me int, _ coll.Op[uint32]) error {
			room := b.N * tm.Size()
			b.N -= me
			return coll.Collect[uint32](ctx, tm, b, room)
		},
		func(g *given, _, _ int, w []uint32) {
			for _, i := range g.who {
				g.put(w[:g.n-i], i, 0)
				w = w[g.n-i:]
			}
		},
	}
}

// strided sends one of every three elements of each source to every second place.
func strided(name string, n int) play {
	return play{
		name, n * 3, true, false,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, _ coll.Op[uint32]) error {
			b.N /= 3
			return coll.AlltoallS[uint32](ctx, tm, b, coll.Strides{Dst: 2, Src: 3})
		},
		func(g *given, me, _ int, w []uint32) {
			size := g.n / 3
			for _, i := range g.who {
				for k := range size {
					w[2*(i*size+k)] = g.of(i, 3*(me*size+k))
				}
			}
		},
	}
}

func scans(name string, n int, in, exclusive bool) play {
	return play{
		name, n, false, in,
		func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, op coll.Op[uint32]) error {
			return coll.Scan(ctx, tm, b, op, exclusive)
		},
		func(g *given, me, _ int, w []uint32) {
			g.add(w, slices.DeleteFunc(slices.Clone(g.who), func(i int) bool { return i > me || i == me && exclusive }))
		},
	}
}

const (
	srcAt = layout.HeapOffset
	dstAt = layout.HeapOffset + 256<<10
	few   = 40
	many  = 7001
)

var plays = []play{
	{"Sync", 0, false, false, func(ctx context.Context, tm *coll.Team, _ coll.Buffers, _, _ int, _ coll.Op[uint32]) error {
		return tm.Sync(ctx)
	}, nil},
	{"Same", 0, false, false, func(ctx context.Context, tm *coll.Team, b coll.Buffers, _, _ int, _ coll.Op[uint32]) error {
		if i, _, _, err := tm.Same(ctx, coll.Words{b.Src}); err != nil || i >= 0 {
			return fmt.Errorf("member %d differs: %w", i, err)
		}
		return nil
	}, nil},
	broadcasts("Broadcast", few), broadcasts("Broadcast large", many),
	reduces("Reduce", few, false), reduces("Reduce in place", few, true),
	reduces("Reduce large", many, false), reduces("Reduce large in place", many, true),
	gathers("FCollect", few), gathers("FCollect large", many),
	exchanges("Alltoall", few), exchanges("Alltoall large", many),
	collects("Collect", few), collects("Collect large", many), strided("AlltoallS", few), strided("AlltoallS large", many/3),
	scans("Scan", few, false, false), scans("Scan large", many, false, false), scans("Scan large in place", many, true, false),
	scans("Scan exclusive", few, true, true), scans("Scan large exclusive", many, false, true), scans("Scan large exclusive in place", many, true, true),
}

// actor is a member on its way through random plays.
type actor struct {
	nd    *node
	tm    *coll.Team
	me    int
	pe    int    // the PE whose heap it uses
	base  uint64 // where its part of that heap begins
	apart uint64 // how much further its destination is from its source than those of the others
	from  []play
	acts  int
	rng   *rand.Rand // the same on all members
	end   int        // the step in which it dies: in the middle of a reduction, or before any other collective
	last  func(left int) coll.Op[uint32]
	saw   []string // by step: what all survivors must see alike
	want  []uint32 // scratch
}

// dieIn makes one call of its fold the last.
type dieIn struct {
	left *int
	mortal
}

func (d dieIn) fold(acc, in []uint32) {
	if *d.left--; *d.left < 0 {
		d.mortal.fold(acc, in)
	}
	sum(acc, in)
}

func (a *actor) act(ctx context.Context) error {
	n := a.tm.Size()
	for step := range a.acts {
		p, root, fold := a.from[a.rng.IntN(len(a.from))], a.rng.IntN(n), a.rng.IntN(24)
		g := &given{step: step, n: p.n}
		b := coll.Buffers{Src: srcAt + a.base, Dst: dstAt + a.base + a.apart, N: p.n}
		if p.in {
			b.Dst = b.Src
		}
		size := p.n
		if p.all {
			size *= n
		}
		src := elements[uint32](a.nd, a.pe, b.Src-layout.HeapOffset, size)
		dst := elements[uint32](a.nd, a.pe, b.Dst-layout.HeapOffset, size)
		for j := range dst {
			dst[j] = stale
		}
		for j := range src {
			src[j] = g.of(a.me, j)
		}
		var op coll.Op[uint32] = sum
		if step == a.end {
			if p.all || p.n == 0 {
				return nil
			}
			op = a.last(fold)
		}
		err := p.call(ctx, a.tm, b, root, a.me, op)
		o := a.tm.Outcome()
		a.saw = append(a.saw, fmt.Sprint(p.name, o, err))
		var dead *coll.DeadError
		if errors.As(err, &dead) && len(o.Contributors) == 0 && slices.Equal(dead.Members, []int{root}) && slices.Equal(o.Failed, dead.Members) {
			continue
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", step, p.name, err)
		}
		g.who = o.Contributors
		if err := a.compare(&p, g, root, dst); err != nil {
			return fmt.Errorf("step %d, %s of %v: %w", step, p.name, o, err)
		}
		if step == a.end {
			return nil // it had less to fold
		}
	}
	return nil
}

const (
	acts  = 30
	stale = 0xdeadbeef // in elements that no member has written
)

// compare compares a destination with its expected elements.
func (a *actor) compare(p *play, g *given, root int, dst []uint32) error {
	if p.want == nil {
		return nil
	}
	a.want = slices.Grow(a.want[:0], len(dst))[:len(dst)]
	for j := range a.want {
		a.want[j] = stale
	}
	p.want(g, a.me, root, a.want)
	for j, want := range a.want {
		if dst[j] != want {
			return fmt.Errorf("element %d: %#x, want %#x", j, dst[j], want)
		}
	}
	return nil
}

// Members of a tolerant team die anywhere. No member hangs, and the survivors have the same
// contributors and each contribution exactly once.
func TestTolerant(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		mustFinish(t, fmt.Sprint("seed ", seed), func() { testTolerates(t, seed, rng) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func testTolerates(t *testing.T, seed uint64, rng *rand.Rand) {
	t.Helper()
	n := 2 + rng.IntN(5)
	nd := newNode(t, n)
	victims := rng.Perm(n)[:rng.IntN(n)]
	over := make(chan struct{})
	defer close(over)
	var wg sync.WaitGroup
	var survivors []*actor
	for me := range n {
		a := &actor{nd: nd, tm: nd.tolerantTeam(t, me), me: me, pe: me, from: plays, acts: acts, rng: rand.New(rand.NewPCG(seed, 4)), end: acts}
		if slices.Contains(victims, me) {
			a.end = rng.IntN(acts)
			die := nd.killLater(&wg, me, rng.IntN(200))
			a.last = func(left int) coll.Op[uint32] { return dieIn{left: &left, mortal: mortal{die, over}}.fold }
			go func() {
				defer die()
				if err := a.act(t.Context()); err != nil {
					t.Errorf("victim %d: %v", me, err)
				}
			}()
			continue
		}
		survivors = append(survivors, a)
		wg.Go(func() {
			if err := a.act(t.Context()); err != nil {
				t.Errorf("survivor %d: %v", me, err)
			}
		})
	}
	wg.Wait()
	for _, a := range survivors {
		if !slices.Equal(a.saw, survivors[0].saw) {
			t.Errorf("member %d saw %v, but member %d saw %v", a.me, a.saw, survivors[0].me, survivors[0].saw)
		}
	}
}

// Agreement works on any team, before and after deaths, and has the same result on all members.
// The list contains all members that died before it began.
func TestAgree(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 5))
		mustFinish(t, fmt.Sprint("seed ", seed), func() { testAgrees(t, rng, seed%2 == 0) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func testAgrees(t *testing.T, rng *rand.Rand, strict bool) {
	t.Helper()
	n := 2 + rng.IntN(5)
	nd := newNode(t, n)
	const rounds = 20
	ends := map[int]int{}
	for _, v := range rng.Perm(n)[:rng.IntN(n)] {
		ends[v] = rng.IntN(rounds)
	}
	var wg sync.WaitGroup
	saw := make([][]string, n)
	for me := range n {
		tm := nd.tolerantTeam(t, me)
		if strict {
			tm = nd.member(t, me, nd.failures)
		}
		end, dies := ends[me]
		turns := rng.IntN(100)
		wg.Go(func() {
			for r := range rounds {
				if dies && r == end {
					for range turns {
						runtime.Gosched()
					}
					nd.kill(me)
					return
				}
				before, _ := nd.failures.All()
				a, err := coll.Agree(t.Context(), tm, ^(uint64(1)<<me | uint64(r)<<32))
				if err != nil {
					t.Errorf("member %d, round %d: %v", me, r, err)
					return
				}
				for _, f := range before {
					if !slices.Contains(a.Failed, f.PE) {
						t.Errorf("member %d, round %d: PE %d died before, but is not in %v", me, r, f.PE, a.Failed)
					}
				}
				for i := range n {
					if _, mortal := ends[i]; (!mortal || ends[i] > r) && (a.Flags>>i&1 != 0 || a.Flags>>32 != ^uint64(r)<<32>>32) {
						t.Errorf("member %d, round %d: flags %#x lack those of member %d", me, r, a.Flags, i)
					}
				}
				saw[me] = append(saw[me], fmt.Sprint(a))
				if r%5 == 0 {
					_ = tm.Sync(t.Context()) // it may fail and break the team
				}
			}
		})
	}
	wg.Wait()
	for me := range n {
		for r, s := range saw[me] {
			for other := range n {
				if r < len(saw[other]) && saw[other][r] != s {
					t.Errorf("round %d: member %d has %s, but member %d has %s", r, me, s, other, saw[other][r])
				}
			}
		}
	}
}

// A member whose context ends during a collective leaves no other member waiting, on either kind
// of team and in an agreement.
func TestGivingUpByContext(t *testing.T) {
	for _, mode := range []string{"strict", "tolerant"} {
		for name, call := range everyCollective {
			t.Run(mode+"/"+name, func(t *testing.T) {
				if name == "Broadcast" {
					t.Skip("members wait only for the root")
				}
				nd := newNode(t, 3)
				team := func(me int) *coll.Team {
					if mode == "strict" {
						return nd.member(t, me, nd.failures)
					}
					return nd.tolerantTeam(t, me)
				}
				first, second, third := team(0), team(1), team(2)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				mustFinish(t, name, func() {
					if err := call(ctx, first, 2); !errors.Is(err, context.Canceled) {
						t.Errorf("the canceled member: error %v", err)
					}
					for r := 0; ; r++ { // the step that it had entered may succeed
						done := make(chan error)
						go func() { done <- call(t.Context(), second, 2) }()
						err := call(t.Context(), third, 2)
						if other := <-done; err == nil && other == nil && r == 0 {
							continue
						} else if !errors.Is(err, coll.ErrBroken) && !errors.Is(other, coll.ErrBroken) || r > 1 {
							t.Errorf("the other members: errors %v and %v, want ErrBroken", err, other)
						}
						break
					}
				})
			})
		}
	}
	nd := newNode(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	first, second := nd.tolerantTeam(t, 0), nd.tolerantTeam(t, 1)
	mustFinish(t, "Agree", func() {
		if _, err := coll.Agree(ctx, first, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("the canceled member: error %v", err)
		}
		if a, err := coll.Agree(t.Context(), second, 3); err != nil || a.Flags != 1 {
			t.Errorf("the other member in the same agreement: got %v, %v", a, err)
		}
		if _, err := coll.Agree(t.Context(), second, 3); !errors.Is(err, coll.ErrBroken) {
			t.Errorf("the other member in the next agreement: error %v, want ErrBroken", err)
		}
	})
}
