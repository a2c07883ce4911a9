//go:build linux

package kernel

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// same fails unless a report says of an end what wait says.
func same(t *testing.T, r Report, status syscall.WaitStatus) {
	t.Helper()
	if !r.Exit.Known || r.Exit.Status != status {
		t.Errorf("%v: exit %+v, want status %#x", r.Kind, r.Exit, status)
	}
}

// TestEnds: what a child's end is reported as is what wait says of it.
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
				dead, released := l.ended(t, 1)
				after := xunix.Monotonic()
				status := v.reap()
				same(t, dead, status)
				same(t, released, status)
				got := status.Signal().String()
				if status.Exited() {
					got = fmt.Sprintf("exit %d", status.ExitStatus())
				}
				if got != c.want {
					t.Errorf("it ended by %s, want %s", got, c.want)
				}
				if stamped := w.Tier() <= ProcConn; stamped != (dead.At != 0) || stamped && (dead.At < before || dead.At > after) {
					t.Errorf("dead at %v, want a time from %v to %v if the tier has one", dead.At, before, after)
				}
				if dead.PID != v.pid() || dead.Tier != w.Tier() || dead.Exit.OOM {
					t.Errorf("report %+v of process %d by %v", dead, v.pid(), w.Tier())
				}
			})
		})
	}
}

// TestShortLived: of many processes that end at once none is lost and none
// reported twice.
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
			l.ended(t, tag)
			status[tag] = v.reap()
			if want := syscall.WaitStatus(code << 8); status[tag] != want {
				t.Fatalf("status %#x, want %#x", status[tag], want)
			}
		}
		if len(l.all) != 2*many {
			t.Errorf("%d reports, want %d", len(l.all), 2*many)
		}
		for _, r := range l.all {
			same(t, r, status[r.Tag])
		}
	})
}
