package detectbench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// NodeCase is a way to fail in a job on several nodes.
type NodeCase struct {
	Name  string // with its number, if it takes one: contiguous:2
	About string

	part  part // what dies of a node
	count int  // nodes that fail at the same time
	runs  bool // they are neighbors
	takes bool // the case takes a number of nodes
}

// part is what dies of a node.
type part int

const (
	onePE part = iota
	daemonProcess
	agentProcess
	allProcesses // and the interface, if the node has one of its own
	onlyLink     // the interface; no process dies by it
	nothing      // the job runs for a while
)

// NodeCases lists all cases. Those that take a number have "K" in its place.
var NodeCases = []NodeCase{
	{Name: "pe", About: "SIGKILL to a PE", part: onePE, count: 1},
	{Name: "daemon", About: "SIGKILL to the daemon of a node", part: daemonProcess, count: 1},
	{Name: "agent", About: "SIGKILL to the agent of a node", part: agentProcess, count: 1},
	{Name: "node", About: "all processes of a node at once; with netns, its interface goes down first", part: allProcesses, count: 1},
	{Name: "cut", About: "the interface of a node goes down; with netns only", part: onlyLink, count: 1},
	{Name: "none", About: "nothing; any report is false. Only if it is asked for", part: nothing},
	{Name: "contiguous:K", About: "as node, of K neighbors at once", part: allProcesses, runs: true, takes: true},
	{Name: "random:K", About: "as node, of any K nodes at once", part: allProcesses, takes: true},
}

// NodeCaseNames returns the names of all cases, as a command line may begin them: "contiguous:".
func NodeCaseNames() []string {
	var names []string
	for i := range NodeCases {
		names = append(names, strings.TrimSuffix(NodeCases[i].Name, "K"))
	}
	return names
}

// nodeCasesText lists the cases in errors.
func nodeCasesText() string {
	var names []string
	for i := range NodeCases {
		names = append(names, NodeCases[i].Name)
	}
	return strings.Join(names, ", ")
}

// findNodeCase returns the case that a command line names, for jobs on some nodes.
func findNodeCase(text string, nodes int) (NodeCase, error) {
	name, number, hasNumber := strings.Cut(text, ":")
	i := slices.IndexFunc(NodeCases, func(c NodeCase) bool { return strings.TrimSuffix(c.Name, ":K") == name })
	if i < 0 {
		if slices.Contains(CaseNames(), name) {
			return NodeCase{}, fmt.Errorf("--cases: %q is of one node, want some of %s with --emulate", text, nodeCasesText())
		}
		return NodeCase{}, fmt.Errorf("--cases: %q, want some of %s", text, nodeCasesText())
	}
	c := NodeCases[i]
	if c.takes != hasNumber {
		return NodeCase{}, fmt.Errorf("--cases: %q, want %s", text, c.Name)
	}
	if !c.takes {
		return c, nil
	}
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 || k >= nodes {
		return NodeCase{}, fmt.Errorf("--cases: %q, want a number of nodes from 1 to %d: at least one of the %d nodes survives", text, nodes-1, nodes)
	}
	c.Name, c.count = text, k
	return c, nil
}

// findNodeCases returns the cases that a command line names, each once.
func findNodeCases(names []string, nodes int) (found []NodeCase, err error) {
	for _, name := range names {
		c, err := findNodeCase(name, nodes)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(other NodeCase) bool { return other.Name == c.Name }) {
			found = append(found, c)
		}
	}
	return found, nil
}

// isNodeCase says whether a command line names a case of several nodes.
func isNodeCase(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	return slices.ContainsFunc(NodeCases, func(c NodeCase) bool { return strings.TrimSuffix(c.Name, ":K") == name })
}

// cutsLinks says whether the case takes interfaces down.
func (c *NodeCase) cutsLinks(apart bool) bool {
	return c.part == onlyLink || c.part == allProcesses && apart
}

// victims are what a trial makes fail.
type victims struct {
	pe    int   // of a case of one PE; -1: whole nodes fail
	nodes []int // that fail, ascending; of a case of one PE empty
}

// choose draws the victims of a trial.
func (c *NodeCase) choose(rng *rand.Rand, nodes, pes int) victims {
	switch {
	case c.part == nothing:
		return victims{pe: -1}
	case c.part == onePE:
		return victims{pe: rng.IntN(pes)}
	case c.runs:
		first := rng.IntN(nodes - c.count + 1)
		v := victims{pe: -1}
		for node := first; node < first+c.count; node++ {
			v.nodes = append(v.nodes, node)
		}
		return v
	}
	all := rng.Perm(nodes)[:c.count]
	slices.Sort(all)
	return victims{pe: -1, nodes: all}
}

// noVictims is the text of victims of which there are none.
const noVictims = "none"

// String returns the victims as the program of the PEs takes them: "pe:3", "nodes:1,4" or "none".
func (v victims) String() string {
	if v.pe < 0 && len(v.nodes) == 0 {
		return noVictims
	}
	if v.pe >= 0 {
		return fmt.Sprintf("pe:%d", v.pe)
	}
	var words []string
	for _, node := range v.nodes {
		words = append(words, strconv.Itoa(node))
	}
	return "nodes:" + strings.Join(words, ",")
}

// parseVictims reads what String returns.
func parseVictims(text string) (v victims, err error) {
	if text == noVictims {
		return victims{pe: -1}, nil
	}
	what, list, _ := strings.Cut(text, ":")
	var numbers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return v, fmt.Errorf("victims %q: %w", text, err)
		}
		numbers = append(numbers, n)
	}
	switch {
	case what == "pe" && len(numbers) == 1:
		return victims{pe: numbers[0]}, nil
	case what == "nodes":
		return victims{pe: -1, nodes: numbers}, nil
	}
	return v, fmt.Errorf("victims %q, want pe:3 or nodes:1,4", text)
}

// pes returns the PEs that die, ascending. nodeOf is the node of each PE.
func (v victims) pes(nodeOf []int) (dead []int) {
	for pe, node := range nodeOf {
		if pe == v.pe || slices.Contains(v.nodes, node) {
			dead = append(dead, pe)
		}
	}
	return dead
}
