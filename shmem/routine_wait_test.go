package shmem_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// staged calls wait on every PE, and meanwhile has the PE on its left take the steps,
// each when this PE sleeps: so wait has seen that the steps before are not enough. It
// fails if wait returns before the last step.
func staged(t *testing.T, w *shmem.World, wait func(), steps ...func(pe int)) {
	t.Helper()
	flags := must(shmem.Calloc[int64](w, 2))(t) // the PE on the right is about to wait; has returned
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

// put is a step that stores v in element i.
func put[T any](t *testing.T, w *shmem.World, x shmem.Sym[T], i int, v T) func(pe int) {
	return func(pe int) { ok(t, shmem.P(w.Ctx(), x.At(i), v, pe)) }
}

// filled returns a new object that the PE on the left has filled with values.
func filled[T any](t *testing.T, w *shmem.World, values ...T) shmem.Sym[T] {
	t.Helper()
	x := must(shmem.Calloc[T](w, len(values)))(t)
	ok(t, shmem.Put(w.Ctx(), x, values, (w.MyPE()+1)%w.NPEs()))
	ok(t, w.Barrier())
	return x
}

// released gives objects back when all PEs are done with them.
func released[T any](t *testing.T, w *shmem.World, all ...shmem.Sym[T]) {
	t.Helper()
	for _, x := range all {
		ok(t, shmem.Free(w, x))
	}
}

// widths calls the test of a routine for each width and sign.
func widths(name string, i16, u16, i32, u32, i64, u64 func(t *testing.T, w *shmem.World)) struct{} {
	return routine(name, func(t *testing.T, w *shmem.World) {
		for _, test := range []func(*testing.T, *shmem.World){i16, u16, i32, u32, i64, u64} {
			test(t, w)
		}
	})
}

// kept checks that a routine has left its skip array alone.
func kept(t *testing.T, skip []bool, want ...bool) {
	t.Helper()
	if !slices.Equal(skip, want) {
		t.Errorf("the skip array has become %v, want %v", skip, want)
	}
}

var (
	_ = widths("shmem_wait_until", waitUntil[int16], waitUntil[uint16], waitUntil[int32], waitUntil[uint32], waitUntil[int64], waitUntil[uint64])
	_ = widths("shmem_wait_until_all", waitAll[int16], waitAll[uint16], waitAll[int32], waitAll[uint32], waitAll[int64], waitAll[uint64])
	_ = widths("shmem_wait_until_all_vector", waitAllVector[int16], waitAllVector[uint16], waitAllVector[int32], waitAllVector[uint32], waitAllVector[int64], waitAllVector[uint64])
	_ = widths("shmem_wait_until_any", waitAny[int16], waitAny[uint16], waitAny[int32], waitAny[uint32], waitAny[int64], waitAny[uint64])
	_ = widths("shmem_wait_until_any_vector", waitAnyVector[int16], waitAnyVector[uint16], waitAnyVector[int32], waitAnyVector[uint32], waitAnyVector[int64], waitAnyVector[uint64])
	_ = widths("shmem_wait_until_some", waitSome[int16], waitSome[uint16], waitSome[int32], waitSome[uint32], waitSome[int64], waitSome[uint64])
	_ = widths("shmem_wait_until_some_vector", waitSomeVector[int16], waitSomeVector[uint16], waitSomeVector[int32], waitSomeVector[uint32], waitSomeVector[int64], waitSomeVector[uint64])
	_ = widths("shmem_test", testOne[int16], testOne[uint16], testOne[int32], testOne[uint32], testOne[int64], testOne[uint64])
	_ = widths("shmem_test_all", testAll[int16], testAll[uint16], testAll[int32], testAll[uint32], testAll[int64], testAll[uint64])
	_ = widths("shmem_test_all_vector", testAllVector[int16], testAllVector[uint16], testAllVector[int32], testAllVector[uint32], testAllVector[int64], testAllVector[uint64])
	_ = widths("shmem_test_any", testAny[int16], testAny[uint16], testAny[int32], testAny[uint32], testAny[int64], testAny[uint64])
	_ = widths("shmem_test_any_vector", testAnyVector[int16], testAnyVector[uint16], testAnyVector[int32], testAnyVector[uint32], testAnyVector[int64], testAnyVector[uint64])
	_ = widths("shmem_test_some", testSome[int16], testSome[uint16], testSome[int32], testSome[uint32], testSome[int64], testSome[uint64])
	_ = widths("shmem_test_some_vector", testSomeVector[int16], testSomeVector[uint16], testSomeVector[int32], testSomeVector[uint32], testSomeVector[int64], testSomeVector[uint64])
)

func waitUntil[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 3))(t)
	staged(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(1), shmem.EQ, 7)) },
		put(t, w, x, 0, 7), put(t, w, x, 2, 7), put(t, w, x, 1, 6), put(t, w, x, 1, 7))
	staged(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(1), shmem.GT, 8)) },
		put(t, w, x, 1, 8), put(t, w, x, 1, 9))
	staged(t, w, func() { ok(t, shmem.WaitUntil(w.Ctx(), x.At(2), shmem.LE, 5)) },
		put(t, w, x, 2, 6), put(t, w, x, 2, 5))
	released(t, w, x)
}

func waitAll[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, false, true, false}
	staged(t, w, func() { ok(t, shmem.WaitUntilAll(w.Ctx(), x, skip, shmem.GE, 3)) },
		put(t, w, x, 3, 3), put(t, w, x, 0, 2), put(t, w, x, 0, 4), put(t, w, x, 2, 9), put(t, w, x, 1, 3))
	kept(t, skip, false, false, true, false)
	ok(t, shmem.WaitUntilAll(w.Ctx(), x, nil, shmem.GE, 3))
	ok(t, shmem.WaitUntilAll(w.Ctx(), x, []bool{true, true, true, true}, shmem.LT, 0)) // empty
	ok(t, shmem.WaitUntilAll(w.Ctx(), x.Slice(2, 2), nil, shmem.GE, 100))
	released(t, w, x)
}

func waitAllVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, true, false, false}
	want := []T{10, 20, 30, 40}
	staged(t, w, func() { ok(t, shmem.WaitUntilAllVector(w.Ctx(), x, skip, shmem.EQ, want)) },
		put(t, w, x, 3, 10), put(t, w, x, 3, 40), put(t, w, x, 2, 30), put(t, w, x, 0, 20), put(t, w, x, 0, 10))
	kept(t, skip, false, true, false, false)
	ok(t, shmem.WaitUntilAllVector(w.Ctx(), x, []bool{true, true, true, true}, shmem.NE, want))
	ok(t, shmem.WaitUntilAllVector(w.Ctx(), x.Slice(4, 4), nil, shmem.EQ, nil))
	released(t, w, x)
}

// turn checks that calls return just these indices, each once in as many calls, twice.
func turn(t *testing.T, call func() (int, error), want ...int) {
	t.Helper()
	for range 2 {
		var got []int
		for range want {
			got = append(got, must(call())(t))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("as many calls returned the elements %v, want each of %v once", got, want)
		}
	}
}

// index checks what a call has returned.
func index(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func waitAny[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 5))(t)
	skip := []bool{false, true, false, false, false}
	got := -1
	staged(t, w, func() { got = must(shmem.WaitUntilAny(c, x, skip, shmem.EQ, 3))(t) },
		put(t, w, x, 1, 3), put(t, w, x, 4, 2), put(t, w, x, 2, 3))
	index(t, "the element that has come", got, 2)
	kept(t, skip, false, true, false, false, false)
	turn(t, func() (int, error) { return shmem.WaitUntilAny(c, x, nil, shmem.GE, 2) }, 1, 2, 4)
	turn(t, func() (int, error) { return shmem.WaitUntilAny(c, x, skip, shmem.GE, 2) }, 2, 4)
	turn(t, func() (int, error) { return shmem.WaitUntilAny(c, x.Slice(1, 4), nil, shmem.GE, 2) }, 0, 1)
	index(t, "empty", must(shmem.WaitUntilAny(c, x, []bool{true, true, true, true, true}, shmem.EQ, 3))(t), -1)
	index(t, "no elements", must(shmem.WaitUntilAny(c, x.Slice(0, 0), nil, shmem.EQ, 3))(t), -1)
	released(t, w, x)
}

func waitAnyVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{true, false, false, false}
	want := []T{1, 2, 3, 4}
	got := -1
	staged(t, w, func() { got = must(shmem.WaitUntilAnyVector(c, x, skip, shmem.EQ, want))(t) },
		put(t, w, x, 0, 1), put(t, w, x, 3, 1), put(t, w, x, 2, 4), put(t, w, x, 3, 4))
	index(t, "the element that has come", got, 3)
	kept(t, skip, true, false, false, false)
	turn(t, func() (int, error) { return shmem.WaitUntilAnyVector(c, x, nil, shmem.EQ, want) }, 0, 3)
	index(t, "empty", must(shmem.WaitUntilAnyVector(c, x, []bool{true, true, true, true}, shmem.NE, want))(t), -1)
	index(t, "no elements", must(shmem.WaitUntilAnyVector(c, x.Slice(0, 0), nil, shmem.EQ, nil))(t), -1)
	released(t, w, x)
}

// indices checks what a call has stored in idx, of which it says that n count.
func indices(t *testing.T, idx []int, n int, want ...int) {
	t.Helper()
	got := slices.Clone(idx[:max(n, 0)])
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("elements %v, want %v", got, want)
	}
}

func waitSome[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 5))(t)
	skip := []bool{false, false, false, true, false}
	idx := make([]int, 5)
	n := 0
	staged(t, w, func() { n = must(shmem.WaitUntilSome(c, x, idx, skip, shmem.EQ, 3))(t) },
		put(t, w, x, 3, 3), put(t, w, x, 0, 2), put(t, w, x, 4, 3))
	indices(t, idx, n, 4)
	kept(t, skip, false, false, false, true, false)
	indices(t, idx, must(shmem.WaitUntilSome(c, x, idx, nil, shmem.GE, 2))(t), 0, 3, 4)
	indices(t, idx, must(shmem.WaitUntilSome(c, x.Slice(3, 5), idx, nil, shmem.GE, 2))(t), 0, 1)
	turn(t, func() (int, error) {
		n, err := shmem.WaitUntilSome(c, x, idx[:1], nil, shmem.GE, 2)
		index(t, "room for one", n, 1)
		return idx[0], err
	}, 0, 3, 4)
	index(t, "empty", must(shmem.WaitUntilSome(c, x, idx, []bool{true, true, true, true, true}, shmem.EQ, 3))(t), 0)
	index(t, "no elements", must(shmem.WaitUntilSome(c, x.Slice(0, 0), nil, nil, shmem.EQ, 3))(t), 0)
	released(t, w, x)
}

func waitSomeVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), must(shmem.Calloc[T](w, 4))(t)
	skip := []bool{false, false, true, false}
	want := []T{1, 2, 3, 4}
	idx := make([]int, 4)
	n := 0
	staged(t, w, func() { n = must(shmem.WaitUntilSomeVector(c, x, idx, skip, shmem.EQ, want))(t) },
		put(t, w, x, 2, 3), put(t, w, x, 0, 4), put(t, w, x, 1, 2))
	indices(t, idx, n, 1)
	kept(t, skip, false, false, true, false)
	indices(t, idx, must(shmem.WaitUntilSomeVector(c, x, idx, nil, shmem.EQ, want))(t), 1, 2)
	indices(t, idx, must(shmem.WaitUntilSomeVector(c, x, idx, nil, shmem.NE, want))(t), 0, 3)
	index(t, "empty", must(shmem.WaitUntilSomeVector(c, x, idx, []bool{true, true, true, true}, shmem.NE, want))(t), 0)
	released(t, w, x)
}

// yes checks what a test has said.
func yes(t *testing.T, what string, got, want bool) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func testOne[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 7)
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
			yes(t, e.cmp.String(), must(shmem.Test(c, x.At(i), e.cmp, 6))(t), want)
		}
	}
	var zero T
	if minus := zero - 1; minus < zero { // its sign counts
		y := filled(t, w, minus)
		yes(t, "-1 < 0", must(shmem.Test(c, y, shmem.LT, 0))(t), true)
		released(t, w, y)
	}
	released(t, w, x)
}

func testAll[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 2, 7)
	skip := []bool{false, false, true, false}
	yes(t, "all that count", must(shmem.TestAll(c, x, skip, shmem.GE, 5))(t), true)
	yes(t, "all", must(shmem.TestAll(c, x, nil, shmem.GE, 5))(t), false)
	yes(t, "the last is too small", must(shmem.TestAll(c, x, skip, shmem.LT, 7))(t), false)
	yes(t, "the first is too small", must(shmem.TestAll(c, x, skip, shmem.GT, 5))(t), false)
	yes(t, "the last two", must(shmem.TestAll(c, x.Slice(2, 4), skip[:2], shmem.LE, 7))(t), true)
	yes(t, "empty", must(shmem.TestAll(c, x, []bool{true, true, true, true}, shmem.EQ, 0))(t), true)
	yes(t, "no elements", must(shmem.TestAll(c, x.Slice(1, 1), nil, shmem.EQ, 0))(t), true)
	kept(t, skip, false, false, true, false)
	released(t, w, x)
}

func testAllVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 2, 7)
	skip := []bool{false, true, false, false}
	yes(t, "all", must(shmem.TestAllVector(c, x, nil, shmem.EQ, []T{5, 6, 2, 7}))(t), true)
	yes(t, "all that count", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{5, 0, 2, 7}))(t), true)
	yes(t, "one differs", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{5, 6, 2, 8}))(t), false)
	yes(t, "the first differs", must(shmem.TestAllVector(c, x, skip, shmem.EQ, []T{6, 6, 2, 7}))(t), false)
	yes(t, "empty", must(shmem.TestAllVector(c, x, []bool{true, true, true, true}, shmem.NE, []T{5, 6, 2, 7}))(t), true)
	kept(t, skip, false, true, false, false)
	released(t, w, x)
}

func testAny[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 5, 7, 5)
	skip := []bool{true, false, false, false, false}
	index(t, "the only one", must(shmem.TestAny(c, x, nil, shmem.EQ, 7))(t), 3)
	index(t, "none", must(shmem.TestAny(c, x, nil, shmem.EQ, 8))(t), -1)
	index(t, "none that counts", must(shmem.TestAny(c, x, []bool{false, false, false, true, false}, shmem.EQ, 7))(t), -1)
	turn(t, func() (int, error) { return shmem.TestAny(c, x, nil, shmem.EQ, 5) }, 0, 2, 4)
	turn(t, func() (int, error) { return shmem.TestAny(c, x, skip, shmem.EQ, 5) }, 2, 4)
	index(t, "no elements", must(shmem.TestAny(c, x.Slice(0, 0), nil, shmem.EQ, 5))(t), -1)
	kept(t, skip, true, false, false, false, false)
	released(t, w, x)
}

func testAnyVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 5, 7)
	skip := []bool{false, false, true, false}
	index(t, "the only one", must(shmem.TestAnyVector(c, x, nil, shmem.EQ, []T{0, 0, 0, 7}))(t), 3)
	index(t, "at other places", must(shmem.TestAnyVector(c, x, nil, shmem.EQ, []T{6, 5, 7, 5}))(t), -1)
	index(t, "none that counts", must(shmem.TestAnyVector(c, x, skip, shmem.EQ, []T{0, 0, 5, 0}))(t), -1)
	turn(t, func() (int, error) { return shmem.TestAnyVector(c, x, skip, shmem.EQ, []T{5, 6, 5, 0}) }, 0, 1)
	kept(t, skip, false, false, true, false)
	released(t, w, x)
}

func testSome[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 5, 7, 5)
	skip := []bool{true, false, false, false, false}
	idx := make([]int, 5)
	indices(t, idx, must(shmem.TestSome(c, x, idx, nil, shmem.EQ, 5))(t), 0, 2, 4)
	indices(t, idx, must(shmem.TestSome(c, x, idx, skip, shmem.EQ, 5))(t), 2, 4)
	indices(t, idx, must(shmem.TestSome(c, x, idx, nil, shmem.EQ, 8))(t))
	indices(t, idx, must(shmem.TestSome(c, x.Slice(2, 5), idx, nil, shmem.GT, 5))(t), 1)
	turn(t, func() (int, error) {
		n, err := shmem.TestSome(c, x, idx[:1], nil, shmem.EQ, 5)
		index(t, "room for one", n, 1)
		return idx[0], err
	}, 0, 2, 4)
	kept(t, skip, true, false, false, false, false)
	released(t, w, x)
}

func testSomeVector[T shmem.Waiter](t *testing.T, w *shmem.World) {
	c, x := w.Ctx(), filled[T](t, w, 5, 6, 5, 7)
	skip := []bool{true, false, false, false}
	idx := make([]int, 4)
	indices(t, idx, must(shmem.TestSomeVector(c, x, idx, nil, shmem.EQ, []T{5, 6, 0, 7}))(t), 0, 1, 3)
	indices(t, idx, must(shmem.TestSomeVector(c, x, idx, skip, shmem.EQ, []T{5, 6, 0, 7}))(t), 1, 3)
	indices(t, idx, must(shmem.TestSomeVector(c, x, idx, nil, shmem.EQ, []T{6, 5, 7, 5}))(t))
	kept(t, skip, true, false, false, false)
	released(t, w, x)
}
