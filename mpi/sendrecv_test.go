package mpi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Status reports the outcome of a request and leaves it: each kind, complete or not, with an error or without.
func TestRequestStatus(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		await := func(q mpi.Request) mpi.Status {
			t.Helper()
			for {
				if s, done, err := q.Status(); done || err != nil {
					ok(t, err)
					return s
				}
			}
		}
		for _, n := range []int{0, 5, 100_000} {
			in := make([]byte, n+10)
			q := must(mpi.Irecv(c, in, other, 3))(t)
			if s, done, err := q.Status(); done || err != nil || s != emptyStatus {
				t.Errorf("Status before there is a message: %+v, %t, %v", s, done, err)
			}
			ok(t, c.Barrier())
			out := must(mpi.Isend(c, message(n, 1), other, 3))(t)
			want := mpi.Status{Source: other, Tag: 3, Count: n, Bytes: n}
			for range 3 {
				if s := await(q); s != want {
					t.Errorf("Status: %+v, want %+v", s, want)
				}
				if s := await(out); s != emptyStatus {
					t.Errorf("Status of a send: %+v", s)
				}
			}
			if s := must(q.Wait())(t); s != want {
				t.Errorf("Wait after Status: %+v, want %+v", s, want)
			}
			checkMessage(t, in[:n], 1)
			must(out.Wait())(t)
			if s := await(q); s != emptyStatus {
				t.Errorf("Status after Wait: %+v", s)
			}
		}
		short := must(mpi.Irecv(c, make([]byte, 2), other, 4))(t)
		ok(t, mpi.Send(c, make([]byte, 20), other, 4))
		for range 2 {
			var done bool
			var err error
			for !done {
				_, done, err = short.Status()
			}
			if !errors.Is(err, mpi.ErrTruncated) {
				t.Errorf("Status of a truncated message: %v, want %v", err, mpi.ErrTruncated)
			}
		}
		if err := errOf(short.Wait()); !errors.Is(err, mpi.ErrTruncated) {
			t.Errorf("Wait after Status: %v, want %v", err, mpi.ErrTruncated)
		}
		await(must(c.Ibarrier())(t))
		await(mpi.Request{})
		if s := await(must(mpi.Irecv(c, []int{1}, mpi.ProcNull, 1))(t)); s.Source != mpi.ProcNull {
			t.Errorf("Status of ProcNull: %+v", s)
		}
	}, hangTimeout)
}

// Status of a receive from any source reports a death that is not acknowledged, and the request goes on.
func TestRequestStatusDeath(t *testing.T) {
	const victim = 2
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == victim {
			die()
		}
		some, one := must(mpi.Irecv(c, []int{0}, mpi.AnySource, 1))(t), must(mpi.Irecv(c, []int{0}, victim, 2))(t)
		var err error
		for err == nil {
			_, _, err = some.Status()
		}
		if !errors.Is(err, mpi.ErrPending) {
			t.Errorf("Status: %v, want %v", err, mpi.ErrPending)
		}
		for done := false; !done; {
			_, done, err = one.Status()
		}
		wantDeathError(t, "Irecv", err, victim)
		wantDeathError(t, "Irecv", errOf(one.Wait()), victim)
		c.AckFailed()
		other := 1 - c.Rank()
		must(mpi.Sendrecv(c, []int{1}, other, 5, []int{0}, other, 5))(t) // the other one has seen it, too
		ok(t, mpi.Send(c, []int{7}, other, 1))
		must(some.Wait())(t)
	}, shmemtest.Recover(victim), hangTimeout)
}

// Isendrecv and IsendrecvReplace move messages of any length around a ring, in the order of other messages.
func TestIsendrecv(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		next, prev := (me+1)%n, (me+n-1)%n
		for _, size := range []int{0, 5, 10_000, 300_000} {
			in, buf := make([]byte, size), message(size, me)
			q := must(mpi.Isendrecv(c, message(size, 10+me), next, 3, in, prev, 3))(t)
			r := must(mpi.IsendrecvReplace(c, buf, next, 3, prev, 3))(t)
			ok(t, mpi.Send(c, []byte{byte(me)}, next, 3)) // behind both
			want := mpi.Status{Source: prev, Tag: 3, Count: size, Bytes: size}
			statuses := make([]mpi.Status, 2)
			ok(t, mpi.WaitAll([]mpi.Request{q, r}, statuses))
			if !slices.Equal(statuses, []mpi.Status{want, want}) {
				t.Errorf("statuses %+v, want %+v", statuses, want)
			}
			checkMessage(t, in, 10+prev)
			checkMessage(t, buf, prev)
			last := []byte{99}
			if must(mpi.Recv(c, last, prev, 3))(t); last[0] != byte(prev) {
				t.Errorf("the message behind them is %d, want %d", last[0], prev)
			}
		}
		q := must(mpi.Isendrecv(c, []int{1}, mpi.ProcNull, 3, []int{2}, mpi.ProcNull, 3))(t)
		if s := must(q.Wait())(t); s.Source != mpi.ProcNull {
			t.Errorf("Isendrecv of ProcNull: %+v", s)
		}
		long := message(100_000, me)
		q = must(mpi.Isendrecv(c, long, me, 4, []byte{}, mpi.ProcNull, 3))(t)
		in := make([]byte, len(long))
		must(mpi.Recv(c, in, me, 4))(t)
		must(q.Wait())(t)
		checkMessage(t, in, me)
		if _, err := mpi.Isendrecv(c, long, 9, 4, in, 0, 4); !errors.Is(err, mpi.ErrRankRange) {
			t.Errorf("Isendrecv to rank 9: %v", err)
		}
		if _, err := mpi.IsendrecvReplace(c, in, 0, 4, 0, -7); !errors.Is(err, mpi.ErrTag) {
			t.Errorf("IsendrecvReplace with tag -7: %v", err)
		}
	}, hangTimeout)
}

// A death of either peer ends Isendrecv with an error, and a revocation does.
func TestIsendrecvDeath(t *testing.T) {
	const victim = 2
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		c = must(c.Dup())(t)
		if c.Rank() == victim {
			must(mpi.Recv(c, []int{0}, 0, 9))(t)
			must(mpi.Recv(c, []int{0}, 1, 9))(t)
			die()
		}
		other, long, in := 1-c.Rank(), message(200_000, 1), make([]byte, 200_000)
		to := must(mpi.Isendrecv(c, long, victim, 1, in, other, 1))(t)          // the send fails
		from := must(mpi.Isendrecv(c, long, other, 2, []byte{0}, victim, 2))(t) // the receive fails
		stays := must(mpi.Isendrecv(c, long, other, 3, []byte{0}, other, 4))(t) // nobody dies, and nobody receives
		ok(t, mpi.Send(c, []int{1}, victim, 9))
		must(mpi.Recv(c, make([]byte, len(long)), other, 2))(t)
		wantDeathError(t, "Isendrecv", errOf(to.Wait()), victim)
		wantDeathError(t, "Isendrecv", errOf(from.Wait()), victim)
		if err := errOf(mpi.Isendrecv(c, long, victim, 1, in, other, 1)); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Isendrecv to the dead rank: %v, want %v", err, mpi.ErrDied)
		}
		must(mpi.Sendrecv(c, []byte{1}, other, 5, []byte{0}, other, 5))(t) // the other one is here, too
		ok(t, c.Revoke())
		if err := errOf(stays.Wait()); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("Isendrecv after Revoke: %v, want %v", err, mpi.ErrRevoked)
		}
	}, shmemtest.Recover(victim), hangTimeout)
}
