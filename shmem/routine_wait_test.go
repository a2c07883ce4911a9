package shmem_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// waitInSteps calls wait on every PE. Meanwhile the left neighbor takes the steps, each when this
// PE sleeps, so wait has seen that the steps before are not enough. The test fails if wait returns
// before the last step.
func waitInSteps(t *testing.T, w *shmem.World, wait func(), steps ...func(pe int)) {
	t.Helper()
	flags := must(shmem.Calloc[int64](w, 2))(t) // set by the PE on the right: it is about to wait; it has returned
	me, n := w.MyPE(), w.NPEs()
	left, right := (me+n-1)%n, (me+1)%n
	set := func(i int) bool { return must(shmem.Test(w.Ctx(), flags.At(i), shmem.EQ, 1))(t) }
	early := make(chan int, 1)
	go func() {
		defer close(early)
		for !set(0) {
			runtime.Gosched()
		}
		for i, step := range steps {
			for !shmem.Asleep(w, right) && !set(1) {
				runtime.Gosched()
			}
			if set(1) {
				early <- i
				return
			}
			step(right)
		}
	}()
	ok(t, shmem.AtomicSet(w.Ctx(), flags, 1, left))
	wait()
	ok(t, shmem.AtomicSet(w.Ctx(), flags.At(1), 1, left))
	if i, is := <-early; is {
		t.Errorf("the wait of PE %d returned before step %d of %d", right, i, len(steps))
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, flags))
}

// putStep is a step that stores v in element i.
func putStep[T any](t *testing.T, w *shmem.World, x shmem.Sym[T], i int, v T) func(pe int) {
	return func(pe int) { ok(t, shmem.P(w.Ctx(), x.At(i), v, pe)) }
}

// newFilled returns a new object that the left neighbor has filled with values.
func newFilled[T any](t *testing.T, w *shmem.World, values ...T) shmem.Sym[T] {
	t.Helper()
	x := must(shmem.Calloc[T](w, len(values)))(t)
	ok(t, shmem.Put(w.Ctx(), x, values, (w.MyPE()+1)%w.NPEs()))
	ok(t, w.Barrier())
	return x
}

// freeWhenDone frees objects when all PEs are done with them.
func freeWhenDone[T any](t *testing.T, w *shmem.World, all ...shmem.Sym[T]) {
	t.Helper()
	for _, x := range all {
		ok(t, shmem.Free(w, x))
	}
}

// routinesByWidth adds the test of a routine for each width and signedness.
func routinesByWidth(name string, i16, u16, i32, u32, i64, u64 func(t *testing.T, w *shmem.World)) struct{} {
	return routine(name, func(t *testing.T, w *shmem.World) {
		for _, test := range []func(*testing.T, *shmem.World){i16, u16, i32, u32, i64, u64} {
			test(t, w)
		}
	})
}

// checkSkip checks that a routine did not change its skip array.
func checkSkip(t *testing.T, skip []bool, want ...bool) {
	t.Helper()
	if !slices.Equal(skip, want) {
		t.Errorf("the skip array is now %v, want %v", skip, want)
	}
}

var (
	_ = routinesByWidth("shmem_wait_until", waitUntil[int16], waitUntil[uint16], waitUntil[int32], waitUntil[uint32], waitUntil[int64], waitUntil[uint64])
	_ = routinesByWidth("shmem_wait_until_all", waitAll[int16], waitAll[uint16], waitAll[int32], waitAll[uint32], waitAll[int64], waitAll[uint64])
	_ = routinesByWidth("shmem_wait_until_all_vector", waitAllVector[int16], waitAllVector[uint16], waitAllVector[int32], waitAllVector[uint32], waitAllVector[int64], waitAllVector[uint64])
	_ = routinesByWidth("shmem_wait_until_any", waitAny[int16], waitAny[uint16], waitAny[int32], waitAny[uint32], waitAny[int64], waitAny[uint64])
	_ = routinesByWidth("shmem_wait_until_any_vector", waitAnyVector[int16], waitAnyVector[uint16], waitAnyVector[int32], waitAnyVector[uint32], waitAnyVector[int64], waitAnyVector[uint64])
	_ = routinesByWidth("shmem_wait_until_some", waitSome[int16], waitSome[uint16], waitSome[int32], waitSome[uint32], waitSome[int64], waitSome[uint64])
	_ = routinesByWidth("shmem_wait_until_some_vector", waitSomeVector[int16], waitSomeVector[uint16], waitSomeVector[int32], waitSomeVector[uint32], waitSomeVector[int64], waitSomeVector[uint64])
	_ = routinesByWidth("shmem_test", testOne[int16], testOne[uint16], testOne[int32], testOne[uint32], testOne[int64], testOne[uint64])
	_ = routinesByWidth("shmem_test_all", testAll[int16], testAll[uint16], testAll[int32], testAll[uint32], testAll[int64], testAll[uint64])
	_ = routinesByWidth("shmem_test_all_vector", testAllVector[int16], testAllVector[uint16], testAllVector[int32], testAllVector[uint32], testAllVector[int64], testAllVector[uint64])
	_ = routinesByWidth("shmem_test_any", testAny[int16], testAny[uint16], testAny[int32], testAny[uint32], testAny[int64], testAny[uint64])
	_ = routinesByWidth("shmem_test_any_vector", testAnyVector[int16], testAnyVector[uint16], testAnyVector[int32], testAnyVector[uint32], testAnyVector[int64], testAnyVector[uint64])
	_ = routinesByWidth("shmem_test_some", testSome[int16], testSome[uint16], testSome[int32], testSome[uint32], testSome[int64], testSome[uint64])
	_ = routinesByWidth("shmem_test_some_vector", testSomeVector[int16], testSomeVector[uint16], testSomeVector[int32], testSomeVector[uint32], testSomeVector[int64], testSomeVector[uint64])
)

func waitUntil[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 3))(t)
	waitInSteps(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(1), shmem.EQ, 7)) },
		putStep(t, w, x, 0, 7), putStep(t, w, x, 2, 7), putStep(t, w, x, 1, 6), putStep(t, w, x, 1, 7))
	waitInSteps(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(1), shmem.GT, 8)) },
		putStep(t, w, x, 1, 8), putStep(t, w, x, 1, 9))
	waitInSteps(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(2), shmem.LE, 5)) },
		putStep(t, w, x, 2, 6), putStep(t, w, x, 2, 5))
	freeWhenDone(t, w, x)
}

func waitAll[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, false, true, false}
	waitInSteps(t, w, func() { ok(t, shmem.WaitUntilAll(w.Ctx(), x, skip, shmem.GE, 3)) },
		putStep(t, w, x, 3, 3), putStep(t, w, x, 0, 2), putStep(t, w, x, 0, 4), putStep(t, w, x, 2, 9), putStep(t, w, x, 1, 3))
	checkSkip(t, skip, false, false, true, false)
	ok(t, shmem.WaitUntilAll(w.Ctx(), x, nil, shmem.GE, 3))
	ok(t, shmem.WaitUntilAll(w.Ctx(), x, []bool{true, true, true, true}, shmem.LT, 0)) // no element is left to wait for
	ok(t, shmem.WaitUntilAll(w.Ctx(), x.Slice(2, 2), nil, shmem.GE, 100))
	freeWhenDone(t, w, x)
}

func waitAllVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, true, false, false}
	want := []T{10, 20, 30, 40}
	waitInSteps(t, w, func() { ok(t, shmem.WaitUntilAllVector(w.Ctx(), x, skip, shmem.EQ, want)) },
		putStep(t, w, x, 3, 10), putStep(t, w, x, 3, 40), putStep(t, w, x, 2, 30), putStep(t, w, x, 0, 20), putStep(t, w, x, 0, 10))
	checkSkip(t, skip, false, true, false, false)
	ok(t, shmem.WaitUntilAllVector(w.Ctx(), x, []bool{true, true, true, true}, shmem.NE, want))
	ok(t, shmem.WaitUntilAllVector(w.Ctx(), x.Slice(4, 4), nil, shmem.EQ, nil))
	freeWhenDone(t, w, x)
}

// checkFairTurns checks that repeated calls return exactly these indices, each once in as many
// calls, twice over.
func checkFairTurns(t *testing.T, call func() (int, error), want ...int) {
	t.Helper()
	for range 2 {
		var got []int
		for range want {
			got = append(got, must(call())(t))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the calls returned elements %v, want each of %v once", got, want)
		}
	}
}

// checkInt compares an integer that a call returned.
func checkInt(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func waitAny[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 5))(t)
	skip := []bool{false, true, false, false, false}
	got := -1
	waitInSteps(t, w, func() { got = must(shmem.WaitUntilAny(c, x, skip, shmem.EQ, 3))(t) },
		putStep(t, w, x, 1, 3), putStep(t, w, x, 4, 2), putStep(t, w, x, 2, 3))
	checkInt(t, "the element that changed", got, 2)
	checkSkip(t, skip, false, true, false, false, false)
	checkFairTurns(t, func() (int, error) { return shmem.WaitUntilAny(c, x, nil, shmem.GE, 2) }, 1, 2, 4)
	checkFairTurns(t, func() (int, error) { return shmem.WaitUntilAny(c, x, skip, shmem.GE, 2) }, 2, 4)
	checkFairTurns(t, func() (int, error) { return shmem.WaitUntilAny(c, x.Slice(1, 4), nil, shmem.GE, 2) }, 0, 1)
	checkInt(t, "empty", must(shmem.WaitUntilAny(c, x, []bool{true, true, true, true, true}, shmem.EQ, 3))(t), -1)
	checkInt(t, "no elements", must(shmem.WaitUntilAny(c, x.Slice(0, 0), nil, shmem.EQ, 3))(t), -1)
	freeWhenDone(t, w, x)
}

func waitAnyVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{true, false, false, false}
	want := []T{1, 2, 3, 4}
	got := -1
	waitInSteps(t, w, func() { got = must(shmem.WaitUntilAnyVector(c, x, skip, shmem.EQ, want))(t) },
		putStep(t, w, x, 0, 1), putStep(t, w, x, 3, 1), putStep(t, w, x, 2, 4), putStep(t, w, x, 3, 4))
	checkInt(t, "the element that changed", got, 3)
	checkSkip(t, skip, true, false, false, false)
	checkFairTurns(t, func() (int, error) { return shmem.WaitUntilAnyVector(c, x, nil, shmem.EQ, want) }, 0, 3)
	checkInt(t, "empty", must(shmem.WaitUntilAnyVector(c, x, []bool{true, true, true, true}, shmem.NE, want))(t), -1)
	checkInt(t, "no elements", must(shmem.WaitUntilAnyVector(c, x.Slice(0, 0), nil, shmem.EQ, nil))(t), -1)
	freeWhenDone(t, w, x)
}

// checkIndices compares the first n indices in idx.
func checkIndices(t *testing.T, idx []int, n int, want ...int) {
	t.Helper()
	got := slices.Clone(idx[:max(n, 0)])
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got elements %v, want %v", got, want)
	}
}

func waitSome[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 5))(t)
	skip := []bool{false, false, false, true, false}
	idx := make([]int, 5)
	n := 0
	waitInSteps(t, w, func() { n = must(shmem.WaitUntilSome(c, x, idx, skip, shmem.EQ, 3))(t) },
		putStep(t, w, x, 3, 3), putStep(t, w, x, 0, 2), putStep(t, w, x, 4, 3))
	checkIndices(t, idx, n, 4)
	checkSkip(t, skip, false, false, false, true, false)
	checkIndices(t, idx, must(shmem.WaitUntilSome(c, x, idx, nil, shmem.GE, 2))(t), 0, 3, 4)
	checkIndices(t, idx, must(shmem.WaitUntilSome(c, x.Slice(3, 5), idx, nil, shmem.GE, 2))(t), 0, 1)
	checkFairTurns(t, func() (int, error) {
		n, err := shmem.WaitUntilSome(c, x, idx[:1], nil, shmem.GE, 2)
		checkInt(t, "room for one", n, 1)
		return idx[0], err
	}, 0, 3, 4)
	checkInt(t, "empty", must(shmem.WaitUntilSome(c, x, idx, []bool{true, true, true, true, true}, shmem.EQ, 3))(t), 0)
	checkInt(t, "no elements", must(shmem.WaitUntilSome(c, x.Slice(0, 0), nil, nil, shmem.EQ, 3))(t), 0)
	freeWhenDone(t, w, x)
}

func waitSomeVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, false, true, false}
	want := []T{1, 2, 3, 4}
	idx := make([]int, 4)
	n := 0
	waitInSteps(t, w, func() { n = must(shmem.WaitUntilSomeVector(c, x, idx, skip, shmem.EQ, want))(t) },
		putStep(t, w, x, 2, 3), putStep(t, w, x, 0, 4), putStep(t, w, x, 1, 2))
	checkIndices(t, idx, n, 1)
	checkSkip(t, skip, false, false, true, false)
	checkIndices(t, idx, must(shmem.WaitUntilSomeVector(c, x, idx, nil, shmem.EQ, want))(t), 1, 2)
	checkIndices(t, idx, must(shmem.WaitUntilSomeVector(c, x, idx, nil, shmem.NE, want))(t), 0, 3)
	checkInt(t, "empty", must(shmem.WaitUntilSomeVector(c, x, idx, []bool{true, true, true, true}, shmem.NE, want))(t), 0)
	freeWhenDone(t, w, x)
}

// checkBool compares a boolean that a call returned.
func checkBool(t *testing.T, what string, got, want bool) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func testOne[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 7)
	for _, e := range []struct {
		cmp  shmem.Cmp
		want [3]bool
	}{
		{shmem.EQ, [3]bool{false, true, false}},
		{shmem.NE, [3]bool{true, false, true}},
		{shmem.GT, [3]bool{false, false, true}},
		{shmem.GE, [3]bool{false, true, true}},
		{shmem.LT, [3]bool{true, false, false}},
		{shmem.LE, [3]bool{true, true, false}},
	} {
		for i, want := range e.want {
			checkBool(t, e.cmp.String(), must(shmem.Test(c, x.At(i), e.cmp, 6))(t), want)
		}
	}
	var zero T
	if minus := zero - 1; minus < zero { // T is signed
		y := newFilled(t, w, minus)
		checkBool(t, "-1 < 0", must(shmem.Test(c, y, shmem.LT, 0))(t), true)
		freeWhenDone(t, w, y)
	}
	freeWhenDone(t, w, x)
}

func testAll[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 2, 7)
	skip := []bool{false, false, true, false}
	checkBool(t, "all elements that are not skipped", must(shmem.TestAll(c, x, skip, shmem.GE, 5))(t), true)
	checkBool(t, "all", must(shmem.TestAll(c, x, nil, shmem.GE, 5))(t), false)
	checkBool(t, "the last is too small", must(shmem.TestAll(c, x, skip, shmem.LT, 7))(t), false)
	checkBool(t, "the first is too small", must(shmem.TestAll(c, x, skip, shmem.GT, 5))(t), false)
	checkBool(t, "the last two", must(shmem.TestAll(c, x.Slice(2, 4), skip[:2], shmem.LE, 7))(t), true)
	checkBool(t, "empty", must(shmem.TestAll(c, x, []bool{true, true, true, true}, shmem.EQ, 0))(t), true)
	checkBool(t, "no elements", must(shmem.TestAll(c, x.Slice(1, 1), nil, shmem.EQ, 0))(t), true)
	checkSkip(t, skip, false, false, true, false)
	freeWhenDone(t, w, x)
}

func testAllVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 2, 7)
	skip := []bool{false, true, false, false}
	checkBool(t, "all", must(shmem.TestAllVector(c, x, nil, shmem.EQ, []T{5, 6, 2, 7}))(t), true)
	checkBool(t, "all elements that are not skipped", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{5, 0, 2, 7}))(t), true)
	checkBool(t, "one differs", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{5, 6, 2, 8}))(t), false)
	checkBool(t, "the first differs", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{6, 6, 2, 7}))(t), false)
	checkBool(t, "empty", must(shmem.TestAllVector(c, x, []bool{true, true, true, true}, shmem.NE, []T{5, 6, 2, 7}))(t), true)
	checkSkip(t, skip, false, true, false, false)
	freeWhenDone(t, w, x)
}

func testAny[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 5, 7, 5)
	skip := []bool{true, false, false, false, false}
	checkInt(t, "the only one", must(shmem.TestAny(c, x, nil, shmem.EQ, 7))(t), 3)
	checkInt(t, "none", must(shmem.TestAny(c, x, nil, shmem.EQ, 8))(t), -1)
	checkInt(t, "no element that is not skipped", must(shmem.TestAny(c, x, []bool{false, false, false, true, false}, shmem.EQ, 7))(t), -1)
	checkFairTurns(t, func() (int, error) { return shmem.TestAny(c, x, nil, shmem.EQ, 5) }, 0, 2, 4)
	checkFairTurns(t, func() (int, error) { return shmem.TestAny(c, x, skip, shmem.EQ, 5) }, 2, 4)
	checkInt(t, "no elements", must(shmem.TestAny(c, x.Slice(0, 0), nil, shmem.EQ, 5))(t), -1)
	checkSkip(t, skip, true, false, false, false, false)
	freeWhenDone(t, w, x)
}

func testAnyVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 5, 7)
	skip := []bool{false, false, true, false}
	checkInt(t, "the only one that matches", must(shmem.TestAnyVector(c, x, nil, shmem.EQ, []T{0, 0, 0, 7}))(t), 3)
	checkInt(t, "at other places", must(shmem.TestAnyVector(c, x, nil, shmem.EQ, []T{6, 5, 7, 5}))(t), -1)
	checkInt(t, "no element that is not skipped", must(shmem.TestAnyVector(c, x, skip, shmem.EQ, []T{0, 0, 5, 0}))(t), -1)
	checkFairTurns(t, func() (int, error) { return shmem.TestAnyVector(c, x, skip, shmem.EQ, []T{5, 6, 5, 0}) }, 0, 1)
	checkSkip(t, skip, false, false, true, false)
	freeWhenDone(t, w, x)
}

func testSome[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 5, 7, 5)
	skip := []bool{true, false, false, false, false}
	idx := make([]int, 5)
	checkIndices(t, idx, must(shmem.TestSome(c, x, idx, nil, shmem.EQ, 5))(t), 0, 2, 4)
	checkIndices(t, idx, must(shmem.TestSome(c, x, idx, skip, shmem.EQ, 5))(t), 2, 4)
	checkIndices(t, idx, must(shmem.TestSome(c, x, idx, nil, shmem.EQ, 8))(t))
	checkIndices(t, idx, must(shmem.TestSome(c, x.Slice(2, 5), idx, nil, shmem.GT, 5))(t), 1)
	checkFairTurns(t, func() (int, error) {
		n, err := shmem.TestSome(c, x, idx[:1], nil, shmem.EQ, 5)
		checkInt(t, "room for one", n, 1)
		return idx[0], err
	}, 0, 2, 4)
	checkSkip(t, skip, true, false, false, false, false)
	freeWhenDone(t, w, x)
}

func testSomeVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), newFilled[T](t, w, 5, 6, 5, 7)
	skip := []bool{true, false, false, false}
	idx := make([]int, 4)
	checkIndices(t, idx, must(shmem.TestSomeVector(c, x, idx, nil, shmem.EQ, []T{5, 6, 0, 7}))(t), 0, 1, 3)
	checkIndices(t, idx, must(shmem.TestSomeVector(c, x, idx, skip, shmem.EQ, []T{5, 6, 0, 7}))(t), 1, 3)
	checkIndices(t, idx, must(shmem.TestSomeVector(c, x, idx, nil, shmem.EQ, []T{6, 5, 7, 5}))(t))
	checkSkip(t, skip, true, false, false, false)
	freeWhenDone(t, w, x)
}
