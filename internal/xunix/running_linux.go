package xunix

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTimeOf returns the processor time that a process has used, all its threads
// together.
func ProcessTimeOf(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED, of the whole process
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &ts); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Running says whether a thread of a process runs or would run if it had a processor;
// ok is false if the process is ending or gone.
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
		// pid (name) state ppid ...; the name may hold anything. The 23rd field is the
		// size of the address space, which an ending thread has given up.
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
