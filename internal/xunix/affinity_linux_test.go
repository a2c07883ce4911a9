package xunix

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
)

// A thread's set can be narrowed and widened again, and the kernel agrees.
func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, err := Affinity()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, want := range [][]int{all[len(all)-1:], all} {
		if err := SetAffinity(want); err != nil {
			t.Fatal(err)
		}
		got, err := Affinity()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("processors %v, %v, want %v", got, err, want)
		}
		raw, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		if line := "Cpus_allowed_list:\t" + plan.FormatList(want) + "\n"; !strings.Contains(string(raw), line) {
			t.Errorf("the kernel does not say %q:\n%s", line, raw)
		}
	}
	for _, bad := range [][]int{nil, {cpuWords * 64}, {-1}} {
		if err := SetAffinity(bad); err == nil {
			t.Errorf("processors %v were accepted", bad)
		}
	}
}

// This machine's processors: all that may be used are there.
func TestTopology(t *testing.T) {
	top, err := Topology()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Affinity()
	if err != nil || !slices.Equal(top.Allowed(), all) || top.Cores() < 1 {
		t.Errorf("topology %+v, want processors %v, %v", top, all, err)
	}
}

// A made-up machine is read as it is, and one that says nothing is flat.
func TestTopologyFiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"cpu/online":                             "0-3\n",
		"cpu/cpu0/topology/thread_siblings_list": "0,2\n", "cpu/cpu0/topology/physical_package_id": "0\n",
		"cpu/cpu1/topology/thread_siblings_list": "1,3\n", "cpu/cpu1/topology/physical_package_id": "1\n",
		"cpu/cpu2/topology/thread_siblings_list": "0,2\n", "cpu/cpu2/topology/physical_package_id": "0\n",
		"cpu/cpu3/topology/thread_siblings_list": "1,3\n", "cpu/cpu3/topology/physical_package_id": "-1\n",
		"cpu/cpu1/cache/index2/level": "2\n", "cpu/cpu1/cache/index2/shared_cpu_list": "0-3\n",
		"cpu/cpu1/cache/index3/level": "3\n", "cpu/cpu1/cache/index3/shared_cpu_list": "1,3\n",
		"cpu/cpu3/cache/index3/level": "3\n", "cpu/cpu3/cache/index3/shared_cpu_list": "1,3\n",
		"node/online": "0-2\n", "node/node0/cpulist": "0,2\n", "node/node1/cpulist": "1,3\n", "node/node2/cpulist": "\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := plan.Topology{
		{ID: 0, Allowed: true},
		{ID: 1, Package: 1, Core: 1, Node: 1, L3: 1, Allowed: true},
		{ID: 2},
		{ID: 3, Core: 1, Node: 1, L3: 1}, // its socket is not known
	}
	if got := topology(root, []int{0, 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	want = plan.Topology{{ID: 1, Core: 1, Allowed: true}, {ID: 4, Core: 4, Allowed: true}}
	if got := topology(t.TempDir(), []int{1, 4}); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}
