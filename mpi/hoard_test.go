package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// floodFlag is how many messages wait at one time in TestMemoryOfWaiting.
var floodFlag = flag.Int("flood", 0, "how many messages wait in each case of TestMemoryOfWaiting; 0: 7000, with -short 2800")

// floodVar is by which the ranks learn of it.
const floodVar = "GOSHMEM_TEST_FLOOD"

// heldUp returns for how long threads of this process were ready to run and had no processor, all together.
func heldUp(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, file := range must(filepath.Glob("/proc/self/task/*/schedstat"))(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited, turns int64
		must(fmt.Sscan(string(text), &ran, &waited, &turns))(t)
		sum += time.Duration(waited)
	}
	return sum
}

// wantDeadline receives, which is to last for wait at most, and fails the test if it ends more than 50 ms late. Time for which other processes kept this
// one from its processors does not count.
func wantDeadline(t *testing.T, wait time.Duration, recv func(ctx context.Context) error) error {
	t.Helper()
	held := heldUp(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	begin := time.Now()
	err := recv(ctx)
	late := time.Since(begin) - wait
	if others := heldUp(t) - held; late-others > 50*time.Millisecond && !testenv.Race {
		t.Errorf("the deadline was met %v late, of which this process had no processor for %v, want at most 50ms", late, others)
	}
	return err
}

// privateMemory returns the bytes of memory that only this process has.
func privateMemory(t *testing.T) (bytes int) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/status"))(t))) {
		if n, found := strings.CutPrefix(line, "RssAnon:"); found {
			must(fmt.Sscanf(n, "%d kB", &bytes))(t)
			return bytes << 10
		}
	}
	t.Fatal("/proc/self/status has no RssAnon")
	return 0
}

// Ranks flood one that waits for something else. Its memory is bounded, its deadline holds, and no message is lost or overtaken.
func TestFloodOfUnexpected(t *testing.T) {
	const ranks, size, wait = 8, 16 << 10, time.Second
	each := 10_000
	if testing.Short() {
		each = 3_000
	}
	run(t, ranks, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() != 0 {
			buf := message(size, c.Rank())
			for i := range each {
				buf[0], buf[1] = byte(i), byte(i>>8)
				if i%10 != 0 {
					ok(t, mpi.Send(c, buf, 0, i%3))
					continue
				}
				copied := append([]byte(nil), buf...)
				r := must(mpi.Isend(c, copied, 0, i%3))(t)
				must(r.Wait())(t)
			}
			ok(t, mpi.Send(c, []byte{1}, 0, 9))
			return
		}
		runtime.GC()
		before := privateMemory(t)
		err := wantDeadline(t, wait, func(ctx context.Context) error {
			return errOf(mpi.Recv(c.With(ctx), make([]byte, 1), mpi.AnySource, 99))
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Recv: %v, want %v", err, context.DeadlineExceeded)
		}
		grown := privateMemory(t) - before
		t.Logf("%d MiB more", grown>>20)
		if grown > 64<<20 && !testenv.Race {
			t.Errorf("memory has grown by %d MiB, want at most 64", grown>>20)
		}
		buf := make([]byte, size)
		for i := range each {
			for rank := 1; rank < ranks; rank++ {
				must(mpi.Recv(c, buf, rank, i%3))(t)
				if buf[0] != byte(i) || buf[1] != byte(i>>8) {
					t.Fatalf("message %d of rank %d is number %d", i, rank, int(buf[0])|int(buf[1])<<8)
				}
			}
		}
		for rank := 1; rank < ranks; rank++ {
			must(mpi.Recv(c, buf, rank, 9))(t)
			if held := mpi.Held(c, rank); held {
				t.Errorf("rank %d still announces its messages", rank)
			}
		}
	}, hangTimeout)
}

// A message that waits for its receive takes at most 64 bytes of its receiver's memory, beside what the receiver keeps of whole messages. Its deadlines
// hold meanwhile, and all messages come in their order.
func TestMemoryOfWaiting(t *testing.T) {
	const ranks, tags, shift, each64 = 8, 3, 251, 64
	total := 7_000 // between nodes, and on a busy machine, longer messages take long
	if testing.Short() {
		total = 2_800
	}
	limit := hangTimeout
	if *floodFlag > 0 {
		total, limit = *floodFlag, shmemtest.Timeout(10*time.Minute)
	}
	if given := os.Getenv(floodVar); given != "" { // in a rank
		total = must(strconv.Atoi(given))(t)
	}
	flags := shmemtest.Env(fmt.Sprintf("%s=%d", floodVar, total))
	each := total / (ranks - 1)
	total = each * (ranks - 1)
	cases := []struct {
		name  string
		size  int
		start func(*mpi.Comm, []byte, int, int) (mpi.Request, error)
		most  int // bytes of the heap beside each64 for each message
	}{
		{"short", 8, mpi.Isend[byte], 64 << 10},
		{"announced", 16 << 10, mpi.Issend[byte], 64 << 10},
		{"eager", 16 << 10, mpi.Isend[byte], 64 << 20},
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			run(t, ranks, func(t *testing.T, c *mpi.Comm) {
				all := message(x.size+shift, 1) // message i begins with byte i%shift
				if c.Rank() != 0 {
					sends := make([]mpi.Request, 0, each)
					for i := range each {
						sends = append(sends, must(x.start(c, all[i%shift:][:x.size], 0, i%tags))(t))
					}
					ok(t, mpi.WaitAll(sends, nil))
					return
				}
				before := heapInUse()
				for mpi.Kept(c) < total {
					err := wantDeadline(t, 200*time.Millisecond, func(ctx context.Context) error {
						return errOf(mpi.Recv(c.With(ctx), make([]byte, 1), mpi.AnySource, 99))
					})
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("Recv: %v, want %v", err, context.DeadlineExceeded)
					}
				}
				grown := heapInUse() - before
				t.Logf("%d messages wait in %d bytes: %.1f each", total, grown, float64(grown)/float64(total))
				if most := x.most + each64*total; grown > most && !testenv.Race {
					t.Errorf("%d messages wait, and the heap has grown by %d bytes, want at most %d", total, grown, most)
				}
				buf := make([]byte, x.size)
				for i := range each {
					for rank := 1; rank < ranks; rank++ {
						must(mpi.Recv(c, buf, rank, i%tags))(t)
						if !bytes.Equal(buf, all[i%shift:][:x.size]) {
							t.Fatalf("message %d of rank %d is wrong, or comes out of order", i, rank)
						}
					}
				}
			}, limit, flags)
		})
	}
}

// heapInUse returns the bytes of the heap that are in use.
func heapInUse() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
