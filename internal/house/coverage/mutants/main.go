// Command mutants checks that tests find mistakes. Each test program is built once, with all mutants in it.
//
//   - Package shmem: each function that implements a routine of OpenSHMEM is made wrong in several ways. The
//     routine's test must find each mutant.
//   - Packages coll and coll/board, and the machines of coll/agree and coll/ftco: tables list the mutants, and for
//     each one the test that must find it. That is a scenario of coll's explorer, a search or random schedules of
//     sim/explore, or a test of these packages or of their simulators.
//   - Packages detector/bmg, detector/ring and detector/view: tables list the mutants, and the test for each.
//
// Run the command at the root of the module. Its argument is a regular expression that selects routines of shmem by
// name, and mutants of the tables by file and description. Flag -open tries the mutants for which the tables name no
// test yet.
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/house/coverage"
)

// npes is the size of the jobs: the smallest in which the next PE is not the previous one.
const npes = "3"

// programLimit ends a test program that does not end by its own deadlines, which are 10 seconds with a mutant.
const programLimit = time.Minute

func main() {
	tryOpen := flag.Bool("open", false, "try the open mutants of the tables only, and print which test finds each")
	keep := flag.String("build", "", "write the test programs with all mutants of the tables to this `folder`, and end")
	flag.Parse()
	// An interrupted run leaves no files behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutate(ctx, flag.Arg(0), *keep, *tryOpen); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// mutate runs the command. It returns the errors of all tables together, because a run takes too long to stop at the
// first one. The expression only selects the mutants.
func mutate(ctx context.Context, only, keep string, tryOpen bool) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	hunts := []*hunt{collHunt(), treeHunt(), detectHunt()}
	if keep != "" {
		for _, h := range hunts {
			if err := h.buildIn(ctx, keep); err != nil {
				return err
			}
		}
		return nil
	}
	var errs []error
	if !tryOpen {
		if err := runShmem(ctx, selected); err != nil {
			errs = append(errs, fmt.Errorf("shmem:\n%w", err))
		}
	}
	for _, h := range hunts {
		if ctx.Err() != nil { // the hunt before has returned the error
			break
		}
		if err := h.try(ctx, selected, tryOpen); err != nil {
			errs = append(errs, fmt.Errorf("%s:\n%w", h.of, err))
		}
	}
	return errors.Join(errs...)
}

// runShmem tries the mutants of package shmem.
func runShmem(ctx context.Context, selected *regexp.Regexp) error {
	if !slices.ContainsFunc(coverage.Routines, func(r coverage.Routine) bool { return selected.MatchString(r.Name) }) {
		return (&tester{}).conclude() // an expression for a table selects none here: skip the build
	}
	s, err := coverage.Load("shmem")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	mutants := s.Mutants()
	program, err := build(ctx, s, dir, mutants)
	if err != nil {
		return err
	}
	t := tester{program: program}
	if out, err := t.test(ctx, "", 0); err != nil {
		return fmt.Errorf("tests fail without a mutant: %w\n%s", err, out)
	}
	broken := map[string]bool{}
	for _, r := range coverage.Routines {
		if ctx.Err() != nil || s.Tests[r.Name] == "" || !selected.MatchString(r.Name) {
			continue
		}
		if out, err := t.test(ctx, r.Name, 0); err != nil {
			broken[r.Name] = true
			t.bad = append(t.bad, fmt.Sprintf("%s: its test fails alone, without a mutant: %v\n%s", r.Name, err, out))
		}
	}
	for _, m := range mutants {
		if ctx.Err() == nil && s.Tests[m.Routine] != "" && selected.MatchString(m.Routine) && !broken[m.Routine] {
			t.try(ctx, &m)
		}
	}
	if ctx.Err() != nil { // the last mutant was interrupted, not found
		return context.Cause(ctx)
	}
	return t.conclude()
}

// build builds the test program with all mutants in it.
func build(ctx context.Context, s *coverage.Source, dir string, mutants []coverage.Mutant) (string, error) {
	overlay, err := s.Overlay(dir, mutants)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "shmem.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", program, "./shmem")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOTMPDIR="+dir) // an interrupted build leaves files there, which are removed with dir
	return program, cmd.Run()
}

// tester runs tests and counts the results.
type tester struct {
	program                     string
	tried, failed, late, passed int
	bad                         []string
}

// conclude prints the counts and returns all errors.
func (t *tester) conclude() error {
	fmt.Fprintf(os.Stdout, "%d mutants, %d found by an error, %d by a deadline, %d not found; %d routines without a mutant passed\n",
		t.tried, t.failed, t.late, t.tried-t.failed-t.late, t.passed)
	if len(t.bad) > 0 {
		return errors.New(strings.Join(t.bad, "\n"))
	}
	return nil
}

// test runs the test of one routine ("": of all), with a mutant (0: none).
func (t *tester) test(ctx context.Context, routine string, mutant int) (string, error) {
	ctx, stop := context.WithTimeout(ctx, programLimit)
	defer stop()
	cmd := exec.CommandContext(ctx, t.program, "-test.run=^TestRoutines$/^"+npes+"$")
	cmd.Dir = "shmem"
	cmd.Env = append(os.Environ(), coverage.RoutineVar+"="+routine)
	if mutant != 0 {
		cmd.Env = append(cmd.Env, coverage.MutantVar+"="+strconv.Itoa(mutant))
	}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), fmt.Errorf("%w: still running after %v", ctx.Err(), programLimit)
	}
	if err == nil {
		t.passed++
	}
	return string(out), err
}

// try checks that a mutant is found. A mutant that hangs is found if the test's own deadline ends it with an error.
func (t *tester) try(ctx context.Context, m *coverage.Mutant) {
	t.tried++
	begun := time.Now()
	out, err := t.test(ctx, m.Routine, m.Number)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		t.bad = append(t.bad, fmt.Sprintf("%s: %s %s: the test hangs\n%s", m.Routine, m.Func, m.What, out))
	case err == nil:
		t.passed--
		t.bad = append(t.bad, fmt.Sprintf("%s: %s %s, and the test passes", m.Routine, m.Func, m.What))
	case time.Since(begun) > time.Second: // the deadline of a routine's test
		t.late++
	default:
		t.failed++
	}
}
