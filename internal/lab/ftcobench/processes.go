package ftcobench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processesBelow returns the children of a process with their command lines. proc is the directory of all processes.
func processesBelow(proc string, parent int) (map[int][]string, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	all := map[int][]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		stat, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if ppid, ok := parentOf(string(stat)); !ok || ppid != parent {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		all[pid] = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return all, nil
}

// parentOf returns the parent of a process, as the text of its stat file has it; false: the text is not one.
func parentOf(stat string) (int, bool) {
	i := strings.LastIndexByte(stat, ')') // the name before it may have any characters
	if i < 0 {
		return 0, false
	}
	fields := strings.Fields(stat[i+1:]) // state, parent, ...
	if len(fields) < 2 {
		return 0, false
	}
	ppid, err := strconv.Atoi(fields[1])
	return ppid, err == nil
}
