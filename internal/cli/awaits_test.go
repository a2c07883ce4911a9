package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-awaits"] = testAwaits
	}
}

// testAwaits is a program whose PEs wait forever for known PEs: for the lock, which PE 1 has after PE 0, or for a
// message from the next PE.
func testAwaits(args []string, stdout, stderr io.Writer) int {
	var err error
	if args[0] == "lock" {
		err = awaitLock(stdout)
	} else {
		err = awaitMessage(stdout)
	}
	fmt.Fprintln(stderr, err)
	return 1
}

func awaitLock(stdout io.Writer) error {
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	lock, err := shmem.NewLock(w)
	if err != nil {
		return err
	}
	turn, err := shmem.Calloc[int64](w, 1)
	if err != nil {
		return err
	}
	for pe := range 2 { // one PE after the other; PE 1 keeps the lock
		if w.MyPE() == pe {
			_, err = lock.Acquire(w.Ctx())
		}
		if err == nil && w.MyPE() == pe && pe == 0 {
			err = lock.Release(w.Ctx())
		}
		if err == nil {
			err = w.Barrier()
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	if w.MyPE() == 1 {
		return shmem.WaitUntil(w.Ctx(), turn, shmem.EQ, 1)
	}
	_, err = lock.Acquire(w.Ctx())
	return err
}

func awaitMessage(stdout io.Writer) error {
	w, err := mpi.Init()
	if err != nil {
		return err
	}
	c := w.Comm()
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	_, err = mpi.Recv(c, make([]int64, 1), (c.Rank()+1)%c.Size(), 0)
	return err
}
