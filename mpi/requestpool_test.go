package mpi_test

import (
	"errors"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// A request is reused only after it has ended. Any number of pending requests keep their messages,
// and handles of ended requests stay ended.
func TestManyRequests(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		const slow, quick = 6000, 20_000 // more than the pool keeps
		waiting, in := make([]mpi.Request, slow), make([]int, slow)
		for i := range waiting {
			waiting[i] = must(mpi.Irecv(c, in[i:i+1], 0, i))(t)
		}
		var old []mpi.Request
		got := make([]int, 1)
		for i := range quick {
			r := must(mpi.Irecv(c, got, 0, slow+i%7))(t)
			ok(t, mpi.Send(c, []int{i}, 0, slow+i%7))
			if s := must(r.Wait())(t); s.Count != 1 || got[0] != i {
				t.Fatalf("message %d: got status %+v and value %d, want one element %[1]d", i, s, got[0])
			}
			if i%100 == 0 {
				old = append(old, r)
			}
		}
		for _, r := range old {
			if s, done, err := r.Test(); !done || err != nil || s != emptyStatus {
				t.Fatalf("Test of an ended request returned %+v, %v, %v, want the empty status, true and no error", s, done, err)
			}
		}
		for i := range waiting {
			ok(t, mpi.Send(c, []int{-i}, 0, i))
		}
		ok(t, mpi.WaitAll(waiting, nil))
		for i, v := range in {
			if v != -i {
				t.Fatalf("receive %d got %d, want %d", i, v, -i)
			}
		}
	})
}

// A request that has failed keeps its error, however many requests follow it.
func TestFailedRequestIsNotUsedAgain(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		small := make([]byte, 1)
		failed := must(mpi.Irecv(c, small, 0, 1))(t)
		ok(t, mpi.Send(c, []byte{1, 2}, 0, 1))
		for range 100 {
			if _, err := failed.Wait(); !errors.Is(err, mpi.ErrTruncated) {
				t.Fatalf("%v, want ErrTruncated", err)
			}
			r := must(mpi.Irecv(c, small, 0, 2))(t)
			ok(t, mpi.Send(c, []byte{3}, 0, 2))
			must(r.Wait())(t)
		}
	})
}
