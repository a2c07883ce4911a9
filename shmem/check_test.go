package shmem_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// withChecks makes PEs compare their collective calls, which teams of several nodes do not do.
var withChecks = []shmemtest.Option{shmemtest.Env("GOSHMEM_CHECK=collectives"), shmemtest.Timeout(30 * time.Second), oneNode}

// namedCall is a call of a collective with the text by which messages name it.
type namedCall struct {
	text string
	call func(e *caller) error
}

// caller is a PE that calls collectives.
type caller struct {
	w    *shmem.World
	t    *shmem.Team
	x, y shmem.Sym[int64]
	f, g shmem.Sym[float64]
}

const callerRoom = 6000

func newCaller(t *testing.T, w *shmem.World, team *shmem.Team) *caller {
	return &caller{
		w: w, t: team,
		x: must(shmem.Calloc[int64](w, callerRoom))(t), y: must(shmem.Calloc[int64](w, callerRoom))(t),
		f: must(shmem.Calloc[float64](w, callerRoom))(t), g: must(shmem.Calloc[float64](w, callerRoom))(t),
	}
}

// checkWorks checks that the team works as if nothing had happened.
func (e *caller) checkWorks(t *testing.T, what string) {
	t.Helper()
	n := e.t.NPEs()
	for _, size := range []int{1, 2000} {
		e.x.Local()[0], e.x.Local()[size-1] = int64(e.t.MyPE()+1), int64(e.t.MyPE()+1)
		ok(t, shmem.Reduce(e.t, e.y.Slice(0, size), e.x.Slice(0, size), shmem.Sum))
		if have, want := e.y.Local()[size-1], int64(n*(n+1)/2); have != want {
			t.Fatalf("%s: the next sum of %d is %d, want %d", what, size, have, want)
		}
	}
	ok(t, e.t.Sync())
}

// half is an operator that the test defines.
func half(acc, in []int64) {
	for i := range acc {
		acc[i] = (acc[i] + in[i]) / 2
	}
}

// firstOnly is an operator that ignores the length.
func firstOnly(acc, in []int64) { acc[0] -= in[0] }

// scaled has an operator that is a method value.
type scaled struct{ by int64 }

func (s scaled) fold(acc, in []int64) {
	for i := range acc {
		acc[i] += s.by * in[i]
	}
}

// generic returns operators from generic code, where predefined ones are recognized too.
func generic[T shmem.Ordered]() (sum, largest shmem.Op[T]) { return shmem.Sum[T], shmem.Max[T] }

var genericSum, genericMax = generic[int64]()

func broadcast(n, root int) namedCall {
	return namedCall{fmt.Sprintf("Broadcast of %d elements of int64, root %d", n, root), func(e *caller) error {
		return shmem.Broadcast(e.t, e.y.Slice(0, n), e.x.Slice(0, n), root)
	}}
}

func reduce(name string, n int, op shmem.Op[int64]) namedCall {
	return namedCall{fmt.Sprintf("Reduce(%s) of %d elements of int64", name, n), func(e *caller) error {
		return shmem.Reduce(e.t, e.y.Slice(0, n), e.x.Slice(0, n), op)
	}}
}

// quarter is a reduction whose operator is a function literal.
func quarter(name string, op shmem.Op[int64]) namedCall {
	c := reduce("", 8, op)
	return namedCall{"Reduce(" + name + "the function at check_test.go:", c.call}
}

func reduceValue(name string, op shmem.Op[int64]) namedCall {
	return namedCall{"ReduceValue(" + name + ") of type int64", func(e *caller) error { return errOf(shmem.ReduceValue(e.t, 1, op)) }}
}

func broadcastValue(root int) namedCall {
	return namedCall{fmt.Sprintf("BroadcastValue of type int64, root %d", root), func(e *caller) error {
		return errOf(shmem.BroadcastValue(e.t, int64(1), root))
	}}
}

func fcollect(n int) namedCall {
	return namedCall{fmt.Sprintf("FCollect of %d elements of int64", n), func(e *caller) error {
		return shmem.FCollect(e.t, e.y.Slice(0, n*e.t.NPEs()), e.x.Slice(0, n))
	}}
}

func alltoall(n int) namedCall {
	return namedCall{fmt.Sprintf("Alltoall of %d elements of int64", n), func(e *caller) error {
		return shmem.Alltoall(e.t, e.y.Slice(0, n), e.x.Slice(0, n))
	}}
}

func alltoalls(n, dst, src int) namedCall {
	return namedCall{fmt.Sprintf("AlltoallS of elements of int64 with N %d, Dst %d and Src %d", n, dst, src), func(e *caller) error {
		return shmem.AlltoallS(e.t, e.y, e.x, shmem.Stride{N: n, Dst: dst, Src: src})
	}}
}

func inScan(n int) namedCall {
	return namedCall{fmt.Sprintf("SumInScan of %d elements of int64", n), func(e *caller) error {
		return shmem.SumInScan(e.t, e.y.Slice(0, n), e.x.Slice(0, n))
	}}
}

func exScan(n int) namedCall {
	return namedCall{fmt.Sprintf("SumExScan of %d elements of int64", n), func(e *caller) error {
		return shmem.SumExScan(e.t, e.y.Slice(0, n), e.x.Slice(0, n))
	}}
}

var (
	teamSync = namedCall{"Sync", func(e *caller) error { return e.t.Sync() }}
	destroy  = namedCall{"Team.Destroy", func(e *caller) error { return e.t.Destroy() }}
	agree    = namedCall{"Team.Agree", func(e *caller) error { return errOf(e.t.Agree(1)) }}
	validate = namedCall{"Team.Validate", func(e *caller) error { return errOf(e.t.Validate()) }}
	shrink   = namedCall{"Team.Shrink", func(e *caller) error { return errOf(e.t.Shrink()) }}
	split    = namedCall{"Team.SplitStrided(0, 1, 2) with", func(e *caller) error { return errOf(e.t.SplitStrided(0, 1, 2, nil)) }}
	split2D  = namedCall{"Team.Split2D(2) with", func(e *caller) error {
		_, _, err := e.t.Split2D(2, nil, nil)
		return err
	}}
	collect = namedCall{"Collect of elements of int64", func(e *caller) error {
		return shmem.Collect(e.t, e.y, e.x.Slice(0, 3))
	}}
)

// The same calls on floating-point numbers.
var (
	broadcastF = namedCall{"Broadcast of 8 elements of float64, root 1", func(e *caller) error {
		return shmem.Broadcast(e.t, e.g.Slice(0, 8), e.f.Slice(0, 8), 1)
	}}
	reduceF = namedCall{"Reduce(sum) of 8 elements of float64", func(e *caller) error {
		return shmem.Reduce(e.t, e.g.Slice(0, 8), e.f.Slice(0, 8), shmem.Sum)
	}}
	reduceValueF = namedCall{"ReduceValue(sum) of type float64", func(e *caller) error {
		return errOf(shmem.ReduceValue(e.t, 1.0, shmem.Sum))
	}}
	broadcastValueF = namedCall{"BroadcastValue of type float64, root 1", func(e *caller) error {
		return errOf(shmem.BroadcastValue(e.t, 1.0, 1))
	}}
	fcollectF = namedCall{"FCollect of 8 elements of float64", func(e *caller) error {
		return shmem.FCollect(e.t, e.g.Slice(0, 8*e.t.NPEs()), e.f.Slice(0, 8))
	}}
	collectF = namedCall{"Collect of elements of float64", func(e *caller) error {
		return shmem.Collect(e.t, e.g, e.f.Slice(0, 8))
	}}
	alltoallF = namedCall{"Alltoall of 12 elements of float64", func(e *caller) error {
		return shmem.Alltoall(e.t, e.g.Slice(0, 12), e.f.Slice(0, 12))
	}}
	alltoallsF = namedCall{"AlltoallS of elements of float64 with N 2, Dst 1 and Src 1", func(e *caller) error {
		return shmem.AlltoallS(e.t, e.g, e.f, shmem.Stride{N: 2, Dst: 1, Src: 1})
	}}
	inScanF = namedCall{"SumInScan of 8 elements of float64", func(e *caller) error {
		return shmem.SumInScan(e.t, e.g.Slice(0, 8), e.f.Slice(0, 8))
	}}
)

// pairs lists calls that differ in one respect: the first is what most PEs call, the second what
// one PE calls.
var pairs = map[string][][2]namedCall{
	"kind": {
		{teamSync, broadcast(8, 1)},
		{broadcast(8, 1), reduce("sum", 8, shmem.Sum)},
		{reduce("sum", 8, shmem.Sum), inScan(8)},
		{reduce("sum", 1, shmem.Sum), reduceValue("sum", shmem.Sum)},
		{broadcast(1, 0), broadcastValue(0)},
		{inScan(8), exScan(8)},
		{exScan(8), fcollect(8)},
		{fcollect(8), collect},
		{collect, alltoall(12)},
		{alltoall(12), alltoalls(4, 1, 1)},
		{alltoalls(4, 1, 1), teamSync},
		{split, split2D},
		{split2D, teamSync},
		{teamSync, destroy},
		{destroy, agree},
		{agree, validate},
		{validate, shrink},
		{shrink, split},
		{broadcast(3000, 1), teamSync},
		{reduce("sum", 3000, shmem.Sum), fcollect(1400)},
	},
	"count": {
		{broadcast(8, 1), broadcast(7, 1)},
		{broadcast(3000, 1), broadcast(1, 1)},
		{reduce("sum", 8, shmem.Sum), reduce("sum", 0, shmem.Sum)},
		{reduce("sum", 3000, shmem.Sum), reduce("sum", 2999, shmem.Sum)},
		{fcollect(5), fcollect(4)},
		{fcollect(1400), fcollect(4)},
		{alltoall(12), alltoall(24)},
		{alltoall(12), alltoall(4800)},
		{alltoalls(4, 1, 1), alltoalls(3, 1, 1)},
		{alltoalls(4, 1, 1), alltoalls(4, 1, 2)},
		{alltoalls(4, 1, 1), alltoalls(4, 2, 1)},
		{inScan(8), inScan(9)},
		{exScan(3000), exScan(9)},
	},
	"root": {
		{broadcast(8, 1), broadcast(8, 0)},
		{broadcast(3000, 0), broadcast(3000, 2)},
		{broadcastValue(0), broadcastValue(1)},
	},
	"operator": {
		{reduce("sum", 8, shmem.Sum), reduce("max", 8, shmem.Max)},
		{reduce("xor", 3000, shmem.Xor), reduce("or", 3000, shmem.Or)},
		{reduceValue("xor", shmem.Xor), reduceValue("shmem_test.half", half)},
		{reduce("prod", 8, shmem.Prod), reduce("shmem_test.half", 8, half)},
		{reduce("shmem_test.firstOnly", 8, firstOnly), reduce("shmem_test.half", 8, half)},
		{reduce("commutative shmem_test.half", 8, shmem.Commutative(half)), reduce("shmem_test.half", 8, half)},
		{reduce("commutative shmem_test.half", 8, shmem.Commutative(half)), reduce("commutative shmem_test.firstOnly", 8, shmem.Commutative(firstOnly))},
		{reduce("shmem_test.scaled.fold-fm", 8, scaled{2}.fold), reduce("and", 8, shmem.Commutative(shmem.And[int64]))},
		{reduce("sum", 8, genericSum), reduce("max", 8, genericMax)},
		{
			quarter("", func(acc, in []int64) { shmem.Sum(acc, in) }),
			quarter("", func(acc, in []int64) { half(acc, in) }),
		},
		{reduce("sum", 8, shmem.Sum), quarter("", func(acc, in []int64) { shmem.Sum(acc, in) })},
	},
	"type": {
		{broadcast(8, 1), broadcastF},
		{reduceF, reduce("sum", 8, shmem.Sum)},
		{reduceValue("sum", shmem.Sum), reduceValueF},
		{broadcastValueF, broadcastValue(1)},
		{fcollect(8), fcollectF},
		{collectF, collect},
		{alltoall(12), alltoallF},
		{alltoalls(2, 1, 1), alltoallsF},
		{inScanF, inScan(8)},
	},
}

// wantMismatch checks a PE's error after the PEs in most made the first call of pair and odd the
// second.
func wantMismatch(t *testing.T, err error, pair [2]namedCall, most []int, odd int) {
	t.Helper()
	if !errors.Is(err, shmem.ErrMismatch) {
		t.Errorf("%s and %s: error %v, want %v", pair[0].text, pair[1].text, err, shmem.ErrMismatch)
		return
	}
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(most), " ", ", "), "[]")
	if len(most) == 3 && most[2]-most[0] == 2 {
		numbers = fmt.Sprintf("%d-%d", most[0], most[2])
	}
	before, after, _ := strings.Cut(err.Error(), ", but ")
	for _, x := range []struct{ have, text, pes string }{{before, pair[0].text, numbers}, {after, pair[1].text, fmt.Sprint(odd)}} {
		if !strings.Contains(x.have, x.text) || !strings.Contains(x.have, " on PE "+x.pes) {
			t.Errorf("error %q does not name %q on PE %s", err, x.text, x.pes)
		}
	}
}

// One PE calls something else than the others. All get an error that says which PE calls what, and
// the team goes on. This holds on the team of all PEs, on parts of it in any order, and in either
// mode.
func TestCheckDifferences(t *testing.T) {
	for name, from := range map[string]func(w *shmem.World) (*shmem.Team, error){
		"all":      func(w *shmem.World) (*shmem.Team, error) { return w.Team().SplitStrided(0, 1, 4, nil) },
		"part":     func(w *shmem.World) (*shmem.Team, error) { return w.Team().SplitStrided(3, -1, 3, nil) },
		"tolerant": func(w *shmem.World) (*shmem.Team, error) { return w.Team().SplitStrided(1, 1, 3, tolerantConfig) },
		"any":      func(w *shmem.World) (*shmem.Team, error) { return shmem.TeamOf(w.Team(), []int{3, 0, 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
				team := must(from(w))(t)
				e := newCaller(t, w, team)
				if team == nil {
					return
				}
				turn := 0
				for what, list := range byKey(pairs) {
					for _, pair := range list {
						turn++
						callOddOneOut(t, e, pair, turn%team.NPEs())
						e.checkWorks(t, what)
					}
				}
				ok(t, team.Destroy())
			}, withChecks...)
		})
	}
}

var tolerantConfig = &shmem.TeamConfig{Mode: shmem.ModeTolerant}

// byKey iterates over m in the order of its keys, which is the same on all PEs.
func byKey[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		var keys []string
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// callOddOneOut makes member odd of the team call the second of a pair, the others the first.
func callOddOneOut(t *testing.T, e *caller, pair [2]namedCall, odd int) {
	t.Helper()
	var most []int
	theOdd := -1
	for pe := range e.w.NPEs() {
		switch i, is := e.w.Team().Translate(pe, e.t); {
		case is && i == odd:
			theOdd = pe
		case is:
			most = append(most, pe)
		}
	}
	mine := pair[0]
	if e.t.MyPE() == odd {
		mine = pair[1]
	}
	wantMismatch(t, mine.call(e), pair, most, theOdd)
}

// TestCheckWorld does the same for calls that are collective over all PEs.
func TestCheckWorld(t *testing.T) {
	barrier := namedCall{"Barrier", func(e *caller) error { return e.w.Barrier() }}
	alloc := namedCall{"Alloc of 80 bytes", func(e *caller) error { return errOf(shmem.Alloc[int64](e.w, 10)) }}
	free := namedCall{"Free of the object at offset", func(e *caller) error { return shmem.Free(e.w, e.x) }}
	for name, opts := range map[string][]shmemtest.Option{"strict": nil, "tolerant": {shmemtest.Init(shmem.WorldMode(shmem.ModeTolerant))}} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
				e := newCaller(t, w, w.Team())
				before := w.Heap()
				for turn, pair := range [][2]namedCall{
					{barrier, {"Sync", func(e *caller) error { return e.w.Sync() }}},
					{barrier, {"Finalize", func(e *caller) error { return e.w.Finalize() }}},
					{barrier, reduce("sum", 8, shmem.Sum)},
					{alloc, barrier},
					{alloc, {"Alloc of 88 bytes", func(e *caller) error { return errOf(shmem.Alloc[int64](e.w, 11)) }}},
					{alloc, {"Alloc of 80 bytes with Align(128)", func(e *caller) error { return errOf(shmem.Alloc[int64](e.w, 10, shmem.Align(128))) }}},
					{alloc, {"Calloc of 80 bytes", func(e *caller) error { return errOf(shmem.Calloc[int64](e.w, 10)) }}},
					{free, alloc},
					{free, {"Free of the object at offset", func(e *caller) error { return shmem.Free(e.w, e.y) }}},
					{{"Realloc of the object at offset", func(e *caller) error { return errOf(shmem.Realloc(e.w, e.x, 7)) }}, free},
					{barrier, {"Alloc with bad arguments (-1 elements of 8 bytes", func(e *caller) error { return errOf(shmem.Alloc[int64](e.w, -1)) }}},
					{split, barrier},
				} {
					if odd := turn % 4; strings.Contains(pair[1].text, "bad arguments") {
						wantRefusedAlone(t, e, pair, odd, shmem.ErrArgument)
					} else {
						callOddOneOut(t, e, pair, odd)
					}
					e.checkWorks(t, pair[1].text)
				}
				if after := w.Heap(); after != before {
					t.Errorf("heap %+v, want it unchanged: %+v", after, before)
				}
			}, append(opts, withChecks...)...)
		})
	}
}

// wantRefusedAlone makes one member of the team of all PEs call with bad arguments. That member
// gets an error with this cause.
func wantRefusedAlone(t *testing.T, e *caller, pair [2]namedCall, odd int, cause error) {
	t.Helper()
	if e.w.MyPE() == odd {
		if err := pair[1].call(e); !errors.Is(err, cause) || errors.Is(err, shmem.ErrMismatch) {
			t.Errorf("%s: %v, want %v", pair[1].text, err, cause)
		}
		return
	}
	var most []int
	for pe := range e.w.NPEs() {
		if pe != odd {
			most = append(most, pe)
		}
	}
	wantMismatch(t, pair[0].call(e), pair, most, odd)
}
