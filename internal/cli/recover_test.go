package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// waiter is a shell script that ends once a file exists.
const waiter = `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done; `

// A killed PE is reported at once, and again at the end. The other PEs go on.
func TestRecover(t *testing.T) {
	gate := t.TempDir() + "/gate"
	j := start(t, "-n", "4", "--recover", "sh", "-c", waiter+`[ $PMIX_RANK != 2 ] || exit 7`, gate)
	pid := j.ready(4)[0]
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	dead := fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL) after ", pid)
	<-j.stderr.says(dead)
	<-j.stderr.says("; 3 PEs go on\n")
	check(t, os.WriteFile(gate, nil, 0o600))
	status, said := j.ended(testPatience)
	if rank2 := fmt.Sprintf("PE 2 (pid %d)", pid); strings.Contains(said, rank2) {
		j.check(status, said, 3, []string{"1 of 4 PEs failed:\noshrun:   PE 2", dead})
		return
	}
	j.check(status, said, 3, []string{"2 of 4 PEs failed:\noshrun:   PE ", ": ", dead, "exited with status 7"})
}

// If no PE finishes, the first failure determines the status.
func TestRecoverNobody(t *testing.T) {
	j := start(t, "-n", "2", "--recover", "sh", "-c", `echo "ready $$"; sleep 1000`)
	pids := j.ready(2)
	check(t, syscall.Kill(pids[1], syscall.SIGUSR1))
	<-j.stderr.says("; 1 PE goes on")
	check(t, syscall.Kill(pids[0], syscall.SIGKILL))
	j.expect(128+int(syscall.SIGUSR1), "2 of 2 PEs failed:")
}

// With --recover, everything else that ends a job still does.
func TestRecoverEnds(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "--recover", "t-pe", "globalexit", "7")
	j.expect(7, "PE 2 (pid", "ended the job with status 7")
	j = start(t, "-n", "2", "--recover", "--timeout", "0.5", "t-pe", "wait")
	j.expect(124, "is over")
	j = start(t, "-n", "2", "--recover", "t-pe", "ok")
	j.expect(0)
	j = start(t, "-n", "2", "--recover", "t-pe", "spin") // waiting PEs would end with the other's death, and so would the job
	check(t, syscall.Kill(j.ready(2)[0], syscall.SIGKILL))
	<-j.stderr.says("; 1 PE goes on")
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// A lost program counts as one failure, even if its process goes on.
func TestRecoverLost(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/gate"
	j := start(t, "-n", "2", "--recover", "sh", "-c", `"$0" pe t-pe wait; while [ ! -e "$1" ]; do sleep 0.02; done`, self(t), gate)
	killTogether(t, j.ready(2))
	<-j.stderr.says("PE 0 (pid")
	<-j.stderr.says("PE 1 (pid")
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(1, "2 of 2 PEs failed:", "lost its program")
}
