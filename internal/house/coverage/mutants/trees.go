package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/weave"
)

// Tests that find mutants of coll/agree or coll/ftco. Other tests are named by package and test ("sim/logp
// TestWhoeverDies").
const (
	search    = "search"    // sim/explore: all runs of small groups
	schedules = "schedules" // sim/explore: random schedules
)

// treeLimit is the time limit of a test.
const treeLimit = time.Minute

// explorer is the package of the searches and schedules.
const explorer = "sim/explore"

// trees has the paths of the test programs with all mutants of coll/agree and coll/ftco, by package.
type trees map[string]string

// treeHunt returns the hunt for mutants of the machines of coll/agree and coll/ftco.
func treeHunt() *hunt {
	p := trees{}
	return &hunt{
		of:    "coll/agree and coll/ftco",
		table: slices.Concat(agreeMutants, ftcoMutants, publishedMutants),
		closing: func(n counts) string {
			return fmt.Sprintf("%d mutants of coll/agree and coll/ftco are found; of the tables %d change nothing, %d are open",
				n.known, n.argued, n.open)
		},
		passing: []string{search, schedules}, // in sim/explore's own tests
		build:   p.build,
		command: p.command,
		tests:   treeTests,
	}
}

// build builds the programs.
func (p trees) build(ctx context.Context, o *weave.Overlay) (err error) {
	for _, pkg := range []string{"coll/agree", "coll/ftco", "sim/agree", "sim/logp", "sim/ftco", explorer} {
		if p[pkg], err = o.Build(ctx, pkg, ""); err != nil {
			return err
		}
	}
	return nil
}

// treeTests returns all tests for m, the quick ones first.
func treeTests(m mutant) []string {
	pkg := filepath.Dir(m.File)
	switch {
	case strings.HasPrefix(filepath.Base(m.File), "published"):
		return []string{
			pkg + " Test(DISD|RSD|Timeouts|ETA|MessagePriorities|Sets|Published.*)",
			"sim/logp Test(ModelByHand|MessageFlow|FaultFreeCost|NoAllocation|NoQuestions.*|WhoeverDies|Disruption|DataTimeout|LateIsNotDead|PublishedEnds)",
			"sim/ftco Test(Halves|Table2|Figure7AllRadixes|OverheadIsTheUnit)",
		}
	case pkg == "coll/agree":
		return []string{search, pkg + " Test.*", schedules, "sim/agree Test.*"}
	}
	return []string{search, pkg + " Test.*", schedules, "sim/logp TestShipped.*", "sim/ftco TestShipped.*"}
}

// command returns how to run a test with the given name in the tables.
func (p trees) command(m mutant, test string) command {
	c := command{limit: treeLimit, env: []string{"GOMAXPROCS=1"}}
	pkg, pattern, is := strings.Cut(test, " ")
	if is {
		c.args = []string{"-test.short"}
		c.found = func(out string) string {
			f := failure.FindStringSubmatch(out)
			if f == nil {
				return ""
			}
			name, _, _ := strings.Cut(f[1], "/")
			return pkg + " Test" + name
		}
	} else {
		pkg, pattern = explorer, "TestShipped"
		if strings.HasPrefix(m.File, "coll/agree") {
			pattern = "TestAgreeShipped"
		}
		c.args = []string{"-mutant=" + map[string]string{search: "search", schedules: "random"}[test]}
		c.found = func(out string) string {
			if failure.MatchString(out) && strings.Contains(out, "FOUND ") {
				return test
			}
			return "" // the test has failed for another reason
		}
	}
	c.program, c.dir, c.pattern = p[pkg], pkg, "^"+pattern+"$"
	return c
}
