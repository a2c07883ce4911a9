package launch

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/daemon"
)

// printDebug says how to attach a debugger to each PE that waits for one.
func (o *Options) printDebug(cluster *Cluster, out *printer) {
	for _, pe := range o.Debug {
		id := daemon.ID{PE: pe}
		pid := cluster.PID(id)
		out.message("PE %d (pid %d) waits for a debugger: %s; without one it goes on by: kill -CONT %d",
			pe, pid, attachCommand(pid, cluster.HasGo(id)), pid)
	}
}

// attachCommand returns the command that attaches a debugger to a process. gdb would stop at the SIGCONT that lets the
// process go on; dlv passes it on.
func attachCommand(pid int, isGo bool) string {
	if isGo {
		return fmt.Sprintf("dlv attach %d", pid)
	}
	return fmt.Sprintf("gdb -p %d -ex 'handle SIGCONT nostop noprint'", pid)
}
