package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/internal/weave"
)

// mutant is a mistake that a programmer could make: in File, Old becomes New.
type mutant struct {
	File, Old, New string
	Breaks         string // what is wrong then
	// Found is the test that finds the mutant: a scenario of coll's explorer ("Data/roots"), a
	// test of package coll ("TestSame"), one of coll/board ("board.TestJudge"), or open. For a
	// change that no caller can notice it is none and the argument.
	Found string
}

const (
	open  = ""            // not tried yet, or found by no test
	none  = "no mutant: " // an argument follows
	board = "board."      // a test of package coll/board follows
)

// sources is the folder that the files of collMutants are in.
const sources = "coll"

// The limits of one run: an exploration is a whole one, and takes half a minute alone.
const (
	testLimit        = 20 * time.Second
	scenarioLimit    = time.Minute
	explorationLimit = 10 * time.Minute
)

// programs are the test programs with all mutants in them.
type programs struct {
	explorer string // of package coll, whose accesses to shared memory are explored
	coll     string // of package coll as it is
	board    string // of package coll/board
	selected *regexp.Regexp
}

// verdict is the result of one run of a test.
type verdict struct {
	failed bool
	test   string // the test that failed, as in the table; "" if none
	out    string
}

// buildPrograms builds the programs in dir.
func buildPrograms(ctx context.Context, dir string) (p programs, err error) {
	o, err := weave.New(".", dir)
	if err != nil {
		return p, err
	}
	var changes []weave.Change
	for _, m := range collMutants {
		changes = append(changes, weave.Change{File: filepath.Join(sources, m.File), Old: m.Old, New: m.New})
	}
	alone, err := o.Switch(changes)
	if err != nil {
		return p, err
	}
	for number := range alone {
		return p, fmt.Errorf("%s: the change is not inside one function", collMutants[number-1].name())
	}
	if p.coll, err = o.Build(ctx, sources, ""); err != nil {
		return p, err
	}
	if p.board, err = o.Build(ctx, sources+"/board", ""); err != nil {
		return p, err
	}
	if err := o.Weave(sources, weave.Coll); err != nil {
		return p, err
	}
	p.explorer, err = o.Build(ctx, sources, "explore")
	return p, err
}

// name returns the words by which messages and the command's argument name a mutant.
func (m mutant) name() string { return m.File + ": " + m.Breaks }

// tryKnown demands that the test of each selected mutant finds it, and that all those tests
// pass without a mutant. It prints how many mutants there are of each kind.
func (p *programs) tryKnown(ctx context.Context) error {
	var known []int // numbers of mutants
	var tests []string
	opened, argued := 0, 0
	for i, m := range collMutants {
		switch {
		case m.Found == open:
			opened++
		case strings.HasPrefix(m.Found, none):
			argued++
		case p.selected.MatchString(m.name()):
			known = append(known, i+1)
			if !slices.Contains(tests, m.Found) {
				tests = append(tests, m.Found)
			}
		}
	}
	err := forAll(ctx, tests, func(test string) error {
		if v := p.run(ctx, 0, test); v.failed {
			return fmt.Errorf("%s fails without a mutant:\n%s", test, v.out)
		}
		return nil
	})
	if err == nil {
		err = forAll(ctx, known, func(number int) error { return p.find(ctx, number) })
	}
	if err == nil {
		fmt.Fprintf(os.Stdout, "%d mutants of coll, found by %d tests; of the table %d change nothing, %d are open\n",
			len(known), len(tests), argued, opened)
	}
	return err
}

// find demands that the mutant of a number is found by its test.
func (p *programs) find(ctx context.Context, number int) error {
	m := collMutants[number-1]
	switch v := p.run(ctx, number, m.Found); {
	case !v.failed:
		return fmt.Errorf("%d, %s: %s passes", number, m.name(), m.Found)
	case v.test != m.Found:
		return fmt.Errorf("%d, %s: %s ends without a verdict:\n%s", number, m.name(), m.Found, v.out)
	}
	return nil
}

// tryOpen tries all tests on the selected mutants that are open, those of coll/board and of
// coll before the explorer, and prints the first that finds each.
func (p *programs) tryOpen(ctx context.Context) error {
	var numbers []int
	for i, m := range collMutants {
		if m.Found == open && p.selected.MatchString(m.name()) {
			numbers = append(numbers, i+1)
		}
	}
	return forAll(ctx, numbers, func(number int) error {
		m := collMutants[number-1]
		begun, result := time.Now(), "not found"
		for _, test := range m.tests() {
			v := p.run(ctx, number, test)
			if v.test != "" {
				result = v.test
				break
			}
			if v.failed {
				result += fmt.Sprintf("; %s ends without a verdict (%s)", test, crash.FindString(v.out))
			}
		}
		fmt.Fprintf(os.Stdout, "%d\t%6.1f s\t%s\t%s\n", number, time.Since(begun).Seconds(), m.name(), result)
		return nil
	})
}

// everyTest stands for all tests of a package but those that kill processes.
const everyTest = "Test"

// tests are all tests, those that are likelier to find m first.
func (m mutant) tests() []string {
	data, teams := "Data", "Teams"
	if slices.Contains([]string{"agreement.go", "group.go", "leave.go"}, m.File) {
		data, teams = teams, data
	}
	return []string{board + everyTest, everyTest, data, teams}
}

var (
	failure = regexp.MustCompile(`(?m)^ *--- FAIL: Test(\S+)`)
	crash   = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
)

// run runs a test with the mutant of a number, or none. A test that does not end is one
// that did not fail.
func (p *programs) run(ctx context.Context, number int, test string) verdict {
	c := p.command(test)
	// The program ends itself; the longer limit here is for one that cannot.
	ctx, stop := context.WithTimeout(ctx, 2*c.limit)
	defer stop()
	cmd := exec.CommandContext(ctx, c.program, "-test.v", "-test.run="+c.pattern, "-test.skip="+c.skip, "-test.failfast", "-test.timeout="+c.limit.String())
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), weave.MutantVar+"="+strconv.Itoa(number))
	text, err := cmd.CombinedOutput()
	v := verdict{failed: err != nil, out: string(text)}
	if err == nil && !strings.Contains(v.out, "--- PASS: ") {
		v.failed, v.out = true, v.out+"there is no such test\n"
	}
	if err != nil && !strings.Contains(v.out, "panic: test timed out") {
		v.test = c.found(v.out)
	}
	return v
}

// command is how a test is run.
type command struct {
	program, dir, pattern, skip string
	limit                       time.Duration
	found                       func(out string) string // the name of the test that failed
}

// command returns how to run a test that is named as in the table.
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

// named returns the test that failed by its own words, or the only one that was run if the
// program has ended by a panic.
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

// forAll calls f for each element of list, as many at a time as there are processors, and
// returns all errors, or why ctx has ended.
func forAll[E any](ctx context.Context, list []E, f func(E) error) error {
	errs := make([]error, len(list))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, x := range list {
		all.Go(func() error {
			if ctx.Err() == nil {
				errs[i] = f(x)
			}
			return nil // the others go on
		})
	}
	_ = all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}
