package daemon

import (
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// startedBy starts a real process and enters it into a table as a PE. The caller ends the start by calling end.
func startedBy(t *testing.T, tb *table, j *localJob, pe int) (p *localPE, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = xunix.ChildAttr()
	p = newLocalPE(j, pe, cmd)
	if err := tb.beginStart(p); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the process ends with the thread that started it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		runtime.UnlockOSThread()
	})
	return p, func() { tb.endStart(p, identity{cmd.Process.Pid, look(cmd.Process.Pid).start}, nil) }
}

// Callers that must not mistake a process that is being started wait until the start is over.
func TestStartIsAwaited(t *testing.T) {
	tb := newTable("goshmem-test")
	j := newLocalJob([]App{{NPEs: 3}}, nil)
	tb.enlistFirst(j)
	if tb.awaitStart(j, 0) != nil {
		t.Error("a PE exists that was not started")
	}
	p, end := startedBy(t, tb, j, 1)
	if tb.awaitStart(j, 0) != nil {
		t.Error("the start of PE 1 counts as that of PE 0")
	}
	claims, locked := make(chan *localPE), make(chan bool)
	go func() { claims <- tb.awaitStart(j, 1) }()
	go func() {
		tb.lockBetweenStarts()
		leads := tb.leads(p.cmd.Process.Pid)
		tb.mu.Unlock()
		locked <- leads
	}()
	select {
	case <-claims:
		t.Error("a claim does not wait for the start")
	case <-locked:
		t.Error("the lock is held during a start")
	default:
	}
	tb.update(ID{PE: 1}, func(*localPE) { t.Error("a PE exists before its start is over") })
	end()
	if got := <-claims; got != p {
		t.Errorf("claim of %v, want PE 1", got)
	}
	if !<-locked {
		t.Error("the process of a PE is not known as the PE's after its start")
	}

	failed := newLocalPE(j, 2, exec.Command("none"))
	if err := tb.beginStart(failed); err != nil {
		t.Fatal(err)
	}
	tb.endStart(failed, identity{}, errors.New("no such program"))
	if tb.awaitStart(j, 2) != nil || len(tb.allStarted()) != 1 {
		t.Error("a PE exists whose start has failed")
	}
}

// If all PEs are killed while a process is being started, that process is killed, too, and none is started later.
func TestKillDuringStart(t *testing.T) {
	s := assemble(settings{}, "goshmem-test")
	j := newLocalJob([]App{{NPEs: 2}}, nil)
	s.table.enlistFirst(j)
	p, end := startedBy(t, s.table, j, 0)
	s.Signal(syscall.SIGKILL)
	if look(p.cmd.Process.Pid).over() {
		t.Error("a process was killed before it was in the table")
	}
	end()
	awaitState(t, p.pid, "gone", process.over)
	if err := s.table.beginStart(newLocalPE(j, 1, nil)); err == nil {
		t.Error("a process may be started after all PEs were killed")
	}
}

// Names stand for PEs, each PE once. A wildcard stands for all PEs of a job, an empty list for all PEs of the caller's
// job.
func TestTargets(t *testing.T) {
	s := startTest(t, []App{shell(3, "exec sleep 1000")})
	other := pmix.Proc{Nspace: "another", Rank: 0}
	for _, x := range []struct {
		from  pmix.Proc
		names []pmix.Proc
		want  []int
	}{
		{from: s.name(1), want: []int{0, 1, 2}},
		{from: other},
		{from: s.name(1), names: procs(s.name(2), s.name(0), s.name(2)), want: []int{2, 0}},
		{from: s.name(1), names: procs(s.name(2), s.name(pmix.RankWildcard)), want: []int{2, 0, 1}},
		{from: s.name(1), names: procs(s.name(3), other, pmix.Proc{Nspace: "another", Rank: pmix.RankWildcard})},
	} {
		var got []int
		s.table.mu.Lock()
		for _, p := range s.table.targets(x.from, x.names) {
			got = append(got, p.id.PE)
		}
		s.table.mu.Unlock()
		if !slices.Equal(got, x.want) {
			t.Errorf("%v names %v: PEs %v, want %v", x.from, x.names, got, x.want)
		}
	}
	if got := s.table.nameOf(s.name(2)); got != "PE 2" {
		t.Errorf("PE 2 is called %q", got)
	}
	if got := (ID{2, 3}).String(); got != "2.3" {
		t.Errorf("PE 3 of job 2 is called %q", got)
	}
}
