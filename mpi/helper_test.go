package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// TestMain adds the flag -pes, which says by which command ranks are started.
func TestMain(m *testing.M) { shmemtest.Main(m) }

// rankCounts are the job sizes that the tests use.
var rankCounts = testenv.JobSizes()

// run runs body as the ranks of a job.
func run(t *testing.T, ranks int, body func(t *testing.T, c *mpi.Comm), opts ...shmemtest.Option) {
	t.Helper()
	runBare(t, ranks, func(t *testing.T) {
		w := must(mpi.Init())(t)
		body(t, w.Comm())
		if !t.Failed() { // Finalize would wait for ranks that have not failed
			ok(t, w.Finalize())
		}
	}, opts...)
}

// runBare is shmemtest.RunBare, on one node if the test is for one.
func runBare(t *testing.T, ranks int, body func(t *testing.T), opts ...shmemtest.Option) {
	t.Helper()
	shmemtest.RunBare(t, ranks, body, placed(t, opts)...)
}

// runWith is shmemtest.Run, on one node if the test is for one.
func runWith(t *testing.T, pes int, body func(t *testing.T, w *shmem.World), opts ...shmemtest.Option) {
	t.Helper()
	shmemtest.Run(t, pes, body, placed(t, opts)...)
}

// placed adds to the options of a job that it runs on one node, if its test is one of oneNode.
func placed(t *testing.T, opts []shmemtest.Option) []shmemtest.Option {
	name, _, _ := strings.Cut(t.Name(), "/")
	if _, is := oneNode[name]; is {
		opts = append(opts, shmemtest.Nodes(1))
	}
	return opts
}

// forEachSize runs body in jobs of each size in rankCounts.
func forEachSize(t *testing.T, body func(t *testing.T, c *mpi.Comm), opts ...shmemtest.Option) {
	t.Helper()
	for _, n := range rankCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) { run(t, n, body, opts...) })
	}
}

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the result of a call and fails the test on its error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// errOf drops the result of a call and keeps its error.
func errOf[T any](_ T, err error) error { return err }

// die kills this process with SIGKILL, as a crash would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// wantDeathError checks that err is a RankError of op that names exactly these ranks, all killed
// by SIGKILL.
func wantDeathError(t *testing.T, op string, err error, ranks ...int) {
	t.Helper()
	e, is := errors.AsType[*mpi.RankError](err)
	if !is || !slices.Equal(e.Ranks, ranks) || e.Op != op || !errors.Is(err, mpi.ErrDied) {
		t.Errorf("error %v, want a RankError of %s with ranks %v that have died", err, op, ranks)
		return
	}
	if cause, is := errors.AsType[failure.Cause](err); !is || cause.Signal() != syscall.SIGKILL {
		t.Errorf("error %v has cause %v, want SIGKILL", err, cause)
	}
	if !strings.Contains(err.Error(), "killed by signal 9 (SIGKILL)") {
		t.Errorf("error %q does not name SIGKILL", err)
	}
}

// messageByte is byte i of message number which, of n bytes.
func messageByte(i, n, which int) byte { return byte(i*7 + i>>8 + n + which*31 + 1) }

// messagePeriod is the number of bytes after which a message repeats itself.
const messagePeriod = 1 << 16

// message returns message number which. Copies make most of it, since the race detector looks at each byte of a loop.
func message(n, which int) []byte {
	buf := make([]byte, n)
	for i := range min(n, messagePeriod) {
		buf[i] = messageByte(i, n, which)
	}
	for done := messagePeriod; done < n; done *= 2 {
		copy(buf[done:], buf[:done])
	}
	return buf
}

// checkMessage fails the test unless buf holds message number which.
func checkMessage(t *testing.T, buf []byte, which int) {
	t.Helper()
	want := message(len(buf), which)
	if bytes.Equal(buf, want) {
		return
	}
	for i, v := range buf {
		if v != want[i] {
			t.Fatalf("byte %d of %d of message %d is %d, want %d", i, len(buf), which, v, want[i])
		}
	}
}
