package shmem_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// memoryOf is what a process has in memory, in bytes.
type memoryOf struct {
	private uint64 // RssAnon: what it shares with no other process
	peak    uint64 // VmHWM: the most that was resident so far, shared memory included
	tables  uint64 // VmPTE: page tables
}

// readMemory reads the memory of a process.
func readMemory(t *testing.T, pid int) memoryOf {
	t.Helper()
	status := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	field := func(name string) uint64 {
		_, rest, found := strings.Cut(string(status), "\n"+name+":")
		kib, _, ends := strings.Cut(rest, " kB\n")
		if !found || !ends {
			t.Fatalf("no %s in the status of process %d:\n%s", name, pid, status)
		}
		return must(strconv.ParseUint(strings.TrimSpace(kib), 10, 64))(t) << 10
	}
	return memoryOf{private: field("RssAnon"), peak: field("VmHWM"), tables: field("VmPTE")}
}

// agentPID returns the process number of the agent of this PE's node, which has the same parent.
func agentPID(t *testing.T) int {
	t.Helper()
	dirs := must(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, behind, _ := strings.Cut(string(stat), ") ") // the state, then the parent
		if fields := strings.Fields(behind); len(fields) < 2 || fields[1] != strconv.Itoa(os.Getppid()) {
			continue
		}
		args, err := os.ReadFile(dir + "/cmdline")
		if words := bytes.Split(args, []byte{0}); err == nil && len(words) > 1 && string(words[1]) == "agent" {
			return must(strconv.Atoi(filepath.Base(dir)))(t)
		}
	}
	t.Fatalf("no agent among the children of process %d", os.Getppid())
	return 0
}

// wantMemory fails the test if this process, or the agent of its node, has more memory than the program's own: private
// bytes of Go memory, and shared bytes of the node's heaps.
func wantMemory(t *testing.T, what string, private, shared uint64) {
	t.Helper()
	const more = 64 << 20 // for all that does not grow with the work
	agent := agentPID(t)
	for _, p := range []struct {
		name    string
		pid     int
		private uint64
	}{{"the PE", os.Getpid(), private}, {"its agent", agent, 0}} {
		m := readMemory(t, p.pid)
		t.Logf("%s: %s has %d MiB of its own, and had %d MiB with shared memory; page tables: %d KiB", what, p.name, m.private>>20, m.peak>>20, m.tables>>10)
		if m.private > p.private+more {
			t.Errorf("%s: %s has %d MiB of its own, want at most %d MiB", what, p.name, m.private>>20, (p.private+more)>>20)
		}
		if most := p.private + shared + more; m.peak > most {
			t.Errorf("%s: %s had %d MiB, want at most %d MiB", what, p.name, m.peak>>20, most>>20)
		}
	}
}

// What a context has for its operations on other nodes grows with the nodes that there are, not with those that there may be.
func TestFarContextMemory(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		const contexts = 200
		x := must(shmem.Calloc[int64](w, 1))(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range contexts {
			c := must(w.NewCtx())(t)
			ok(t, shmem.P(c, x, 1, 1-w.MyPE()))
			ok(t, c.Destroy())
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / contexts; each > 4096 {
			t.Errorf("a context takes %d bytes, want at most 4096", each)
		}
	}, shmemtest.Nodes(2))
}
