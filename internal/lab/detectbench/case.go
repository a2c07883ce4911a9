// Package detectbench measures how soon the PEs of a job learn that one of them
// has failed: it starts real jobs, makes a PE fail in one way or another, and
// takes the times at which the failure is on the page, at which a blocked call
// returns, and at which a callback runs (Zhong et al., General Failure
// Detection and Propagation in HPC and Distributed Systems, section 5.5).
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

	signal syscall.Signal // that the injector sends; 0: the victim is asked to do it
	memory bool           // it fills memory first
	limit  bool           // it gets a limit of memory
	stops  bool           // it does not die
}

// Cases are all of them.
var Cases = []Case{
	{Name: "small", About: "SIGKILL to a PE with little memory", signal: syscall.SIGKILL},
	{Name: "threads", About: "SIGKILL to a PE with 17 threads more", signal: syscall.SIGKILL},
	{Name: "heap", About: "SIGKILL to a PE that has touched a symmetric heap of --size", signal: syscall.SIGKILL, memory: true},
	{Name: "anonymous", About: "SIGKILL to a PE that has touched --size of its own memory", signal: syscall.SIGKILL, memory: true},
	{Name: "segv", About: "SIGSEGV to a PE without a handler", signal: syscall.SIGSEGV},
	{Name: "stop", About: "SIGSTOP: no death, what is measured is the message", signal: xunix.SIGSTOP, stops: true},
	{Name: "oom", About: "a PE that the kernel kills for its memory", limit: true},
	{Name: "exit", About: "a PE that exits with status 7"},
}

// CaseNames are the names of all cases.
func CaseNames() []string {
	var names []string
	for _, c := range Cases {
		names = append(names, c.Name)
	}
	return names
}

// find returns the cases of the given names, all if there are none.
func find(names []string) ([]Case, error) {
	if len(names) == 0 {
		return Cases, nil
	}
	var found []Case
	for _, name := range names {
		i := slices.IndexFunc(Cases, func(c Case) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("--cases: %q, want %s", name, strings.Join(CaseNames(), ", "))
		}
		if !slices.ContainsFunc(found, func(c Case) bool { return c.Name == name }) {
			found = append(found, Cases[i])
		}
	}
	return found, nil
}
