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

// mutant is a mistake that a programmer could make: New replaces Old in File.
type mutant struct {
	File, Old, New string
	Breaks         string // what goes wrong
	// Found is the test that finds the mutant, in the notation of its hunt, or open. If no caller can notice the
	// change, Found is none and the argument why.
	Found string
}

// Values of mutant.Found that name no test.
const (
	open = ""            // not tried yet, or found by no test
	none = "no mutant: " // prefix of an argument
)

// name returns the mutant's name for messages and for the command's argument.
func (m mutant) name() string { return m.File + ": " + m.Breaks }

// hunt is a table of mutants and the tests that find them.
type hunt struct {
	of      string // the mutated packages, for messages
	folder  string // folder of the table's files
	table   []mutant
	closing func(counts) string // returns the closing message
	// passing lists tests that tryKnown does not run without a mutant, because other tests do.
	passing []string
	// build builds the test programs from an overlay with all mutants.
	build func(ctx context.Context, o *weave.Overlay) error
	// command returns how to run a test with a mutant. The zero mutant stands for none.
	command func(m mutant, test string) command
	// tests returns all tests. Tests that are likelier or quicker to find the mutant come first.
	tests func(m mutant) []string
}

// counts has the numbers of mutants by kind, and the number of tests that find the known ones.
type counts struct{ known, tests, argued, open int }

// try tries the selected mutants: the open ones if opened is set, otherwise the known ones.
func (h *hunt) try(ctx context.Context, selected *regexp.Regexp, opened bool) error {
	var numbers []int // from 1 on
	for i, m := range h.table {
		if !strings.HasPrefix(m.Found, none) && (m.Found == open) == opened && selected.MatchString(m.name()) {
			numbers = append(numbers, i+1)
		}
	}
	if len(numbers) > 0 { // an expression for another table selects none here: skip the build
		dir, err := os.MkdirTemp("", "mutants")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := h.buildIn(ctx, dir); err != nil {
			return err
		}
	}
	if opened {
		return h.tryOpen(ctx, numbers)
	}
	return h.tryKnown(ctx, numbers)
}

// buildIn builds the test programs in dir, with all mutants in each.
func (h *hunt) buildIn(ctx context.Context, dir string) error {
	o, err := weave.New(".", dir)
	if err != nil {
		return err
	}
	var changes []weave.Change
	for _, m := range h.table {
		changes = append(changes, weave.Change{File: filepath.Join(h.folder, m.File), Old: m.Old, New: m.New})
	}
	alone, err := o.Switch(changes)
	if err != nil {
		return err
	}
	for number := range alone {
		return fmt.Errorf("%s: the change is not inside one function", h.table[number-1].name())
	}
	return h.build(ctx, o)
}

// tryKnown checks that the test of each mutant finds it, and that these tests pass without a mutant. It prints the
// number of mutants of each kind.
func (h *hunt) tryKnown(ctx context.Context, numbers []int) error {
	n := counts{known: len(numbers)}
	for _, m := range h.table {
		switch {
		case m.Found == open:
			n.open++
		case strings.HasPrefix(m.Found, none):
			n.argued++
		}
	}
	var tests []string
	for _, number := range numbers {
		if test := h.table[number-1].Found; !slices.Contains(tests, test) {
			tests = append(tests, test)
		}
	}
	n.tests = len(tests)
	err := forAll(ctx, tests, func(test string) error {
		if slices.Contains(h.passing, test) {
			return nil
		}
		if v := h.runTest(ctx, 0, test); v.failed {
			return fmt.Errorf("%s fails without a mutant:\n%s", test, v.out)
		}
		return nil
	})
	if err == nil {
		err = forAll(ctx, numbers, func(number int) error { return h.find(ctx, number) })
	}
	if err == nil {
		fmt.Fprintln(os.Stdout, h.closing(n))
	}
	return err
}

// find checks that the mutant of a number is found by its test.
func (h *hunt) find(ctx context.Context, number int) error {
	m := h.table[number-1]
	switch v := h.runTest(ctx, number, m.Found); {
	case !v.failed:
		return fmt.Errorf("%d, %s: %s passes", number, m.name(), m.Found)
	case v.test != m.Found:
		return fmt.Errorf("%d, %s: %s ends without a verdict:\n%s", number, m.name(), m.Found, v.out)
	}
	return nil
}

// tryOpen runs all tests on each mutant, and prints the first one that finds it.
func (h *hunt) tryOpen(ctx context.Context, numbers []int) error {
	return forAll(ctx, numbers, func(number int) error {
		m := h.table[number-1]
		begun, result := time.Now(), "not found"
		for _, test := range h.tests(m) {
			v := h.runTest(ctx, number, test)
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

// command says how to run a test.
type command struct {
	program, dir, pattern, skip string
	args, env                   []string // in addition to those of every test
	limit                       time.Duration
	found                       func(out string) string // returns the failed test, as in the table; "": none
}

// verdict is the result of one run of a test.
type verdict struct {
	failed bool
	test   string // the failed test, as in the table; "": none
	out    string
}

var (
	failure = regexp.MustCompile(`(?m)^ *--- FAIL: Test(\S+)`)
	crash   = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
)

// runTest runs a test with the mutant of a number, or with no mutant if the number is 0. A test that times out has not
// found the mutant.
func (h *hunt) runTest(ctx context.Context, number int, test string) verdict {
	var m mutant
	if number > 0 {
		m = h.table[number-1]
	}
	c := h.command(m, test)
	// The program has a timeout of its own. The longer one here is for a program that cannot end itself.
	ctx, stop := context.WithTimeout(ctx, 2*c.limit)
	defer stop()
	args := append([]string{"-test.v", "-test.run=" + c.pattern, "-test.skip=" + c.skip, "-test.failfast", "-test.timeout=" + c.limit.String()}, c.args...)
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(append(os.Environ(), weave.MutantVar+"="+strconv.Itoa(number)), c.env...)
	text, err := cmd.CombinedOutput()
	v := verdict{failed: err != nil, out: string(text)}
	if err == nil && !strings.Contains(v.out, "--- PASS: ") {
		v.failed, v.out = true, v.out+"no test ran: want a test that matches the pattern\n"
	}
	if err != nil && !strings.Contains(v.out, "panic: test timed out") {
		v.test = c.found(v.out)
	}
	return v
}

// forAll calls f for each element of list, GOMAXPROCS at a time. It returns all errors, or the cause of ctx if ctx
// has ended.
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
