package xunix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goshmem/goshmem/internal/plan"
)

// cpuWords is the size of a set of processors, in words of 64. No kernel is built for more.
const cpuWords = 8192 / 64

// Affinity returns the sorted numbers of the processors on which the calling thread may run. Cpusets, taskset
// and an outer launcher restrict them.
func Affinity() (ids []int, err error) {
	var set [cpuWords]uint64
	n, _, e := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if e != 0 {
		return nil, fmt.Errorf("sched_getaffinity: %w", e)
	}
	for id := range int(n) * 8 {
		if set[id/64]&(1<<(id%64)) != 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// SetAffinity restricts the calling thread to the given processors. A process that the thread starts inherits
// the restriction from its first instruction on.
func SetAffinity(ids []int) error {
	var set [cpuWords]uint64
	for _, id := range ids {
		if id < 0 || id >= cpuWords*64 {
			return fmt.Errorf("sched_setaffinity: processor %d, want 0 to %d", id, cpuWords*64-1)
		}
		set[id/64] |= 1 << (id % 64)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set))); e != 0 {
		return fmt.Errorf("sched_setaffinity to processors %s: %w", plan.FormatList(ids), e)
	}
	return nil
}

// Topology returns the machine's processors, and which of them the calling thread may use.
func Topology() (plan.Topology, error) {
	ids, err := Affinity()
	if err != nil {
		return nil, err
	}
	return topology("/sys/devices/system", ids), nil
}

// topology reads the files of the kernel under root. If they are missing, as in some containers, each
// processor counts as a core of one socket and one NUMA node.
func topology(root string, allowed []int) plan.Topology {
	online, err := list(filepath.Join(root, "cpu/online"))
	if err != nil {
		online = allowed
	}
	nodes := numaNodes(filepath.Join(root, "node"))
	may := map[int]bool{}
	for _, id := range allowed {
		may[id] = true
	}
	t := make(plan.Topology, 0, len(online))
	for _, id := range online {
		at := filepath.Join(root, "cpu", "cpu"+strconv.Itoa(id), "topology")
		c := plan.CPU{ID: id, Core: id, Node: nodes[id], Allowed: may[id]}
		if threads, err := list(filepath.Join(at, "thread_siblings_list")); err == nil {
			c.Core = threads[0]
		}
		if pkg, err := list(filepath.Join(at, "physical_package_id")); err == nil {
			c.Package = pkg[0]
		}
		c.L3 = l3Of(filepath.Join(root, "cpu", "cpu"+strconv.Itoa(id), "cache"), c.Package)
		t = append(t, c)
	}
	return t
}

// l3Of returns the first processor that shares the L3 cache described in dir. If dir describes none, all
// processors of a socket count as sharing one.
func l3Of(dir string, pkg int) int {
	found, _ := filepath.Glob(filepath.Join(dir, "index*", "level")) // the only error is a malformed pattern
	for _, file := range found {
		if level, err := list(file); err != nil || level[0] != 3 {
			continue
		}
		if with, err := list(filepath.Join(filepath.Dir(file), "shared_cpu_list")); err == nil {
			return with[0]
		}
	}
	return pkg
}

// numaNodes returns the node of each processor that is not on node 0.
func numaNodes(dir string) map[int]int {
	nodes := map[int]int{}
	online, _ := list(filepath.Join(dir, "online")) // an error: a machine without NUMA
	for _, n := range online {
		ids, _ := list(filepath.Join(dir, "node"+strconv.Itoa(n), "cpulist")) // an error or no number: a node with memory only
		for _, id := range ids {
			nodes[id] = n
		}
	}
	return nodes
}

// list reads a file that holds a list of at least one number.
func list(name string) ([]int, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ids, err := plan.ParseList(strings.TrimSpace(string(raw)))
	if err == nil && len(ids) == 0 {
		err = errors.New("empty list, want at least one number")
	}
	return ids, err
}
