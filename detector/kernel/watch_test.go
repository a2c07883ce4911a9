//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// wantStatus fails unless a report says of an end what wait says.
func wantStatus(t *testing.T, r Report, status syscall.WaitStatus) {
	t.Helper()
	if !r.Exit.Known || r.Exit.Status != status {
		t.Errorf("%v has the exit %+v, want status %#x", r.Kind, r.Exit, status)
	}
}

// TestEnds: a child's end is reported as wait reports it.
func TestEnds(t *testing.T) {
	kill := func(sig syscall.Signal) func(*victim) {
		return func(v *victim) { xunix.Kill(v.pid(), sig) }
	}
	for name, c := range map[string]struct {
		args []string
		end  func(*victim)
		want string
	}{
		"exit":           {[]string{"exit", "7"}, (*victim).act, "exit 7"},
		"exit 0":         {[]string{"exit", "0"}, (*victim).act, "exit 0"},
		"kill":           {[]string{"exit", "7"}, kill(syscall.SIGKILL), "killed"},
		"term":           {[]string{"exit", "7"}, kill(syscall.SIGTERM), "terminated"},
		"segv":           {[]string{"abort"}, (*victim).act, "segmentation fault"},
		"threads":        {[]string{"threads", "17"}, kill(syscall.SIGKILL), "killed"},
		"leader first":   {[]string{"leader", "5"}, (*victim).act, "exit 5"},
		"leader, no one": {[]string{"leader"}, (*victim).act, "exit 0"},
		"leader, killed": {[]string{"leader", "5"}, kill(syscall.SIGKILL), "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, w *Watch, l *log) {
				v := spawn(t, c.args...)
				if err := w.Add(v.pid(), 1); err != nil {
					t.Fatal(err)
				}
				before := xunix.Monotonic()
				c.end(v)
				dead, released := l.awaitEnd(t, 1)
				after := xunix.Monotonic()
				status := v.reap()
				wantStatus(t, dead, status)
				wantStatus(t, released, status)
				got := status.Signal().String()
				if status.Exited() {
					got = fmt.Sprintf("exit %d", status.ExitStatus())
				}
				if got != c.want {
					t.Errorf("the process ended by %s, want %s", got, c.want)
				}
				stamped := w.Tier() <= ProcConn && !mayLackTime(w, dead, before, after)
				if stamped != (dead.At != 0) || stamped && (dead.At < before || dead.At > after) {
					t.Errorf("Dead has the time %v, want one from %v to %v if the tier has times", dead.At, before, after)
				}
				if dead.PID != v.pid() || dead.Tier != w.Tier() || dead.Exit.OOM {
					t.Errorf("got report %+v of process %d from tier %v", dead, v.pid(), w.Tier())
				}
			})
		})
	}
}

// TestShortLived: of many processes that end at the same time, none is lost and none is reported
// twice.
func TestShortLived(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		const many = 200
		status := map[uint64]syscall.WaitStatus{}
		for tag := uint64(1); tag <= many; tag++ {
			code := int(tag % 100)
			v := launch(t, "/bin/sh", "-c", "exit "+strconv.Itoa(code))
			if err := w.Add(v.pid(), tag); err != nil {
				t.Fatal(err)
			}
			l.awaitEnd(t, tag)
			status[tag] = v.reap()
			if want := syscall.WaitStatus(code << 8); status[tag] != want {
				t.Fatalf("status %#x, want %#x", status[tag], want)
			}
		}
		if len(l.every()) != 2*many {
			t.Errorf("got %d reports, want %d", len(l.every()), 2*many)
		}
		for _, r := range l.every() {
			wantStatus(t, r, status[r.Tag])
		}
	})
}

// TestStranger: every tier except the last reports the death of a process that is no child of this
// one.
func TestStranger(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		parent := begin(t, "parent")
		pid := parent.number()
		err := w.Add(pid, 1)
		if w.Tier() == SIGCHLD {
			if !errors.Is(err, syscall.ECHILD) {
				t.Errorf("Add: %v, want %v", err, syscall.ECHILD)
			}
			xunix.Kill(pid, syscall.SIGKILL)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		xunix.Kill(pid, syscall.SIGKILL)
		dead, released := l.awaitEnd(t, 1)
		want := Exit{Status: 9, Known: true}
		if w.Tier() == PIDFD {
			want = Exit{}
		}
		if dead.Exit != want || released.Exit != want {
			t.Errorf("got exits %+v and %+v, want %+v", dead.Exit, released.Exit, want)
		}
		parent.act()
		if status := parent.reap(); status != 0 {
			t.Errorf("the parent ended with status %#x, want 0", status)
		}
	})
}

// TestAddDead: a process that ended before it is added is reported.
func TestAddDead(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		v := spawn(t, "exit", "3")
		v.act()
		if err := xunix.WaitExited(v.pid()); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(v.pid(), 1); err != nil {
			t.Fatal(err)
		}
		dead, released := l.awaitEnd(t, 1)
		status := v.reap()
		wantStatus(t, dead, status)
		wantStatus(t, released, status)
		if err := w.Add(v.pid(), 2); err == nil {
			t.Error("Add of a process that does not exist succeeded")
		}
	})
}

// TestRemove: nothing is reported of a removed process. It ends before another process, which is
// reported.
func TestRemove(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		one, other := spawn(t, "exit", "1"), spawn(t, "exit", "2")
		for i, v := range []*victim{one, other} {
			if err := w.Add(v.pid(), uint64(i)); err != nil {
				t.Fatal(err)
			}
			if err := w.Add(v.pid(), 5); err == nil {
				t.Error("a second Add of a process succeeded")
			}
		}
		w.Remove(one.pid())
		one.act()
		one.reap()
		w.Remove(one.pid())
		other.act()
		l.awaitEnd(t, 1)
		if got := l.of(0); len(got) > 0 {
			t.Errorf("got reports %+v of a removed process", got)
		}
	})
}

// TestThreads: the end of a thread is not the end of the process, and neither is an exec by a
// thread.
func TestThreads(t *testing.T) {
	for name, args := range map[string][]string{"churn": {"churn", "100"}, "exec": {"exec", "0"}} {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, w *Watch, l *log) {
				v := spawn(t, args...)
				if err := w.Add(v.pid(), 1); err != nil {
					t.Fatal(err)
				}
				v.act()
				v.ready()
				v.act()
				dead, _ := l.awaitEnd(t, 1)
				wantStatus(t, dead, 0)
				if got := l.of(1); len(got) != 2 {
					t.Errorf("got reports %+v, want two", got)
				}
			})
		})
	}
}

// TestLeaderFirst: a process whose first thread has ended lives on.
func TestLeaderFirst(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		v := begin(t, "leader", "4")
		if err := w.Add(v.pid(), 1); err != nil { // possibly before the first thread ends
			t.Fatal(err)
		}
		v.ready()
		other := spawn(t, "exit", "0")
		if err := w.Add(other.pid(), 2); err != nil {
			t.Fatal(err)
		}
		other.act()
		l.awaitEnd(t, 2)
		if got := l.of(1); len(got) > 0 {
			t.Errorf("got reports %+v of a process that lives", got)
		}
		v.act()
		dead, _ := l.awaitEnd(t, 1)
		wantStatus(t, dead, v.reap())
	})
}

// TestAtOnce: many processes end while they are being added.
func TestAtOnce(t *testing.T) {
	tiers(t, func(t *testing.T, w *Watch, l *log) {
		const many = 50
		var all []*victim
		for i := range many {
			all = append(all, launch(t, "/bin/sh", "-c", "exit "+strconv.Itoa(i)))
		}
		for i, v := range all {
			if err := w.Add(v.pid(), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range all {
			dead, _ := l.awaitEnd(t, uint64(i))
			wantStatus(t, dead, v.reap())
		}
		if len(l.every()) != 2*many {
			t.Errorf("got %d reports, want %d", len(l.every()), 2*many)
		}
	})
}

// TestReportAdds: a Report function may call Add and Remove.
func TestReportAdds(t *testing.T) {
	one, other := spawn(t, "exit", "1"), spawn(t, "exit", "2")
	l := newLog()
	var w *Watch
	w, err := Open(Config{Tier: PIDFD, Report: func(r Report) {
		if r.Tag == 1 && r.Kind == Dead {
			w.Remove(one.pid())
			if err := w.Add(other.pid(), 2); err != nil {
				t.Error(err)
			}
			other.act()
		}
		l.add(r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(one.pid(), 1); err != nil {
		t.Fatal(err)
	}
	one.act()
	l.awaitEnd(t, 2)
}

// TestOtherStart: if a process with the same number but another start time dies, it is not taken
// for the watched one.
func TestOtherStart(t *testing.T) {
	w, l := open(t, Config{Tier: BPF})
	v, other := spawn(t, "exit", "1"), spawn(t, "exit", "2")
	for i, v := range []*victim{v, other} {
		if err := w.Add(v.pid(), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	w.byPID[v.pid()].start++ // the start time when it was added
	w.mu.Unlock()
	v.act()
	dead, _ := l.awaitEnd(t, 0)
	if dead.At != 0 {
		t.Errorf("got Dead %+v, want it from the pidfd, without a time", dead)
	}
	wantStatus(t, dead, v.reap())
	other.act()
	if dead, _ := l.awaitEnd(t, 1); dead.At == 0 {
		t.Errorf("got Dead %+v, want it from the kernel's program, with a time", dead)
	}
	other.reap()
}

// TestFailedWatch: a watch that fails reports so for every process that it watches, because no
// other report of their ends will come.
func TestFailedWatch(t *testing.T) {
	l := newLog()
	w, err := Open(Config{Tier: PIDFD, Report: l.add})
	if err != nil {
		t.Skip(err)
	}
	v := spawn(t, "exit", "3")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	if err := w.poll.Close(); err != nil { // as bad as a failure in the kernel
		t.Fatal(err)
	}
	l.await(t, 1, Unseen)
	if err := w.Add(v.pid(), 2); err == nil {
		t.Error("Add to a failed watch succeeded")
	}
	v.act()
	v.reap()
	if err := w.Close(); err == nil {
		t.Error("a second Close returned no error")
	}
	if got := l.every(); len(got) != 1 {
		t.Errorf("got reports %+v, want one", got)
	}
}
