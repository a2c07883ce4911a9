package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// adoptOrphans makes processes of jobs whose parents have ended children of this process, so that endOrphans finds them.
func adoptOrphans() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", errno)
	}
	return nil
}

// orphanGrace is how long processes of a job that has ended well may take to end.
const orphanGrace = 5 * time.Second

// endOrphans waits for all children of this process, and for those that become its children meanwhile, and kills each one
// that has not ended after some time. It returns how many it has killed. The caller has no process of its own that runs.
func endOrphans(grace time.Duration) (killed int, err error) {
	for {
		children, err := childrenOf(os.Getpid())
		if err != nil || len(children) == 0 {
			return killed, err
		}
		for _, pid := range children {
			kill := time.AfterFunc(grace, func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may just have ended
			for {
				if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR { //nolint:errorlint // Wait4 returns it as it is
					break
				}
			}
			if !kill.Stop() {
				killed++
			}
		}
	}
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) (all []int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(raw)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, child)
		}
	}
	return all, nil
}
