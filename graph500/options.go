package graph500

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Options are the settings of a run. The zero value is not valid; see DefaultOptions.
type Options struct {
	Scale      int       // logarithm to base 2 of the number of vertices
	EdgeFactor int       // edge tuples per vertex
	Roots      int       // search keys; fewer if the graph has no more
	Seed       [2]uint64 // user seeds of the generator
	Validate   bool      // check every search against the tuples
	JSON       string    // file for the report of PE 0; "": none
	Progress   Progress  // called on PE 0; nil: no progress is shown
}

// Progress is called on PE 0 with how much of a phase is done.
type Progress func(phase string, done, total int)

const (
	maxEdgeFactor = 1 << 16
	maxRoots      = 1 << 16
)

// DefaultOptions returns the defaults of the specification: edgefactor 16, 64 search keys, seeds 2 and 3,
// validation.
func DefaultOptions() Options {
	return Options{Scale: 16, EdgeFactor: 16, Roots: 64, Seed: [2]uint64{2, 3}, Validate: true}
}

// String returns the flags that give the options.
func (o Options) String() string {
	s := fmt.Sprintf("--scale %d --edgefactor %d --roots %d --seed %d,%d --validate %s",
		o.Scale, o.EdgeFactor, o.Roots, o.Seed[0], o.Seed[1], validateName(o.Validate))
	if o.JSON != "" {
		s += " --json " + strconv.Quote(o.JSON)
	}
	return s
}

// validateName returns the word of --validate.
func validateName(full bool) string {
	if full {
		return "full"
	}
	return "none"
}

// usageError reports a wrong command line. The exit status is 2.
type usageError struct{ what, got, want, hint string }

// Error says what is wrong, the value, what is allowed, and a hint.
func (e *usageError) Error() string {
	return fmt.Sprintf("%s: %s, want %s; hint: %s", e.what, e.got, e.want, e.hint)
}

// errHelp reports that the user wants the usage text.
var errHelp = errors.New("help requested")

const helpHint = "graph500 --help"

// Usage prints the usage text: every flag with its default.
func Usage(out io.Writer) {
	d := DefaultOptions()
	fmt.Fprintf(out, `Usage: oshrun [-n PES] graph500 [flags]

The Graph500 benchmark (breadth-first search): generates a Kronecker graph, builds a search structure, searches
it from several keys, validates every search, and prints the official statistics.

Flags:
  --scale N             logarithm to base 2 of the number of vertices, 1..%d (default %d)
  --edgefactor N        edges per vertex, 1..%d (default %d)
  --roots N             search keys, 1..%d (default %d); fewer if the graph has no more
  --seed S1,S2          user seeds of the generator, two unsigned 64-bit numbers (default %d,%d)
  --validate full|none  check every search against the edge list, or none (default %s)
  --json FILE           write the full report to FILE, which PE 0 must be able to write (default: no report)
  --help                print this text

A graph needs about 12 bytes for each edge of the list and 8 in the structure: with scale 20, edgefactor 16 and
two PEs, about 200 MiB a PE. What peers share is in the symmetric heap (oshrun --heap-size).
Exit status: 0 valid result, 1 failed or invalid, 2 wrong usage.
`, maxScale, d.Scale, maxEdgeFactor, d.EdgeFactor, maxRoots, d.Roots, d.Seed[0], d.Seed[1], validateName(d.Validate))
}

// ParseOptions reads the flags of a command line and checks their ranges.
func ParseOptions(args []string) (Options, error) {
	o := DefaultOptions()
	set := flag.NewFlagSet("graph500", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	scale := set.String("scale", "", "")
	edgeFactor := set.String("edgefactor", "", "")
	roots := set.String("roots", "", "")
	seed := set.String("seed", "", "")
	validate := set.String("validate", "", "")
	set.StringVar(&o.JSON, "json", "", "")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, errHelp
		}
		return o, &usageError{"command line", err.Error(), "--scale, --edgefactor, --roots, --seed, --validate, --json or --help", helpHint}
	}
	if set.NArg() > 0 {
		return o, &usageError{"argument", strconv.Quote(set.Arg(0)), "flags only", helpHint}
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	number := func(name, value string, most int, to *int) error {
		if !given[name] {
			return nil
		}
		return parseNumber(name, value, most, to)
	}
	err := errors.Join(
		number("scale", *scale, maxScale, &o.Scale),
		number("edgefactor", *edgeFactor, maxEdgeFactor, &o.EdgeFactor),
		number("roots", *roots, maxRoots, &o.Roots),
	)
	if given["seed"] {
		err = errors.Join(err, parseSeed(*seed, &o.Seed))
	}
	if given["validate"] {
		err = errors.Join(err, parseValidate(*validate, &o.Validate))
	}
	if given["json"] && o.JSON == "" {
		err = errors.Join(err, &usageError{"--json", `""`, "a file name", helpHint})
	}
	return o, err
}

// parseNumber sets to, or returns a usageError unless value is from 1 to most.
func parseNumber(name, value string, most int, to *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return &usageError{"--" + name, strconv.Quote(value), fmt.Sprintf("1..%d", most), helpHint}
	}
	*to = n
	return nil
}

// parseSeed reads two seeds.
func parseSeed(value string, to *[2]uint64) error {
	first, second, ok := strings.Cut(value, ",")
	s1, err1 := strconv.ParseUint(first, 10, 64)
	s2, err2 := strconv.ParseUint(second, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return &usageError{"--seed", strconv.Quote(value), "two unsigned 64-bit numbers S1,S2", "--seed 2,3 is the default"}
	}
	*to = [2]uint64{s1, s2}
	return nil
}

// parseValidate reads the word of --validate.
func parseValidate(value string, to *bool) error {
	if value != "full" && value != "none" {
		return &usageError{"--validate", strconv.Quote(value), "full or none", helpHint}
	}
	*to = value == "full"
	return nil
}

// check checks the ranges of options that do not come from a command line.
func (o Options) check() error {
	return errors.Join(
		parseNumber("scale", strconv.Itoa(o.Scale), maxScale, new(int)),
		parseNumber("edgefactor", strconv.Itoa(o.EdgeFactor), maxEdgeFactor, new(int)),
		parseNumber("roots", strconv.Itoa(o.Roots), maxRoots, new(int)),
	)
}
