package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A process that has left its PE's process group is killed with the step, which knows it by its environment.
func TestOrphansAreSwept(t *testing.T) {
	needProgram(t, "setsid")
	s := startTest(t, []App{shell(1, `setsid sh -c 'echo $$; exec sleep 1000' & wait`)})
	orphan := s.number()
	s.Signal(syscall.SIGKILL)
	s.orphans.sweep(s.table.allStarted(), time.Now().Add(deadline))
	if is := look(orphan); !is.over() {
		t.Errorf("process %d is %+v after its job, want it gone", orphan, is)
	}
}

// A process that becomes another program has no environment for a moment. Its job is known all the same.
func TestEnvironmentAmidExec(t *testing.T) {
	needProgram(t, "setsid")
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("exec sh $0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startTest(t, []App{shell(1, fmt.Sprintf(`setsid sh -c 'echo $$; exec sh %s' & wait`, script))})
	child, names := s.number(), []string{s.table.jobs[0].nspace}
	for range 3000 {
		if !environOf(child).hasAnyJob(names) {
			t.Fatalf("process %d, which is %+v, has environment %q, want that of the job", child, look(child), environOf(child))
		}
	}
	s.Signal(syscall.SIGKILL)
	s.orphans.sweep(s.table.allStarted(), time.Now().Add(deadline))
	if is := look(child); !is.over() {
		t.Errorf("process %d is %+v after its job, want it gone", child, is)
	}
}

// Orphans that end are reaped if all children of this process belong to the step. A PE is never reaped as an orphan.
func TestOrphansAreReaped(t *testing.T) {
	s := startTest(t, []App{shell(1, `(sh -c 'echo $$; read x <&3' 3<&0 &) ; sh -c 'echo 0'; exec sleep 1000`)}, func(c *settings) {
		c.OwnsChildren = true
	})
	orphan := 0
	for range 2 {
		orphan = max(orphan, s.number())
	}
	awaitState(t, orphan, "reaped", func(p process) bool { return p == process{} })
	p := s.pe(0)
	if found, _ := s.orphans.findOrphans(); slices.Contains(found, p.identity) {
		t.Errorf("PE 0 is among the orphans %v", found)
	}
	s.orphans.reapOne(p.pid)
	kill(t, p.pid, syscall.SIGTERM)
	s.orphans.reapOne(p.pid)
	if e := s.awaitExit(0); e.End.Signal != int(syscall.SIGTERM) {
		t.Errorf("event %+v, want the status of PE 0, not reaped as an orphan", e)
	}
}

// A signal to an orphan does not reach a later process with the same number.
func TestIdentityIsKilled(t *testing.T) {
	s := startSleepers(t, 2)
	pes := s.table.allStarted()
	identity{pes[0].pid, pes[0].start + 1}.signalProcess(syscall.SIGKILL)
	pes[1].signalProcess(syscall.SIGKILL)
	if e := nextOf(t, s, Failed); e.PE != 1 {
		t.Errorf("event %+v, want PE 1", e)
	}
	if look(pes[0].pid).over() {
		t.Error("PE 0 got a signal meant for an earlier process with its number")
	}
}

// An output that a process outside the job holds open is cut when the patience is used up. Time in which text is being
// taken does not count.
func TestHeldOutputIsCut(t *testing.T) {
	needProgram(t, "setsid")
	s := startTest(t, []App{shell(1, `echo $$; env -i setsid sh -c 'echo $$; exec sleep 1000' & wait`)})
	s.number()
	escaped := s.number()
	p := s.pe(0)
	kill(t, p.pid, syscall.SIGKILL)
	s.awaitExit(0)
	if left := s.ends.drainOutputs(p, 2*drainTick); left > 0 {
		t.Errorf("%v of the patience is left, want none", left)
	}
	s.wantNotice("output of PE 0 is held open")
	if look(escaped).over() {
		t.Error("the process that left the job has ended, want it to hold the output")
	}
	if err := syscall.Kill(escaped, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if left := s.ends.drainOutputs(p, time.Hour); left != time.Hour {
		t.Errorf("%v of an hour is left for an output that has ended, want all", left)
	}
}
