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

// What finds a mutant of coll/agree or coll/ftco is one of these, or a package and its test
// ("sim/logp TestWhoeverDies").
const (
	search    = "search"    // of small groups, all runs; sim/explore
	schedules = "schedules" // drawn at random; sim/explore
)

// treeLimit ends a test that a mutant keeps from ending.
const treeLimit = time.Minute

// explorer is the package of the searches and schedules.
const explorer = "sim/explore"

// trees are the paths of the test programs with all mutants of coll/agree and coll/ftco in
// them, by package.
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

// treeTests are all tests of m, those that are quick before the others.
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

// command returns how to run a test that is named as in the tables.
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
			return "" // it has failed by something else
		}
	}
	c.program, c.dir, c.pattern = p[pkg], pkg, "^"+pattern+"$"
	return c
}
