package mpi_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/mpi"
)

// A receive with a deadline ends although its sender was stopped in the middle of a long message.
// It has the message, or it has its buffer back: when the sender goes on, it writes nothing to the
// buffer. The sender goes on only after the receive has ended.
func TestStoppedSender(t *testing.T) {
	const n, rounds, stride = 32 << 20, 6, 32 << 10
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 0 {
			out := make([]byte, n)
			fill(out, 1)
			for i := range rounds {
				r := must(mpi.Isend(c, out, 1, i))(t)
				ok(t, mpi.Send(c, []int{os.Getpid()}, 1, rounds)) // arrives after the announcement
				must(r.Wait())(t)
			}
			ok(t, mpi.Send(c, []int{0}, 1, rounds))
			return
		}
		in, pid, kept := make([]byte, n), []int{0}, false
		first := (*uint32)(unsafe.Pointer(&in[0]))
		for i := range rounds + 1 {
			must(mpi.Recv(c, pid, 0, rounds))(t)
			for at := 0; kept && at < n; at += stride {
				if in[at] != 2 {
					t.Fatalf("round %d: byte %d was written after Recv had failed", i, at)
				}
			}
			if i == rounds {
				return
			}
			fill(in, 0)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			var wg sync.WaitGroup
			var over atomic.Bool
			wg.Go(func() { // stops the sender once the first part has arrived
				for atomic.LoadUint32(first) == 0 && !over.Load() {
					continue
				}
				ok(t, syscall.Kill(pid[0], syscall.SIGSTOP))
				if i%2 == 1 {
					cancel()
				}
			})
			_, err := mpi.Recv(c.With(ctx), in, 0, i)
			over.Store(true)
			wg.Wait()
			cancel()
			if kept = err != nil; kept {
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
					t.Errorf("round %d: error %v, want the context's", i, err)
				}
				for at := 0; at < n; at += stride {
					in[at] = 2
				}
			} else {
				none := 0
				wantFilled(t, in, 1, nil, &none)
			}
			ok(t, syscall.Kill(pid[0], syscall.SIGCONT))
		}
	}, hangTimeout)
}

// A receive with a deadline ends in time although its sender is stopped inside of a very long message, in whichever way that is copied.
func TestDeadlineOfStoppedSender(t *testing.T) {
	const n, number, enough = 256 << 20, 2, 3
	for _, x := range []struct {
		name  string
		lanes bool
	}{{"memory", false}, {"lanes", true}} {
		t.Run(x.name, func(t *testing.T) {
			runBare(t, 2, func(t *testing.T) {
				if x.lanes {
					mpi.LanesOnly()
				}
				w := must(mpi.Init())(t)
				c := w.Comm()
				var wg sync.WaitGroup
				if c.Rank() == 0 {
					ctx, cancel := context.WithCancel(t.Context())
					ok(t, mpi.Send(c, []int{os.Getpid()}, 1, number))
					wg.Go(func() {
						if err := mpi.Send(c.With(ctx), make([]byte, n), 1, 1); err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
					must(mpi.Recv(c, []byte{}, 1, enough))(t)
					cancel()
					wg.Wait()
					ok(t, w.Finalize())
					return
				}
				in, pid := make([]byte, n), []int{0}
				must(mpi.Recv(c, pid, 0, number))(t)
				var over atomic.Bool
				stopped := false
				wg.Go(func() {
					for !mpi.Receiving(c) && !over.Load() {
						runtime.Gosched()
					}
					if stopped = !over.Load(); stopped {
						ok(t, syscall.Kill(pid[0], syscall.SIGSTOP))
					}
				})
				err := wantDeadline(t, 300*time.Millisecond, func(ctx context.Context) error {
					return errOf(mpi.Recv(c.With(ctx), in, 0, 1))
				})
				over.Store(true)
				wg.Wait()
				t.Logf("stopped: %t, error %v", stopped, err)
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want none or the context's", err)
				}
				if err == nil && x.lanes && stopped {
					t.Error("a message came whole from a stopped sender")
				}
				ok(t, syscall.Kill(pid[0], syscall.SIGCONT))
				ok(t, mpi.Send(c, []byte{}, 0, enough))
				ok(t, w.Finalize())
			}, hangTimeout)
		})
	}
}

// A sender that never pauses does not keep a receive of something else from ending at its
// deadline.
func TestDeadlineInFlood(t *testing.T) {
	const most, flood, other, stop = 1_000_000, 1, 2, 3
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]int, 1), 0, flood))(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := mpi.Recv(c.With(ctx), make([]int, 1), 0, other); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("receive of a message that was never sent: error %v, want %v", err, context.DeadlineExceeded)
			}
			ok(t, mpi.Send(c, []int{0}, 0, stop))
			return
		}
		r := must(mpi.Irecv(c, make([]int, 1), 1, stop))(t)
		for i := range most {
			ok(t, mpi.Send(c, []int{i}, 1, flood))
			if i%64 == 0 {
				if _, done, err := r.Test(); done {
					ok(t, err)
					return
				}
			}
		}
		t.Errorf("the receive with a deadline has not ended after %d other messages", most)
	}, hangTimeout)
}

// One poll takes at most CellsMost cells from one lane.
func TestCellsMost(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const count = 3 * mpi.CellsMost
		if c.Rank() == 0 {
			for range count {
				ok(t, mpi.Send(c, []int{1}, 1, 1))
			}
			ok(t, c.Barrier())
			ok(t, c.Barrier())
			return
		}
		r := must(mpi.Irecv(c, make([]int, 1), 0, 2))(t) // polls the lane
		ok(t, c.Barrier())
		before := mpi.Pending(c, 0)
		if _, done, err := r.Test(); done || err != nil {
			t.Errorf("receive of a message that was never sent: done %v, error %v, want false and none", done, err)
		}
		if took := before - mpi.Pending(c, 0); took > mpi.CellsMost {
			t.Errorf("took %d cells at a time, want at most %d", took, mpi.CellsMost)
		}
		ok(t, c.Barrier())
	})
}

// Receives take only as many messages from a lane as there are receives: keeping the others until
// their receives come would cost twice as much.
func TestReceivesKeepNothing(t *testing.T) {
	const count = 64
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 0 {
			ok(t, mpi.Send(c, []byte{}, 1, 2)) // so that the lane is known
			must(mpi.Recv(c, []byte{}, 1, 2))(t)
			for i := range 2 * count {
				ok(t, mpi.Send(c, []int{i}, 1, 1))
			}
			ok(t, c.Barrier())
			return
		}
		must(mpi.Recv(c, []byte{}, 0, 2))(t)
		in, all := make([]int, 2*count), make([]mpi.Request, 2*count)
		begin := func(i int) {
			all[i] = must(mpi.Irecv(c, in[i:i+1], 0, 1))(t)
			if kept := mpi.Kept(c); kept != 0 {
				t.Errorf("receive %d: %d messages are kept, want none", i, kept)
			}
		}
		begin(0) // before any message is there
		begin(1)
		ok(t, mpi.Send(c, []byte{}, 0, 2))
		for mpi.Pending(c, 0) < 2*count {
			runtime.Gosched()
		}
		ok(t, mpi.WaitAll(all[:1], nil))
		if kept := mpi.Kept(c); kept != 0 {
			t.Errorf("a wait with two receives: %d messages are kept, want none", kept)
		}
		for i := 2; i < 2*count; i++ {
			begin(i)
		}
		ok(t, mpi.WaitAll(all, nil))
		for i, v := range in {
			if v != i {
				t.Errorf("receive %d got %d, want the receive's number", i, v)
			}
		}
		ok(t, c.Barrier())
	})
}

// A long message of a rank to itself is copied without the lock, whether its receive was posted
// before it or after it.
func TestLongToSelf(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		const n = 64 << 20
		out, in := message(n, 1), make([]byte, n)
		for _, before := range []bool{true, false} {
			for seen := false; !seen; {
				fill(in, 0)
				var r mpi.Request
				if before {
					r = must(mpi.Irecv(c, in, 0, 1))(t)
				} else {
					ok(t, mpi.Send(c, out, 0, 1))
				}
				var over atomic.Bool
				var wg sync.WaitGroup
				wg.Go(func() {
					defer over.Store(true)
					if before {
						ok(t, mpi.Send(c, out, 0, 1))
					} else {
						must(mpi.Recv(c, in, 0, 1))(t)
					}
				})
				for !over.Load() {
					seen = mpi.Carried(c) > 0 || seen
				}
				wg.Wait()
				must(r.Wait())(t)
			}
			checkMessage(t, in, 1)
		}
		// A message that is given up ends soon.
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := mpi.Recv(c.With(ctx), in, 0, 2)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for mpi.Carried(c) == 0 && ctx.Err() == nil {
				continue
			}
			cancel()
		})
		ok(t, mpi.Send(c, out, 0, 2))
		cancel()
		wg.Wait()
	}, hangTimeout)
}

// As many long messages as bandwidth tests send at a time each get a share.
func TestSharesOfWindow(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const window = 64
		other := 1 - c.Rank()
		var sends, recvs []mpi.Request
		for i := range window {
			sends = append(sends, must(mpi.Isend(c, message(100_000, i), other, i))(t))
		}
		if n := mpi.SharesInUse(c, other); n != window {
			t.Errorf("%d messages use %d shares, want one each", window, n)
		}
		ok(t, c.Barrier())
		in := make([][]byte, window)
		for i := range in {
			in[i] = make([]byte, 100_000)
			recvs = append(recvs, must(mpi.Irecv(c, in[i], other, i))(t))
		}
		ok(t, mpi.WaitAll(recvs, nil))
		ok(t, mpi.WaitAll(sends, nil))
		for i := range in {
			checkMessage(t, in[i], i)
		}
	})
}
