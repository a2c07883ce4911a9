package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// # Package mpi beside Open MPI and MPICH
//
// The command
//
//	go -C bench run ./check mpi [flags]
//
// measures messages and collectives of cmd/mpirows and of the same program in C (oshmem/mpirows.c).
//
//   - A side is a program with its memory: goshmem with private and with symmetric buffers, Open MPI, MPICH.
//   - First all sides run once, to find the operations of a batch for each row. They are the same for all sides, but those
//     that take more than 20 times as long as the fastest one make fewer: with a single operation, the barrier at the end
//     of a batch would be most of what the others measure.
//   - In each round all sides run once for each number of ranks, in random order.
//   - A value of a side in a round is the median of its batches. The table has the median, the least and the greatest value
//     of the rounds. A ratio is the median of the rounds' ratios of times: above 1, goshmem is slower.
//   - Each side checks the results of each row. A job that fails, or takes too long, is reported and makes the exit status 1.

// mpiOptions are the flags of check mpi.
type mpiOptions struct {
	rounds  int
	ranks   []int
	sizes   []int
	rows    *regexp.Regexp
	memory  []string
	vectors bool
	json    string
	profile string
	behind  float64
	batch   time.Duration // wanted length of a batch
	quick   bool
	command string
}

func parseMPI(args []string, stderr io.Writer) (o mpiOptions, err error) {
	set := flag.NewFlagSet("check mpi", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&o.rounds, "rounds", 5, "number of rounds")
	ranks := set.String("ranks", "2,4,8", "numbers of ranks")
	sizes := set.String("sizes", "8,1Ki,16Ki,256Ki,4Mi", "`bytes` that a rank gives to, or gets from, another one")
	rows := set.String("rows", "", "only rows whose name, such as 4pe/allgather/1024, matches this `regexp`")
	memory := set.String("memory", "private,symmetric", "memory of goshmem's buffers")
	set.BoolVar(&o.vectors, "v", false, "also gatherv, allgatherv, scatterv, alltoallv and reduce_scatter")
	set.StringVar(&o.json, "json", "", "write all values to `FILE`")
	set.StringVar(&o.profile, "profile", "", "write CPU profiles of goshmem for the rows that are behind to `FOLDER`")
	set.Float64Var(&o.behind, "behind", 1.2, "`ratio` to a peer from which on a row is listed as behind")
	set.BoolVar(&o.quick, "quick", false, "run one short round, to check that everything works")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	if o.rows, err = regexp.Compile(*rows); err != nil {
		return o, fmt.Errorf("%w: --rows %q: %w", errUsage, *rows, err)
	}
	if set.NArg() > 0 || o.rounds < 1 || o.behind <= 0 {
		return o, fmt.Errorf("%w: arguments %q, --rounds %d, --behind %v, want no arguments, --rounds 1 or more, and a positive ratio", errUsage, set.Args(), o.rounds, o.behind)
	}
	if o.ranks, err = parseNumbers("--ranks", *ranks, 2, 64, 1); err != nil {
		return o, err
	}
	if o.sizes, err = parseNumbers("--sizes", *sizes, 8, 64<<20, 8); err != nil {
		return o, err
	}
	for m := range strings.SplitSeq(*memory, ",") {
		if m != memoryPrivate && m != memorySymmetric || slices.Contains(o.memory, m) {
			return o, fmt.Errorf("%w: --memory %q, want private, symmetric or both with a comma", errUsage, *memory)
		}
		o.memory = append(o.memory, m)
	}
	o.batch, o.command = time.Millisecond, "go -C bench run ./check mpi"
	for _, a := range args {
		o.command += " " + a
	}
	if o.quick {
		o.rounds, o.batch = 1, 20*time.Microsecond
	}
	return o, nil
}

// The kinds of memory of goshmem's buffers.
const (
	memoryPrivate   = "private"
	memorySymmetric = "symmetric"
)

// parseNumbers reads numbers with commas between them: multiples of unit, from least to most. Ki and Mi multiply a number.
func parseNumbers(name, text string, least, most, unit int) (all []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		factor, digits := 1, word
		for suffix, f := range map[string]int{"Ki": 1 << 10, "Mi": 1 << 20} {
			if d, ok := strings.CutSuffix(word, suffix); ok {
				factor, digits = f, d
			}
		}
		x, err := strconv.Atoi(digits)
		if err != nil || x < 0 || x > most/factor || x*factor < least || x*factor%unit != 0 {
			return nil, fmt.Errorf("%w: %s %q has %q, want multiples of %d from %d to %d, such as 8,16Ki,4Mi", errUsage, name, text, word, unit, least, most)
		}
		all = append(all, x*factor)
	}
	return all, nil
}

// side is a program with the memory of its buffers.
type side struct {
	who    string
	memory string // of goshmem; peers have private memory
	launch func(ranks int, plan string) []string
}

func (s side) name() string {
	if s.who == goshmem {
		return s.who + " " + s.memory
	}
	return s.who
}

// runMPI is the command check mpi.
func runMPI(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseMPI(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goshmem-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := adoptOrphans(); err != nil {
		return err
	}
	b := &bed{dir: dir, rows: o.rows, rounds: o.rounds, quick: o.quick, log: stderr}
	r := mpiReport{Command: o.command, Machine: machine(), Rounds: o.rounds}
	m := &mpiBed{bed: b, o: &o, report: &r}
	if m.sides, err = m.findSides(ctx); err != nil {
		return err
	}
	for _, ranks := range o.ranks {
		m.cells = append(m.cells, o.cells(ranks)...)
	}
	if len(m.cells) == 0 {
		return fmt.Errorf("%w: --rows %q selects none of the rows, want one that matches a name such as 2pe/latency/8", errUsage, o.rows)
	}
	if err := m.measure(ctx); err != nil {
		return err
	}
	r.Machine.LoadAfter = loadAverage()
	r.Peers = b.versions()
	r.Rows = m.rows()
	err = r.publish(&o, stdout)
	if o.profile != "" {
		err = errors.Join(err, m.profiles(ctx))
	}
	return errors.Join(append([]error{err}, m.failed...)...)
}

// findSides builds the programs of all sides.
func (m *mpiBed) findSides(ctx context.Context) (sides []side, err error) {
	b := m.bed
	if err := b.buildOurs(ctx); err != nil {
		return nil, err
	}
	program, err := b.buildOnce(ctx, "mpirows")
	if err != nil {
		return nil, err
	}
	m.target = max(m.o.batch*calibrations, time.Microsecond)
	for _, memory := range m.o.memory {
		sides = append(sides, side{goshmem, memory, func(n int, plan string) []string {
			return slices.Concat(m.oshrun(n), []string{program, "-memory", memory, "-target", m.target.String(), plan})
		}})
	}
	if err := b.findPeersBy(ctx, b.findOpenMPIRows, b.findMPICHRows); err != nil {
		return nil, err
	}
	for _, p := range b.peers {
		if p.missing == "" {
			sides = append(sides, side{p.name, memoryPrivate, func(n int, plan string) []string {
				return append(p.launch(n), b.rowsOf(p.name), plan, strconv.FormatFloat(float64(m.target)/1e3, 'f', -1, 64))
			}})
		}
	}
	return sides, nil
}

// oshrun returns the command that starts goshmem's ranks.
func (m *mpiBed) oshrun(n int) []string {
	heap := 2*n*slices.Max(m.o.sizes) + 64<<20
	command := []string{m.bed.oshrun, "-n", strconv.Itoa(n), "--heap-size", strconv.Itoa(heap)}
	if n <= runtime.NumCPU() && m.bed.binds {
		command = append(command, "--bind-to", "core")
	}
	return command
}
