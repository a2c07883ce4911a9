package shmem_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// reversedTeam returns the team of all PEs in descending order.
func reversedTeam(t *testing.T, w *shmem.World, cfg *shmem.TeamConfig) *shmem.Team {
	t.Helper()
	return must(w.Team().SplitStrided(w.NPEs()-1, -1, w.NPEs(), cfg))(t)
}

// membersOf returns the PEs of a team in its order, as the members report them themselves.
func membersOf(t *testing.T, w *shmem.World, team *shmem.Team, src, dst shmem.Sym[int64]) (pes []int) {
	t.Helper()
	src.Local()[0] = int64(w.MyPE())
	ok(t, shmem.FCollect(team, dst.Slice(0, team.NPEs()), src.At(0)))
	for _, pe := range dst.Local()[:team.NPEs()] {
		pes = append(pes, int(pe))
	}
	return pes
}

// stridedPEs returns the numbers start, start+stride, ...
func stridedPEs(start, stride, size int) (all []int) {
	for i := range size {
		all = append(all, start+i*stride)
	}
	return all
}

var _ = routine("shmem_n_pes", func(t *testing.T, w *shmem.World) {
	count := must(shmem.Calloc[int64](w, 1))(t)
	for pe := range w.NPEs() {
		ok(t, shmem.AtomicInc(w.Ctx(), count, pe))
	}
	ok(t, w.Barrier())
	if got := count.Local()[0]; got != int64(w.NPEs()) || got < 1 {
		t.Errorf("%d PEs counted themselves, NPEs() = %d", got, w.NPEs())
	}
	wantError(t, shmem.AtomicInc(w.Ctx(), count, w.NPEs()), shmem.ErrPERange)
	ok(t, shmem.Free(w, count))
})

var _ = routine("shmem_team_my_pe", func(t *testing.T, w *shmem.World) {
	team := reversedTeam(t, w, nil)
	if got, want := team.MyPE(), w.NPEs()-1-w.MyPE(); got != want {
		t.Errorf("MyPE() = %d in the team, want %d", got, want)
	}
	before := 0 // PEs of this node with lower numbers
	for pe := range w.MyPE() {
		if isNear(w, pe) {
			before++
		}
	}
	if w.Team().MyPE() != w.MyPE() || w.Shared().MyPE() != before || (*shmem.Team)(nil).MyPE() != -1 {
		t.Errorf("MyPE() = %d in the world, %d on the node, %d in no team, want %d, %d, -1",
			w.Team().MyPE(), w.Shared().MyPE(), (*shmem.Team)(nil).MyPE(), w.MyPE(), before)
	}
	ok(t, team.Destroy())
})

var _ = routine("shmem_team_n_pes", func(t *testing.T, w *shmem.World) {
	for size := 1; size <= w.NPEs(); size++ {
		team := must(w.Team().SplitStrided(0, 1, size, nil))(t)
		want := size
		if w.MyPE() >= size {
			want = 0 // not a member: the team is nil
		}
		if team.NPEs() != want {
			t.Errorf("NPEs() = %d, want %d", team.NPEs(), want)
		}
		if team != nil {
			ok(t, team.Destroy())
		}
	}
	all := must(shmem.ReduceValue(w.Shared(), 1, shmem.Sum[int]))(t) // of the node
	if w.Team().NPEs() != w.NPEs() || w.Shared().NPEs() != all {
		t.Errorf("NPEs() = %d in the world, %d on the node, want %d and %d", w.Team().NPEs(), w.Shared().NPEs(), w.NPEs(), all)
	}
})

var _ = routine("shmem_team_get_config", func(t *testing.T, w *shmem.World) {
	parent := must(w.Team().Config())(t)
	if parent.Mode == shmem.ModeDefault || parent.NumContexts != 0 {
		t.Errorf("the world has the configuration %+v, want a mode and no contexts", parent)
	}
	for _, x := range []struct{ give, want shmem.TeamConfig }{
		{shmem.TeamConfig{}, parent},
		{shmem.TeamConfig{NumContexts: 3 + w.MyPE()}, shmem.TeamConfig{NumContexts: 3 + w.MyPE(), Mode: parent.Mode}},
		{shmem.TeamConfig{Mode: shmem.ModeTolerant}, shmem.TeamConfig{Mode: shmem.ModeTolerant}},
		{shmem.TeamConfig{NumContexts: 1, Mode: shmem.ModeStrict}, shmem.TeamConfig{NumContexts: 1, Mode: shmem.ModeStrict}},
	} {
		if x.give.Mode == shmem.ModeTolerant && w.Shared().NPEs() < w.NPEs() {
			continue // tolerant teams have PEs of one node
		}
		team := reversedTeam(t, w, &x.give)
		if got := must(team.Config())(t); got != x.want {
			t.Errorf("team made with %+v has %+v, want %+v", x.give, got, x.want)
		}
		child := must(team.SplitStrided(0, 1, team.NPEs(), nil))(t)
		if got := must(child.Config())(t); got.Mode != x.want.Mode || got.NumContexts != 0 {
			t.Errorf("team made from configuration %+v has %+v, want the same mode and no contexts", x.want, got)
		}
		ok(t, child.Destroy())
		ok(t, team.Destroy())
	}
})

var _ = routine("shmem_team_translate_pe", func(t *testing.T, w *shmem.World) {
	n := w.NPEs()
	back, half := reversedTeam(t, w, nil), must(w.Team().SplitStrided(0, 2, (n+1)/2, nil))(t)
	for pe := range n {
		if got, is := back.Translate(pe, w.Team()); got != n-1-pe || !is {
			t.Errorf("%d of the reversed team is PE %d, %v, want %d", pe, got, is, n-1-pe)
		}
		if i, near := w.Team().Translate(pe, w.Shared()); near {
			if got, is := w.Shared().Translate(i, back); got != n-1-pe || !is {
				t.Errorf("PE %d is %d, %v in the reversed team, want %d", pe, got, is, n-1-pe)
			}
		}
		if half == nil {
			continue
		}
		number, member := pe/2, pe%2 == 0
		if !member {
			number = -1
		}
		if got, is := back.Translate(n-1-pe, half); got != number || is != member {
			t.Errorf("PE %d is %d, %v in the team of even PEs, want %d", pe, got, is, number)
		}
	}
	for _, pe := range []int{-1, n, 1 << 40} {
		if got, is := back.Translate(pe, w.Team()); got != -1 || is {
			t.Errorf("number %d of a team of %d translates to PE %d, want none", pe, n, got)
		}
	}
	if got, is := w.Team().Translate(0, nil); got != -1 || is {
		t.Errorf("PE 0 translates to %d in a nil team", got)
	}
	if got, is := (*shmem.Team)(nil).Translate(0, w.Team()); got != -1 || is {
		t.Errorf("number 0 of a nil team translates to PE %d", got)
	}
	if half != nil {
		ok(t, half.Destroy())
	}
	ok(t, back.Destroy())
	if got, is := back.Translate(0, w.Team()); got != -1 || is {
		t.Errorf("number 0 of a destroyed team translates to PE %d", got)
	}
})

var _ = routine("shmem_team_split_strided", func(t *testing.T, w *shmem.World) {
	n := w.NPEs()
	src, dst := must(shmem.Calloc[int64](w, 1))(t), must(shmem.Calloc[int64](w, n))(t)
	back := reversedTeam(t, w, nil)
	for k, parent := range []*shmem.Team{w.Team(), back} {
		for _, x := range []struct{ start, stride, size int }{
			{0, 1, n}, {n - 1, -1, n}, {0, 2, (n + 1) / 2}, {n / 2, 0, 1}, {n - 1, 7, 1}, {(n - 1) / 2 * 2, -2, (n + 1) / 2}, {min(1, n-1), 1, max(1, n-2)},
		} {
			what := fmt.Sprintf("parent %d, %+v", k, x)
			team := must(parent.SplitStrided(x.start, x.stride, x.size, nil))(t)
			want := stridedPEs(x.start, x.stride, x.size)
			for i, number := range want {
				want[i] = number
				if parent == back { // the numbers are relative to the parent
					want[i] = n - 1 - number
				}
			}
			if (team != nil) != slices.Contains(want, w.MyPE()) {
				t.Fatalf("%s: got team %v on PE %d", what, team, w.MyPE())
			}
			if team == nil {
				continue
			}
			if got := membersOf(t, w, team, src, dst); !slices.Equal(got, want) || team.NPEs() != x.size || want[team.MyPE()] != w.MyPE() {
				t.Errorf("%s: team of PEs %v with this PE as number %d, want %v", what, got, team.MyPE(), want)
			}
			ok(t, team.Destroy())
		}
		ok(t, w.Barrier())
	}
	ok(t, back.Destroy())
	ok(t, shmem.Free(w, src))
	ok(t, shmem.Free(w, dst))
})

var _ = routine("shmem_team_split_2d", func(t *testing.T, w *shmem.World) {
	n := w.NPEs()
	src, dst := must(shmem.Calloc[int64](w, 1))(t), must(shmem.Calloc[int64](w, n))(t)
	back := reversedTeam(t, w, nil)
	for xrange := 1; xrange <= n+2; xrange++ {
		x, y, err := back.Split2D(xrange, &shmem.TeamConfig{NumContexts: 2}, nil)
		ok(t, err)
		wide, me := min(xrange, n), back.MyPE()
		row := stridedPEs(n-1-me/wide*wide, -1, min(wide, n-me/wide*wide))
		column := stridedPEs(n-1-me%wide, -wide, (n-1-me%wide)/wide+1)
		if got := membersOf(t, w, x, src, dst); !slices.Equal(got, row) || x.MyPE() != me%wide {
			t.Errorf("rows of %d: row of PEs %v with this PE as number %d, want %v", xrange, got, x.MyPE(), row)
		}
		if got := membersOf(t, w, y, src, dst); !slices.Equal(got, column) || y.MyPE() != me/wide {
			t.Errorf("rows of %d: column of PEs %v with this PE as number %d, want %v", xrange, got, y.MyPE(), column)
		}
		if cx, cy := must(x.Config())(t), must(y.Config())(t); cx.NumContexts != 2 || cy.NumContexts != 0 {
			t.Errorf("the configurations are %+v and %+v, want 2 contexts and none", cx, cy)
		}
		ok(t, y.Destroy())
		ok(t, x.Destroy())
	}
	ok(t, back.Destroy())
	ok(t, shmem.Free(w, src))
	ok(t, shmem.Free(w, dst))
})

var _ = routine("shmem_team_destroy", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 1))(t)
	for range 70 { // more than there are ids
		team := reversedTeam(t, w, nil)
		c := must(team.NewCtx())(t)
		ok(t, shmem.P(c, x, 7, team.MyPE()))
		ok(t, team.Destroy())
		wantError(t, team.Destroy(), shmem.ErrDestroyed)
		wantError(t, shmem.P(c, x, 8, 0), shmem.ErrDestroyed)
	}
	if got := x.Local()[0]; got != 7 {
		t.Errorf("the object is %d, want 7", got)
	}
	// No PE returns from Destroy before all have called it: the last one releases the others.
	team := reversedTeam(t, w, nil)
	if w.MyPE() == 0 {
		for pe := range w.NPEs() {
			ok(t, shmem.P(w.Ctx(), x, 9, pe))
		}
		ok(t, w.Ctx().Quiet()) // Destroy completes the operations of the team's contexts alone
	}
	ok(t, team.Destroy())
	if got := x.Local()[0]; got != 9 {
		t.Errorf("Destroy did not wait for PE 0: the object is %d, want 9", got)
	}
	wantError(t, w.Team().Destroy(), shmem.ErrArgument, "cannot be destroyed")
	wantError(t, w.Shared().Destroy(), shmem.ErrArgument, "cannot be destroyed")
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_team_ptr", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 2))(t)
	x.Local()[1] = int64(w.MyPE())
	team := reversedTeam(t, w, nil)
	ok(t, team.Sync())
	for pe := range team.NPEs() {
		if there, reaches := shmem.PeerIn(team, x, pe); !isNear(w, w.NPEs()-1-pe) {
			checkBool(t, "a PE of another node is reachable", reaches, false)
		} else if !reaches || len(there) != 2 || there[1] != int64(w.NPEs()-1-pe) {
			t.Errorf("number %d of the reversed team is at %v, %v, want PE %d", pe, there, reaches, w.NPEs()-1-pe)
		}
	}
	for _, pe := range []int{-1, team.NPEs()} {
		if _, reaches := shmem.PeerIn(team, x, pe); reaches {
			t.Errorf("number %d of a team of %d is reachable", pe, team.NPEs())
		}
	}
	if _, reaches := shmem.PeerIn(nil, x, 0); reaches {
		t.Error("number 0 of a nil team is reachable")
	}
	if _, reaches := shmem.PeerIn(team, x.At(2), 0); reaches {
		t.Error("an element past the end is reachable")
	}
	ok(t, team.Destroy())
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_team_sync", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, w.NPEs()))(t)
	x1, x2, err := w.Team().Split2D(2, nil, nil)
	ok(t, err)
	for round := int64(1); round <= 50; round++ {
		for _, team := range []*shmem.Team{x1, x2, w.Team()} {
			for pe := range team.NPEs() {
				if there, near := shmem.PeerIn(team, x, pe); near {
					shmem.Atomically(&there[w.MyPE()], round)
					continue
				}
				number, _ := team.Translate(pe, w.Team())
				ok(t, shmem.AtomicSet(w.Ctx(), x.At(w.MyPE()), round, number))
			}
			ok(t, w.Ctx().Quiet()) // of PEs on other nodes: Sync completes nothing
			ok(t, team.Sync())
			for pe := range team.NPEs() {
				number, _ := team.Translate(pe, w.Team())
				if got := x.Local()[number]; got != round {
					t.Fatalf("round %d: PE %d is at %d after Sync", round, number, got)
				}
			}
			ok(t, team.Sync())
		}
	}
	ok(t, x1.Destroy())
	ok(t, x2.Destroy())
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_ctx_create", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 4*w.NPEs()))(t)
	for i := range 4 {
		c := must(w.NewCtx())(t)
		if c == w.Ctx() || c.Team() != w.Ctx().Team() {
			t.Errorf("context %p of team %p, default context %p of %p: want another context of the same team", c, c.Team(), w.Ctx(), w.Ctx().Team())
		}
		for pe := range w.NPEs() {
			ok(t, shmem.P(c, x.At(4*w.MyPE()+i), contribution(w.MyPE(), i), pe))
		}
		ok(t, c.Quiet())
		ok(t, c.Destroy())
	}
	ok(t, w.Team().Sync())
	for i, got := range x.Local() {
		if want := contribution(i/4, i%4); got != want {
			t.Errorf("element %d is %d, want %d", i, got, want)
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_team_create_ctx", func(t *testing.T, w *shmem.World) {
	n := w.NPEs()
	x := must(shmem.Calloc[uint64](w, 64))(t)
	team := reversedTeam(t, w, &shmem.TeamConfig{NumContexts: 2})
	c := must(team.NewCtx())(t)
	next := (team.MyPE() + 1) % n
	checkTeamOperations(t, c, x, next)
	if there := must(shmem.G(w.Ctx(), x.At(20), n-1-next))(t); there != 77 {
		t.Errorf("operations on number %d of the reversed team did not reach PE %d", next, n-1-next)
	}
	for _, pe := range []int{-1, n} {
		wantError(t, shmem.P(c, x, 1, pe), shmem.ErrPERange, fmt.Sprintf("team of %d", n))
	}
	d := must(team.NewCtx())(t)
	_, err := team.NewCtx()
	wantError(t, err, shmem.ErrTooMany, "2 contexts")
	ok(t, d.Destroy())
	must(team.NewCtx())(t)
	_, err = (*shmem.Team)(nil).NewCtx()
	wantError(t, err, shmem.ErrArgument)
	ok(t, team.Destroy())
	_, err = team.NewCtx()
	wantError(t, err, shmem.ErrDestroyed)
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_ctx_destroy", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 1))(t)
	c, other := must(w.NewCtx())(t), must(w.NewCtx())(t)
	with := c.With(t.Context())
	ok(t, c.Destroy())
	for _, dead := range []*shmem.Ctx{c, with, c.With(t.Context())} {
		wantError(t, shmem.P(dead, x, 1, 0), shmem.ErrDestroyed)
		wantError(t, dead.Quiet(), shmem.ErrDestroyed)
		wantError(t, dead.Fence(), shmem.ErrDestroyed)
		wantError(t, shmem.WaitUntil(dead, x, shmem.EQ, 0), shmem.ErrDestroyed)
		wantError(t, dead.Destroy(), shmem.ErrDestroyed)
		if dead.Team() != nil {
			t.Error("a destroyed context has a team")
		}
	}
	ok(t, shmem.P(other, x, 1, w.MyPE()))
	ok(t, other.Destroy())
	wantError(t, w.Ctx().Destroy(), shmem.ErrArgument, "default")
	wantError(t, w.Ctx().With(t.Context()).Destroy(), shmem.ErrArgument, "default")
	ok(t, (*shmem.Ctx)(nil).Destroy()) // OpenSHMEM: no-op on SHMEM_CTX_INVALID
	ok(t, shmem.P(w.Ctx(), x, 2, w.MyPE()))
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_ctx_get_team", func(t *testing.T, w *shmem.World) {
	team := reversedTeam(t, w, nil)
	c := must(team.NewCtx())(t)
	if got := c.Team(); got != team || got.MyPE() != w.NPEs()-1-w.MyPE() {
		t.Errorf("team %p, want %p", got, team)
	}
	if got := c.With(t.Context()).Team(); got != team {
		t.Errorf("team of a With is %p, want %p", got, team)
	}
	if w.Ctx().Team().NPEs() != w.NPEs() || (*shmem.Ctx)(nil).Team() != nil || (&shmem.Ctx{}).Team() != nil {
		t.Error("the default context is not of the world's team, or a nil context has a team")
	}
	ok(t, team.Destroy())
	if c.Team() != nil {
		t.Error("the context of a destroyed team still has a team")
	}
})

// testSessions begins and ends sessions. Operations in a session work as they do outside.
func testSessions(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 1))(t)
	c := must(w.NewCtx())(t)
	for _, c := range []*shmem.Ctx{c, w.Ctx()} {
		wantError(t, c.SessionStop(), shmem.ErrArgument, "no session")
		for range 3 {
			ok(t, c.SessionStart())
			wantError(t, c.With(t.Context()).SessionStart(), shmem.ErrArgument, "under way")
			for range 100 {
				ok(t, shmem.AtomicInc(c, x, w.MyPE()))
			}
			ok(t, c.SessionStop())
			wantError(t, c.SessionStop(), shmem.ErrArgument, "no session")
			ok(t, c.Quiet())
		}
	}
	if got := x.Local()[0]; got != 600 {
		t.Errorf("%d operations arrived, want 600", got)
	}
	ok(t, c.Destroy())
	wantError(t, c.SessionStart(), shmem.ErrDestroyed)
	wantError(t, c.SessionStop(), shmem.ErrDestroyed)
	ok(t, (*shmem.Ctx)(nil).SessionStart())
	ok(t, (*shmem.Ctx)(nil).SessionStop())
	ok(t, shmem.Free(w, x))
}

var (
	_ = routine("shmem_ctx_session_start", testSessions)
	_ = routine("shmem_ctx_session_stop", testSessions)
)

// checkTeamOperations makes operations of all kinds on one PE of a context's team, in an object of
// 64 elements that no other PE uses there.
func checkTeamOperations(t *testing.T, c *shmem.Ctx, x shmem.Sym[uint64], pe int) {
	t.Helper()
	check := func(what string, v, want uint64, err error) {
		t.Helper()
		if err != nil || v != want {
			t.Errorf("%s: got %d, %v, want %d", what, v, err, want)
		}
	}
	got := make([]uint64, 4)
	ok(t, shmem.P(c, x, 40, pe))
	v, err := shmem.G(c, x, pe)
	check("G", v, 40, err)
	ok(t, shmem.Put(c, x.Slice(4, 8), []uint64{1, 2, 3, 4}, pe))
	ok(t, shmem.Get(c, got, x.Slice(4, 8), pe))
	check("Get", got[3], 4, nil)
	ok(t, shmem.PutNBI(c, x.Slice(4, 6), []uint64{5, 6}, pe))
	p, err := shmem.GetNBI(c, got, x.Slice(4, 8), pe)
	ok(t, err)
	all, err := p.Wait()
	check("GetNBI", all[1], 6, err)
	ok(t, shmem.IPut(c, x.Slice(8, 16), []uint64{1, 2, 3}, shmem.Stride{Dst: 3, Src: 1, N: 3}, pe))
	v, err = shmem.G(c, x.At(14), pe)
	check("IPut", v, 3, err)
	ok(t, shmem.AtomicSet(c, x, 1, pe))
	v, err = shmem.AtomicSwap(c, x, 2, pe)
	check("AtomicSwap", v, 1, err)
	v, err = shmem.AtomicCompareSwap(c, x, 2, 3, pe)
	check("AtomicCompareSwap", v, 2, err)
	v, err = shmem.AtomicFetchInc(c, x, pe)
	check("AtomicFetchInc", v, 3, err)
	ok(t, shmem.AtomicInc(c, x, pe))
	ok(t, shmem.AtomicAdd(c, x, 3, pe)) // 8
	f, err := shmem.AtomicFetchAddNBI(c, x, 1, pe)
	ok(t, err)
	v, err = f.Wait()
	check("AtomicFetchAddNBI", v, 8, err)
	v, err = shmem.AtomicFetch(c, x, pe)
	check("AtomicFetch", v, 9, err)
	ok(t, shmem.PutSignal(c, x.Slice(16, 18), []uint64{5, 6}, x.At(19), 9, shmem.SignalSet, pe))
	ok(t, c.SignalAdd(x.At(19), 1, pe))
	v, err = shmem.G(c, x.At(19), pe)
	check("signals", v, 10, err)
	v, err = shmem.G(c, x.At(17), pe)
	check("PutSignal", v, 6, err)
	ok(t, c.Fence())
	ok(t, shmem.P(c, x.At(20), 77, pe))
	ok(t, c.QuietPE(pe))
}
