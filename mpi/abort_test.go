package mpi_test

import (
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Abort of one rank ends the job with its status, whatever the others do.
func TestAbort(t *testing.T) {
	const status = 7
	runBare(t, 3, func(t *testing.T) {
		w := must(mpi.Init())(t)
		if w.Comm().Rank() == 1 {
			w.Abort(status)
			t.Error("Abort has returned")
		}
		_, _ = mpi.Recv(w.Comm(), make([]int, 1), 1, 1)
		time.Sleep(time.Hour)
	}, shmemtest.Status(status))
}
