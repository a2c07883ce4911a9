package daemon

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// orphans signals, kills and reaps processes that PEs have started and left behind. This process inherits them, as a
// subreaper.
//
// # Orphans and PEs
//
// Both are children of this process, and the orphans are looked for in /proc without the lock of the table. A PE is never
// taken for an orphan:
//
//   - A process that the scan has found was forked before the end of the scan. If it is a PE's, its start is over when
//     lockBetweenStarts returns after the scan. The table has its identity from then on, also when the process was reaped.
//   - A process that is started after the scan may have the number of an orphan that has ended since. It has another start
//     time, by which KillSame tells it from the orphan.
//
// An orphan that has ended stays a zombie, with its number, until it is reaped. reapOne asks whose it is, and reaps it, in
// one section under the lock. sweep reaps without the lock, when the step closes and starts no processes any more.
type orphans struct {
	table        *table
	agent        *nodeAgent
	ownsChildren bool               // as Config.OwnsChildren
	isOther      func(pid int) bool // as Hooks.IsOther
	shares       func() bool        // as Hooks.SharesChildren
	closing      <-chan struct{}
	reporter     *reporter
}

// findOrphans returns the children of this process, other than PEs, that belong to
// its jobs, and all processes: where children are the step's own, all of them; otherwise those in
// the group of a PE or with a job's name in their environment.
func (o *orphans) findOrphans() (found []identity, all map[int]process) {
	all = lookAround()
	pes, groups, nspaces := o.knownProcesses()
	self := os.Getpid()
	owns := o.ownsChildren && (o.shares == nil || !o.shares())
	for pid, is := range all {
		if is.parent != self || pes[identity{pid, is.start}] || o.isOther != nil && o.isOther(pid) {
			continue
		}
		if owns || groups[is.group] || environOf(pid).hasAnyJob(nspaces) {
			found = append(found, identity{pid, is.start})
		}
	}
	return found, all
}

// knownProcesses returns the processes of PEs, their groups, and the names of the jobs.
func (o *orphans) knownProcesses() (pes map[identity]bool, groups map[int]bool, nspaces []string) {
	o.table.lockBetweenStarts()
	defer o.table.mu.Unlock()
	pes, groups = map[identity]bool{}, map[int]bool{}
	pes[o.agent.process()] = true // which is no PE, and no orphan either
	for _, p := range o.table.started() {
		pes[p.identity], groups[p.pid] = true, true
	}
	return pes, groups, o.table.namespaces()
}

// signalAll sends a signal to all orphans and to what descends from them.
func (o *orphans) signalAll(sig syscall.Signal) {
	found, all := o.findOrphans()
	for _, top := range found {
		for pid := range tree(all, top.pid) {
			identity{pid, all[pid].start}.signalProcess(sig)
		}
	}
}

// signalProcess sends a signal to the process, and to none that has its number since it was reaped.
func (i identity) signalProcess(sig syscall.Signal) {
	_ = xunix.KillSame(i.pid, func() bool { return look(i.pid).start == i.start }, sig)
}

// sweep waits for the PEs to be reaped, then kills and reaps what else of the
// job this process has as children. Killing
// one may bring its own children here, so it looks until there are none.
func (o *orphans) sweep(pes []*localPE, deadline time.Time) {
	for _, p := range pes {
		if !within(deadline, func() { <-p.reaped }) {
			o.reporter.notice("PE %v (pid %d) is still running after SIGKILL", p.id, p.pid)
		}
	}
	for time.Now().Before(deadline) {
		found, _ := o.findOrphans()
		if len(found) == 0 {
			return
		}
		for _, orphan := range found {
			orphan.signalProcess(syscall.SIGKILL)
		}
		for _, orphan := range found {
			within(deadline, func() { xunix.Reap(orphan.pid) })
		}
	}
}

// reapPause is how long reapAsTheyEnd lets ends gather: a look at all processes
// costs something, and a zombie nothing but its number.
const reapPause = 100 * time.Millisecond

// reapAsTheyEnd collects children that the step inherited as they end, until it
// closes: a program that loses many should not run out of process numbers.
func (o *orphans) reapAsTheyEnd() {
	ends := make(chan os.Signal, 1)
	xunix.NotifyEnds(ends)
	defer signal.Stop(ends)
	for {
		select {
		case <-ends:
		case <-o.closing:
			return
		}
		select {
		case <-time.After(reapPause):
		case <-o.closing:
			return
		}
		if !xunix.AnyEnded() {
			continue // a PE has stopped, was let go, or is reaped already
		}
		for pid, is := range lookAround() {
			if is.zombie && is.parent == os.Getpid() {
				o.reapOne(pid)
			}
		}
	}
}

// reapOne collects a child that has ended, unless it is a PE or another's: those have somebody who waits for them. The wait that collects
// it returns at once, also if the child is gone, and happens between two starts: so the number is no new PE's meanwhile.
func (o *orphans) reapOne(pid int) {
	o.table.lockBetweenStarts()
	defer o.table.mu.Unlock()
	if !o.table.leads(pid) && !o.agent.runsAs(pid) && (o.isOther == nil || !o.isOther(pid)) {
		xunix.ReapEnded(pid)
	}
}
