package mpi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A node of parents and children is lost. All ranks there are dead for those of both jobs elsewhere, which shrink and go on.
func TestSpawnKillNode(t *testing.T) {
	const parents, children = 4, 4
	both := func(t *testing.T, x *mpi.Intercomm, high bool) {
		m := must(x.Merge(high))(t)
		here := must(m.SplitType(mpi.Shared, m.Rank()))(t)
		all := make([]int, m.Size()) // by rank: the lowest rank of its node
		first := []int{m.Rank()}
		ok(t, mpi.Bcast(here, first, 0))
		ok(t, mpi.Allgather(m, all, first))
		var lost []int
		for rank, of := range all {
			if of == all[parents-1] {
				lost = append(lost, rank)
			}
		}
		if len(lost) == m.Size() || slices.Max(lost) < parents || slices.Min(lost) >= parents {
			t.Errorf("ranks %v of %d are on the last node, want parents and children there, and others elsewhere", lost, m.Size())
		}
		if m.Rank() != parents-1 {
			ok(t, mpi.Send(m, []int{0}, parents-1, 2))
		} else {
			for range m.Size() - 1 { // nobody is in a collective any more
				must(mpi.Recv(m, []int{0}, mpi.AnySource, 2))(t)
			}
			ok(t, syscall.Kill(os.Getppid(), syscall.SIGKILL)) // the daemon of the node
		}
		if slices.Contains(lost, m.Rank()) {
			select {} // it ends with its node
		}
		_, err := mpi.Recv(m, make([]int, 1), lost[len(lost)-1], 1)
		if !errors.Is(err, mpi.ErrDied) || !strings.Contains(err.Error(), "node 1 (node1), which is lost") {
			t.Errorf("Recv: %v, want %v, and the node", err, mpi.ErrDied)
		}
		awaitDeaths(t, m, lost...)
		if err := m.Barrier(); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Barrier: %v, want %v", err, mpi.ErrDied)
		}
		next := must(m.Shrink())(t)
		tryComm(t, next, 2)
		ok(t, next.Free())
		ok(t, here.Free())
		ok(t, m.Free())
		ok(t, x.Free())
	}
	runSpawn(t, parents, func(t *testing.T, c *mpi.Comm) {
		both(t, must(mpi.Spawn(c, self(t), children, 0))(t), false)
	}, func(t *testing.T, w *mpi.World) {
		both(t, w.Parent(), true)
	}, shmemtest.Nodes(2), shmemtest.Recover(2, 3), hangTimeout)
}

// Children receive messages from the symmetric memory of parents on both nodes, and parents receive into it.
func TestSpawnSymmetric(t *testing.T) {
	const n, children, long = 2, 2, 1 << 20
	runSpawn(t, n, func(t *testing.T, c *mpi.Comm) {
		w := must(shmem.Init())(t)
		buf := must(shmem.Alloc[byte](w, long))(t).Local()
		x := must(mpi.Spawn(c, self(t), children, 1))(t)
		for rank := range children {
			copy(buf, message(long, c.Rank()))
			ok(t, mpi.Send(x.Remote(), buf, rank, 1))
			must(mpi.Recv(x.Remote(), buf, rank, 2))(t)
			checkMessage(t, buf, rank)
		}
		ok(t, x.Free())
		ok(t, w.Finalize())
	}, func(t *testing.T, w *mpi.World) {
		x, in := w.Parent(), make([]byte, long)
		if _, err := shmem.Init(); err == nil {
			t.Error("shmem.Init has succeeded in a spawned job on two nodes")
		}
		for rank := range n {
			must(mpi.Recv(x.Remote(), in, rank, 1))(t)
			checkMessage(t, in, rank)
			ok(t, mpi.Send(x.Remote(), message(long, w.Comm().Rank()), rank, 2))
		}
		ok(t, x.Free())
	}, shmemtest.HeapSize(8<<20), shmemtest.Nodes(2), hangTimeout)
}

// Finalize does not wait for a process of another job on another node that takes nothing. More is sent to it than its inbox and the agents have room for.
func TestSpawnTakesNothing(t *testing.T) {
	const over = "TEST_SPAWN_TAKES_NOTHING" // a pipe, by which the child hears that the parents have finalized
	runBare(t, 2, func(t *testing.T) {
		w := must(mpi.Init())(t)
		if w.Parent() != nil {
			must(os.ReadFile(os.Getenv(over)))(t)
			ok(t, w.Finalize())
			return
		}
		c, cmd, path := w.Comm(), self(t), filepath.Join(t.TempDir(), "over")
		if c.Rank() == 0 {
			ok(t, syscall.Mkfifo(path, 0o600))
			cmd.Hosts, cmd.Env = "node1", []string{over + "=" + path}
		}
		x := must(mpi.Spawn(c, cmd, 1, 0))(t)
		if c.Rank() == 0 {
			for range 20000 {
				must(mpi.Isend(x.Remote(), message(4000, 0), 0, 1))(t)
			}
		}
		err := w.Finalize()
		if c.Rank() == 0 {
			ok(t, os.WriteFile(path, nil, 0))
		}
		ok(t, err)
	}, shmemtest.Nodes(2), hangTimeout)
}

// Command.Hosts says on which node processes run. Those of two programs on one node each are one job, and so are those of a single node.
func TestSpawnHosts(t *testing.T) {
	const parents = 2
	for _, hosts := range [][]string{{"node1"}, {"node0"}, {"node1", "node0"}} {
		runSpawn(t, parents, func(t *testing.T, c *mpi.Comm) {
			cmds, counts := make([]mpi.Command, len(hosts)), make([]int, len(hosts))
			for i, host := range hosts {
				cmds[i], counts[i] = self(t), 2
				cmds[i].Hosts = host
			}
			x := must(mpi.SpawnMultiple(c, cmds, counts, 0))(t)
			m := must(x.Merge(false))(t)
			here := must(m.SplitType(mpi.Shared, m.Rank()))(t)
			want := 1 // this process is on its node alone, but for those
			for _, host := range hosts {
				if host == fmt.Sprintf("node%d", c.Rank()) {
					want += 2
				}
			}
			if here.Size() != want {
				t.Errorf("%d ranks on node %d with processes on %v, want %d", here.Size(), c.Rank(), hosts, want)
			}
			ok(t, here.Free())
			ok(t, m.Free())
			meetOtherJob(t, x, false)
		}, func(t *testing.T, w *mpi.World) {
			if here := must(w.Comm().SplitType(mpi.Shared, 0))(t); here.Size() == w.Comm().Size() {
				sw := must(shmem.Init())(t) // its symmetric memory is that of a job of one node
				ok(t, sw.Team().Sync())
				ok(t, sw.Finalize())
			}
			m := must(w.Parent().Merge(true))(t)
			ok(t, must(m.SplitType(mpi.Shared, m.Rank()))(t).Free())
			ok(t, m.Free())
			meetOtherJob(t, w.Parent(), true)
		}, shmemtest.Nodes(2), hangTimeout)
	}
	runSpawn(t, parents, func(t *testing.T, c *mpi.Comm) {
		cmd := self(t)
		cmd.Hosts = "elsewhere"
		if _, err := mpi.Spawn(c, cmd, 1, 0); !errors.Is(err, mpi.ErrSpawn) {
			t.Errorf("Spawn on a host that the job does not have: %v, want %v", err, mpi.ErrSpawn)
		}
		tryComm(t, c, 1)
	}, func(t *testing.T, _ *mpi.World) { t.Error("a child was started") }, shmemtest.Nodes(2), hangTimeout)
}
