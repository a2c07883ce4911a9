package mpi_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// What the stress programs of ulfm-testing check. docs/mpi.md has the list of them.

var pingsFlag = flag.Int("pings", 2000, "how many messages each pair of TestPingPairs exchanges")

// pingsVar tells the ranks the flag.
const pingsVar = "GOSHMEM_TEST_PINGS"

// awaitDeaths returns when a rank knows that these have died, and no others.
func awaitDeaths(t *testing.T, c *mpi.Comm, ranks ...int) {
	t.Helper()
	for len(c.Failed()) < len(ranks) {
		runtime.Gosched()
	}
	dead := slices.Sorted(slices.Values(c.Failed())) // they are in the order of their deaths
	if !slices.Equal(dead, ranks) {
		t.Errorf("ranks %v have died, want %v", dead, ranks)
	}
}

// Pairs exchange messages without end, by waits for any, for some and for all. A quarter of the receivers and a quarter of the senders die in the middle, while the
// others post requests and learn of deaths. Only the mates of the dead get errors, which name their mate, and no message is lost or comes twice.
func TestPingPairs(t *testing.T) {
	const n = 8
	victims := map[int]int{1: 10, 2: 15} // the message at which a receiver and a sender die
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		pings := 0
		if _, err := fmt.Sscan(os.Getenv(pingsVar), &pings); err != nil {
			t.Fatal(err)
		}
		me, mate := c.Rank(), c.Rank()^1
		src, dst := mate, mpi.ProcNull
		if me%2 == 0 {
			src, dst = mpi.ProcNull, mate
		}
		exchange := func(i int) error {
			got := []int{-1}
			send, _ := mpi.Isend(c, []int{i}, dst, 1) // an error that it returns, each wait returns as well
			all := []mpi.Request{send, must(mpi.Irecv(c, got, src, 1))(t)}
			_, _, first := mpi.WaitAny(all)
			_, some := mpi.WaitSome(all)
			err := errors.Join(first, some, mpi.WaitAll(all, nil))
			if err == nil && src != mpi.ProcNull && got[0] != i {
				t.Fatalf("message %d of rank %d is %d", i, src, got[0])
			}
			return err
		}
		_, mateDies := victims[mate]
		for i := range pings {
			if at, dies := victims[me]; dies && i == at {
				die()
			}
			err := exchange(i)
			if err == nil {
				continue
			}
			gone, is := errors.AsType[*mpi.RankError](err)
			if !mateDies || !is || !errors.Is(err, mpi.ErrDied) || !slices.Equal(gone.Ranks, []int{mate}) {
				t.Fatalf("message %d: %v, want an error for the mates of the dead alone, with their rank", i, err)
			}
			break
		}
		awaitDeaths(t, c, 1, 2)
		if err := exchange(pings); mateDies != errors.Is(err, mpi.ErrDied) {
			t.Errorf("one more message: %v, and the mate has died: %v", err, mateDies)
		}
	}, shmemtest.Recover(1, 2), hangTimeout, shmemtest.Env(fmt.Sprintf("%s=%d", pingsVar, *pingsFlag)))
}

// Isend to a rank that is known to have died returns an error, which names the rank, and so does the wait for its request. ULFM has it from the wait alone.
func TestIsendToDead(t *testing.T) {
	const n = 5
	for _, size := range []int{1, 5000, 1 << 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				_ = c.Barrier() // it fails at ranks that learn of a death first
				if me := c.Rank(); me == n-1 || me == n/2 {
					die()
				}
				awaitDeaths(t, c, n/2, n-1)
				if err := c.Barrier(); !errors.Is(err, mpi.ErrDied) {
					t.Errorf("Barrier: %v, want %v", err, mpi.ErrDied)
				}
				for _, dead := range []int{n / 2, n - 1} {
					r, err := mpi.Isend(c, make([]int, size), dead, 1)
					wantDeathError(t, "Isend", err, dead)
					wantDeathError(t, "Isend", mpi.WaitAll([]mpi.Request{r}, nil), dead)
				}
			}, shmemtest.Recover(n/2, n-1), hangTimeout)
		})
	}
}

// The loss of a whole node, whose daemon is killed, is the death of all its ranks. The other nodes go on: communicators without the dead
// get no error, and the survivors shrink.
func TestKillNode(t *testing.T) {
	for nodes, lost := range map[int][]int{2: {3, 4, 5}, 3: {4, 5}} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			shmemtest.RunBare(t, 6, func(t *testing.T) { killNode(t, lost) }, shmemtest.Nodes(nodes), shmemtest.Recover(lost...), hangTimeout)
		})
	}
}

// killNode is a rank of TestKillNode. lost are the ranks of the last node.
func killNode(t *testing.T, lost []int) {
	t.Helper()
	w := must(mpi.Init())(t)
	c := w.Comm()
	node := must(c.SplitType(mpi.Shared, c.Rank()))(t)
	ok(t, c.Barrier())
	if c.Rank() == lost[len(lost)-1] {
		ok(t, syscall.Kill(os.Getppid(), syscall.SIGKILL)) // the daemon of the node
	}
	if slices.Contains(lost, c.Rank()) {
		select {} // it ends with its node
	}
	awaitDeaths(t, c, lost...)
	if err := c.Barrier(); !errors.Is(err, mpi.ErrDied) {
		t.Errorf("Barrier: %v, want %v", err, mpi.ErrDied)
	}
	for range 200 {
		ok(t, node.Barrier())
	}
	tryComm(t, node, 1)
	next := must(c.Shrink())(t)
	tryComm(t, next, 2)
	ok(t, next.Free())
	ok(t, node.Free())
	ok(t, w.Finalize())
}
