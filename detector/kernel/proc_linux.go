package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// pidNamespace returns the inode number of this process's pid namespace, or 0 for the machine's own. The
// kernel gives the machine's own namespace a fixed number (PROC_PID_INIT_INO).
func pidNamespace() (uint32, error) {
	const machine = 0xEFFFFFFC // PROC_PID_INIT_INO
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("pid namespace: %w", err)
	}
	number, err := strconv.ParseUint(strings.Trim(link, "pid:[]"), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("pid namespace %q: %w", link, err)
	}
	if number == machine {
		return 0, nil
	}
	return uint32(number), nil
}

// offsets are the differences between the clocks of this time namespace and the machine's clocks. /proc
// reports times of the namespace; the kernel's events carry times of the machine.
type offsets struct{ monotonic, boot time.Duration }

const tick = 10 * time.Millisecond // unit of process start times

// kernelStart converts a start time from /proc to the machine's clock. It returns 0 (unknown) if the
// offset is not a multiple of a tick: the result would be rounded and match no event.
func (o offsets) kernelStart(ticks uint64) uint64 {
	if o.boot%tick != 0 || ticks == 0 {
		return 0
	}
	return ticks - uint64(o.boot/tick)
}

// clockOffsets reads the offsets of this process's time namespace.
func clockOffsets() (offsets, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return offsets{}, nil // a kernel without time namespaces
	}
	if err != nil {
		return offsets{}, err
	}
	return parseOffsets(string(text))
}

func parseOffsets(text string) (o offsets, err error) {
	for line := range strings.Lines(text) {
		var name string
		var sec, nsec int64
		if _, err := fmt.Sscan(line, &name, &sec, &nsec); err != nil {
			return offsets{}, fmt.Errorf("clock offset %q: %w", line, err)
		}
		switch at := time.Duration(sec)*time.Second + time.Duration(nsec); name {
		case "monotonic":
			o.monotonic = at
		case "boottime":
			o.boot = at
		}
	}
	return o, nil
}

// MachineStart returns when a process began, in ticks of the machine's clock, as programs in the kernel read it. It
// returns 0 if that is not known: the clock of this time namespace differs by a part of a tick.
func MachineStart(pid int) (uint64, error) {
	start, err := xunix.StartTime(pid)
	if err != nil {
		return 0, err
	}
	clocks, err := clockOffsets()
	if err != nil {
		return 0, err
	}
	return clocks.kernelStart(start), nil
}

// MachineNumbers says whether the numbers of processes that this process uses are the machine's: it is in no pid
// namespace.
func MachineNumbers() (bool, error) {
	ns, err := pidNamespace()
	return ns == 0, err
}

// threads is a set of thread numbers of one process.
type threads map[uint32]struct{}

// unlisted stands for threads with unknown numbers. No thread has number 0, so no exit event removes
// unlisted from a set.
const unlisted = 0

// listLiveThreads returns the threads of a process that have not ended, or the set of unlisted if /proc
// cannot be read. The set is never empty: an empty set would mean that the process is over.
func listLiveThreads(pid int) threads {
	all := threads{}
	list, err := listThreads(pid)
	if err == nil {
		for _, thread := range list {
			all[thread] = struct{}{}
		}
		var ended bool
		if ended, err = leaderEnded(pid); ended {
			delete(all, uint32(pid)) // /proc lists an ended leader, and no other ended thread
		}
	}
	if err != nil || len(all) == 0 {
		return threads{unlisted: {}}
	}
	return all
}

// listThreads returns the numbers of all threads of a process. It reads the list until two in a row are
// equal: a thread that ends during a read may hide the threads after it, and is missing in the next read.
func listThreads(pid int) ([]uint32, error) {
	list, err := readThreads(pid)
	const tries = 10
	for range tries {
		if err != nil {
			return nil, err
		}
		before := list
		if list, err = readThreads(pid); err == nil && slices.Equal(before, list) {
			return list, nil
		}
	}
	return nil, fmt.Errorf("list threads of process %d: threads came or went during each of %d reads", pid, tries+1)
}

// readThreads reads /proc/PID/task once. The list may lack threads: see listThreads.
func readThreads(pid int) ([]uint32, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // nothing was written
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]uint32, len(names))
	for i, name := range names {
		thread, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, err
		}
		list[i] = uint32(thread)
	}
	return list, nil
}

// leaderEnded says whether the first thread of a process has ended: its state is Z or X. A thread that is
// exiting has another state until then.
func leaderEnded(pid int) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(rest, []byte(" Z")) || bytes.HasPrefix(rest, []byte(" X")), err
}

// procSampler samples threads by /proc. It reads two files for each thread.
type procSampler struct{}

func (procSampler) sample(out []sample, pids []int) ([]sample, error) {
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/task/", pid)
		threads, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			stat, err := os.ReadFile(dir + t.Name() + "/stat")
			if err != nil {
				continue
			}
			sched, err := os.ReadFile(dir + t.Name() + "/schedstat")
			if err != nil {
				sched = nil
			}
			if s, ok := parseThread(stat, sched); ok {
				s.pid = uint32(pid)
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// states maps the state letters of /proc to the kernel's state bits.
var states = map[byte]uint32{
	'R': 0, 'S': taskInterruptible, 'D': taskUninterruptible, 'I': taskUninterruptible | taskNoLoad,
	'T': taskStopped, 't': taskTraced, 'P': taskInterruptible,
}

// parseThread parses stat and schedstat of a thread. It returns false for a thread that is exiting or has
// an unknown format. Without schedstat the thread counts as running, so it is never reported as hung.
func parseThread(stat, sched []byte) (s sample, ok bool) {
	open, end := bytes.IndexByte(stat, ' '), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return sample{}, false
	}
	thread, err := strconv.ParseUint(string(stat[:open]), 10, 32)
	fields := bytes.Fields(stat[end+1:]) // state parent group session terminal foreground flags ...
	const state, flags, exiting = 0, 6, 4
	if err != nil || len(fields) <= flags || len(fields[state]) != 1 {
		return sample{}, false
	}
	bits, err := strconv.ParseUint(string(fields[flags]), 10, 32)
	s.state, ok = states[fields[state][0]]
	if err != nil || !ok || bits&exiting != 0 {
		return sample{}, false
	}
	s.thread, s.running = uint32(thread), true
	if times := bytes.Fields(sched); len(times) >= 3 { // on a processor, waiting for one, number of turns
		var rerr, terr error
		s.ran, rerr = strconv.ParseUint(string(times[0]), 10, 64)
		s.switches, terr = strconv.ParseUint(string(times[2]), 10, 64)
		s.running = rerr != nil || terr != nil
	}
	return s, true
}
