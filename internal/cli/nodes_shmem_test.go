package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-shmem"] = testShmem
	}
}

// testShmem is a program of package shmem on several nodes: it makes one world after the other, and checks operations,
// locks and collectives among all PEs in each. With the argument die, its last PE kills itself in the first one.
func testShmem(args []string, stdout, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	die := len(args) > 0 && args[0] == "die"
	for round := range 3 {
		w, err := shmem.Init()
		if err == nil && die {
			err = liveOn(w.With(ctx), stdout)
		} else if err == nil {
			err = cooperate(w.With(ctx), round)
		}
		if err == nil {
			err = w.Finalize()
		}
		if err != nil {
			fmt.Fprintf(stderr, "world %d: %v\n", round, err)
			return 1
		}
		if die {
			return 0
		}
	}
	return 0
}

// cooperate works with all PEs.
func cooperate(w *shmem.World, round int) error {
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	x, err := shmem.Calloc[int64](w, 4*n)
	if err != nil {
		return err
	}
	for pe := range n {
		if err := errors.Join(shmem.P(c, x.At(me), int64(me+round), pe), shmem.AtomicAdd(c, x.At(n+me), 2, pe)); err != nil {
			return err
		}
	}
	if err := w.Barrier(); err != nil {
		return err
	}
	for pe := range n {
		if got := x.Local()[pe]; got != int64(pe+round) || x.Local()[n+pe] != 2 {
			return fmt.Errorf("PE %d has put %d and added %d here, want %d and 2", pe, got, x.Local()[n+pe], pe+round)
		}
	}
	if err := exclude(w, x.At(2*n)); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	back, err := w.Team().SplitStrided(n-1, -1, n, nil)
	if err != nil {
		return err
	}
	if err := shmem.Reduce(back, x.Slice(3*n, 4*n), x.Slice(0, n), shmem.Sum); err != nil {
		return err
	}
	for pe, got := range x.Local()[3*n:] {
		if want := int64(n * (pe + round)); got != want {
			return fmt.Errorf("the sum of element %d is %d, want %d", pe, got, want)
		}
	}
	if v, err := shmem.BroadcastValue(back, me, 0); err != nil || v != n-1 {
		return fmt.Errorf("value %d of number 0 of the reversed team, want %d, error %w", v, n-1, err)
	}
	if v, err := shmem.ReduceValue(w.Shared(), 1, shmem.Sum); err != nil || v != w.Shared().NPEs() {
		return fmt.Errorf("%d PEs on the node, want %d, error %w", v, w.Shared().NPEs(), err)
	}
	return errors.Join(back.Destroy(), shmem.Free(w, x))
}

// exclude counts in an element of PE 0 under a lock.
func exclude(w *shmem.World, count shmem.Sym[int64]) error {
	const rounds = 20
	c := w.Ctx()
	l, err := shmem.NewLock(w)
	if err != nil {
		return err
	}
	for range rounds {
		if _, err := l.Acquire(c); err != nil {
			return err
		}
		v, err := shmem.G(c, count, 0)
		if err == nil {
			err = shmem.P(c, count, v+1, 0)
		}
		if err = errors.Join(err, l.Release(c)); err != nil {
			return err
		}
	}
	if err := w.Barrier(); err != nil {
		return err
	}
	if v, err := shmem.G(c, count, 0); err != nil || v != int64(rounds*w.NPEs()) {
		return fmt.Errorf("counted %d, want %d, error %w", v, rounds*w.NPEs(), err)
	}
	return l.Free(w)
}

// liveOn goes on after the death of the last PE, which comes while the others wait for it.
func liveOn(w *shmem.World, stdout io.Writer) error {
	last := w.NPEs() - 1
	x, err := shmem.Calloc[int64](w, 1)
	if err == nil {
		err = shmem.AtomicInc(w.Ctx(), x, last)
	}
	if err != nil {
		return err
	}
	if w.MyPE() == last {
		if err := shmem.WaitUntil(w.Ctx(), x, shmem.EQ, int64(w.NPEs())); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := w.Barrier(); err != nil { // of those that live
		return err
	}
	if o := w.Team().Outcome(); !slices.Equal(o.Failed, []int{last}) {
		return fmt.Errorf("outcome of the barrier %v, want PE %d as failed", o, last)
	}
	for err == nil { // until this PE has the news, which its agent has already
		err = shmem.P(w.Ctx(), x, 1, last)
	}
	if dead, is := errors.AsType[*shmem.PEError](err); !is || !slices.Equal(dead.PEs, []int{last}) || !errors.Is(err, shmem.ErrPEDied) {
		return fmt.Errorf("put to PE %d, which is dead: %w", last, err)
	}
	for pe := range last {
		if err := shmem.AtomicInc(w.Ctx(), x, pe); err != nil {
			return err
		}
	}
	if err := w.Ctx().Quiet(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "PE %d goes on\n", w.MyPE())
	return nil
}

// Programs of package shmem run on several nodes: one world after the other, whatever the nodes' sizes are.
func TestShmemOnEmulatedNodes(t *testing.T) {
	t.Parallel()
	for _, x := range [][2]string{{"2", "2"}, {"2", "5"}, {"3", "3"}, {"4", "6"}} {
		start(t, "--emulate", x[0], "-n", x[1], "t-shmem").expect(0)
	}
}

// The PEs of all nodes learn of a death, and go on, however they are spread.
func TestShmemDeathOnEmulatedNodes(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"slot", "node"} {
		j := start(t, "--emulate", "2", "--recover", "-n", "4", "--map-by", by, "t-shmem", "die")
		j.expect(3)
		got := lines(j.stdout.String())
		slices.Sort(got)
		if want := []string{"PE 0 goes on", "PE 1 goes on", "PE 2 goes on"}; !slices.Equal(got, want) {
			t.Errorf("--map-by %s: output %q, want %q", by, got, want)
		}
	}
}
