package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-teams"] = testTeams
	}
}

// testTeams splits the team of all PEs in many ways, and that of the near PEs, and works in each team by contexts of it.
func testTeams(_ []string, _, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	w, err := shmem.Init()
	if err == nil {
		err = splitAll(w.With(ctx))
	}
	if err == nil {
		err = w.Finalize()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// splitAll is testTeams in a world.
func splitAll(w *shmem.World) error {
	x, err := shmem.Calloc[int64](w, 4*w.NPEs())
	if err != nil {
		return err
	}
	n := w.NPEs()
	for _, parent := range []*shmem.Team{w.Team(), w.Shared()} {
		all := parent.NPEs()
		for _, split := range [][3]int{{0, 1, all}, {all - 1, -1, all}, {0, 2, (all + 1) / 2}, {1 % all, 2, max(1, all/2)}, {all / 2, 1, all - all/2}, {0, 3, (all + 2) / 3}} {
			t, err := parent.SplitStrided(split[0], split[1], split[2], nil)
			if err == nil && t != nil {
				if err = workIn(t, w, x); err == nil {
					err = t.Destroy()
				}
			}
			if err != nil {
				return fmt.Errorf("team %v of %d of %d PEs: %w", split, all, n, err)
			}
		}
		row, column, err := parent.Split2D(2, nil, nil)
		if err == nil {
			err = errors.Join(workIn(row, w, x), workIn(column, w, x))
		}
		if err = errors.Join(err, row.Destroy(), column.Destroy()); err != nil {
			return fmt.Errorf("rows and columns of %d of %d PEs: %w", all, n, err)
		}
	}
	return shmem.Free(w, x)
}

// workIn has each member put to, add to and get from all members, by two contexts of the team, and checks what they have done
// here. The words of x are for puts, for sums, for results, and for sources.
func workIn(t *shmem.Team, w *shmem.World, x shmem.Sym[int64]) error {
	n, me := t.NPEs(), t.MyPE()
	each := x.Len() / 4
	clear(x.Local())
	if err := t.Sync(); err != nil {
		return err
	}
	c, err := t.NewCtx()
	if err != nil {
		return err
	}
	d, err := t.NewCtx()
	if err != nil {
		return err
	}
	for i := range n {
		if world, is := t.Translate(i, w.Team()); !is || i == me && world != w.MyPE() {
			return fmt.Errorf("number %d is PE %d of the world", i, world)
		}
		err := shmem.P(c, x.At(me), int64(100*me+i), i)
		if err == nil {
			_, err = shmem.AtomicFetchAdd(d, x.At(each), int64(me+1), i)
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(c.Quiet(), d.Quiet(), t.Sync()); err != nil {
		return err
	}
	if got, want := x.Local()[each], int64(n*(n+1)/2); got != want {
		return fmt.Errorf("number %d has the sum %d, want %d", me, got, want)
	}
	for i := range n {
		here := x.Local()[i]
		there, err := shmem.G(d, x.At(me), i)
		if err != nil || here != int64(100*i+me) || there != int64(100*me+i) {
			return fmt.Errorf("number %d has %d of number %d, and %d there, error %w", me, here, i, there, err)
		}
	}
	x.Local()[3*each] = int64(me)
	if err := shmem.FCollect(t, x.Slice(2*each, 2*each+n), x.Slice(3*each, 3*each+1)); err != nil {
		return err
	}
	for i, got := range x.Local()[2*each : 2*each+n] {
		if got != int64(i) {
			return fmt.Errorf("number %d has collected %d of number %d", me, got, i)
		}
	}
	return errors.Join(c.Destroy(), d.Destroy(), t.Sync())
}

// scattered is options by which the PEs of some node do not have consecutive numbers.
var scattered = map[string][]string{
	"cyclic, 5 on 2": {"--emulate", "2", "-n", "5", "--map-by", "node"},
	"cyclic, 7 on 3": {"--emulate", "3", "-n", "7", "--map-by", "node"},
	"by rank":        {"--emulate", "2", "-n", "6", "--rank-by", "node"},
	"full hosts":     {"--launch", "local", "--host", "a:1,b:4,c:2", "-n", "7", "--map-by", "node"}, // a has PE 0, c PEs 2 and 4
	"in sequence":    {"--launch", "local", "--host", "b,a,a,b,c,a", "--map-by", "seq"},
}

// Programs of package shmem run however their PEs are spread over the nodes: operations, locks, collectives, teams and their
// contexts are right.
func TestShmemScattered(t *testing.T) {
	t.Parallel()
	programs := []string{"t-teams", "t-shmem", "t-far"}
	if testing.Short() {
		programs = programs[:1]
	}
	for name, args := range scattered {
		t.Run(name, func(t *testing.T) {
			for _, program := range programs {
				start(t, append(slices.Clone(args), program)...).expect(0)
			}
		})
	}
	t.Run("programs", func(t *testing.T) { // each with hosts of its own
		start(t, "--launch", "local", "--host", "b:2", "-n", "1", "t-teams", ":", "--host", "a:2", "-n", "2", "t-teams", ":",
			"--host", "b:2", "-n", "1", "t-teams").expect(0)
	})
	t.Run("blocks", func(t *testing.T) {
		start(t, "--emulate", "2", "-n", "5", "t-teams").expect(0)
	})
}

// Spawned jobs have no agents: Init of a program of shmem that was spawned on several nodes says so. On one node it works, also if
// that is not the node of its parent, and while the first job has agents.
func TestShmemSpawned(t *testing.T) {
	t.Parallel()
	parent, child := spawner(t), []string{self(t), "pe", "t-shmem"}
	for name, x := range map[string]struct {
		flags  []string
		status int
		words  []string
	}{
		"one node": {[]string{"--host", "a:1,b:4", "-n", "1", parent, "3"}, 0, nil},
		"two nodes": {
			[]string{"--host", "a:2,b:2", "--map-by", "node", "-n", "2", parent, "2"},
			1,
			[]string{"world 0: shmem.Init: ", "the job was spawned, and has PEs on 2 nodes: such a job has no symmetric memory and no teams"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, slices.Concat([]string{"--launch", "local"}, x.flags, child)...).expect(x.status, x.words...)
		})
	}
}
