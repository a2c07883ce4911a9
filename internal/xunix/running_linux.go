package xunix

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTimeOf returns the processor time that all threads of a process have used.
func ProcessTimeOf(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED, of the whole process
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &ts); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Running says whether a thread of a process is runnable: it runs, or waits for a processor. ok is false if
// the process is exiting or gone.
func Running(pid int) (ready, ok bool) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	for _, t := range threads {
		stat, err := os.ReadFile(dir + "/" + t.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		// Format: pid (name) state ppid ... The name may hold any byte. Field 23 is the size of the address
		// space; it is 0 for a thread that is exiting.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 21 || string(fields[20]) == "0" {
			continue
		}
		ok = true
		if string(fields[0]) == "R" {
			return true, true
		}
	}
	return false, ok
}
