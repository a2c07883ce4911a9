package job

import (
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// firstIncarnation is the incarnation of each PE at the start of its job.
const firstIncarnation = 1

// farIncarnations is the table of the far PEs' incarnations. It has an entry for each far PE that
// was replaced. It lies in the memory of this process, because a far PE has no segment here.
//
//   - Readers: any goroutine, by one load. They see a table that does not change any more.
//   - Writers: one at a time. A writer publishes a new table; an incarnation never gets smaller.
type farIncarnations struct {
	mu       sync.Mutex
	replaced atomic.Pointer[map[layout.PE]uint32] // nil: no far PE was replaced
}

// of returns the incarnation of a far PE.
func (f *farIncarnations) of(pe layout.PE) uint32 {
	if table := f.replaced.Load(); table != nil {
		if inc, is := (*table)[pe]; is {
			return inc
		}
	}
	return firstIncarnation
}

// raise notes the incarnation of a far PE. It ignores an incarnation that is not later than the known
// one, so that messages of two nodes may come in any order.
func (f *farIncarnations) raise(pe layout.PE, inc uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if inc <= f.of(pe) {
		return
	}
	table := map[layout.PE]uint32{pe: inc}
	if old := f.replaced.Load(); old != nil {
		for other, known := range *old {
			if other != pe {
				table[other] = known
			}
		}
	}
	f.replaced.Store(&table)
}

// Incarnation returns the incarnation of a PE of the job. Deaths of earlier incarnations are not
// deaths of the present one.
//
//   - Cost: one load of the PE's segment if it is near. Of a far PE, one load of private memory.
//   - Concurrent calls: allowed.
func (j *Job) Incarnation(pe layout.PE) uint32 {
	if i, near := j.Place.Local(pe); near {
		return j.Map.Control(i).Header.Incarnation
	}
	return j.far.of(pe)
}

// IsDead reports whether the failure page tells of the death of a PE's present incarnation. It reads no
// segment before the first death of the job.
func (j *Job) IsDead(pe layout.PE) bool {
	return j.Failures.Epoch() != 0 && j.Failures.Dead(int(pe), j.Incarnation(pe))
}
