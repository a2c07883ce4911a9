package launch

import (
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
)

// printDebug says how to attach a debugger to each PE that waits for one.
func (o *Options) printDebug(cluster *Cluster, out *printer) {
	ids := make([]daemon.ID, len(o.Debug))
	isGo := make([]bool, len(o.Debug))
	var calls sync.WaitGroup
	for i, pe := range o.Debug {
		ids[i] = daemon.ID{PE: pe}
		calls.Go(func() { isGo[i] = cluster.HasGo(ids[i]) })
	}
	calls.Wait()
	for i, pid := range cluster.PIDs(ids) {
		pe, where := o.Debug[i], ""
		if host, elsewhere := o.Layout.Elsewhere(pe); elsewhere {
			where = " on host " + host
		}
		if pid == 0 {
			out.message("PE %d (%s) waits for a debugger%s: its node has not said within %v which process it is", pe, pidText(pid), where, pidsAtMost)
			continue
		}
		out.message("PE %d (pid %d) waits for a debugger%s: %s; without one it goes on by: kill -CONT %d",
			pe, pid, where, attachCommand(pid, isGo[i]), pid)
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
