package detectbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// limitBytes is the memory that the victim of the case oom may use.
const limitBytes = 96 << 20

// limit is a control group with a memory limit.
type limit struct{ dir string }

// newLimit makes a control group with the limit limitBytes. It tries version 2 first, and version 1 if version
// 2 does not control memory. root is the directory under which /proc and the group file systems are mounted.
func newLimit(root string) (*limit, error) {
	l, err := unifiedLimit(root)
	if err == nil {
		return l, nil
	}
	l, err1 := memoryLimit(root)
	if err1 != nil {
		return nil, fmt.Errorf("control groups (version 2): %w; (version 1): %w", err, err1)
	}
	return l, nil
}

// unifiedLimit makes a group of version 2. Its parent is the nearest ancestor of this process's group (or this
// group itself) that controls the memory of its children and that this user may write to.
func unifiedLimit(root string) (*limit, error) {
	mount, err := mounted(root, "cgroup2", "")
	if err != nil {
		return nil, err
	}
	own, err := ownGroup(root, "")
	if err != nil {
		return nil, err
	}
	cause := errors.New("no group above this process controls memory, want memory in a cgroup.subtree_control")
	for at := own; ; at = filepath.Dir(at) {
		parent := filepath.Join(root, mount, at)
		text, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err == nil && slices.Contains(strings.Fields(string(text)), "memory") {
			var l *limit
			if l, cause = makeLimit(parent, "memory.max", "memory.swap.max", 0); cause == nil {
				return l, nil
			}
		}
		if at == "/" || at == "." {
			return nil, cause
		}
	}
}

// memoryLimit makes a group of version 1 below this process's group.
func memoryLimit(root string) (*limit, error) {
	mount, err := mounted(root, "cgroup", "memory")
	if err != nil {
		return nil, err
	}
	own, err := ownGroup(root, "memory")
	if err != nil {
		return nil, err
	}
	return makeLimit(filepath.Join(root, mount, own), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limitBytes)
}

// makeLimit makes a group below parent and writes the limits to the files named memory and swap. A kernel
// without swap accounting lacks the latter.
func makeLimit(parent, memory, swap string, swapBytes int) (*limit, error) {
	l := &limit{filepath.Join(parent, "goshmem-detect-"+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		return nil, err
	}
	err := l.write(memory, strconv.Itoa(limitBytes))
	if err == nil {
		if err = l.write(swap, strconv.Itoa(swapBytes)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.remove())
	}
	return l, nil
}

// addProcess moves a process into the group.
func (l *limit) addProcess(pid int) error { return l.write("cgroup.procs", strconv.Itoa(pid)) }

func (l *limit) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_WRONLY, 0) // the kernel created the file with the group
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// remove removes the group. Its process must have ended.
func (l *limit) remove() error { return os.Remove(l.dir) }

// mounted returns the mount point of a control group file system: of version 2, or of a controller of version
// 1.
func mounted(root, kind, controller string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// 30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
		// 35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
		place, source, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		at, from := strings.Fields(place), strings.Fields(source)
		if !ok || len(at) < 5 || len(from) < 3 || from[0] != kind {
			continue
		}
		if controller == "" || slices.Contains(strings.Split(from[2], ","), controller) {
			return at[4], nil
		}
	}
	if controller != "" {
		return "", fmt.Errorf("the controller %s is not mounted", controller)
	}
	return "", errors.New("not mounted")
}

// ownGroup returns the path of this process's group below the mount point: in version 2, or in a controller of
// version 1.
func ownGroup(root, controller string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // 0::/path or 4:memory,other:/path
		if len(f) == 3 && (f[1] == "" && controller == "" || controller != "" && slices.Contains(strings.Split(f[1], ","), controller)) {
			return f[2], nil
		}
	}
	return "", errors.New("this process is in no control group")
}
