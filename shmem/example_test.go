package shmem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// check panics on an error, which a real program would handle.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// account is an element of a symmetric object.
type account struct {
	Owner   int64
	Balance int64
}

// balance names the field that atomic operations use.
var balance = shmem.FieldOf(func(a *account) *int64 { return &a.Balance })

func ExampleFieldOf() {
	shmem.Run(func(w *shmem.World) error {
		accounts, err := shmem.Calloc[account](w, 10) // ten elements on every PE
		if err != nil {
			return err
		}
		err = shmem.AtomicAdd(w.Ctx(), balance.At(accounts, 3), 100, 0) // the fourth element on PE 0
		err = errors.Join(err, w.Barrier())
		fmt.Println(accounts.Local()[3])
		return err
	})
	// Output: {0 100}
}

func ExampleRun() {
	shmem.Run(func(w *shmem.World) error {
		sum, err := shmem.Calloc[int](w, 1) // one int on every PE
		if err != nil {
			return err
		}
		err = shmem.AtomicAdd(w.Ctx(), sum, w.MyPE()+1, 0) // every PE adds to the int on PE 0
		err = errors.Join(err, w.Barrier())
		if w.MyPE() == 0 {
			fmt.Println("the sum of all PEs is", sum.Local()[0])
		}
		return err
	})
	// Output: the sum of all PEs is 1
}

// Each PE tells its right neighbor a number. This is the whole program: "oshrun -n 4
// ./program" starts it as four PEs, and without oshrun it is a job of one.
func Example() {
	w, err := shmem.Init()
	check(err)
	x, err := shmem.Calloc[int64](w, 1) // one element on every PE
	check(err)

	right := (w.MyPE() + 1) % w.NPEs()
	check(shmem.P(w.Ctx(), x, int64(100+w.MyPE()), right)) // writes x on the right neighbor
	check(w.Barrier())                                     // after it, all puts are complete

	fmt.Printf("PE %d of %d was told %d\n", w.MyPE(), w.NPEs(), x.Local()[0])
	check(shmem.Free(w, x))
	check(w.Finalize())
	// Output: PE 0 of 1 was told 100
}

func ExampleInit() {
	w, err := shmem.Init()
	check(err)
	again, err := shmem.Init() // a library that the program uses may call Init as well
	check(err)
	fmt.Println(again == w, shmem.Initialized())
	check(again.Finalize())
	fmt.Println(shmem.Initialized())
	check(w.Finalize()) // one Finalize for each Init
	fmt.Println(shmem.Initialized())
	// Output:
	// true true
	// true
	// false
}

// Objects are symmetric: each PE has its own copy, and one handle names the copy of any PE.
func ExampleAlloc() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()

	type particle struct {
		Position [3]float64
		Mass     float32
	}
	x, err := shmem.Alloc[particle](w, 1000)
	check(err)
	x.Local()[7].Mass = 1.5 // this PE's copy
	there, err := shmem.G(w.Ctx(), x.At(7), w.MyPE())
	check(err)
	fmt.Println(x.Len(), there.Mass)

	x, err = shmem.Realloc(w, x, 2000) // elements keep their values
	check(err)
	fmt.Println(x.Len(), x.Local()[7].Mass)
	check(shmem.Free(w, x))

	_, err = shmem.Alloc[*int](w, 1)
	fmt.Println(err)
	// Output:
	// 1000 1.5
	// 2000 1.5
	// shmem.Alloc: element type *int holds a pointer (*int), want a type of numbers, arrays and structs of them
}

func ExamplePut() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Calloc[float64](w, 8)
	check(err)

	next := (w.MyPE() + 1) % w.NPEs()
	check(shmem.Put(w.Ctx(), x, []float64{1, 2, 3}, next))             // elements 0 to 2
	check(shmem.Put(w.Ctx(), x.Slice(5, 8), []float64{6, 7, 8}, next)) // 5 to 7
	check(w.Barrier())
	fmt.Println(x.Local())

	err = shmem.Put(w.Ctx(), x, make([]float64, 9), next)
	fmt.Println(errors.Is(err, shmem.ErrBounds), err)
	// Output:
	// [1 2 3 0 0 6 7 8]
	// true shmem.Put: 9 elements, want at most the object's 8
}

func ExampleGet() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Alloc[int32](w, 4)
	check(err)
	for i := range x.Local() {
		x.Local()[i] = int32(10*w.MyPE() + i)
	}
	check(w.Barrier()) // all PEs have written

	theirs := make([]int32, 4)
	check(shmem.Get(w.Ctx(), theirs, x, w.NPEs()-1))
	fmt.Println(theirs)
	// Output: [0 1 2 3]
}

// GetNBI does not wait. Wait returns the result.
func ExampleGetNBI() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Calloc[int32](w, 4)
	check(err)

	var gets [2]shmem.Pending[[]int32]
	for i := range gets { // both run at the same time
		gets[i], err = shmem.GetNBI(w.Ctx(), make([]int32, 2), x.Slice(2*i, 2*i+2), 0)
		check(err)
	}
	for _, p := range gets {
		got, err := p.Wait()
		check(err)
		fmt.Println(got)
	}
	// Output:
	// [0 0]
	// [0 0]
}

// A column of a matrix is every width-th element of it.
func ExampleIPut() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	const width = 4
	matrix, err := shmem.Calloc[int](w, 3*width)
	check(err)

	column := []int{1, 2, 3}
	next := (w.MyPE() + 1) % w.NPEs()
	check(shmem.IPut(w.Ctx(), matrix.Slice(2, 3*width), column, shmem.Stride{Dst: width, Src: 1, N: 3}, next))
	check(w.Barrier())
	for row := range 3 {
		fmt.Println(matrix.Local()[row*width:][:width])
	}
	// Output:
	// [0 0 1 0]
	// [0 0 2 0]
	// [0 0 3 0]
}

// All PEs draw numbers from one counter.
func ExampleAtomicFetchAdd() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	counter, err := shmem.Calloc[uint64](w, 1)
	check(err)

	const home = 0 // the PE whose counter is used
	for range 3 {
		mine, err := shmem.AtomicFetchAdd(w.Ctx(), counter, 1, home)
		check(err)
		fmt.Println("this PE does part", mine)
	}
	check(w.Barrier())
	// Output:
	// this PE does part 0
	// this PE does part 1
	// this PE does part 2
}

// PutSignal writes data and then a signal that tells the target that they are there.
func ExamplePutSignal() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	data, err := shmem.Calloc[float32](w, 3)
	check(err)
	arrived, err := shmem.Calloc[uint64](w, 1)
	check(err)

	next := (w.MyPE() + 1) % w.NPEs()
	check(shmem.PutSignal(w.Ctx(), data, []float32{1, 2, 3}, arrived, 1, shmem.SignalAdd, next))

	_, err = w.Ctx().SignalWaitUntil(arrived, shmem.GE, 1)
	check(err)
	fmt.Println(data.Local())
	// Output: [1 2 3]
}

func ExampleWaitUntil() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	data, err := shmem.Calloc[int64](w, 2)
	check(err)
	flag, err := shmem.Calloc[int64](w, 1)
	check(err)

	c, next := w.Ctx(), (w.MyPE()+1)%w.NPEs()
	check(shmem.Put(c, data, []int64{4, 2}, next))
	check(c.Fence()) // the data arrive before the flag
	check(shmem.P(c, flag, 1, next))

	check(shmem.WaitUntil(c, flag, shmem.EQ, 1))
	fmt.Println(data.Local())

	soon, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	err = shmem.WaitUntil(c.With(soon), flag, shmem.EQ, 2) // no PE ever sets it to 2
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// [4 2]
	// true
}

func ExampleReduce() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Alloc[float64](w, 2)
	check(err)
	x.Local()[0], x.Local()[1] = 3, float64(w.MyPE())
	largest, err := shmem.Alloc[float64](w, 2)
	check(err)

	check(shmem.Reduce(w.Team(), largest, x, shmem.Max))
	check(shmem.Reduce(w.Team(), x, x, shmem.Sum)) // in place
	fmt.Println(largest.Local(), x.Local())
	// Output: [3 0] [3 0]
}

// A program can define its own operator. This one keeps the number with the smaller absolute
// value.
func ExampleOp() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Alloc[int](w, 2)
	check(err)
	x.Local()[0], x.Local()[1] = -5, 4

	nearest := func(acc, in []int) {
		for i, v := range in {
			if v*v < acc[i]*acc[i] {
				acc[i] = v
			}
		}
	}
	check(shmem.Reduce(w.Team(), x, x, nearest))
	fmt.Println(x.Local())
	// Output: [-5 4]
}

// ReduceValue reduces values without symmetric objects.
func ExampleReduceValue() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()

	residual := 0.5 / float64(1+w.MyPE())
	largest, err := shmem.ReduceValue(w.Team(), residual, shmem.Max)
	check(err)
	converged, err := shmem.ReduceValue(w.Team(), residual < 1, shmem.And)
	check(err)
	fmt.Println(largest, converged)
	// Output: 0.5 true
}

// BroadcastValue gives all PEs what only one PE knows.
func ExampleBroadcastValue() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()

	var grid struct{ Rows, Cols int }
	if w.MyPE() == 0 {
		grid.Rows, grid.Cols = 3, 4 // as parsed from the command line
	}
	grid, err = shmem.BroadcastValue(w.Team(), grid, 0)
	check(err)
	fmt.Println(grid.Rows, grid.Cols)
	// Output: 3 4
}

func ExampleBroadcast() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	parameters, err := shmem.Calloc[int32](w, 2)
	check(err)
	mine, err := shmem.Alloc[int32](w, 2)
	check(err)
	if w.MyPE() == 0 { // as read from a file
		mine.Local()[0], mine.Local()[1] = 640, 480
	}

	check(shmem.Broadcast(w.Team(), parameters, mine, 0))
	fmt.Println(parameters.Local())
	// Output: [640 480]
}

// A call that needs a PE that has died returns an error that names it.
func ExamplePEError() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()

	err = w.Barrier()
	if dead, is := errors.AsType[*shmem.PEError](err); is {
		fmt.Println("gone:", dead.PEs)
	} else {
		fmt.Println("all", w.NPEs(), "are here")
	}
	// Output: all 1 are here
}

// The PEs with even numbers form a team and compute a sum.
func ExampleTeam_SplitStrided() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Alloc[int](w, 1)
	check(err)
	x.Local()[0] = w.MyPE()

	even, err := w.Team().SplitStrided(0, 2, (w.NPEs()+1)/2, nil) // all PEs call it
	check(err)
	if even == nil {
		return // this PE is not in the team
	}
	check(shmem.Reduce(even, x, x, shmem.Sum))
	pe, _ := even.Translate(0, w.Team())
	fmt.Println(x.Local()[0], "is the sum of", even.NPEs(), "from", pe, "on")
	check(even.Destroy())
	// Output: 0 is the sum of 1 from 0 on
}

// A goroutine has a context of its own. Its Quiet does not wait for operations on other contexts.
func ExampleTeam_NewCtx() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	x, err := shmem.Calloc[int64](w, 1)
	check(err)

	done := make(chan error)
	go func() {
		c, err := w.Team().NewCtx()
		check(err)
		check(shmem.PutNBI(c, x, []int64{8}, w.MyPE()))
		check(c.Quiet()) // now the put is complete
		done <- c.Destroy()
	}()
	check(<-done)
	fmt.Println(x.Local()[0])
	// Output: 8
}

// A lock lets one PE at a time change shared data.
func ExampleLock() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	total, err := shmem.Calloc[float64](w, 1) // the copy on PE 0 is used
	check(err)
	l, err := shmem.NewLock(w)
	check(err)

	c := w.Ctx()
	_, err = l.Acquire(c)
	check(err)
	v, err := shmem.G(c, total, 0)
	check(err)
	check(shmem.P(c, total, v+0.5, 0))
	check(l.Release(c)) // completes the put first
	check(w.Barrier())

	v, err = shmem.G(c, total, 0)
	check(err)
	fmt.Println(v)
	// Output: 0.5
}

// Many locks can share one object: here each bucket has a lock.
func ExampleLockAt() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	const buckets = 1000
	n := shmem.LockLen(w)
	locks, err := shmem.Calloc[int64](w, buckets*n)
	check(err)

	l, err := shmem.LockAt(w, locks.Slice(7*n, 8*n)) // the lock of bucket 7
	check(err)
	_, got, err := l.Try(w.Ctx())
	check(err)
	fmt.Println(got)
	check(l.Release(w.Ctx()))
	// Output: true
}

// PEs with different numbers of results concatenate them.
func ExampleCollect() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	mine, err := shmem.Alloc[int](w, 10)
	check(err)
	all, err := shmem.Calloc[int](w, 10*w.NPEs())
	check(err)

	found := 3 - min(w.MyPE(), 3)
	for i := range found {
		mine.Local()[i] = 100*w.MyPE() + i
	}
	check(shmem.Collect(w.Team(), all, mine.Slice(0, found)))
	fmt.Println(all.Local()[:3])
	// Output: [0 1 2]
}

// Each PE learns where its part of a common file begins.
func ExampleSumExScan() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	length, err := shmem.Alloc[int64](w, 1)
	check(err)
	begin, err := shmem.Alloc[int64](w, 1)
	check(err)

	length.Local()[0] = 4096
	check(shmem.SumExScan(w.Team(), begin, length))
	fmt.Println("from", begin.Local()[0])
	// Output: from 0
}

// Answers are processed in the order in which they arrive.
func ExampleWaitUntilAny() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	answers, err := shmem.Calloc[int32](w, w.NPEs()) // 0 means no answer yet
	check(err)
	for pe := range w.NPEs() {
		check(shmem.P(w.Ctx(), answers.At(w.MyPE()), int32(7+w.MyPE()), pe))
	}

	had := make([]bool, w.NPEs())
	for range w.NPEs() {
		pe, err := shmem.WaitUntilAny(w.Ctx(), answers, had, shmem.NE, 0)
		check(err)
		had[pe] = true
		fmt.Println("PE", pe, "says", answers.Local()[pe])
	}
	// Output: PE 0 says 7
}

// Each PE sends one block to each PE.
func ExampleAlltoall() {
	w, err := shmem.Init()
	check(err)
	defer w.Finalize()
	const block = 2
	src, err := shmem.Alloc[int](w, block*w.NPEs())
	check(err)
	dst, err := shmem.Alloc[int](w, block*w.NPEs())
	check(err)
	for i := range src.Local() {
		src.Local()[i] = 100*w.MyPE() + i
	}

	check(shmem.Alltoall(w.Team(), dst, src))
	fmt.Println(dst.Local()[:block])
	// Output: [0 1]
}
