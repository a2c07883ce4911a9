package daemon

import (
	"runtime"

	"github.com/goshmem/goshmem/internal/envvar"
)

// giveWay returns the variable that lets ranks of Open MPI yield while they
// wait, if there are more PEs than processors and env does not say otherwise.
// They poll, and at 32 ranks on 2 cores without it take four times as long.
func (s *Step) giveWay(env []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, j := range s.jobs {
		running += j.left
	}
	if running <= runtime.NumCPU() || isSet(env, envvar.Oversubscribe) {
		return nil
	}
	return []string{envvar.Oversubscribe + "=1"}
}
