// Package detectbench measures how soon the PEs of a job learn of the failure of a PE. It starts real jobs,
// makes a PE fail, and records three times: the failure is on the failure page, a blocked call returns, and a
// callback runs.
//
//   - Source: Zhong et al., General Failure Detection and Propagation in HPC and Distributed Systems,
//     section 5.5.
package detectbench

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Case is a way to fail.
type Case struct {
	Name  string
	About string

	signal syscall.Signal // signal that the injector sends; 0: the victim fails by itself
	memory bool           // the victim fills memory first
	limit  bool           // the victim gets a memory limit
	stops  bool           // the victim does not die
}

// Cases lists all cases.
var Cases = []Case{
	{Name: "small", About: "SIGKILL to a PE with little memory", signal: syscall.SIGKILL},
	{Name: "threads", About: "SIGKILL to a PE with 17 additional threads", signal: syscall.SIGKILL},
	{Name: "heap", About: "SIGKILL to a PE that has touched a symmetric heap of --size", signal: syscall.SIGKILL, memory: true},
	{Name: "anonymous", About: "SIGKILL to a PE that has touched --size of its own memory", signal: syscall.SIGKILL, memory: true},
	{Name: "segv", About: "SIGSEGV to a PE without a handler", signal: syscall.SIGSEGV},
	{Name: "stop", About: "SIGSTOP: no death; measures when oshrun reports it", signal: xunix.SIGSTOP, stops: true},
	{Name: "oom", About: "a PE that the out-of-memory killer kills", limit: true},
	{Name: "exit", About: "a PE that exits with status 7"},
}

// CaseNames returns the names of all cases.
func CaseNames() []string {
	var names []string
	for _, c := range Cases {
		names = append(names, c.Name)
	}
	return names
}

// findCases returns the cases with the given names, or all cases if names is empty.
func findCases(names []string) ([]Case, error) {
	if len(names) == 0 {
		return Cases, nil
	}
	var found []Case
	for _, name := range names {
		i := slices.IndexFunc(Cases, func(c Case) bool { return c.Name == name })
		if i < 0 && isNodeCase(name) {
			return nil, fmt.Errorf("--cases: %q is of several nodes, want --emulate N with it, or some of %s", name, strings.Join(CaseNames(), ", "))
		}
		if i < 0 {
			return nil, fmt.Errorf("--cases: %q, want some of %s", name, strings.Join(CaseNames(), ", "))
		}
		if !slices.ContainsFunc(found, func(c Case) bool { return c.Name == name }) {
			found = append(found, Cases[i])
		}
	}
	return found, nil
}
