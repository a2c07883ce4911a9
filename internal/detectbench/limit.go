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

// limitBytes is what the victim of the case oom may have.
const limitBytes = 96 << 20

// limit is a control group with a limit of memory.
type limit struct{ dir string }

// newLimit makes one: beside this process's own group, or the nearest above it
// under which memory is counted and that this user may write to. root is where
// /proc and the group file systems are mounted.
func newLimit(root string) (*limit, error) {
	mount, err := unified(root)
	if err != nil {
		return nil, err
	}
	own, err := ownGroup(root)
	if err != nil {
		return nil, err
	}
	cause := errors.New("no group above this process's counts memory")
	for at := own; ; at = filepath.Dir(at) {
		parent := filepath.Join(root, mount, at)
		text, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err == nil && slices.Contains(strings.Fields(string(text)), "memory") {
			l := &limit{filepath.Join(parent, "goshmem-detect-"+strconv.Itoa(os.Getpid()))}
			if cause = l.make(); cause == nil {
				return l, nil
			}
		}
		if at == "/" || at == "." {
			return nil, fmt.Errorf("control groups (version 2): %w", cause)
		}
	}
}

// make makes the directory and sets the limits.
func (l *limit) make() error {
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		return err
	}
	err := l.write("memory.max", strconv.Itoa(limitBytes))
	if err == nil {
		if err = l.write("memory.swap.max", "0"); errors.Is(err, os.ErrNotExist) {
			err = nil // a kernel without swap
		}
	}
	if err != nil {
		return errors.Join(err, l.remove())
	}
	return nil
}

// take puts a process into the group.
func (l *limit) take(pid int) error { return l.write("cgroup.procs", strconv.Itoa(pid)) }

func (l *limit) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_WRONLY, 0) // the kernel made it
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// remove removes the group, whose process has ended.
func (l *limit) remove() error { return os.Remove(l.dir) }

// unified returns where control groups of version 2 are mounted.
func unified(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// 30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
		place, kind, ok := strings.Cut(line, " - ")
		if f := strings.Fields(place); ok && strings.HasPrefix(kind, "cgroup2 ") && len(f) > 4 {
			return f[4], nil
		}
	}
	return "", errors.New("control groups of version 2 are not mounted")
}

// ownGroup returns the path of this process's group below the mount.
func ownGroup(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, nil
		}
	}
	return "", errors.New("this process is in no control group of version 2")
}
