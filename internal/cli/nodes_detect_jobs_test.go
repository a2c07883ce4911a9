package cli

import (
	"syscall"
	"testing"
	"time"
)

// Two jobs on one interface do not hear of each other's losses.
func TestHeartbeatOfTwoJobs(t *testing.T) {
	t.Parallel()
	var jobs [2]*losses
	for i := range jobs {
		jobs[i] = startLosses(t, 4, "-v", "--recover", "--emulate", "2")
	}
	for i, f := range jobs {
		began := time.Now()
		check(t, syscall.Kill(f.daemons["node1"], syscall.SIGKILL))
		f.awaitLoss("node1", began)
		if other := jobs[1-i]; i == 0 {
			other.mu.Lock()
			if len(other.dead) > 0 {
				t.Errorf("PEs of the other job take for dead %v, want nobody", other.dead)
			}
			other.mu.Unlock()
		}
	}
	for _, f := range jobs {
		f.expect(3, "node node1 is lost with 2 PEs, 2 to 3: ", "heartbeat: ", "every 100ms")
	}
}
