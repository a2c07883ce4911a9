package daemon

import (
	"crypto/rand"
	"os"
	"strconv"

	"github.com/goshmem/goshmem/symheap"
)

// job is a namespace: PEs that are numbered from 0 and share heaps.
type job struct {
	number int
	key    [16]byte // in the headers of its segments
	nspace string
	apps   []App
	heaps  []*os.File
	procs  []*proc // by PE; nil before its start; guarded by the step's mutex
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

// addJob makes a further job and the segments of its PEs.
func (s *Step) addJob(apps []App) (*job, error) {
	n := 0
	for i := range apps {
		n += apps[i].NPEs
	}
	j := &job{apps: apps, procs: make([]*proc, n)}
	_, _ = rand.Read(j.key[:]) // never fails
	s.mu.Lock()
	j.number, j.nspace = len(s.jobs), s.name
	if j.number > 0 {
		j.nspace += "-" + strconv.Itoa(j.number)
	}
	s.jobs = append(s.jobs, j)
	s.mu.Unlock()
	for pe := range n {
		f, err := symheap.Create(symheap.Identity{
			Job: j.key, PE: uint32(pe), NPEs: uint32(n), Incarnation: 1,
		}, s.cfg.HeapSize)
		if err != nil {
			return nil, err
		}
		j.heaps = append(j.heaps, f)
	}
	return j, nil
}

// jobOf returns the job with a namespace, nil if there is none.
func (s *Step) jobOf(nspace string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.nspace == nspace {
			return j
		}
	}
	return nil
}
