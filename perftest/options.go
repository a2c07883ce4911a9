package perftest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Options are the settings of a run.
type Options struct {
	Tests      []string      // names, in the order of the run
	MinBytes   int           // smallest message; 0: each test's own
	MaxBytes   int           // largest message; 0: each test's own
	Iterations int           // for each size; 0: 10000, and 1000 for messages above 8 KiB
	Warmup     int           // iterations before those; -1: a tenth of them
	Time       time.Duration // for each size: its iterations are repeated until this has passed; 0: they are not repeated
	Window     int           // messages before a Quiet, in tests of bandwidth and rate
	Validate   bool          // check what has arrived
	Far        bool          // the PEs of a pair are on different nodes
	JSON       string        // file for the figures, "-" for standard output instead of the tables; "": none
	Compare    string        // a file of --json whose figures stand beside the new ones; "": none
}

const (
	maxMessage    = 1 << 30
	maxIterations = 1 << 30
	maxWindow     = 1 << 20
	maxTime       = time.Hour
	defaultWindow = 64

	small           = 8 << 10 // bytes; larger messages get fewer iterations
	smallIterations = 10000
	largeIterations = 1000
)

// iterations returns how many operations on messages of a size are measured, and how many precede
// them as warm-up.
func (o *Options) iterations(bytes int) (count, warmup int) {
	count, warmup = o.Iterations, o.Warmup
	if count == 0 {
		count = smallIterations
		if bytes > small {
			count = largeIterations
		}
	}
	if warmup < 0 {
		warmup = count / 10
	}
	return count, warmup
}

// usageError reports a wrong command line. The exit status is 2.
type usageError struct{ what, got, want, hint string }

// Error says what is wrong, the value, what is allowed, and a hint.
func (e *usageError) Error() string {
	return fmt.Sprintf("%s: %s, want %s; hint: %s", e.what, e.got, e.want, e.hint)
}

// errHelp reports that the user wants the usage text.
var errHelp = errors.New("help requested")

const helpHint = "bench --help"

// Usage prints the usage text: every test, and every flag with its default.
func Usage(out io.Writer) {
	fmt.Fprintf(out, `Usage: oshrun -n PES bench TEST... [flags]

Measures the calls of package shmem, in the columns of the OSU micro-benchmarks.

Tests:
`)
	for _, t := range tests {
		fmt.Fprintf(out, "  %-12s %s\n", t.name, t.about)
	}
	fmt.Fprintf(out, `  all          every test that the number of PEs allows

Flags:
  -m, --message-size [MIN:]MAX  bytes of the messages, with K or M (default: each test's own, up to 4M)
  -i, --iterations N            per size (default %d, for messages above 8K %d)
      --time D                  repeat the iterations of a size until D has passed, such as 20s
  -x, --warmup N                iterations before those (default: a tenth of them)
  -W, --window N                messages before a Quiet in put_bw, get_bw and mr (default %d)
  -c, --validate                check what has arrived, too
      --far                     measure pairs of PEs on different nodes, in a job of several
      --json FILE               write the figures to FILE; -: to standard output, without tables
      --compare FILE            print the figures of FILE, which --json wrote, beside the new ones
  -h, --help                    this text
`, smallIterations, largeIterations, defaultWindow)
}

// ParseOptions reads a command line: tests and flags in any order.
//
//   - Errors: wrong usage, in words for the user.
func ParseOptions(args []string) (Options, error) {
	o := Options{Window: defaultWindow, Warmup: -1}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var size string
	for _, name := range []string{"m", "message-size"} {
		f.StringVar(&size, name, "", "")
	}
	for _, name := range []string{"i", "iterations"} {
		f.IntVar(&o.Iterations, name, 0, "")
	}
	for _, name := range []string{"x", "warmup"} {
		f.IntVar(&o.Warmup, name, -1, "")
	}
	for _, name := range []string{"W", "window"} {
		f.IntVar(&o.Window, name, defaultWindow, "")
	}
	for _, name := range []string{"c", "validate"} {
		f.BoolVar(&o.Validate, name, false, "")
	}
	f.DurationVar(&o.Time, "time", 0, "")
	f.BoolVar(&o.Far, "far", false, "")
	f.StringVar(&o.JSON, "json", "", "")
	f.StringVar(&o.Compare, "compare", "", "")
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return o, errHelp
			}
			return o, &usageError{"command line", err.Error(), "the flags of " + helpHint, helpHint}
		}
		if args = f.Args(); len(args) > 0 {
			o.Tests, args = append(o.Tests, args[0]), args[1:]
		}
	}
	return o, errors.Join(o.setSizes(size), o.check(f))
}

// setSizes sets the sizes from "MAX" or "MIN:MAX".
func (o *Options) setSizes(text string) error {
	if text == "" {
		return nil
	}
	low, high, isRange := strings.Cut(text, ":")
	if !isRange {
		low, high = "", text
	}
	var err error
	if low != "" {
		o.MinBytes, err = parseBytes(low)
	}
	if err == nil {
		o.MaxBytes, err = parseBytes(high)
	}
	if err != nil || o.MinBytes > o.MaxBytes {
		return &usageError{"--message-size", strconv.Quote(text), "MAX or MIN:MAX from 1 to 1024M", "-m 1:64K"}
	}
	return nil
}

// parseBytes reads a number of bytes, with K or M behind it.
func parseBytes(text string) (int, error) {
	digits, unit := text, 1
	switch {
	case strings.HasSuffix(text, "K"), strings.HasSuffix(text, "k"):
		digits, unit = text[:len(text)-1], 1<<10
	case strings.HasSuffix(text, "M"), strings.HasSuffix(text, "m"):
		digits, unit = text[:len(text)-1], 1<<20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxMessage/unit {
		return 0, strconv.ErrRange
	}
	return n * unit, nil
}

// check checks what package flag does not: the ranges of numbers, and the names of tests.
func (o *Options) check(f *flag.FlagSet) error {
	limits := map[string]func() error{
		"i": func() error { return checkRange("--iterations", o.Iterations, 1, maxIterations, "-i 1000") },
		"x": func() error { return checkRange("--warmup", o.Warmup, 0, maxIterations, "-x 100") },
		"W": func() error { return checkRange("--window", o.Window, 1, maxWindow, "-W 64") },
	}
	limits["time"] = func() error {
		if o.Time < 0 || o.Time > maxTime {
			return &usageError{"--time", o.Time.String(), "0s to " + maxTime.String(), "--time 20s"}
		}
		return nil
	}
	limits["iterations"], limits["warmup"], limits["window"] = limits["i"], limits["x"], limits["W"]
	var wrong error
	f.Visit(func(g *flag.Flag) { // only given flags: a default is not checked
		if limit := limits[g.Name]; limit != nil && wrong == nil {
			wrong = limit()
		}
	})
	if wrong != nil {
		return wrong
	}
	if len(o.Tests) == 0 {
		return &usageError{"test", "none", "one of " + testNames(), "oshrun -n 2 bench put"}
	}
	for _, name := range o.Tests {
		if name == "help" {
			return errHelp
		}
		if name != "all" && findTest(name) == nil {
			return &usageError{"test", strconv.Quote(name), "one of " + testNames(), helpHint}
		}
	}
	return nil
}

// checkRange returns an error unless got is in a range.
func checkRange(what string, got, low, high int, hint string) error {
	if got < low || got > high {
		return &usageError{what, strconv.Itoa(got), fmt.Sprintf("%d to %d", low, high), hint}
	}
	return nil
}
