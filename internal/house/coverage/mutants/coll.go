package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/weave"
)

// board is the prefix of tests of package coll/board ("board.TestVerdictOf"). Other names are scenarios of coll's
// explorer ("Data/roots") and tests of package coll ("TestSame").
const board = "board."

// sources is the folder of the files in collMutants.
const sources = "coll"

// The limits of one run. A whole exploration takes half a minute on an idle machine.
const (
	testLimit        = 20 * time.Second
	scenarioLimit    = time.Minute
	explorationLimit = 10 * time.Minute
)

// programs has the paths of the test programs with all mutants of coll.
type programs struct {
	explorer string // package coll, with explored accesses to shared memory
	coll     string // package coll as it is
	board    string // package coll/board
}

// collHunt returns the hunt for mutants of coll and coll/board.
func collHunt() *hunt {
	p := &programs{}
	return &hunt{
		of:     "coll",
		folder: sources,
		table:  collMutants,
		closing: func(n counts) string {
			return fmt.Sprintf("%d mutants of coll, found by %d tests; of the table %d change nothing, %d are open",
				n.known, n.tests, n.argued, n.open)
		},
		build:   p.build,
		command: func(_ mutant, test string) command { return p.command(test) },
		tests:   collTests,
	}
}

// build builds the programs.
func (p *programs) build(ctx context.Context, o *weave.Overlay) (err error) {
	if p.coll, err = o.Build(ctx, sources, ""); err != nil {
		return err
	}
	if p.board, err = o.Build(ctx, sources+"/board", ""); err != nil {
		return err
	}
	if err := o.Weave(sources, weave.Coll); err != nil {
		return err
	}
	p.explorer, err = o.Build(ctx, sources, "explore")
	return err
}

// everyTest stands for all tests of a package except those that kill processes.
const everyTest = "Test"

// collTests returns all tests. The tests of coll/board and coll come first, because they are quicker than the
// explorer. Then comes the half of the explorer that is likelier to find m.
func collTests(m mutant) []string {
	data, teams := "Data", "Teams"
	if slices.Contains([]string{"agreement.go", "group.go", "ids.go", "leave.go"}, m.File) {
		data, teams = teams, data
	}
	if m.File == "direct.go" {
		return []string{board + everyTest, everyTest, "Direct", data, teams}
	}
	return []string{board + everyTest, everyTest, data, teams, "Direct"}
}

// command returns how to run a test with the given name in the table.
func (p *programs) command(test string) command {
	if name, of := strings.CutPrefix(test, board); of {
		c := p.ordinary(name)
		c.program, c.dir = p.board, sources+"/board"
		c.found = func(out string) string { return named(board, test, out) }
		return c
	}
	if strings.HasPrefix(test, everyTest) {
		return p.ordinary(test)
	}
	exploration, name, of := strings.Cut(test, "/")
	c := command{program: p.explorer, dir: sources, pattern: "^TestExplore" + exploration + "$", limit: explorationLimit}
	if of {
		c.pattern, c.limit = c.pattern+"/^"+name+"$", scenarioLimit
	}
	c.found = func(out string) string {
		for _, f := range failure.FindAllStringSubmatch(out, -1) {
			if scenario := strings.TrimPrefix(f[1], "Explore"); strings.Contains(scenario, "/") {
				return scenario
			}
		}
		return ""
	}
	return c
}

// ordinary returns how to run a test of package coll as it is.
func (p *programs) ordinary(test string) command {
	c := command{program: p.coll, dir: sources, limit: testLimit, skip: "^Test(Explored|.*Killed.*)$"}
	c.found = func(out string) string { return named("", test, out) }
	if c.pattern = "^" + test + "$"; test == everyTest {
		c.pattern = "."
	}
	return c
}

// named returns the failed test in the output, or the test that was run if the program has ended by a panic.
func named(prefix, test, out string) string {
	if f := failure.FindStringSubmatch(out); f != nil {
		name, _, _ := strings.Cut(f[1], "/")
		return prefix + "Test" + name
	}
	if crash.MatchString(out) {
		return test
	}
	return ""
}
