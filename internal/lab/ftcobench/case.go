// Package ftcobench measures what failures cost collectives on real processes. It starts real jobs, kills members of a
// team at the start of a reduction or during it, and records when the survivors have the right result.
//
//   - Source: Margolin and Barak, Tree-Based Fault-Tolerant Collective Operations for MPI, section 5.1: Table 1 and
//     Figures 5 and 6.
package ftcobench

import (
	"fmt"
	"slices"
)

// Faults says which members of a team die.
type Faults struct {
	Name  string
	About string

	first int // members that die at once
	later int // members that die one after the other, each upon the news of the one before: 0 or 1
}

// AllFaults lists the columns of Table 1.
var AllFaults = []Faults{
	{Name: "none", About: "nobody dies"},
	{Name: "one", About: "one member dies", first: 1},
	{Name: "parallel", About: "two members die at the same time", first: 2},
	{Name: "series", About: "a second member dies upon the news of the first", first: 1, later: 1},
	{Name: "mixed", About: "two die at the same time, and a third one upon the news of the first", first: 2, later: 1},
}

// victims returns how many members die.
func (f *Faults) victims() int { return f.first + f.later }

// findFaults returns the entry of AllFaults with that name, which exists.
func findFaults(name string) *Faults {
	return &AllFaults[slices.IndexFunc(AllFaults, func(f Faults) bool { return f.Name == name })]
}

// Ways of surviving a failure.
const (
	Tolerant = "tolerant" // the reduction of a tolerant team, which goes on among the survivors
	Strict   = "strict"   // the reduction of a strict team, which fails; then Shrink, and the reduction again
)

// Moments of the first deaths.
const (
	Before = "before" // at the start of the reduction, into which the victims do not go
	During = "during" // at a random time of the reduction, into which the victims go as the others do
)

// Parts of a measurement.
const (
	Table1  = "table1"  // the tolerant reduction of one number, with all faults
	Figure6 = "figure6" // tolerant against strict, with and without one fault, by size
)

// PartNames returns the names of all parts.
func PartNames() []string { return []string{Table1, Figure6} }

// MomentNames returns the names of all moments.
func MomentNames() []string { return []string{Before, During} }

// Case describes a job.
type Case struct {
	Nodes   int    // 1: the members of the team are PEs; more: the members are nodes
	PEs     int    // of the job
	Doubles int    // that are reduced
	Way     string // Tolerant or Strict
	Faults  string // a name of AllFaults
	When    string // Before or During; empty without faults
}

// String names the case in errors.
func (c Case) String() string {
	text := fmt.Sprintf("%s, %v, doubles: %d, faults: %s", c.Way, Group{c.Nodes, c.PEs}, c.Doubles, c.Faults)
	if c.When != "" {
		text += " " + c.When
	}
	return text
}

// members returns how many members the team has.
func (c Case) members() int {
	if c.Nodes > 1 {
		return c.Nodes
	}
	return c.PEs
}

// cases returns the cases of a measurement, each once.
func (o *Options) cases() (all []Case) {
	add := func(c Case, faults ...string) {
		for _, name := range faults {
			c.Faults = name
			for _, when := range o.When {
				if c.When = when; name == "none" {
					c.When = ""
				}
				if !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	for _, nodes := range o.Nodes {
		for _, pes := range o.PEs {
			if slices.Contains(o.Parts, Table1) {
				add(Case{Nodes: nodes, PEs: pes, Doubles: 1, Way: Tolerant}, "none", "one", "parallel", "series", "mixed")
			}
			if !slices.Contains(o.Parts, Figure6) {
				continue
			}
			for _, doubles := range o.Doubles {
				for _, way := range []string{Tolerant, Strict} {
					add(Case{Nodes: nodes, PEs: pes, Doubles: doubles, Way: way}, "none", "one")
				}
			}
		}
	}
	return all
}
