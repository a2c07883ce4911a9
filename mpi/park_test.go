package mpi_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// threads returns how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	text := must(os.ReadFile("/proc/self/status"))(t)
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(line, "Threads:"); found {
			return must(strconv.Atoi(strings.TrimSpace(n)))(t)
		}
	}
	t.Fatal("/proc/self/status has no Threads")
	return 0
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	ok(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Goroutines that wait for messages occupy neither threads nor processors. Each gets its message.
func TestManyReceivers(t *testing.T) {
	const receivers, calm, times = 10_000, time.Second, 5
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, receivers))(t)
			for i := range receivers {
				ok(t, mpi.Send(c, []int{i}, 0, i))
			}
			return
		}
		before := threads(t)
		var wg sync.WaitGroup
		for i := range receivers {
			wg.Go(func() {
				var in [1]int
				if _, err := mpi.Recv(c, in[:], 1, i); err != nil || in[0] != i {
					t.Errorf("receiver %d got %d, %v", i, in[0], err)
				}
			})
		}
		for mpi.Sleeping(c) < receivers {
			time.Sleep(10 * time.Millisecond)
		}
		// The median: the Go runtime gives memory back now and then, which takes some 20 ms.
		// Seconds in which others keep the processors busy do not count: each switch makes a wake-up dearer.
		var used []time.Duration
		for range times {
			begin, all := processorTime(t), testenv.Busy(t)
			time.Sleep(calm)
			own := processorTime(t) - begin
			if others := testenv.Busy(t) - all - own; others < calm/5 {
				used = append(used, own)
			} else {
				t.Logf("%v of a processor, beside others with %v", own, others)
			}
		}
		slices.Sort(used)
		// The first waits have begun before there was a driver, and what goroutines have once occupied remains.
		if now := threads(t); now > 20 {
			t.Errorf("%d threads with %d goroutines that wait, %d before, want at most 20", now, receivers, before)
		}
		t.Logf("%d threads, %v of a processor in %v each", threads(t), used, calm)
		if len(used) > 0 && used[len(used)/2] > calm/100 && !testenv.Race {
			t.Errorf("%v of a processor in %v each, want at most 1 %% in the median", used, calm)
		}
		ok(t, mpi.Send(c, []byte{1}, 1, receivers))
		wg.Wait()
	})
}

// Whatever ends the wait of a goroutine that has parked wakes it: its context, the death of its peer or of any rank, Free, Finalize.
func TestParkedWaitsEnd(t *testing.T) {
	const victim, each = 2, 5
	for _, how := range []string{"message", "context", "death", "any", "free", "finalize", "left"} {
		t.Run(how, func(t *testing.T) {
			var opts []shmemtest.Option
			if how == "death" || how == "any" || how == "left" {
				opts = append(opts, shmemtest.Recover(victim))
			}
			runBare(t, 3, func(t *testing.T) { parkedWaits(t, how, victim, each) }, opts...)
		})
	}
}

// parkedWaits is a rank of TestParkedWaitsEnd.
func parkedWaits(t *testing.T, how string, victim, each int) {
	w := must(mpi.Init())(t)
	world := w.Comm()
	c := must(world.Split(0, world.Rank()))(t)
	if c.Rank() == 0 {
		src, ctx := victim, context.Background()
		if how == "any" {
			src = mpi.AnySource
		}
		if how == "left" {
			src = 1
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var wg sync.WaitGroup
		var errs [100]error
		for i := range each {
			wg.Go(func() {
				cc := c
				if how == "context" {
					cc = c.With(ctx)
				}
				_, errs[i] = mpi.Recv(cc, make([]int, 1), src, i)
			})
		}
		for mpi.Sleeping(c) < each {
			time.Sleep(time.Millisecond)
		}
		want := mpi.ErrDied
		switch how {
		case "context":
			cancel()
			want = context.Canceled
		case "free":
			ok(t, c.Free())
			want = mpi.ErrFreed
		case "finalize":
			ok(t, w.Finalize())
			want = mpi.ErrFinalized
		case "message":
			want = nil
		case "left":
			want = mpi.ErrRankFinalized
		}
		if how != "free" && how != "finalize" {
			for rank := 1; rank < 3; rank++ {
				ok(t, mpi.Send(world, []int{1}, rank, 1))
			}
		}
		wg.Wait()
		for i, err := range errs[:each] {
			if !errors.Is(err, want) {
				t.Errorf("%s: receiver %d: %v, want %v", how, i, err, want)
			}
		}
		if how != "finalize" && !t.Failed() {
			ok(t, w.Finalize())
		}
		return
	}
	if how == "free" {
		ok(t, c.Free())
	}
	if how != "free" && how != "finalize" {
		must(mpi.Recv(world, make([]int, 1), 0, 1))(t)
	}
	if c.Rank() == victim {
		switch how {
		case "message":
			for i := range each {
				ok(t, mpi.Send(c, []int{i}, 0, each-1-i))
			}
		case "death", "any", "left":
			die()
		}
	}
	ok(t, w.Finalize())
}

// Many goroutines in ping-pong take at most twice the time of one for an exchange, while other processes leave them the processors. With the race detector, which follows each change from one goroutine to
// another, they take four times as long.
func TestGoroutinesInPingPong(t *testing.T) {
	const exchanges, rounds = 64_000, 7
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		bounce := func(goroutines int) time.Duration {
			ok(t, c.Barrier())
			begin := time.Now()
			var wg sync.WaitGroup
			var failed atomic.Pointer[error]
			for tag := range goroutines {
				wg.Go(func() {
					buf := make([]int, 1)
					for range exchanges / goroutines {
						var err error
						if c.Rank() == 0 {
							err = mpi.Send(c, buf, other, tag)
						}
						if err == nil {
							_, err = mpi.Recv(c, buf, other, tag)
						}
						if err == nil && c.Rank() == 1 {
							err = mpi.Send(c, buf, other, tag)
						}
						if err != nil {
							failed.Store(&err)
							return
						}
					}
				})
			}
			wg.Wait()
			if err := failed.Load(); err != nil {
				t.Fatal(*err)
			}
			return time.Since(begin) / exchanges
		}
		ok(t, c.Barrier())
		begin, mine, all := time.Now(), processorTime(t), testenv.Busy(t)
		var ones, manys []time.Duration
		for range rounds {
			ones, manys = append(ones, bounce(1)), append(manys, bounce(64))
		}
		both := []int{int(processorTime(t) - mine)}
		ok(t, mpi.Allreduce(c, both, both, mpi.Sum))
		strangers := testenv.Busy(t) - all - time.Duration(both[0])
		t.Logf("%v, %v; other processes have used %v in %v", ones, manys, strangers, time.Since(begin))
		slices.Sort(ones)
		slices.Sort(manys)
		if manys[rounds/2] > 2*ones[rounds/2] && strangers < time.Since(begin)/5 && !testenv.Race {
			t.Errorf("an exchange of 64 goroutines takes %v, one of one goroutine %v, want at most twice as long", manys, ones)
		}
	})
}
