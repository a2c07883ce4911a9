package job

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/failure"
)

// page is what Page returns.
var page atomic.Pointer[failure.View]

// Page returns the failure page of the job that this process has joined; nil before
// that, and if the job has none. It is for programs that measure: shmem does not
// expose the times in the page.
func Page() *failure.View { return page.Load() }
