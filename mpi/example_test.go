package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

// checked returns v and panics on an error, which a real program would handle.
func checked[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Each rank tells its right neighbor a number. This is the whole program: "oshrun -n 4
// ./program" starts it as four ranks, and without oshrun it is a job of one.
func Example() {
	w, err := mpi.Init()
	check(err)
	c := w.Comm()
	right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	in := make([]int, 1)
	status, err := mpi.Sendrecv(c, []int{100 + c.Rank()}, right, 7, in, left, 7)
	check(err)
	fmt.Printf("rank %d of %d got %d from rank %d\n", c.Rank(), c.Size(), in[0], status.Source)
	check(w.Finalize())
	// Output: rank 0 of 1 got 100 from rank 0
}

// A buffer may be longer than the message. The status says how much has arrived.
func ExampleRecv() {
	w := checked(mpi.Init())
	c := w.Comm()
	check(mpi.Send(c, []float64{1, 2, 3}, 0, 5))
	in := make([]float64, 10)
	s := checked(mpi.Recv(c, in, mpi.AnySource, mpi.AnyTag))
	fmt.Println(in[:s.Count], "with tag", s.Tag, "from rank", s.Source)

	check(mpi.Send(c, []float64{1, 2, 3}, 0, 5))
	_, err := mpi.Recv(c, in[:2], 0, 5)
	fmt.Println(errors.Is(err, mpi.ErrTruncated), err)
	check(w.Finalize())
	// Output:
	// [1 2 3] with tag 5 from rank 0
	// true mpi.Recv: message truncated: 24 bytes with tag 5 from rank 0, want at most the buffer's 16
}

// A program posts receives, does something else, and then waits for them.
func ExampleIrecv() {
	w := checked(mpi.Init())
	c := w.Comm()
	var all []mpi.Request
	in := make([][]int, c.Size())
	for rank := range in {
		in[rank] = make([]int, 1)
		all = append(all, checked(mpi.Irecv(c, in[rank], rank, 1)))
	}
	for rank := range c.Size() {
		all = append(all, checked(mpi.Isend(c, []int{10*c.Rank() + rank}, rank, 1)))
	}
	check(mpi.WaitAll(all, nil))
	fmt.Println(in)
	check(w.Finalize())
	// Output: [[0]]
}

// A wait ends with its context. The request goes on, and the program can wait for it again.
func ExampleRequest_With() {
	w := checked(mpi.Init())
	c := w.Comm()
	in := make([]int, 1)
	r := checked(mpi.Irecv(c, in, 0, 1))
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := r.With(soon).Wait()
	fmt.Println(err)
	check(mpi.Send(c, []int{5}, 0, 1))
	checked(r.Wait())
	fmt.Println(in[0])
	check(w.Finalize())
	// Output:
	// mpi.Irecv: waiting for a message from rank 0 with tag 1: context deadline exceeded
	// 5
}

// Any function that combines slices is an operator.
func ExampleAllreduce() {
	w := checked(mpi.Init())
	c := w.Comm()
	sum, longest := make([]int, 2), make([]string16, 1)
	check(mpi.Allreduce(c, sum, []int{1, c.Rank()}, mpi.Sum))
	check(mpi.Allreduce(c, longest, []string16{{'r', 'a', 'n', 'k'}}, func(acc, in []string16) {
		for i, s := range in {
			if s.len() > acc[i].len() {
				acc[i] = s
			}
		}
	}))
	fmt.Printf("%d ranks, of numbers that are %d together; %s\n", sum[0], sum[1], longest[0][:longest[0].len()])
	check(w.Finalize())
	// Output: 1 ranks, of numbers that are 0 together; rank
}

// string16 is a short text as an element: it has no pointer.
type string16 [16]byte

func (s string16) len() (n int) {
	for n < len(s) && s[n] != 0 {
		n++
	}
	return n
}

// Ranks with the same color get a communicator of their own.
func ExampleComm_Split() {
	w := checked(mpi.Init())
	c := w.Comm()
	even := checked(c.Split(c.Rank()%2, -c.Rank())) // the last one first
	fmt.Printf("rank %d is rank %d of %d\n", c.Rank(), even.Rank(), even.Size())
	check(even.Barrier())
	check(even.Free())
	check(w.Finalize())
	// Output: rank 0 is rank 0 of 1
}
