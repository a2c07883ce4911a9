// Command treemutants makes the machines of coll/agree and coll/ftco wrong in the ways that
// its tables list, and demands that the test that a table names finds each mutant. The tests
// are the searches and the random schedules of sim/explore and the tests of the packages and
// of their simulators. All mutants are in each test program, which is built once.
//
// Run the command at the root of the module. An argument is a regular expression that selects
// mutants by file and words. Flag -open tries those for which the tables name no test yet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/internal/weave"
)

// mutant is a mistake that a programmer could make: in File, Old becomes New.
type mutant struct {
	File, Old, New string
	Breaks         string // what is wrong then
	// Found is what finds the mutant: search, schedules, or a package and its test
	// ("sim/logp TestWhoeverDies"). Of a change that no caller can notice it is none and the
	// argument; open stands for a mutant that was not tried yet.
	Found string
}

const (
	open      = ""
	none      = "no mutant: " // an argument follows
	search    = "search"      // of small groups, all runs; sim/explore
	schedules = "schedules"   // drawn at random; sim/explore
)

// patience ends a test that a mutant keeps from ending.
const patience = time.Minute

// explorer is the package of the searches and schedules.
const explorer = "sim/explore"

// packages are those whose test programs find mutants.
var packages = []string{"coll/agree", "coll/ftco", "sim/agree", "sim/logp", "sim/ftco", explorer}

// mutants are all tables in one.
var mutants = slices.Concat(agreeMutants, ftcoMutants, publishedMutants)

func main() {
	tryOpen := flag.Bool("open", false, "try the open mutants only, and print what finds each")
	flag.Parse()
	// An interrupted run leaves no files behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutate(ctx, flag.Arg(0), *tryOpen); err != nil {
		fmt.Fprintln(os.Stderr, "treemutants:", err)
		stop()
		os.Exit(1)
	}
}

// mutate does what the command line asks for.
func mutate(ctx context.Context, only string, tryOpen bool) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "treemutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if tryOpen {
		return programs.tryOpen(ctx, selected)
	}
	return programs.tryKnown(ctx, selected)
}

// programs are the paths of the test programs, by package.
type programs map[string]string

// build builds the programs in dir, with all mutants in each.
func build(ctx context.Context, dir string) (programs, error) {
	o, err := weave.New(".", dir)
	if err != nil {
		return nil, err
	}
	var changes []weave.Change
	for _, m := range mutants {
		changes = append(changes, weave.Change{File: m.File, Old: m.Old, New: m.New})
	}
	alone, err := o.Switch(changes)
	if err != nil {
		return nil, err
	}
	for number := range alone {
		return nil, fmt.Errorf("%s: the change is not inside one function", mutants[number-1].name())
	}
	p := programs{}
	for _, pkg := range packages {
		if p[pkg], err = o.Build(ctx, pkg, ""); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// name returns the words by which messages and the command's argument name a mutant.
func (m mutant) name() string { return m.File + ": " + m.Breaks }

// tryKnown demands that each selected mutant is found, and that the tests pass without it.
// It prints how many mutants there are of each kind.
func (p programs) tryKnown(ctx context.Context, selected *regexp.Regexp) error {
	var known []int // numbers of mutants
	var tests []string
	opened, argued := 0, 0
	for i, m := range mutants {
		switch {
		case m.Found == open:
			opened++
		case strings.HasPrefix(m.Found, none):
			argued++
		case selected.MatchString(m.name()):
			known = append(known, i+1)
			if strings.Contains(m.Found, " ") && !slices.Contains(tests, m.Found) {
				tests = append(tests, m.Found) // the searches and schedules pass in sim/explore's own tests
			}
		}
	}
	err := forAll(ctx, tests, func(test string) error {
		if found, out := p.run(ctx, 0, test); found {
			return fmt.Errorf("%s fails without a mutant:\n%s", test, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = forAll(ctx, known, func(number int) error {
		m := mutants[number-1]
		if found, out := p.run(ctx, number, m.Found); !found {
			return fmt.Errorf("%s: not found by %s:\n%.2000s", m.name(), m.Found, out)
		}
		return nil
	})
	if err == nil {
		fmt.Fprintf(os.Stdout, "%d mutants of coll/agree and coll/ftco are found; of the tables %d change nothing, %d are open\n",
			len(known), argued, opened)
	}
	return err
}

// tryOpen tries all tests on the selected mutants that are open, and prints what finds each.
func (p programs) tryOpen(ctx context.Context, selected *regexp.Regexp) error {
	var numbers []int
	for i, m := range mutants {
		if m.Found == open && selected.MatchString(m.name()) {
			numbers = append(numbers, i+1)
		}
	}
	return forAll(ctx, numbers, func(number int) error {
		m := mutants[number-1]
		begun, result := time.Now(), "not found"
		for _, test := range m.tests() {
			found, out := p.run(ctx, number, test)
			if found {
				result = test
				if name := failure.FindStringSubmatch(out); name != nil && test != search && test != schedules {
					result = strings.Fields(test)[0] + " " + name[1]
				}
				break
			}
		}
		fmt.Fprintf(os.Stdout, "%d\t%6.1f s\t%s\t%s\n", number, time.Since(begun).Seconds(), m.name(), result)
		return nil
	})
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (Test\w+)`)

// tests are all tests of m, those that are quick before the others.
func (m mutant) tests() []string {
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

// run says whether a test finds the mutant of a number, or fails if that is 0.
func (p programs) run(ctx context.Context, number int, test string) (found bool, out string) {
	pkg, pattern, is := strings.Cut(test, " ")
	args := []string{"-test.short"}
	if !is {
		pkg, pattern, args = explorer, "TestShipped", []string{"-mutant=" + map[string]string{search: "search", schedules: "random"}[test]}
		if number > 0 && strings.HasPrefix(mutants[number-1].File, "coll/agree") {
			pattern = "TestAgreeShipped"
		}
	}
	// The program ends itself; the longer limit here is for one that cannot.
	ctx, stop := context.WithTimeout(ctx, 2*patience)
	defer stop()
	cmd := exec.CommandContext(ctx, p[pkg], append(args, "-test.run=^"+pattern+"$", "-test.v", "-test.failfast", "-test.timeout="+patience.String())...)
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), weave.MutantVar+"="+strconv.Itoa(number), "GOMAXPROCS=1")
	text, err := cmd.CombinedOutput()
	out = string(text)
	if err == nil && !strings.Contains(out, "--- PASS: ") {
		return number == 0, "there is no such test\n" + out
	}
	if number == 0 {
		return err != nil, out
	}
	return err != nil && failure.MatchString(out) && (is || strings.Contains(out, "FOUND ")), out
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
