//go:build linux

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

// TestOldKernel runs the programs for kernels before 6.16 on this kernel: the exit probe with one
// argument, and signals.
func TestOldKernel(t *testing.T) {
	for name, cfg := range map[string]Config{
		"alone": {Tier: BPF, alone: true}, "early": {Tier: BPF, early: true}, "both": {Tier: BPF, early: true, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := open(t, cfg)
			for i, args := range [][]string{{"exit", "7"}, {"threads", "17"}, {"abort"}, {"leader", "5"}, {"leader"}} {
				tag := uint64(2 * i)
				for kill := range 2 {
					v := spawn(t, args...)
					if err := w.Add(v.pid(), tag+uint64(kill)); err != nil {
						t.Fatal(err)
					}
					if kill == 1 || args[0] == "threads" {
						xunix.Kill(v.pid(), syscall.SIGTERM)
					} else {
						v.act()
					}
					dead, released := l.awaitEnd(t, tag+uint64(kill))
					status := v.reap()
					wantStatus(t, released, status)
					if cfg.early {
						status &^= 0x80 // whether there is a core dump is not known that early
						dead.Exit.Status &^= 0x80
					}
					wantStatus(t, dead, status)
				}
			}
		})
	}
}

// TestSurvivors: signals that are caught, ignored or suppressed by a debugger are no death,
// although they are delivered.
func TestSurvivors(t *testing.T) {
	w, l := open(t, Config{Tier: BPF, early: true})
	v := spawn(t, "signals")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGABRT, syscall.SIGQUIT, syscall.SIGSEGV, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGTERM} {
		if err := xunix.Kill(v.pid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	v.ready() // SIGTERM was caught, and signals with lower numbers came before it
	suppressSignal(t, v.pid(), syscall.SIGILL)
	suppressSignal(t, v.pid(), syscall.SIGHUP)
	v.act()
	dead, _ := l.awaitEnd(t, 1)
	wantStatus(t, dead, 0)
	if got := l.of(1); len(got) != 2 {
		t.Errorf("got reports %+v, want two", got)
	}
}

// suppressSignal sends a signal to a process, traces it and suppresses the signal.
func suppressSignal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stopped := func(want syscall.Signal) {
		t.Helper()
		var status syscall.WaitStatus
		for {
			_, err := syscall.Wait4(pid, &status, syscall.WALL, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || !status.Stopped() || status.StopSignal() != want {
				t.Fatalf("status %#x, %v, want a stop by %v", status, err, want)
			}
			return
		}
	}
	if err := syscall.PtraceAttach(pid); err != nil {
		t.Fatal(err)
	}
	stopped(syscall.SIGSTOP)
	if err := errors.Join(xunix.Kill(pid, sig), syscall.PtraceCont(pid, 0)); err != nil {
		t.Fatal(err)
	}
	stopped(sig)
	if err := syscall.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
}

// TestLostNews: if the kernel's news of a death is lost, the pidfd tells of the death.
func TestLostNews(t *testing.T) {
	t.Run("bpf", func(t *testing.T) {
		w, l := open(t, Config{Tier: BPF})
		v := spawn(t, "exit", "3")
		if err := w.Add(v.pid(), 1); err != nil {
			t.Fatal(err)
		}
		if p, ok := w.source.(interface{ unwatch(pid int) error }); !ok || p.unwatch(v.pid()) != nil {
			t.Fatal("the process cannot be taken from the table")
		}
		v.act()
		dead, _ := l.awaitEnd(t, 1)
		wantStatus(t, dead, v.reap())
		if dead.At != 0 {
			t.Errorf("Dead has the time %v, want none", dead.At)
		}
	})
	t.Run("procconn", func(t *testing.T) {
		w, l := open(t, Config{Tier: ProcConn})
		v := spawn(t, "exit", "3")
		if err := w.Add(v.pid(), 1); err != nil {
			t.Fatal(err)
		}
		c, ok := w.source.(*connector)
		if !ok {
			t.Fatalf("source %T", w.source)
		}
		if err := xunix.SendPacket(c.fd, request(procIgnore, 0)); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		v.act()
		dead, _ := l.awaitEnd(t, 1)
		wantStatus(t, dead, v.reap())
		if took := time.Since(before); took < noticeTimeout || dead.At != 0 {
			t.Errorf("Dead has the time %v after %v, want no time and a wait of %v", dead.At, took, noticeTimeout)
		}
	})
}

// TestOOM: a kill by the out-of-memory killer of a memory control group is told from other kills.
func TestOOM(t *testing.T) {
	testenv.Need(t, testenv.Root)
	w, l := open(t, Config{Tier: BPF})
	v := spawn(t, "hog")
	confine(t, v.pid(), 64<<20)
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	v.act()
	dead, released := l.awaitEnd(t, 1)
	status := v.reap()
	for _, r := range []Report{dead, released} {
		wantStatus(t, r, status)
		if !r.Exit.OOM || r.Exit.Status.Signal() != syscall.SIGKILL {
			t.Errorf("%v: exit %+v, want a kill by the out-of-memory killer", r.Kind, r.Exit)
		}
	}
}

// confine puts a process into a memory control group with a limit, or skips the test.
func confine(t *testing.T, pid int, limit int) {
	t.Helper()
	root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		root, file = "/sys/fs/cgroup", "memory.max"
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Skipf("no memory control groups: %v", err)
		}
	}
	dir := filepath.Join(root, "goshmem-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no memory control groups: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Rmdir(dir); err != nil {
			t.Errorf("rmdir %s: %v", dir, err)
		}
	})
	for name, value := range map[string]int{file: limit, "cgroup.procs": pid} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0); err != nil {
			t.Fatal(err)
		}
	}
}
