// Command check measures the figures that goshmem promises and compares them
// with their limits, and with peers on the same machine:
//
//		make bench-check
//		go -C bench run ./check [flags]
//
//	  - Build: it builds oshrun and all programs.
//	  - Runs: it runs goshmem, OSHMEM and plain C in alternation, because the speed of a machine changes from
//	    minute to minute.
//	  - Another version: with --base FOLDER it compares this version with the one in that folder instead, by turns.
//	  - Figures: a figure is the median over the rounds, a ratio the median of the rounds' ratios.
//	  - Message layer: go -C bench run ./check mpi compares package mpi with Open MPI and MPICH (mpi.go).
//	  - Exit status: 1 if a limit is missed, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

var (
	errUsage = errors.New("wrong usage")
	errMiss  = errors.New("a limit is missed")
)

// options are the flags.
type options struct {
	rounds  int
	rows    *regexp.Regexp
	json    string
	doc     string
	base    string
	quick   bool
	command string // the command line, for the report
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	set := flag.NewFlagSet("check", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&o.rounds, "rounds", 5, "number of rounds")
	rows := set.String("rows", "", "only rows whose name matches this `regexp`")
	set.StringVar(&o.json, "json", "", "write all values to `FILE`")
	set.StringVar(&o.doc, "doc", "", "put the report between the markers in `FILE`: --doc ../docs/performance.md")
	set.StringVar(&o.base, "base", "", "compare with the version of this project in `FOLDER` instead of limits and peers: git worktree add FOLDER COMMIT")
	set.BoolVar(&o.quick, "quick", false, "run one short round, without limits, to check that everything works")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	if o.rows, err = regexp.Compile(*rows); err != nil {
		return o, fmt.Errorf("%w: --rows %q: %w", errUsage, *rows, err)
	}
	if set.NArg() > 0 || o.rounds < 1 {
		return o, fmt.Errorf("%w: arguments %q, --rounds %d, want no arguments and --rounds 1 or more", errUsage, set.Args(), o.rounds)
	}
	if o.base != "" && o.doc != "" {
		return o, fmt.Errorf("%w: --base and --doc, want one of them: the document holds the comparison with peers", errUsage)
	}
	o.command = "go -C bench run ./check"
	for _, a := range args {
		o.command += " " + a
	}
	if o.quick {
		o.rounds = 1
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == "mpi" {
		return runMPI(ctx, args[1:], stdout, stderr)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goshmem-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := machine()
	b := &bed{dir: dir, rows: o.rows, rounds: o.rounds, quick: o.quick, log: stderr, values: values{}}
	r := report{Command: o.command, Machine: m, Rounds: o.rounds, Values: b.values}
	if o.base != "" {
		err = o.compare(ctx, b, &r)
	} else {
		err = o.check(ctx, b, &r)
	}
	if err != nil {
		return err
	}
	return o.publish(&r, stdout)
}

// check measures this version and its peers.
func (o *options) check(ctx context.Context, b *bed, r *report) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	r.Machine.LoadAfter = loadAverage()
	r.Peers, r.Lines = b.versions(), lines(b.values, b.missing(), o.rows, !o.quick)
	return nil
}

// compare measures this version and another one.
func (o *options) compare(ctx context.Context, b *bed, r *report) error {
	base, err := newBase(b, o.base)
	if err != nil {
		return err
	}
	if err := buildBoth(ctx, b, base); err != nil {
		return err
	}
	if err := measureBoth(ctx, b, base); err != nil {
		return err
	}
	r.Machine.LoadAfter = loadAverage()
	r.Lines, r.Base = baseLines(b.values, base.values), base.values
	return nil
}

// publish prints the report and writes the files that were asked for.
func (o *options) publish(r *report, stdout io.Writer) error {
	text := r.markdown()
	if o.base != "" {
		text = r.baseMarkdown()
	}
	_, err := io.WriteString(stdout, text)
	if o.json != "" {
		err = errors.Join(err, r.writeJSON(o.json))
	}
	if o.doc != "" {
		err = errors.Join(err, replaceSection(o.doc, text))
	}
	if n := r.misses(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of the lines above say MISS", errMiss, n))
	}
	return err
}
