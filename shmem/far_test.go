package shmem

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/symheap/layout"
)

// farBlock is what PE pe puts in round r: n numbers that no other put has.
func farBlock(pe, r, n int) []int64 {
	b := make([]int64, n)
	for i := range b {
		b[i] = int64(pe)<<48 | int64(r)<<32 | int64(i+1)
	}
	return b
}

// Every operation on a PE does the same, whether the PE is on this node or on another one. Each PE works on its own part
// of every PE's objects.
func TestFarOperations(t *testing.T) {
	f := newFarJob(t, 2, 1)
	const part = 20_000
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) error {
		x, err := Alloc[int64](w, part*w.NPEs())
		objects[w.MyPE()] = x
		return err
	})
	f.each(t, func(w *World) error {
		me, x := w.MyPE(), objects[w.MyPE()]
		mine := x.Slice(me*part, (me+1)*part)
		for pe := range w.NPEs() {
			for r, check := range []func(*World, Sym[int64], []int64, int, int) error{
				checkPutGet, checkElement, checkStrides, checkAtomics, checkSignals, checkPendings,
			} {
				if err := check(w, mine, memory(f, mine, pe), pe, r+1); err != nil {
					return fmt.Errorf("check %d on PE %d: %w", r, pe, err)
				}
			}
		}
		return nil
	})
}

// While a context has nothing under way to another node, its Quiet is that of a job of one node, by each handle.
func TestFarDirect(t *testing.T) {
	f := newFarJob(t, 2, 1)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) error {
		x, err := Alloc[int64](w, 1)
		objects[w.MyPE()] = x
		return err
	})
	w, x := f.worlds[0], objects[0]
	c, err := w.NewCtx()
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]*Ctx{"default": w.Ctx(), "another": c} {
		ctx := t.Context()
		early := first.With(ctx)
		want := func(when string, direct bool, handles ...*Ctx) {
			t.Helper()
			for i, h := range handles {
				if want := direct && (first == c || i == 0); Direct(h) != want { // those that With makes of the default context never are
					t.Errorf("%s context: %s, handle %d is direct: %v, want %v", name, when, i, Direct(h), want)
				}
			}
		}
		for round := range 3 {
			want("before a put", true, first, early)
			if err := P(first, x, int64(round), 1); err != nil {
				t.Fatal(err)
			}
			want("after a near put", true, first, early)
			if err := P(early, x, int64(round), 2); err != nil {
				t.Fatal(err)
			}
			late := first.With(ctx)
			want("after a far put", false, first, early, late)
			if err := errors.Join(late.Quiet(), P(first, x, 1, 1)); err != nil {
				t.Fatal(err)
			}
			want("after Quiet", true, first, early, late, first.With(ctx))
			if v := memory(f, x, 2)[0]; v != int64(round) {
				t.Errorf("%s context: the put has stored %d, want %d", name, v, round)
			}
		}
	}
	if err := errors.Join(P(c, x, 5, 2), c.Destroy()); err != nil || Direct(c) {
		t.Errorf("a destroyed context is direct: %v, error %v", Direct(c), err)
	}
}

func checkPutGet(w *World, x Sym[int64], there []int64, pe, r int) error {
	c := w.Ctx()
	for _, n := range []int{0, 1, 2, 7, 300, 5000, 20_000} {
		src, dst := farBlock(w.MyPE(), r, n), make([]int64, n)
		put := Put[int64]
		if n%2 == 0 {
			put = PutNBI[int64]
		}
		if err := errors.Join(put(c, x, src, pe), c.Quiet()); err != nil {
			return err
		}
		if !slices.Equal(there[:n], src) {
			return fmt.Errorf("put of %d elements: others are there after Quiet", n)
		}
		if err := Get(c, dst, x, pe); err != nil || !slices.Equal(dst, src) {
			return fmt.Errorf("get of %d elements: others, or error %w", n, err)
		}
	}
	return nil
}

func checkElement(w *World, x Sym[int64], there []int64, pe, r int) error {
	c := w.Ctx()
	if err := errors.Join(P(c, x.At(3), int64(r), pe), c.Quiet()); err != nil || there[3] != int64(r) {
		return fmt.Errorf("P left %d, error %w", there[3], err)
	}
	if v, err := G(c, x.At(3), pe); err != nil || v != int64(r) {
		return fmt.Errorf("G returned %d, error %w", v, err)
	}
	return nil
}

func checkStrides(w *World, x Sym[int64], there []int64, pe, r int) error {
	c, src := w.Ctx(), farBlock(w.MyPE(), r, 3000)
	clear(there[:4000])
	s := Stride{Dst: 5, Src: 3, Block: 2, N: 700}
	if err := errors.Join(IBPut(c, x, src, s, pe), c.Quiet()); err != nil {
		return err
	}
	for i := range s.N {
		if !slices.Equal(there[i*5:i*5+2], src[i*3:i*3+2]) || there[i*5+2] != 0 {
			return fmt.Errorf("block %d of a strided put is %v", i, there[i*5:i*5+3])
		}
	}
	back := make([]int64, 3000)
	if err := IBGet(c, back, x, Stride{Dst: 3, Src: 5, Block: 2, N: 700}, pe); err != nil {
		return err
	}
	single := make([]int64, 700)
	if err := IGet(c, single, x, Stride{Dst: 1, Src: 5, N: 700}, pe); err != nil {
		return err
	}
	for i := range s.N {
		if !slices.Equal(back[i*3:i*3+2], src[i*3:i*3+2]) || single[i] != src[i*3] {
			return fmt.Errorf("block %d of a strided get is %v and %d", i, back[i*3:i*3+2], single[i])
		}
	}
	if err := errors.Join(IPut(c, x.Slice(4000, 6000), single, Stride{Dst: 2, Src: 1, N: 700}, pe), c.Quiet()); err != nil || there[4000+2*699] != single[699] {
		return fmt.Errorf("IPut: error %w", err)
	}
	return nil
}

func checkAtomics(w *World, x Sym[int64], there []int64, pe, _ int) error {
	c := w.Ctx()
	there[9] = 0xf0
	at := x.At(9)
	fetch := func(name string, old, now int64) func(got int64, err error) error {
		return func(got int64, err error) error {
			if err != nil || got != old || there[9] != now {
				return fmt.Errorf("%s returned %#x and left %#x, want %#x and %#x, error %w", name, got, there[9], old, now, err)
			}
			return nil
		}
	}
	update := func(name string, now int64, err error) error {
		if err = errors.Join(err, c.Quiet()); err != nil || there[9] != now {
			return fmt.Errorf("%s left %#x, want %#x, error %w", name, there[9], now, err)
		}
		return nil
	}
	return errors.Join(
		fetch("AtomicFetch", 0xf0, 0xf0)(AtomicFetch(c, at, pe)),
		fetch("AtomicFetchAdd", 0xf0, 0xf5)(AtomicFetchAdd(c, at, 5, pe)),
		fetch("AtomicFetchInc", 0xf5, 0xf6)(AtomicFetchInc(c, at, pe)),
		fetch("AtomicFetchAnd", 0xf6, 0x36)(AtomicFetchAnd(c, at, 0x3e, pe)),
		fetch("AtomicFetchOr", 0x36, 0x136)(AtomicFetchOr(c, at, 0x100, pe)),
		fetch("AtomicFetchXor", 0x136, 0x130)(AtomicFetchXor(c, at, 6, pe)),
		fetch("AtomicCompareSwap", 0x130, 0x130)(AtomicCompareSwap(c, at, 1, 7, pe)),
		fetch("AtomicCompareSwap", 0x130, 7)(AtomicCompareSwap(c, at, 0x130, 7, pe)),
		fetch("AtomicSwap", 7, 8)(AtomicSwap(c, at, 8, pe)),
		update("AtomicSet", 9, AtomicSet(c, at, 9, pe)),
		update("AtomicInc", 10, AtomicInc(c, at, pe)),
		update("AtomicAdd", 15, AtomicAdd(c, at, 5, pe)),
		update("AtomicAnd", 14, AtomicAnd(c, at, 0xe, pe)),
		update("AtomicOr", 30, AtomicOr(c, at, 16, pe)),
		update("AtomicXor", 31, AtomicXor(c, at, 1, pe)),
	)
}

// signalsOf returns the elements of x as signals.
func signalsOf(x Sym[int64]) Sym[uint64] { return Sym[uint64]{off: x.off, n: x.n, tag: x.tag} }

func checkSignals(w *World, x Sym[int64], there []int64, pe, r int) error {
	c, src := w.Ctx(), farBlock(w.MyPE(), r, 4000)
	sig := signalsOf(x.At(15_000))
	there[15_000] = 0
	if err := PutSignal(c, x, src, sig, 5, SignalAdd, pe); err != nil {
		return err
	}
	if err := PutSignalNBI(c, x.Slice(4000, 8000), src, sig, 6, SignalAdd, pe); err != nil {
		return err
	}
	if err := errors.Join(c.SignalAdd(sig, 1, pe), c.Quiet()); err != nil || there[15_000] != 12 || !slices.Equal(there[:4000], src) || !slices.Equal(there[4000:8000], src) {
		return fmt.Errorf("the signal is %d, want 12, or the data differ, error %w", there[15_000], err)
	}
	if err := errors.Join(c.SignalSet(sig, 3, pe), c.Quiet()); err != nil || there[15_000] != 3 {
		return fmt.Errorf("the signal is %d, want 3, error %w", there[15_000], err)
	}
	return nil
}

func checkPendings(w *World, x Sym[int64], there []int64, pe, r int) error {
	c := w.Ctx()
	copy(there, farBlock(pe, r, 6000))
	var gets []Pending[[]int64]
	var fetches []Pending[int64]
	for i := range 300 {
		g, err := GetNBI(c, make([]int64, 1+i), x.Slice(i, 2*i+1), pe)
		if err != nil {
			return err
		}
		gets = append(gets, g)
		a, err := AtomicFetchAddNBI(c, x.At(7000), 1, pe)
		if err != nil {
			return err
		}
		fetches = append(fetches, a)
	}
	there0, err := fetches[0].Wait()
	if err != nil {
		return err
	}
	for i := range gets {
		got, err := gets[i].Wait()
		if err != nil || !slices.Equal(got, there[i:2*i+1]) {
			return fmt.Errorf("GetNBI %d: %d elements that differ, error %w", i, len(got), err)
		}
		if v, err := fetches[i].Wait(); err != nil || v != there0+int64(i) {
			return fmt.Errorf("AtomicFetchAddNBI %d returned %d, want %d, error %w", i, v, there0+int64(i), err)
		}
	}
	buf := make([]int64, 100)
	if _, err := GetNBI(c, buf, x, pe); err != nil {
		return err
	}
	if err := c.Quiet(); err != nil || !slices.Equal(buf, there[:100]) {
		return fmt.Errorf("GetNBI is not complete after Quiet, error %w", err)
	}
	half := Sym[int32]{off: x.At(7001).off, n: 1, tag: x.tag}
	there[7001] = 77
	p, err := AtomicCompareSwapNBI(c, half, 77, -5, pe)
	if err != nil {
		return err
	}
	if v, err := p.Wait(); err != nil || v != 77 || int32(there[7001]) != -5 {
		return fmt.Errorf("AtomicCompareSwapNBI returned %d and left %d, error %w", v, int32(there[7001]), err)
	}
	q, err := AtomicSwapNBI(c, half, 12, pe)
	if err != nil {
		return err
	}
	if v, err := q.Wait(); err != nil || v != -5 {
		return fmt.Errorf("AtomicSwapNBI returned %d, want -5, error %w", v, err)
	}
	_, err = GetNBI(c, nil, x, pe)
	return err
}

// Quiet, QuietPE, Ctx.Destroy and Team.Destroy complete what the contexts have under way on other nodes, those of a team
// all of them, also of contexts that the program has dropped.
func TestFarCompletion(t *testing.T) {
	f := newFarJob(t, 1, 1, 1)
	const n = 30_000
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Alloc[int64](w, n)
		return err
	})
	ends := map[string]func(w *World, team *Team, c *Ctx) error{
		"Quiet":        func(_ *World, _ *Team, c *Ctx) error { return c.Quiet() },
		"QuietPE":      func(_ *World, _ *Team, c *Ctx) error { return c.QuietPE(0, 1, 2) },
		"Ctx.Destroy":  func(_ *World, _ *Team, c *Ctx) error { return c.Destroy() },
		"Team.Destroy": func(_ *World, _ *Team, _ *Ctx) error { return nil },
	}
	for round, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range ends {
			if !yield(k) {
				return
			}
		}
	}) {
		t.Run(name, func(t *testing.T) {
			f.each(t, func(w *World) error {
				team, err := w.Team().SplitStrided(0, 1, 3, nil)
				if err != nil {
					return err
				}
				for k := range 2 {
					c, err := team.NewCtx()
					if err != nil {
						return err
					}
					if w.MyPE() == 0 {
						for pe := 1; pe < 3; pe++ {
							if err := Put(c, objects[0].Slice(k*n/2, (k+1)*n/2), farBlock(k, round+1, n/2), pe); err != nil {
								return err
							}
						}
					}
					if err := ends[name](w, team, c); err != nil {
						return err
					}
					if w.MyPE() == 0 && name != "Team.Destroy" {
						for pe := 1; pe < 3; pe++ {
							if !slices.Equal(memory(f, objects[0], pe)[k*n/2:(k+1)*n/2], farBlock(k, round+1, n/2)) {
								return fmt.Errorf("context %d: a put to PE %d is not complete", k, pe)
							}
						}
					}
				}
				if err := team.Destroy(); err != nil {
					return err
				}
				for pe := 1; w.MyPE() == 0 && pe < 3; pe++ {
					for k := range 2 {
						if !slices.Equal(memory(f, objects[0], pe)[k*n/2:(k+1)*n/2], farBlock(k, round+1, n/2)) {
							return fmt.Errorf("context %d: a put to PE %d is not complete after Destroy", k, pe)
						}
					}
				}
				return w.Barrier()
			})
		})
	}
}

// Bad arguments are refused on this PE, with the same errors for near and far PEs.
func TestFarUsage(t *testing.T) {
	f := newFarJob(t, 1, 1)
	f.each(t, func(w *World) error {
		c := w.Ctx()
		x, err := Alloc[int64](w, 8)
		if err != nil {
			return err
		}
		gone, err := Alloc[int64](w, 8)
		if err == nil {
			err = Free(w, gone)
		}
		if err != nil {
			return err
		}
		odd := Sym[int64]{off: x.off + 4, n: 1, tag: x.tag} // no call makes such a handle, and near PEs do not test it
		for pe := range 2 {
			_, fetched := AtomicFetchNBI(c, gone, pe)
			_, got := GetNBI(c, make([]int64, 9), x, pe)
			_, misaligned := AtomicSwapNBI(c, odd, 1, 1-w.MyPE())
			for _, e := range []struct{ err, want error }{
				{Put(c, x, make([]int64, 9), pe), ErrBounds},
				{Put(c, gone, make([]int64, 1), pe), ErrFreed},
				{Put(c, x, make([]int64, 1), pe+2), ErrPERange},
				{Put(c, Sym[int64]{}, make([]int64, 1), pe), ErrForeignHandle},
				{AtomicInc(c, odd, 1-w.MyPE()), ErrMisaligned},
				{IPut(c, x, make([]int64, 4), Stride{Dst: 3, Src: 1, N: 4}, pe), ErrBounds},
				{PutSignal(c, x, make([]int64, 8), signalsOf(x.At(2)), 1, SignalSet, pe), ErrOverlap},
				{fetched, ErrFreed},
				{got, ErrBounds},
				{misaligned, ErrMisaligned},
				{c.QuietPE(pe, 5), ErrPERange},
			} {
				if !errors.Is(e.err, e.want) {
					return fmt.Errorf("on PE %d: %w, want %w", pe, e.err, e.want)
				}
			}
		}
		return w.Barrier()
	})
}

// A lock excludes PEs of all nodes, wherever its home is, and each holder sees what the one before has put.
func TestFarLocks(t *testing.T) {
	f := newFarJob(t, 2, 2)
	const rounds = 100
	homes := make([]map[layout.PE]bool, len(f.worlds))
	f.each(t, func(w *World) error {
		c := w.Ctx()
		x, err := Alloc[int64](w, 4)
		if err != nil {
			return err
		}
		homes[w.MyPE()] = map[layout.PE]bool{}
		for k := range 4 {
			l, err := NewLock(w)
			if err != nil {
				return err
			}
			homes[w.MyPE()][l.home] = true
			on := (k + 1) % w.NPEs()
			for range rounds {
				if g, err := l.Acquire(c); err != nil || g.HolderDied {
					return fmt.Errorf("Acquire: %+v, %w", g, err)
				}
				v, err := G(c, x.At(k), on)
				if err == nil {
					err = P(c, x.At(k), v+1, on)
				}
				if err = errors.Join(err, l.Release(c)); err != nil {
					return err
				}
			}
			if err := w.Barrier(); err != nil {
				return err
			}
			if v, err := G(c, x.At(k), on); err != nil || v != rounds*int64(w.NPEs()) {
				return fmt.Errorf("lock %d: counted %d, want %d, error %w", k, v, rounds*w.NPEs(), err)
			}
			if _, is, err := l.Try(c); err == nil && is {
				if err := l.Release(c); err != nil {
					return err
				}
			} else if err != nil {
				return err
			}
			if err := w.Barrier(); err != nil {
				return err
			}
		}
		return nil
	})
	if len(homes[0]) < 2 {
		t.Errorf("all locks have their home on %v, want several PEs", homes[0])
	}
}

// Splits of a team that spans nodes make teams that span nodes, and teams of one node, which have all collectives.
func TestFarTeams(t *testing.T) {
	f := newFarJob(t, 2, 3)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) error {
		x, err := Alloc[int64](w, 16)
		if err != nil {
			return err
		}
		objects[w.MyPE()] = x
		if n := w.Shared().NPEs(); n != f.nodes[0].place.Near && n != f.nodes[1].place.Near {
			return fmt.Errorf("%d PEs on the node", n)
		}
		back, err := w.Team().SplitStrided(4, -1, 5, nil)
		if err != nil {
			return err
		}
		c, err := back.NewCtx()
		if err != nil {
			return err
		}
		for i := range 5 {
			if err := AtomicAdd(c, x.At(i), int64(back.MyPE()+1), i); err != nil {
				return err
			}
		}
		if err := errors.Join(c.Quiet(), back.Sync()); err != nil {
			return err
		}
		if got := memory(f, x, w.MyPE())[back.MyPE()]; got != 15 {
			return fmt.Errorf("the members of the reversed team added %d, want 15", got)
		}
		row, column, err := back.Split2D(2, nil, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(row.Sync(), column.Sync(), row.Sync()); err != nil {
			return err
		}
		near, err := w.Team().SplitStrided(2, 1, 3, &TeamConfig{Mode: ModeTolerant})
		if err != nil {
			return err
		}
		if near != nil {
			if v, err := ReduceValue(near, int64(w.MyPE()), Sum); err != nil || v != 9 {
				return fmt.Errorf("reduction on a team of one node: %d, %w", v, err)
			}
		}
		if flags, err := w.Team().Agree(1<<w.MyPE() ^ 15); err != nil || flags != 0 {
			return fmt.Errorf("Agree on two nodes: %d, %w, want 0", flags, err)
		}
		_, err = w.Team().SplitStrided(0, 1+w.MyPE()/4, 2, nil)
		if !errors.Is(err, ErrMismatch) {
			return fmt.Errorf("a split with other arguments on PE 4: %w", err)
		}
		for _, team := range []*Team{near, column, row, back} {
			if err := team.Destroy(); err != nil {
				return err
			}
		}
		return errors.Join(Free(w, x), w.Barrier())
	})
}

// Operations without a result on a far PE allocate nothing. Nor do operations on a near PE of such a job. The agents have
// ended, as their allocations would count as well; records stay in the blocks.
func TestFarAllocations(t *testing.T) {
	f := newFarJob(t, 2, 1)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Alloc[int64](w, 512)
		return err
	})
	for _, n := range f.nodes {
		n.endAgent(t)
	}
	c, x := f.worlds[0].Ctx(), objects[0]
	src := make([]int64, 100)
	for pe := 1; pe < 3; pe++ {
		for name, call := range map[string]func() error{
			"P":         func() error { return P(c, x, 1, pe) },
			"Put":       func() error { return Put(c, x, src, pe) },
			"IPut":      func() error { return IPut(c, x, src, Stride{Dst: 2, Src: 1, N: 50}, pe) },
			"AtomicAdd": func() error { return AtomicAdd(c, x, 1, pe) },
			"PutSignal": func() error { return PutSignal(c, x, src[:1], signalsOf(x.At(200)), 1, SignalAdd, pe) },
			"SignalSet": func() error { return c.SignalSet(signalsOf(x), 1, pe) },
		} {
			var failed error
			if n := testing.AllocsPerRun(50, func() { failed = errors.Join(failed, call()) }); n != 0 || failed != nil {
				t.Errorf("%s on PE %d: %v allocations a call, error %v, want none", name, pe, n, failed)
			}
		}
	}
}
