//go:build linux

package responder

import (
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/packet"
)

// TestFence: a fence kills the registered processes and no others, is acknowledged, and is told of in answers.
func TestFence(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		var told atomic.Int32
		tells := make(chan struct{}, 8)
		cfg.Fenced = func() {
			told.Add(1)
			tells <- struct{}{}
		}
		r := open(t, cfg)
		p := newPinger(t, &cfg, r.Addr())
		const victims = 5
		var over [victims]<-chan error
		for i := range over {
			var v *exec.Cmd
			v, over[i] = startSleeper(t)
			if err := r.Add(v.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		_, stranger := startSleeper(t)
		removed, removedOver := startSleeper(t)
		again, againOver := startSleeper(t)
		later, laterOver := startSleeper(t)
		for _, v := range []*exec.Cmd{removed, again, later} {
			if err := r.Add(v.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		r.Remove(removed.Process.Pid)
		r.Remove(again.Process.Pid)
		if err := r.Add(again.Process.Pid); err != nil {
			t.Fatal(err)
		}
		start, err := r.source.startOf(later.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		r.page.add(uint32(later.Process.Pid), start-1) // as if the number was an earlier process's

		if a := p.want(packet.Ping); a.Fenced {
			t.Error("the node is fenced before a fence")
		}
		if a := p.want(packet.Fence); !a.Fenced {
			t.Errorf("the acknowledgement is %+v, want it with the flag", a)
		}
		for i := range over {
			wantKilled(t, "a registered process", over[i])
		}
		wantKilled(t, "a process that was registered twice", againOver)
		if a := p.want(packet.Ping); !a.Fenced || a.DaemonDead {
			t.Errorf("a later answer is %+v, want it fenced, with a daemon", a)
		}
		if !r.IsFenced() {
			t.Error("the responder does not know of the fence")
		}
		r.Tick()
		<-tells
		p.want(packet.Fence) // comes again
		r.Tick()
		wantAlive(t, "a process that is not registered", stranger)
		wantAlive(t, "a process that was removed", removedOver)
		wantAlive(t, "a process with another start time", laterOver)

		late, lateOver := startSleeper(t)
		if err := r.Add(late.Process.Pid); !errors.Is(err, ErrFenced) {
			t.Errorf("Add after a fence: %v, want ErrFenced", err)
		}
		wantKilled(t, "a process that is registered after a fence", lateOver)
		if n := told.Load(); n != 1 {
			t.Errorf("the fence was told %d times, want once", n)
		}
	})
}

// TestFenceKillsDaemon: a fence kills the daemon too, after all others, which takes a while. Its keeper tells of that.
func TestFenceKillsDaemon(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		cfg.SpareDaemon, cfg.TTL = false, time.Minute
		d := startDaemon(t, &cfg)
		var over [100]<-chan error
		for i := range over {
			var v *exec.Cmd
			v, over[i] = startSleeper(t)
			if said := d.do("add", v.Process.Pid); said != "<nil>" {
				t.Fatal(said)
			}
		}
		var keeper int
		if tier != User {
			keeper = d.keeper()
		}
		p := newPinger(t, &cfg, d.addr)
		p.want(packet.Fence)
		for i := range over {
			wantKilled(t, "a registered process", over[i])
		}
		wantKilled(t, "the daemon", d.over)
		if tier == User {
			p.awaitSilence()
			return
		}
		p.await("daemon dead and fenced", func(a packet.Packet) bool { return a.DaemonDead && a.Fenced })
		p.want(packet.Fence) // comes again: nothing is left to kill
		killKeeper(t, keeper)
		p.awaitSilence()
	})
}

// killKeeper kills a keeper, which is not a child of the test any more.
func killKeeper(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the keeper %d: %v", pid, err)
	}
}

// TestAddRefuses: processes that do not exist, and more than there is room for, are errors.
func TestAddRefuses(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		r := open(t, newConfig(t, tier))
		for _, pid := range []int{0, -1, 1 << 30} {
			if err := r.Add(pid); err == nil {
				t.Errorf("Add(%d): no error", pid)
			}
		}
		for i := range maxVictims {
			if !r.page.add(uint32(1<<30+i), 1) {
				t.Fatalf("no room for process %d, want %d", i, maxVictims)
			}
		}
		if err := r.Add(os.Getpid()); err == nil {
			t.Error("Add to a full page: no error")
		}
		r.Remove(1<<30 + 7)
		if err := r.Add(os.Getpid()); err != nil {
			t.Errorf("Add after Remove: %v", err)
		}
		r.Remove(os.Getpid())
	})
}

// TestFenceMany: a fence goes through a full page.
func TestFenceMany(t *testing.T) {
	tiers(t, func(t *testing.T, tier Tier) {
		cfg := newConfig(t, tier)
		r := open(t, cfg)
		for i := range maxVictims - 1 {
			r.page.add(uint32(1<<30+i), 1)
		}
		v, over := startSleeper(t)
		if err := r.Add(v.Process.Pid); err != nil {
			t.Fatal(err)
		}
		newPinger(t, &cfg, r.Addr()).want(packet.Fence)
		wantKilled(t, "the last process of a full page", over)
	})
}
