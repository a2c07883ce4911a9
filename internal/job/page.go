package job

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/failure"
)

// page is what Page returns.
var page atomic.Pointer[failure.View]

// Page returns the failure page of the job that this process has joined, nil
// before that and where there is none. It is for programs that measure: the times
// in it are no part of what shmem tells.
func Page() *failure.View { return page.Load() }
