package mpi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

var errOwn = errors.New("the program's own error")

// A request of Go ends with its function, whichever call waits for it, and its context ends by Cancel.
func TestGo(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		peer := 1 - c.Rank()
		for range 20 {
			got := make([]int, 1)
			in := must(mpi.Irecv(c, got, peer, 0))(t)
			all := []mpi.Request{
				in,
				mpi.Go(func(context.Context) error { return mpi.Send(c, []int{7}, peer, 0) }),
				mpi.Go(func(context.Context) error { return errOwn }),
			}
			var failed []error
			for _, o := range mpi.Completed(all) {
				if o.Err != nil {
					failed = append(failed, o.Err)
				}
			}
			if len(failed) != 1 || !errors.Is(failed[0], errOwn) || got[0] != 7 {
				t.Fatalf("errors %v, message %d", failed, got[0])
			}
			if _, err := all[2].Wait(); !errors.Is(err, errOwn) {
				t.Errorf("a second Wait returns %v", err)
			}
		}
		q := mpi.Go(func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if _, done, err := q.Test(); done || err != nil {
			t.Errorf("Test: %t, %v", done, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := q.With(ctx).Wait(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		ok(t, q.Cancel())
		if _, err := q.Wait(); !errors.Is(err, mpi.ErrRequestCanceled) {
			t.Errorf("Wait after Cancel: %v", err)
		}
		if _, err := mpi.Go(nil).Wait(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Go of nil: %v", err)
		}
	})
}

// Finalize ends the contexts of functions that go on, and waits for none of them.
func TestGoAndFinalize(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		if _, err := mpi.Go(func(context.Context) error { return nil }).Wait(); !errors.Is(err, mpi.ErrFinalized) {
			t.Errorf("Go before Init: %v", err)
		}
		w := must(mpi.Init())(t)
		release, ended := make(chan struct{}), make(chan error)
		q := mpi.Go(func(ctx context.Context) error {
			<-ctx.Done()
			<-release
			ended <- context.Cause(ctx)
			return nil
		})
		ok(t, w.Finalize())
		if _, err := q.Wait(); !errors.Is(err, mpi.ErrFinalized) {
			t.Errorf("Wait after Finalize: %v", err)
		}
		close(release)
		if err := <-ended; !errors.Is(err, mpi.ErrFinalized) {
			t.Errorf("the context has ended with %v", err)
		}
	})
}

// RaiseError makes a request fail, whatever state it is in, and each wait and test returns the error.
func TestRaiseError(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		peer := 1 - c.Rank()
		begin := map[string]func() mpi.Request{
			"zero":     func() mpi.Request { return mpi.Request{} },
			"send":     func() mpi.Request { return must(mpi.Isend(c, []int{1}, mpi.ProcNull, 0))(t) },
			"ProcNull": func() mpi.Request { return must(mpi.Irecv(c, make([]int, 1), mpi.ProcNull, 0))(t) },
			"direct": func() mpi.Request {
				ok(t, mpi.Send(c, []int{1}, c.Rank(), 1))
				return must(mpi.Irecv(c, make([]int, 1), c.Rank(), 1))(t)
			},
			"active": func() mpi.Request {
				q := must(mpi.Irecv(c, make([]int, 1), peer, 2))(t)
				ok(t, mpi.Send(c, []int{1}, peer, 2))
				return q
			},
			"over": func() mpi.Request {
				q := must(mpi.Irecv(c, make([]int, 1), peer, 3))(t)
				ok(t, mpi.Send(c, []int{1}, peer, 3))
				must(q.Wait())(t)
				return q
			},
		}
		waits := map[string]func(q mpi.Request) error{
			"Wait":    func(q mpi.Request) error { return errOf(q.Wait()) },
			"WaitAll": func(q mpi.Request) error { return mpi.WaitAll([]mpi.Request{{}, q}, nil) },
			"Test": func(q mpi.Request) error {
				for {
					if _, done, err := q.Test(); done || err != nil {
						return err
					}
				}
			},
			"Status": func(q mpi.Request) error {
				for {
					_, done, err := q.Status()
					switch {
					case done && err == nil:
						t.Error("Status returns no error")
						fallthrough
					case done:
						return errOf(q.Wait())
					}
				}
			},
			"TestAll": func(q mpi.Request) error {
				for {
					if done, err := mpi.TestAll([]mpi.Request{q}, nil); done || err != nil {
						return err
					}
				}
			},
		}
		for _, state := range []string{"zero", "send", "ProcNull", "direct", "active", "over"} { // the ranks in the same order
			for _, how := range []string{"Wait", "WaitAll", "Test", "Status", "TestAll"} {
				q := begin[state]()
				ok(t, q.RaiseError(errOwn))
				ok(t, q.RaiseError(errors.New("another one")))
				if err := waits[how](q); !errors.Is(err, errOwn) {
					t.Errorf("%s of a request that was %s: %v", how, state, err)
				}
				if _, err := q.Wait(); !errors.Is(err, errOwn) {
					t.Errorf("second Wait of a request that was %s: %v", state, err)
				}
			}
		}
		var q mpi.Request
		if err := q.RaiseError(nil); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("RaiseError(nil): %v", err)
		}
	})
}
