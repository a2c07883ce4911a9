package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Why agents do not serve a job is said of the node that lacks one, with the reason that holds, and asking changes nothing.
func TestLackOfAgent(t *testing.T) {
	parts := []layout.NodePart{{Count: 3}, {First: 3, Count: 2}, {}}
	share := &Share{Name: "goshmem-a", Hosts: []string{"a", "b", "c"}, Homes: []int{0, 0}}
	spawned := func(bases ...int) *localJob {
		return &localJob{number: 2, share: share, near: []int{0, 1}, procs: make([]*localPE, 2), bases: bases}
	}
	first := &localJob{share: share, near: []int{0, 1}, procs: make([]*localPE, 2)}
	far := spawned()
	far.share = &Share{Name: "goshmem-a", Hosts: share.Hosts, Homes: []int{2, 2}}
	runs := &nodeAgent{command: &AgentCommand{}, parts: parts, runs: true}
	for name, x := range map[string]struct {
		agent *nodeAgent
		of    *localJob
		want  string // empty: it serves the job
	}{
		"served":        {runs, spawned(4), ""},
		"first job":     {runs, first, ""},
		"at the limit":  {runs, spawned(-1), "the agent of node 0 (a) has no room for it: it serves at most 1020 PEs of spawned jobs beside 3 of the first job"},
		"no PE there":   {runs, far, "node 2 (c) has no agent: agents run where the first job has PEs"},
		"one node":      {&nodeAgent{}, first, "the PEs of the first job are on one node"},
		"has not begun": {&nodeAgent{command: &AgentCommand{}, parts: parts, lack: errors.New("no memory")}, spawned(4), "no memory"},
	} {
		if got := x.of.lackAt(x.agent); !strings.Contains(got, x.want) || (got == "") != (x.want == "") {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
		if x.agent.lent || x.agent.missed {
			t.Errorf("%s: the agent is lent or missed, want nothing changed", name)
		}
	}
}
