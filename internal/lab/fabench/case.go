package fabench

import (
	"fmt"
	"slices"
	"strings"
)

// Names of cases.
const (
	None         = "none"
	FaultFree    = "fault-free"
	First        = "first"
	First2       = "first-2"
	Mid          = "mid"
	Last         = "last"
	FirstRebuild = "first-rebuild"
	Node         = "node"
)

// Case is a row of the experiment.
type Case struct {
	Name, About string
	policy      string // how the application recovers; empty: nobody dies
	moment      moment
	dead        int // ranks that kill themselves
}

// moment is when ranks die.
type moment uint8

const (
	atFirst moment = iota // iteration 1
	atMid                 // half of the iterations
	atLast                // two before the end
)

// Cases lists all cases, in the order of the figure.
var Cases = []Case{
	{Name: None, About: "no transactions"},
	{Name: FaultFree, About: "a transaction for each iteration, and nobody dies"},
	{Name: First, About: "a rank dies in iteration 1: shrink, spawn, merge", policy: "merge", dead: 1},
	{Name: First2, About: "two ranks die in iteration 1: shrink, spawn, merge", policy: "merge", dead: 2},
	{Name: Mid, About: "a rank dies in the midst: shrink, spawn, merge", policy: "merge", moment: atMid, dead: 1},
	{Name: Last, About: "a rank dies two iterations before the end: shrink, spawn, merge", policy: "merge", moment: atLast, dead: 1},
	{Name: FirstRebuild, About: "a rank dies in iteration 1: rebuild, the new rank has its number", policy: "rebuild", dead: 1},
	{Name: Node, About: "a node dies in the midst, with its daemon: shrink, spawn on the others, merge", policy: "merge", moment: atMid, dead: 1},
}

// CaseNames returns the names of all cases.
func CaseNames() (names []string) {
	for i := range Cases {
		names = append(names, Cases[i].Name)
	}
	return names
}

// findCase returns a case by its name.
func findCase(name string) *Case {
	return &Cases[slices.IndexFunc(Cases, func(c Case) bool { return c.Name == name })]
}

// hasDeaths says whether ranks die.
func (c *Case) hasDeaths() bool { return c.dead > 0 }

// iteration returns the iteration in which ranks die, counted from 0.
func (c *Case) iteration(iterations int) int {
	switch c.moment {
	case atMid:
		return iterations / 2
	case atLast:
		return iterations - 2
	}
	return 1
}

// kill returns the value of --kill of an application: rank 1 dies, and the last rank as the second one. The node that dies is that of the last rank.
func (c *Case) kill(ranks, iterations int) string {
	victims := []int{1, ranks - 1}[:c.dead]
	if c.Name == Node {
		victims = []int{ranks - 1}
	}
	var all []string
	for _, rank := range victims {
		all = append(all, fmt.Sprintf("%d@%d", rank, c.iteration(iterations)))
	}
	return strings.Join(all, ",")
}
