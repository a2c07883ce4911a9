package rerun

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Process is a process of the machine at the moment of a look at all of them.
type Process struct {
	PID, Parent int
	// Words is the command line. It is empty for a process that is between fork and exec: such a process still shows the
	// command line of its parent.
	Words []string
	start uint64 // with PID, what identifies the process
}

// Kill sends a signal to the process. A process that has ended is not an error, also if its number is another process's now.
func (p *Process) Kill(signal syscall.Signal) error {
	same := func() bool {
		start, err := xunix.StartTime(p.PID)
		return err == nil && start == p.start
	}
	if err := xunix.KillSame(p.PID, same, signal); err != nil && same() {
		return fmt.Errorf("kill %d: %w", p.PID, err)
	}
	return nil
}

// Processes are all processes of the machine, by number.
type Processes map[int]Process

// procDir is the directory of all processes.
const procDir = "/proc"

// LookAtProcesses returns the processes that run.
func LookAtProcesses() (Processes, error) { return readProcesses(procDir) }

// readProcesses returns the processes in a directory such as /proc. It leaves out those that end meanwhile.
func readProcesses(proc string) (Processes, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	all := Processes{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		stat, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue
		}
		p, forkedOnly, ok := parseStat(pid, string(stat))
		if !ok {
			continue
		}
		if !forkedOnly { // read after stat: exec changes both
			line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
			if err != nil {
				continue
			}
			p.Words = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		}
		all[pid] = p
	}
	return all, nil
}

// Fields of a stat file behind the name.
const (
	fieldParent = 1
	fieldFlags  = 6
	fieldStart  = 19
)

// parseStat reads the text of a stat file. forkedOnly says that the process is between fork and exec; ok is false if the
// text is not that of a stat file.
func parseStat(pid int, stat string) (p Process, forkedOnly, ok bool) {
	const noExec = 0x40 // PF_FORKNOEXEC of the kernel
	i := strings.LastIndexByte(stat, ')')
	if i < 0 { // the name before it may have any characters
		return p, false, false
	}
	fields := strings.Fields(stat[i+1:])
	if len(fields) <= fieldStart {
		return p, false, false
	}
	parent, err := strconv.Atoi(fields[fieldParent])
	if err != nil {
		return p, false, false
	}
	flags, err := strconv.ParseUint(fields[fieldFlags], 10, 64)
	if err != nil {
		return p, false, false
	}
	start, err := strconv.ParseUint(fields[fieldStart], 10, 64)
	return Process{PID: pid, Parent: parent, start: start}, flags&noExec != 0, err == nil
}

// childrenOf returns the children of a process, in the order of their numbers.
func (all Processes) childrenOf(pid int) (children []Process) {
	for _, p := range all {
		if p.Parent == pid {
			children = append(children, p)
		}
	}
	slices.SortFunc(children, func(a, b Process) int { return a.PID - b.PID })
	return children
}

// AgentOf returns the agent that a daemon has started.
func (all Processes) AgentOf(daemon int) (Process, error) {
	children := all.childrenOf(daemon)
	for _, p := range children {
		if len(p.Words) == 2 && p.Words[1] == "agent" {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("the daemon with pid %d has no agent among its %d children", daemon, len(children))
}

// NodeOf returns the processes of a node, its daemon first. Daemons of other nodes, which the daemon may have started, are
// not among them.
func (all Processes) NodeOf(daemon int) ([]Process, error) {
	first, ok := all[daemon]
	if !ok {
		return nil, fmt.Errorf("there is no daemon with pid %d", daemon)
	}
	node := []Process{first}
	for i := 0; i < len(node); i++ {
		for _, p := range all.childrenOf(node[i].PID) {
			if len(p.Words) < 2 || p.Words[1] != "daemon" {
				node = append(node, p)
			}
		}
	}
	return node, nil
}

// HolderOf returns the process of a job that holds the network of its emulated nodes.
func (all Processes) HolderOf(oshrun int) (Process, error) {
	if _, ok := all[oshrun]; !ok {
		return Process{}, fmt.Errorf("no process has the number %d", oshrun)
	}
	for _, p := range all.childrenOf(oshrun) {
		if len(p.Words) == 3 && p.Words[1] == "daemon" && p.Words[2] == "--network" {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("process %d is no oshrun whose nodes have networks of their own", oshrun)
}
