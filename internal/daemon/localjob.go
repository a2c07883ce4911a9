package daemon

import (
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/envvar"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// localJob is a namespace with PEs on this node. Its PEs are numbered from 0; those of this node share heaps. The lock of
// the table guards what changes; what has no comment on that does not change once the job is in the table.
type localJob struct {
	number int
	key    [16]byte // in the headers of its segments
	nspace string
	apps   []App
	share  *Share // what is known of other nodes; nil or zero: all PEs are on this one
	near   []int  // the PEs of this node, in ascending order
	bases  []int  // of a spawned job: see FurtherJob.Bases
	memory jobMemory
	// everyone returns the names of all PEs on all nodes, in one list for all callers, who only read it.
	everyone func() []pmix.Proc

	// crowded says that there were more PEs on this machine than processors when the job began.
	crowded bool
	// yieldless says by app whether its waits never yield the processor. It is set before the first start.
	yieldless []bool

	procs    []*localPE // by PE; nil before its start, and if it is far; changes
	left     int        // processes that have not ended, or never will; changes
	failed   bool       // the job could not be started: nobody is told of its ends; changes
	failures int        // how many stand on its page; changes
	alertDue bool       // the page has a failure of which callbacks have not been told; changes

	farFailed map[int]bool // PEs of other nodes whose failure is known here; changes
	ended     bool         // a spawned job of several nodes that the root has ended here; changes
}

// newLocalJob returns a job that no table has yet. Without a share it is of this node alone.
func newLocalJob(apps []App, share *Share) *localJob {
	n := 0
	for i := range apps {
		n += apps[i].NPEs
	}
	near := nearPEs(n, share)
	j := &localJob{apps: apps, share: share, near: near, procs: make([]*localPE, n), left: len(near), farFailed: map[int]bool{}}
	j.everyone = sync.OnceValue(func() []pmix.Proc {
		all := make([]pmix.Proc, n)
		for pe := range all {
			all[pe] = pmix.Proc{Nspace: j.nspace, Rank: pmix.Rank(pe)}
		}
		return all
	})
	if share.isGiven() {
		j.key = share.Key
	} else {
		_, _ = rand.Read(j.key[:]) // never fails
	}
	return j
}

// npes returns how many PEs the job has on all nodes.
func (j *localJob) npes() int { return len(j.procs) }

// pe returns a PE, nil if there is none or it was not started. The caller holds the lock of the table. A nil job has no PE.
func (j *localJob) pe(number int) *localPE {
	if j == nil || number < 0 || number >= len(j.procs) {
		return nil
	}
	return j.procs[number]
}

// appOf returns the number of the program that a PE runs.
func (j *localJob) appOf(pe int) int {
	for i := range j.apps {
		if pe -= j.apps[i].NPEs; pe < 0 {
			return i
		}
	}
	return len(j.apps) - 1
}

// started returns the PEs that were started. The caller holds the lock of the table.
func (j *localJob) started() (all []*localPE) {
	for _, p := range j.procs {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// coveredBy says whether PEs of this node, and others of other nodes, are all of the job that are not known to have
// ended. The caller holds the lock of the table.
func (j *localJob) coveredBy(pes []*localPE, far []ID) bool {
	if j.share.spans() {
		left := j.npes() - len(j.near) - len(j.farFailed)
		for _, id := range far {
			if id.Job == j.number && !j.farFailed[id.PE] {
				left--
			}
		}
		if left > 0 {
			return false
		}
	}
	among := map[*localPE]bool{}
	for _, p := range pes {
		among[p] = true
	}
	for _, p := range j.procs {
		if p != nil && !p.life.Ended() && !p.life.Failed() && !among[p] {
			return false
		}
	}
	return true
}

// isOver says that the job could not be started or is over: nobody is told of failures. The caller holds the lock of the
// table.
func (j *localJob) isOver() bool { return j.failed || !j.memory.exists() }

// checkPE says whether the job has a PE and a first segment with these numbers.
func (j *localJob) checkPE(pe, first uint32) error {
	if int64(pe) >= int64(j.npes()) || int64(first) >= int64(len(j.near)) {
		return fmt.Errorf("PE %d and first segment %d, want below %d and %d", pe, first, j.npes(), len(j.near))
	}
	return nil
}

// yieldVariable returns the variable that lets ranks of Open MPI yield while they
// wait, if there are more PEs than processors and env does not say otherwise.
// They poll, and at 32 ranks on 2 cores without it take four times as long.
func (j *localJob) yieldVariable(env []string) []string {
	if !j.crowded || isSet(env, envvar.Oversubscribe) {
		return nil
	}
	return []string{envvar.Oversubscribe + "=1"}
}
