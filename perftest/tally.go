package perftest

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

// tally adds up over all PEs what each has counted: wrong bytes, or an error of PE 0. So all PEs
// come to the same end.
type tally struct {
	w      *shmem.World
	counts shmem.Sym[int64] // element 0 is this PE's count, element 1 the sum of all
}

// newTally makes a tally. All PEs call it.
func newTally(w *shmem.World) (tally, error) {
	counts, err := shmem.Calloc[int64](w, 2)
	return tally{w, counts}, err
}

// free frees the tally's memory. All PEs call it.
func (a *tally) free() error { return shmem.Free(a.w, a.counts) }

// sum returns the sum of what all PEs have counted, and resets the counts.
func (a *tally) sum(count int64) (int64, error) {
	a.counts.Local()[0] = count
	err := shmem.Reduce(a.w.Team(), a.counts.At(1), a.counts.At(0), shmem.Sum)
	return a.counts.Local()[1], err
}

// shareError makes an error of PE 0 known to all PEs.
func (a *tally) shareError(err error) error {
	count := int64(0)
	if a.w.MyPE() == 0 && err != nil {
		count = 1
	}
	n, sumErr := a.sum(count)
	switch {
	case sumErr != nil:
		return sumErr
	case n == 0:
		return nil
	case err == nil:
		err = errors.New("PE 0 failed")
	}
	return &knownError{err}
}

// checkWrong returns an error on all PEs if any of them has found wrong bytes in messages of a size.
func (a *tally) checkWrong(bytes, wrong int) error {
	n, err := a.sum(int64(wrong))
	if err != nil {
		return err
	}
	if n > 0 {
		return &knownError{fmt.Errorf("wrong data: %d bytes of messages of %d bytes are not what was sent", n, bytes)}
	}
	return nil
}
