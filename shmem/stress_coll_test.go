package shmem_test

import (
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	stressSteps = append(stressSteps, (*stress).collectives, (*stress).collectives, (*stress).allocation, (*stress).lock, (*stress).split, (*stress).split2D, (*stress).context, (*stress).destroyTeam)
}

// collectives makes a team call a few collectives back to back.
func (s *stress) collectives() {
	s.t.Helper()
	tm := s.pickTeam()
	n := len(tm.members)
	const calls = 3
	size := n * stressRoom
	var src, dst shmem.Sym[uint64]
	src = must(shmem.Alloc[uint64](s.w, calls*s.n*stressRoom))(s.t)
	dst = must(shmem.Calloc[uint64](s.w, calls*s.n*stressRoom))(s.t)
	var runs []func()
	want := make([]uint64, dst.Len())
	for i := range calls {
		runs = append(runs, s.collective(tm, src.Slice(i*size, (i+1)*size), dst.Slice(i*size, (i+1)*size), want[i*size:(i+1)*size]))
	}
	if tm.me >= 0 {
		s.ok(tm.team.Sync()) // all members have filled the sources
		for _, run := range runs {
			s.linger()
			run()
		}
		if have := dst.Local(); !slices.Equal(have, want) {
			for i, v := range have {
				if v != want[i] {
					s.fatalf("element %d of call %d's destination is %#x, want %#x", i%size, i/size, v, want[i])
				}
			}
		}
	}
	s.ok(shmem.Free(s.w, src))
	s.ok(shmem.Free(s.w, dst))
}

// collective draws a random collective, fills this PE's source, computes the expected destination
// and returns the call.
func (s *stress) collective(tm *stressTeam, src, dst shmem.Sym[uint64], want []uint64) func() {
	s.t.Helper()
	n, size := len(tm.members), stressRoom*len(tm.members)
	sources := make([][]uint64, n)
	for i := range sources {
		sources[i] = make([]uint64, size)
		for k := range sources[i] {
			sources[i][k] = s.rng.Uint64()
		}
	}
	kind, count, root, stride := s.rng.IntN(8), 1+s.rng.IntN(stressRoom/3), s.rng.IntN(n), 1+s.rng.IntN(3)
	counts := make([]int, n) // the counts of Collect, and where each part begins
	begins := make([]int, n+1)
	for i := range counts {
		counts[i] = s.rng.IntN(stressRoom)
		begins[i+1] = begins[i] + counts[i]
	}
	s.note("collective %d of %d, root %d, stride %d, counts %v in team %v", kind, count, root, stride, counts, tm.members)
	if kind == 7 {
		return s.reduction(tm, src.Slice(0, count), dst.Slice(0, count), sources, want)
	}
	if tm.me < 0 {
		return nil
	}
	me, t := tm.me, tm.team
	copy(src.Local(), sources[me])
	var call func() error
	switch kind {
	case 0:
		copy(want, sources[root][:count])
		call = func() error { return shmem.Broadcast(t, dst.Slice(0, count), src.Slice(0, count), root) }
	case 1:
		for i := range n {
			copy(want[begins[i]:], sources[i][:counts[i]])
		}
		call = func() error { return shmem.Collect(t, dst, src.Slice(0, counts[me])) }
	case 2:
		for i := range n {
			copy(want[i*count:], sources[i][:count])
		}
		call = func() error { return shmem.FCollect(t, dst.Slice(0, n*count), src.Slice(0, count)) }
	case 3:
		for i := range n {
			copy(want[i*count:(i+1)*count], sources[i][me*count:])
		}
		call = func() error { return shmem.Alltoall(t, dst.Slice(0, n*count), src.Slice(0, n*count)) }
	case 4:
		for i := range n {
			for k := range count {
				want[(i*count+k)*stride] = sources[i][(me*count+k)*(4-stride)]
			}
		}
		call = func() error {
			return shmem.AlltoallS(t, dst, src, shmem.Stride{Dst: stride, Src: 4 - stride, N: count})
		}
	default:
		for k := range count {
			for i := range me + 6 - kind { // kind 5: including this PE; kind 6: without it
				want[k] += sources[i][k]
			}
		}
		call = func() error { return shmem.SumInScan(t, dst.Slice(0, count), src.Slice(0, count)) }
		if kind == 6 {
			call = func() error { return shmem.SumExScan(t, dst.Slice(0, count), src.Slice(0, count)) }
		}
	}
	return func() { s.t.Helper(); s.ok(call()) }
}

// reduction returns a call of Reduce with one of the operators.
func (s *stress) reduction(tm *stressTeam, src, dst shmem.Sym[uint64], sources [][]uint64, want []uint64) func() {
	s.t.Helper()
	type operator struct {
		op   shmem.Op[uint64]
		fold func(a, b uint64) uint64
	}
	op := pick(s.rng,
		operator{shmem.Sum[uint64], func(a, b uint64) uint64 { return a + b }},
		operator{shmem.Prod[uint64], func(a, b uint64) uint64 { return a * b }},
		operator{shmem.Min[uint64], func(a, b uint64) uint64 { return min(a, b) }},
		operator{shmem.Max[uint64], func(a, b uint64) uint64 { return max(a, b) }},
		operator{shmem.And[uint64], func(a, b uint64) uint64 { return a & b }},
		operator{shmem.Or[uint64], func(a, b uint64) uint64 { return a | b }},
		operator{shmem.Xor[uint64], func(a, b uint64) uint64 { return a ^ b }},
	)
	if tm.me < 0 {
		return nil
	}
	copy(src.Local(), sources[tm.me])
	for k := range src.Len() {
		want[k] = sources[0][k]
		for _, other := range sources[1:] {
			want[k] = op.fold(want[k], other[k])
		}
	}
	return func() { s.t.Helper(); s.ok(shmem.Reduce(tm.team, dst, src, op.op)) }
}

// allocation allocates an object, has the previous PE write it, resizes it and frees it.
func (s *stress) allocation() {
	s.t.Helper()
	n, m, way := 1+s.rng.IntN(5000), s.rng.IntN(5000), s.rng.IntN(3)
	s.note("an object of %d elements, then %d, way %d", n, m, way)
	var x shmem.Sym[uint64]
	switch way {
	case 0:
		x = must(shmem.Alloc[uint64](s.w, n))(s.t)
	case 1:
		x = must(shmem.Alloc[uint64](s.w, n, shmem.Align(4096)))(s.t)
	case 2:
		x = must(shmem.Calloc[uint64](s.w, n))(s.t)
		if slices.Max(x.Local()) != 0 {
			s.fatalf("Calloc returned elements that are not zero")
		}
		s.ok(s.w.Team().Sync())
	}
	next, values := (s.me+1)%s.n, make([]uint64, n)
	for i := range values {
		values[i] = uint64(s.me)<<32 | uint64(i)
	}
	s.ok(shmem.Put(s.w.Ctx(), x, values, next))
	x = must(shmem.Realloc(s.w, x, m))(s.t)
	for i, v := range x.Local()[:min(n, m)] {
		if want := uint64((s.me+s.n-1)%s.n)<<32 | uint64(i); v != want {
			s.fatalf("element %d of %d, then %d, is %#x, want %#x", i, n, m, v, want)
		}
	}
	s.ok(shmem.Free(s.w, x))
}

// maxStressTeams is the largest number of teams at a time, not counting the world and teams of 2D
// splits.
const maxStressTeams = 8

// split makes a strided team of a random team, forwards or backwards.
func (s *stress) split() {
	s.t.Helper()
	parent := s.pickTeam()
	n := len(parent.members)
	start, size, stride := s.rng.IntN(n), 1, s.rng.IntN(5)-2
	switch {
	case stride > 0:
		size += s.rng.IntN((n-1-start)/stride + 1)
	case stride < 0:
		size += s.rng.IntN(start/-stride + 1)
	}
	if len(s.teams) > maxStressTeams {
		return
	}
	s.note("split of %v from %d, stride %d, size %d", parent.members, start, stride, size)
	var members []int
	for i := range size {
		members = append(members, parent.members[start+i*stride])
	}
	var team *shmem.Team
	if parent.me >= 0 {
		var err error
		team, err = parent.team.SplitStrided(start, stride, size, nil)
		s.ok(err)
	}
	s.addTeam(members, team)
}

// addTeam adds a team to the list.
func (s *stress) addTeam(members []int, team *shmem.Team) {
	s.t.Helper()
	tm := &stressTeam{members: members, team: team, me: slices.Index(members, s.me)}
	switch {
	case tm.me < 0 && team != nil:
		s.fatalf("PE %d got a team %v of which it is no member", s.me, members)
	case tm.me >= 0:
		if team == nil || team.MyPE() != tm.me || team.NPEs() != len(members) {
			s.fatalf("team %+v: PE %d of %d, want %d of %v", team, team.MyPE(), team.NPEs(), tm.me, members)
		}
		tm.ctx = must(team.NewCtx())(s.t)
	}
	s.teams = append(s.teams, tm)
}

// split2D makes the rows and columns of a random team.
func (s *stress) split2D() {
	s.t.Helper()
	parent, width := s.pickTeam(), 1+s.rng.IntN(s.n)
	if len(s.teams) > maxStressTeams {
		return
	}
	n := len(parent.members)
	width = min(width, n)
	s.note("split of %v in rows of %d", parent.members, width)
	var x, y *shmem.Team
	if parent.me >= 0 {
		var err error
		x, y, err = parent.team.Split2D(width, nil, nil)
		s.ok(err)
	}
	mine := func(t *shmem.Team, members []int) *shmem.Team {
		if !slices.Contains(members, s.me) {
			return nil
		}
		return t
	}
	for row := 0; row < n; row += width {
		members := parent.members[row:min(row+width, n)]
		s.addTeam(members, mine(x, members))
	}
	for column := range width {
		var members []int
		for i := column; i < n; i += width {
			members = append(members, parent.members[i])
		}
		s.addTeam(members, mine(y, members))
	}
}

// context replaces the context of a team by a new one.
func (s *stress) context() {
	s.t.Helper()
	at := s.rng.IntN(len(s.teams))
	if at == 0 || s.teams[at].me < 0 { // on the nil context of a nonmember, Quiet does nothing
		return
	}
	tm := s.teams[at]
	s.note("context of %v", tm.members)
	s.ok(tm.ctx.Destroy())
	tm.ctx = must(tm.team.NewCtx())(s.t)
}

// destroyTeam destroys a random team.
func (s *stress) destroyTeam() {
	s.t.Helper()
	if at := s.rng.IntN(len(s.teams)); at > 0 {
		s.dropTeam(at)
	}
}

func (s *stress) dropTeam(at int) {
	s.t.Helper()
	tm := s.teams[at]
	s.note("end of team %v", tm.members)
	if tm.me >= 0 {
		s.ok(tm.ctx.Destroy())
		s.ok(tm.team.Destroy())
	}
	s.teams = slices.Delete(s.teams, at, at+1)
}

// lock has all PEs count up a word of the last PE, one after the other and without atomics.
func (s *stress) lock() {
	s.t.Helper()
	rounds, home := 1+s.rng.IntN(4), s.rng.IntN(s.n)
	s.note("%d rounds of a lock, word on PE %d", rounds, home)
	l := must(shmem.NewLock(s.w))(s.t)
	c, x := s.w.Ctx(), s.words.x
	for range rounds {
		must(l.Acquire(c))(s.t)
		v := must(shmem.G(c, x, home))(s.t)
		s.linger()
		s.ok(shmem.P(c, x, v+1, home))
		s.ok(l.Release(c))
	}
	s.words.model[home][0] += uint64(rounds * s.n)
	s.ok(s.w.Barrier())
	s.ok(l.Free(s.w))
}
