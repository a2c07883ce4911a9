package daemon

import (
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/symheap"
)

// job is a namespace: PEs that are numbered from 0 and share heaps. The step's
// mutex guards what changes.
type job struct {
	number int
	key    [16]byte // in the headers of its segments
	nspace string
	apps   []App
	procs  []*proc // by PE; nil before its start
	left   int     // processes that have not ended, or never will
	failed bool    // it could not be started: nobody is told of its ends

	crowded   bool   // there were more PEs than processors when it began; does not change
	yieldless []bool // by app: its waits never yield the processor; set before the first start

	lending sync.RWMutex // held while heaps are handed out
	heaps   []*os.File

	pageFD   int              // of page; valid while there are heaps
	page     *failure.Page    // of its failures; nil when it is over
	vitals   []symheap.Vitals // by PE
	failures int              // that stand on it
	stirred  bool             // there is something on the page that callbacks have not been told of
}

// npes returns how many PEs the job has.
func (j *job) npes() int { return len(j.procs) }

// app returns the number of the program that a PE runs.
func (j *job) app(pe int) int {
	for i := range j.apps {
		if pe -= j.apps[i].NPEs; pe < 0 {
			return i
		}
	}
	return len(j.apps) - 1
}

// started returns the processes that were started.
func (j *job) started() (all []*proc) {
	for _, p := range j.procs {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// newJob returns a job that no one knows of yet.
func newJob(apps []App) *job {
	n := 0
	for i := range apps {
		n += apps[i].NPEs
	}
	j := &job{apps: apps, procs: make([]*proc, n), left: n}
	_, _ = rand.Read(j.key[:]) // never fails
	return j
}

// enlist gives a job its number and its name. The caller holds the lock.
func (s *Step) enlist(j *job) {
	j.number, j.nspace = s.lastJob, wire.JobName(s.name, s.lastJob)
	s.lastJob++
	j.crowded = s.crowds(j)
	s.jobs[j.number] = j
}

// makeHeaps makes the segments of a job's PEs, and the page of their failures.
func (j *job) makeHeaps(size uint64) error {
	for pe := range j.npes() {
		f, err := symheap.Create(symheap.Identity{
			Job: j.key, PE: uint32(pe), NPEs: uint32(j.npes()), Incarnation: 1,
		}, size)
		if err != nil {
			return err
		}
		j.heaps = append(j.heaps, f)
	}
	return j.makePage()
}

// closeHeaps frees the segments.
func (j *job) closeHeaps() error {
	j.lending.Lock()
	defer j.lending.Unlock()
	var errs []error
	for _, f := range j.heaps {
		errs = append(errs, f.Close())
	}
	j.heaps = nil
	return errors.Join(errs...)
}

// jobOf returns the job with a namespace, nil if there is none.
func (s *Step) jobOf(nspace string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobNamed(nspace)
}

// jobNamed is jobOf for a caller who holds the lock.
func (s *Step) jobNamed(nspace string) *job {
	if j := s.jobs[wire.JobNumber(nspace)]; j != nil && j.nspace == nspace {
		return j
	}
	return nil
}

// allJobs returns the jobs in order. The caller holds the lock.
func (s *Step) allJobs() (all []*job) {
	for _, number := range slices.Sorted(maps.Keys(s.jobs)) {
		all = append(all, s.jobs[number])
	}
	return all
}

// started returns all processes that were started, in order. The caller holds
// the lock.
func (s *Step) started() (all []*proc) {
	for _, j := range s.allJobs() {
		all = append(all, j.started()...)
	}
	return all
}

// ended notes that one more process of a job has ended. A spawned job that has
// none left is over: nothing of it is kept. The caller holds the lock.
func (s *Step) ended(j *job) {
	if j.left--; j.left == 0 && j.number > 0 && !j.failed {
		s.retiring.Go(func() { s.retire(j) })
	}
}

// retire frees what a spawned job had, and ends what its processes have left in
// their groups. It is known until its output has been passed on.
func (s *Step) retire(j *job) {
	s.pmix.RemoveJob(j.nspace)
	s.pmi.RemoveJob(j.nspace)
	for _, p := range j.started() {
		p.release()
	}
	if err := errors.Join(j.closeHeaps(), s.freePage(j)); err != nil {
		s.cfg.Logger.Error().Err(err).Str("nspace", j.nspace).Msg("close segments")
	}
	for _, p := range j.started() {
		p.outputs.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, j.number)
	for _, p := range j.started() {
		delete(s.tags, p.tag)
	}
}
