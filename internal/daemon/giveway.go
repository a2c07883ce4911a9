package daemon

import (
	"runtime"

	"github.com/goshmem/goshmem/internal/envvar"
)

// crowds says whether there are more PEs than processors with a job's. It is asked
// once, when the job gets its name, because all its PEs must be told the same: the
// first may have ended before the last is started. The caller holds the lock.
func (s *Step) crowds(j *job) bool {
	running := j.npes()
	for _, other := range s.jobs {
		running += other.left
	}
	return running > runtime.NumCPU()
}

// giveWay returns the variable that lets ranks of Open MPI yield while they
// wait, if there are more PEs than processors and env does not say otherwise.
// They poll, and at 32 ranks on 2 cores without it take four times as long.
func (j *job) giveWay(env []string) []string {
	if !j.crowded || isSet(env, envvar.Oversubscribe) {
		return nil
	}
	return []string{envvar.Oversubscribe + "=1"}
}

// avoidCrash returns the variable without which OpenSHMEM programs of Debian 12's
// Open MPI (4.1.4) end by SIGSEGV in shmem_finalize, under any launcher: UCX then
// watches memory by its own hooks, not by Open MPI's. A value in env wins.
func avoidCrash(env []string) []string {
	if isSet(env, envvar.MemHooks) {
		return nil
	}
	return []string{envvar.MemHooks + "=0"}
}
