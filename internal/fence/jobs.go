package fence

import (
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/server"
)

// A set of processes of a job that is over has no fence any more. But other nodes may still need this node's machine of the
// set, for the end of its last fence: the set of a disconnect also has processes that go on. So a set stays for some
// generations of jobs. A generation ends with a job that was added in it. The front end waits for all nodes before a job
// that it adds can start, let alone end. So in each generation all nodes have said something, behind all that they had said
// before. A message of the end of a fence that goes from node to node needs one generation for each hop at most.

// keptGenerations is for how many generations sets of a job that is over stay. The tree of 1,000 nodes has a depth of 5.
const keptGenerations = 16

// jobs are the jobs that have come and gone.
type jobs struct {
	generation uint64
	added      map[string]uint64 // generation in which a job was added, by namespace
	over       []overJob         // jobs that are over and may have sets, the oldest first
}

// overJob is a job that is over, and the generation in which it, or its latest set, was seen last.
type overJob struct {
	nspace     string
	generation uint64
}

// JobAdded notes that a job has come. It comes before all fences of the job.
func (f *Fences) JobAdded(nspace string) { f.jobs.added[nspace] = f.jobs.generation }

// JobOver notes that a job is over: all its processes have ended, on all nodes. Its sets go some generations later.
func (f *Fences) JobOver(nspace string) {
	j := &f.jobs
	added, known := j.added[nspace]
	if !known {
		return
	}
	delete(j.added, nspace)
	if added == j.generation {
		j.generation++
	}
	j.over = append(j.over, overJob{nspace, j.generation})
	for len(j.over) > 0 && j.over[0].generation+keptGenerations <= j.generation {
		old := j.over[0]
		j.over = slices.Delete(j.over, 0, 1)
		if left := f.dropSets(old.nspace); left {
			j.over = append(j.over, overJob{old.nspace, j.generation})
		}
	}
}

// dropSets drops the sets with processes of a job, and reports whether one is left because its last fence has not ended here.
func (f *Fences) dropSets(nspace string) (left bool) {
	for id, s := range f.sets {
		switch {
		case !concerns(id, nspace):
		case s.isIdle():
			delete(f.sets, id)
		default:
			left = true
		}
	}
	for id := range f.unplaced {
		if concerns(id.FenceSet, nspace) {
			delete(f.unplaced, id)
		}
	}
	return left
}

// isIdle reports whether no fence of the set is under way, as far as this node knows.
func (s *set) isIdle() bool {
	return s.handed == s.returned && s.entered == s.returned && len(s.calls) == 0 && len(s.queue) == 0
}

// concerns reports whether processes of a namespace are in a set.
func concerns(id server.FenceSet, nspace string) bool {
	for of := range strings.SplitSeq(id.Procs, ";") {
		if strings.HasPrefix(of, nspace+":") {
			return true
		}
	}
	return false
}
