package xunix

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestGroupProcessors(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		want  int
	}{
		"no control groups": {nil, math.MaxInt},
		"version 1":         {map[string]string{"proc/self/cgroup": "4:cpu:/a\n", "sys/fs/cgroup/a/cpu.max": "100000 100000\n"}, math.MaxInt},
		"no limit":          {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, math.MaxInt},
		"own":               {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 2},
		"above":             {map[string]string{"proc/self/cgroup": "4:cpu:/b\n0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 3},
		"the root":          {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1},
		"outside":           {map[string]string{"proc/self/cgroup": "0::/../../a\n", "sys/fs/cgroup/cpu.max": "50000 100000\n", "cpu.max": "1 1\n"}, 1},
		"nonsense":          {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "5 0\n"}, math.MaxInt},
	} {
		root := t.TempDir()
		for file, text := range x.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := groupProcessors(root); got != x.want {
			t.Errorf("%s: %d processors, want %d", name, got, x.want)
		}
	}
	ids, err := Affinity()
	if got := Processors(); err != nil || got < 1 || got > len(ids) {
		t.Errorf("%d processors, %v, want 1 to %d", got, err, len(ids))
	}
}
