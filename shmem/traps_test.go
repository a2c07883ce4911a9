package shmem_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Each test here is about one trap of the specification's semantics, where users and
// implementations have gone wrong. Its comment begins with what the
// specification says.

// "put returns after LOCAL copy-out only; put_nbi may not touch/free the source until
// quiet; get is complete on return; get_nbi only at quiet. Nothing orders two puts, not
// even to one PE (fence does)."
func TestTrap01SourceMayBeReusedAfterPut(t *testing.T) {
	const elements, turns = 5000, 50
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, other := w.Ctx(), 1-w.MyPE()
		x := must(shmem.Calloc[int64](w, elements))(t)
		y := must(shmem.Calloc[int64](w, elements))(t)
		src, dst := make([]int64, elements), make([]int64, elements)
		fill := func(v int64) {
			for i := range src {
				src[i] = v
			}
		}
		for turn := int64(1); turn <= turns; turn++ {
			fill(turn)
			ok(t, shmem.Put(c, x, src, other))
			fill(-1) // the put has its copy
			ok(t, w.Barrier())
			if i := slices.IndexFunc(x.Local(), func(v int64) bool { return v != turn }); i >= 0 {
				t.Fatalf("turn %d: element %d is %d: the source was read after Put had returned", turn, i, x.Local()[i])
			}
			ok(t, shmem.Get(c, dst, x, other))
			if i := slices.IndexFunc(dst, func(v int64) bool { return v != turn }); i >= 0 {
				t.Fatalf("turn %d: element %d is %d after Get, want %d", turn, i, dst[i], turn)
			}
			fill(turn)
			ok(t, shmem.PutNBI(c, y, src, other))
			p := must(shmem.GetNBI(c, dst, x, other))(t)
			ok(t, c.Quiet())
			fill(-1) // only now
			got := must(p.Wait())(t)
			ok(t, w.Barrier())
			if slices.Min(got) != turn || slices.Max(got) != turn || slices.Min(y.Local()) != turn || slices.Max(y.Local()) != turn {
				t.Fatalf("turn %d: nonblocking operations moved other values", turn)
			}
			ok(t, w.Barrier())
		}
	})
}

// "fence = per-PE delivery order on ONE context; it does NOT order values fetched.
// quiet = remote completion + visibility, per context; ctx==INVALID => no-op. Neither
// orders memory accesses of the target: the target must use wait_until/test/barrier."
//
// The invalid context is a nil one here, and is an error: nothing that Go programs do
// makes one by purpose.
func TestTrap02FenceAndQuietAreOfOneContext(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		me, n := w.MyPE(), w.NPEs()
		data := must(shmem.Calloc[int64](w, n))(t)
		flag := must(shmem.Calloc[int64](w, n))(t)
		own := must(w.Team().NewCtx())(t)
		for turn := int64(1); turn <= 2000; turn++ {
			c := []*shmem.Ctx{w.Ctx(), own}[turn%2]
			for pe := range n { // one Fence orders the puts to all targets
				ok(t, shmem.P(c, data.At(me), turn, pe))
			}
			ok(t, c.Fence())
			for pe := range n {
				ok(t, shmem.P(c, flag.At(me), turn, pe))
			}
			for pe := range n { // the target waits, as a plain load would prove nothing
				ok(t, shmem.WaitUntil(c, flag.At(pe), shmem.GE, turn))
				if v := must(shmem.G(c, data.At(pe), me))(t); v < turn {
					t.Fatalf("turn %d: the flag of PE %d arrived before its data: the element is %d", turn, pe, v)
				}
			}
			p := must(shmem.AtomicFetchAddNBI(c, data.At(me), 0, me))(t)
			ok(t, c.Fence()) // says nothing about p
			ok(t, c.Quiet())
			if v := must(p.Wait())(t); v != turn {
				t.Fatalf("turn %d: fetched %d, want %d", turn, v, turn)
			}
		}
		var none *shmem.Ctx
		for _, err := range []error{none.Fence(), none.Quiet()} {
			if err != nil {
				t.Errorf("Fence and Quiet of a nil context: %v, want a no-op", err)
			}
		}
		ok(t, own.Destroy())
		for _, err := range []error{own.Fence(), own.Quiet()} {
			if err == nil {
				t.Error("Fence of a destroyed context returned no error")
			}
		}
		ok(t, w.Ctx().Quiet()) // the other contexts still work
	})
}

// "put_signal: signal update implies delivery of its own payload only; an earlier put is
// NOT implied. Signal object is uint64; SET and ADD are atomic only against the same
// operator (+fetch/wait). sig_addr may not overlap dest."
func TestTrap03SignalIsOfItsOwnPayload(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		const elements = 700
		data := must(shmem.Calloc[uint64](w, n*elements))(t)
		before := must(shmem.Calloc[uint64](w, n))(t)
		sig := must(shmem.Calloc[uint64](w, 1))(t)
		src := make([]uint64, elements)
		for turn := uint64(1); turn <= 300; turn++ {
			for i := range src {
				src[i] = turn
			}
			next := (me + 1) % n
			ok(t, shmem.P(c, before.At(me), turn, next))
			ok(t, c.Fence()) // without it, the signal would not imply these data
			ok(t, shmem.PutSignal(c, data.Slice(me*elements, n*elements), src, sig, turn, shmem.SignalSet, next))
			previous := (me + n - 1) % n
			if v, err := c.SignalWaitUntil(sig, shmem.GE, turn); err != nil || v != turn {
				t.Fatalf("turn %d: got signal %d, %v, want %d", turn, v, err, turn)
			}
			if v := data.Local()[previous*elements:][:elements]; slices.Min(v) != turn || slices.Max(v) != turn {
				t.Fatalf("turn %d: the signal arrived before its data", turn)
			}
			if v := before.Local()[previous]; v != turn {
				t.Fatalf("turn %d: the signal arrived before a put that a fence ordered before it: the element is %d", turn, v)
			}
			ok(t, w.Team().Sync())
		}
		clear(sig.Local())
		ok(t, w.Barrier())
		for range 1000 { // every PE's additions count
			ok(t, shmem.PutSignal(c, data, nil, sig, 2, shmem.SignalAdd, 0))
			ok(t, c.SignalAdd(sig, 1, 0))
		}
		if me == 0 {
			if v, err := c.SignalWaitUntil(sig, shmem.GE, uint64(3000*n)); err != nil || v != uint64(3000*n) {
				t.Errorf("signals add up to %d, %v, want %d", v, err, 3000*n)
			}
		}
		for _, put := range []func(*shmem.Ctx, shmem.Sym[uint64], []uint64, shmem.Sym[uint64], uint64, shmem.SignalOp, int) error{
			shmem.PutSignal[uint64], shmem.PutSignalNBI[uint64],
		} {
			if err := put(c, data, []uint64{1, 2, 3}, data.At(2), 1, shmem.SignalSet, me); !errors.Is(err, shmem.ErrOverlap) {
				t.Errorf("a signal inside its data: %v, want ErrOverlap", err)
			}
			ok(t, put(c, data, []uint64{1, 2, 3}, data.At(3), 1, shmem.SignalSet, me))
		}
	})
}

// "shmem_sync* / team_sync = only local stores + arrival, NOT completion of RMA;
// barrier_all (world team only) = quiet on default ctx + sync. There is no team barrier:
// quiet + team_sync."
func TestTrap04SyncIsNoBarrier(t *testing.T) {
	if _, has := reflect.TypeFor[*shmem.Team]().MethodByName("Barrier"); has {
		t.Error("teams have a Barrier method, which the specification does not have")
	}
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		x := must(shmem.Calloc[int](w, n))(t)
		y := must(shmem.Calloc[int](w, n))(t)
		for turn := 1; turn <= 500; turn++ {
			for pe := range n {
				ok(t, shmem.PutNBI(c, x.At(me), []int{turn}, pe))
			}
			switch turn % 3 {
			case 0:
				ok(t, w.Barrier())
			case 1:
				ok(t, c.Quiet())
				ok(t, w.Team().Sync())
			case 2:
				ok(t, c.Quiet())
				ok(t, w.Sync())
			}
			if slices.Min(x.Local()) != turn {
				t.Fatalf("turn %d: the objects are %v after the barrier, want %[1]d in all", turn, x.Local())
			}
			y.Local()[me] = turn // a local store, which Sync does order
			ok(t, w.Sync())
			if v := must(shmem.G(c, y.At((me+1)%n), (me+1)%n))(t); v != turn {
				t.Fatalf("turn %d: after Sync, PE %d's own store is %d, want %[1]d", turn, (me+1)%n, v)
			}
			ok(t, w.Team().Sync())
		}
	})
}

// "malloc/calloc/align/realloc/free are collectives on the WORLD team with barrier on
// exit (free: on entry) - except size 0 => no-op + NULL (no barrier!); same args on all
// PEs; realloc may barrier on entry and exit; free does NOT quiet other contexts."
func TestTrap05AllocationsAreCollective(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		if me == 1 { // only one PE calls it, so it must not wait for the others
			x := must(shmem.Alloc[int64](w, 0))(t)
			if x.Len() != 0 {
				t.Errorf("an object of 0 elements has length %d", x.Len())
			}
			ok(t, shmem.Free(w, x))
			must(shmem.Calloc[int64](w, 0))(t)
		}
		for turn := range 100 {
			x := must(shmem.Alloc[int](w, 10))(t)
			// After the barrier in Alloc, the object exists on all PEs.
			ok(t, shmem.P(c, x.At(me), turn, (me+1)%n))
			ok(t, w.Barrier())
			if turn%n == me { // the others are in Free, which waits for this PE
				spinFor(100_000)
				if v := must(shmem.G(c, x.At((me+1)%n), (me+2)%n))(t); v != turn {
					t.Fatalf("turn %d: an object that the others are freeing holds %d, want %d", turn, v, turn)
				}
			}
			ok(t, shmem.Free(w, x))
			if err := shmem.P(c, x.At(0), 1, me); !errors.Is(err, shmem.ErrFreed) {
				t.Fatalf("use after Free: %v, want ErrFreed", err)
			}
		}
		heap := w.Heap()
		if _, err := shmem.Alloc[int64](w, 10+me); !errors.Is(err, shmem.ErrMismatch) {
			t.Errorf("different sizes on PEs: %v, want ErrMismatch", err)
		}
		if w.Heap() != heap {
			t.Errorf("heap %+v, want it unchanged: %+v", w.Heap(), heap)
		}
	})
}

// "PE numbers in p2p calls are relative to the ctx's team; team ctx => team-relative.
// translate_pe returns -1 for non-members/invalid. A PE not in the new team gets
// TEAM_INVALID but return 0."
func TestTrap06PEsAreRelativeToTheTeam(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		me := w.MyPE()
		x := must(shmem.Calloc[int](w, 5))(t)
		odd, err := w.Team().SplitStrided(1, 2, 2, nil) // PEs 1 and 3
		if err != nil {
			t.Fatalf("PE %d: SplitStrided returned %v", me, err)
		}
		if (odd != nil) != (me%2 == 1) {
			t.Fatalf("PE %d got team %v", me, odd)
		}
		if odd != nil {
			c := must(odd.NewCtx())(t)
			ok(t, shmem.P(c, x.At(me), 10+me, 1-odd.MyPE()))
			if err := shmem.P(c, x, 1, 2); !errors.Is(err, shmem.ErrPERange) {
				t.Errorf("PE 2 of a team of two: %v, want ErrPERange", err)
			}
			ok(t, c.Quiet())
			for pe := range 5 {
				got, in := w.Team().Translate(pe, odd)
				if in != (pe%2 == 1) || in && got != pe/2 {
					t.Errorf("PE %d of the world translates to %d, %v in the team", pe, got, in)
				}
			}
			if back, in := odd.Translate(1, w.Team()); !in || back != 3 {
				t.Errorf("number 1 of the team translates to %d, %v in the world, want 3", back, in)
			}
			for _, pe := range []int{-1, 2, 5} {
				if got, in := odd.Translate(pe, w.Team()); in || got != -1 {
					t.Errorf("number %d of the team translates to %d, %v in the world, want -1 and false", pe, got, in)
				}
			}
			ok(t, c.Destroy())
		}
		if got, in := w.Team().Translate(0, nil); in || got != -1 {
			t.Errorf("PE 0 translates to %d, %v in a nil team", got, in)
		}
		ok(t, w.Barrier())
		want := make([]int, 5)
		if me%2 == 1 {
			want[4-me] = 10 + 4 - me
		}
		if !slices.Equal(x.Local(), want) {
			t.Errorf("PE %d holds %v, want %v", me, x.Local(), want)
		}
	})
}

// "split_strided: stride relative to PARENT team; stride<0 allowed (reverses order),
// stride 0 only with size 1; wrap-around undefined; invalid triplet => nonzero on all +
// INVALID. split_2d: x = pe mod xrange, y = pe div xrange, xrange > n behaves as n, last
// row may be incomplete."
func TestTrap07StridesAreOfTheParent(t *testing.T) {
	shmemtest.Run(t, 8, func(t *testing.T, w *shmem.World) {
		me := w.MyPE()
		members := func(team *shmem.Team) (pes []int) {
			for i := range team.NPEs() {
				pe, _ := team.Translate(i, w.Team())
				pes = append(pes, pe)
			}
			return pes
		}
		expect := func(team *shmem.Team, want ...int) {
			t.Helper()
			if in := slices.Contains(want, me); in != (team != nil) || in && (!slices.Equal(members(team), want) || want[team.MyPE()] != me) {
				t.Fatalf("PE %d is number %[3]d of team %[2]v, want a team of %[4]v", me, members(team), team.MyPE(), want)
			}
		}
		even := must(w.Team().SplitStrided(0, 2, 4, nil))(t)
		expect(even, 0, 2, 4, 6)
		if even != nil { // every second of 0, 2, 4, 6, beginning with the second
			expect(must(even.SplitStrided(1, 2, 2, nil))(t), 2, 6)
			expect(must(even.SplitStrided(3, -1, 4, nil))(t), 6, 4, 2, 0)
		}
		back := must(w.Team().SplitStrided(7, -3, 3, nil))(t)
		expect(back, 7, 4, 1)
		if back != nil {
			expect(must(back.SplitStrided(2, -2, 2, nil))(t), 1, 7)
		}
		expect(must(w.Team().SplitStrided(5, 0, 1, nil))(t), 5)
		for _, bad := range [][3]int{{0, 0, 2}, {0, 1, 9}, {6, 2, 2}, {2, -2, 3}, {8, 1, 1}, {-1, 1, 2}, {0, 1, 0}, {0, 1, -1}} {
			if team, err := w.Team().SplitStrided(bad[0], bad[1], bad[2], nil); err == nil || team != nil {
				t.Fatalf("PE %d: split %v returned %v, %v, want an error on all PEs", me, bad, team, err)
			}
		}
		for _, width := range []int{1, 3, 8, 11} {
			x, y, err := w.Team().Split2D(width, nil, nil)
			ok(t, err)
			row := min(width, 8)
			var wantX, wantY []int
			for pe := range 8 {
				if pe/row == me/row {
					wantX = append(wantX, pe)
				}
				if pe%row == me%row {
					wantY = append(wantY, pe)
				}
			}
			expect(x, wantX...)
			expect(y, wantY...)
			ok(t, x.Destroy())
			ok(t, y.Destroy())
		}
		if _, _, err := w.Team().Split2D(0, nil, nil); err == nil {
			t.Error("Split2D with rows of 0 PEs returned no error")
		}
	})
}

// "Team config mask 0 = defaults; get_config returns current values; private contexts
// must be destroyed by the creating thread before team_destroy/finalize; finalize
// destroys shareable ones. ctx_destroy does an implicit quiet. Failed ctx_create is not
// an error (fall back to default)."
//
// Here a context that cannot be made is an error like any other, and the default one can
// still be used; and any goroutine may destroy a context.
func TestTrap08ContextsEndWithTheirTeam(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		other := 1 - w.MyPE()
		x := must(shmem.Calloc[int](w, 2))(t)
		plain := must(w.Team().SplitStrided(0, 1, 2, nil))(t)
		zero := must(w.Team().SplitStrided(0, 1, 2, &shmem.TeamConfig{}))(t)
		if a, b := must(plain.Config())(t), must(zero.Config())(t); a != b {
			t.Errorf("configurations %+v and %+v, want the same defaults", a, b)
		}
		two := must(w.Team().SplitStrided(0, 1, 2, &shmem.TeamConfig{NumContexts: 2}))(t)
		if n := must(two.Config())(t).NumContexts; n != 2 {
			t.Errorf("NumContexts of a team for 2 contexts is %d, want 2", n)
		}
		c := must(two.NewCtx())(t)
		ok(t, shmem.PutNBI(c, x, []int{7, 8}, other))
		ok(t, c.Destroy()) // completes the put
		ok(t, w.Sync())
		if !slices.Equal(x.Local(), []int{7, 8}) {
			t.Errorf("after Destroy of the context the object is %v, want [7 8]", x.Local())
		}
		if err := shmem.P(c, x, 1, other); err == nil {
			t.Error("P on a destroyed context returned no error")
		}
		var done sync.WaitGroup
		private := must(two.NewCtx())(t)
		done.Go(func() {
			if err := private.Destroy(); err != nil {
				t.Error(err)
			}
		})
		done.Wait()
		left := must(two.NewCtx())(t)
		for _, team := range []*shmem.Team{plain, zero, two} {
			ok(t, team.Destroy())
		}
		if err := shmem.P(left, x, 1, other); err == nil {
			t.Error("an operation on a context of a destroyed team returned no error")
		}
		shared := must(w.Team().NewCtx())(t)
		ok(t, w.Finalize())
		if err := shared.Quiet(); !errors.Is(err, shmem.ErrFinalized) {
			t.Errorf("an operation on a context after Finalize: %v, want ErrFinalized", err)
		}
	})
}

// "Team collectives: no psync; immediately re-callable on the same team (implementation
// needs double-buffered sync), same program order; never from two threads on one team;
// all blocking. They return int (0 ok). No requirement that dest be ready: user must
// ensure dest ready on all PEs; source only locally ready. In-place allowed for reduce
// (source==dest), not partial overlap."
func TestTrap09CollectivesOneAfterTheOther(t *testing.T) {
	const turns = 2000
	for _, n := range []int{2, 3, 8} {
		shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
			team, me := w.Team(), w.MyPE()
			x := must(shmem.Alloc[int](w, turns))(t)
			y := must(shmem.Calloc[int](w, turns))(t)
			for i := range turns { // the source is ready on this PE, which is enough
				x.Local()[i] = i*1000 + me
			}
			ok(t, w.Team().Sync()) // the destination is ready on all PEs
			for i := range turns {
				switch root := i % n; i % 3 {
				case 0:
					ok(t, shmem.Broadcast(team, y.At(i), x.At(i), root))
				case 1:
					ok(t, shmem.Reduce(team, y.At(i), x.At(i), shmem.Sum))
				case 2:
					ok(t, shmem.Reduce(team, x.At(i), x.At(i), shmem.Max)) // in place
				}
			}
			for i := range turns {
				want := []int{i*1000 + i%n, n*i*1000 + n*(n-1)/2, 0}[i%3]
				if i%3 == 2 && x.Local()[i] != i*1000+n-1 || y.Local()[i] != want {
					t.Fatalf("turn %d: the elements are %d and %d, want the second to be %d", i, x.Local()[i], y.Local()[i], want)
				}
			}
			if err := shmem.Reduce(team, x.Slice(0, 10), x.Slice(5, 15), shmem.Sum); !errors.Is(err, shmem.ErrOverlap) {
				t.Errorf("partly overlapping objects: %v, want ErrOverlap", err)
			}
			another := must(team.SplitStrided(0, 1, n, nil))(t)
			if me == 0 { // two goroutines of one PE, while no other PE comes
				ctx, stop := context.WithCancel(t.Context())
				errs := make(chan error, 2)
				go func() { errs <- another.With(ctx).Sync() }()
				go func() { errs <- another.With(ctx).Sync() }()
				if err := <-errs; !errors.Is(err, shmem.ErrArgument) {
					t.Errorf("a second collective at the same time: %v, want ErrArgument", err)
				}
				stop()
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Errorf("the first collective: %v, want the end of its context", err)
				}
			}
		})
	}
}
