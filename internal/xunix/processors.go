package xunix

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processors returns how many processors this process may use at a time: those of its affinity, but no more than its
// control group has time for (cpu.max); 0: it is not known.
func Processors() int {
	ids, err := Affinity()
	if err != nil {
		return 0
	}
	return min(len(ids), groupProcessors("/"))
}

// groupProcessors returns how many processors the control groups (version 2) of this process may use at a time, rounded up.
// Root is where the files of the kernel are.
func groupProcessors(root string) int {
	most := math.MaxInt
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // none: there is no limit
	for line := range strings.Lines(string(text)) {
		path, found := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !found {
			continue
		}
		top := filepath.Join(root, "sys/fs/cgroup")
		for dir := filepath.Join(top, filepath.Clean("/"+path)); len(dir) >= len(top); dir = filepath.Dir(dir) {
			if limit, err := os.ReadFile(filepath.Join(dir, "cpu.max")); err == nil {
				most = min(most, parseCPUMax(string(limit)))
			}
		}
	}
	return most
}

// parseCPUMax parses "200000 100000", the microseconds that processes may run in a period, and the period's.
func parseCPUMax(text string) int {
	words := strings.Fields(text)
	if len(words) != 2 {
		return math.MaxInt
	}
	quota, err := strconv.ParseUint(words[0], 10, 32)
	period, perr := strconv.ParseUint(words[1], 10, 32)
	if err != nil || perr != nil || quota == 0 || period == 0 { // "max 100000"
		return math.MaxInt
	}
	return int((quota + period - 1) / period)
}
