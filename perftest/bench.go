package perftest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// bench is a run of tests on one PE.
type bench struct {
	w      *shmem.World
	c      *shmem.Ctx
	o      Options
	me     int
	npes   int
	table  table
	report Report // PE 0's

	stats shmem.Sym[float64] // on PE 0: one figure of each PE
	flaws shmem.Sym[int64]   // wrong bytes that this PE found, and the sum of all PEs'
}

// run measures what the options say and prints it on PE 0.
func run(w *shmem.World, o Options, stdout io.Writer) error {
	b := &bench{w: w, c: w.Ctx(), o: o, me: w.MyPE(), npes: w.NPEs()}
	chosen, err := b.choose()
	if err != nil {
		return err
	}
	if b.stats, err = shmem.Calloc[float64](w, b.npes); err != nil {
		return err
	}
	if b.flaws, err = shmem.Calloc[int64](w, 2); err != nil {
		return err
	}
	var file io.WriteCloser
	if b.me == 0 {
		file, err = b.open(stdout)
	}
	if err := b.agree(err); err != nil {
		return err
	}
	for i, t := range chosen {
		if err := b.measure(i, t); err != nil {
			return err
		}
	}
	if file != nil {
		err = b.report.write(file)
	}
	return errors.Join(b.agree(err), shmem.Free(w, b.flaws), shmem.Free(w, b.stats))
}

// choose returns the tests to run; all PEs come to the same result.
func (b *bench) choose() (chosen []*test, err error) {
	for _, name := range b.o.Tests {
		if name == "all" {
			for _, t := range tests {
				if t.fits(b.npes) {
					chosen = append(chosen, t)
				}
			}
			continue
		}
		t := testOf(name)
		if !t.fits(b.npes) {
			want := fmt.Sprintf("at least %d", t.pes)
			if t.even {
				want = "an even number"
			}
			return nil, &usageError{"PEs for test " + name, strconv.Itoa(b.npes), want, "oshrun -n 2 bench " + name}
		}
		if !slices.Contains(chosen, t) {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// nopCloser keeps standard output open.
type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }

// open prepares PE 0's output before anything is measured, so that nothing is
// measured in vain.
func (b *bench) open(stdout io.Writer) (file io.WriteCloser, err error) {
	b.report = Report{Program: programName, Version: reportVersion, PEs: b.npes, Rows: []Row{}}
	b.table.out = stdout
	if b.o.Compare != "" {
		if b.table.before, err = readReport(b.o.Compare); err != nil {
			return nil, err
		}
	}
	switch b.o.JSON {
	case "":
		return nil, nil
	case "-":
		b.table.out = nil
		return nopCloser{stdout}, nil
	}
	f, err := os.Create(b.o.JSON)
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	return f, nil
}

// agree makes an error of PE 0 known to all.
func (b *bench) agree(err error) error {
	if b.me == 0 && err != nil {
		b.flaws.Local()[0] = 1
	}
	n, rerr := b.sumFlaws()
	switch {
	case rerr != nil:
		return rerr
	case n == 0:
		return nil
	case err == nil:
		err = errors.New("PE 0 failed")
	}
	return &knownError{err}
}

// sumFlaws returns the sum of what all PEs have counted, and begins anew.
func (b *bench) sumFlaws() (int64, error) {
	err := shmem.Reduce(b.w.Team(), b.flaws.At(1), b.flaws.At(0), shmem.Sum[int64])
	b.flaws.Local()[0] = 0
	return b.flaws.Local()[1], err
}

// measure runs one test.
func (b *bench) measure(i int, t *test) error {
	if b.me == 0 {
		if i > 0 && b.table.out != nil {
			fmt.Fprintln(b.table.out)
		}
		if err := b.table.heading(t, b.npes); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	if err := t.run(b, t); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// sizes returns the message sizes of a test, whole multiples of unit.
func (b *bench) sizes(t *test, unit int) []int {
	low, high := t.low, t.high
	if b.o.MaxBytes > 0 {
		low, high = max(low, b.o.MinBytes), b.o.MaxBytes
	}
	low = (low + unit - 1) / unit * unit
	var all []int
	for n := low; n <= high; n *= 2 {
		all = append(all, n)
	}
	return all
}

// emit takes a row of PE 0's.
func (b *bench) emit(t *test, r Row) error {
	if b.me != 0 {
		return nil
	}
	r.Test = t.name
	b.report.Rows = append(b.report.Rows, r)
	return b.table.row(t, &r)
}

// timed calls f for the warm-up and then for count operations, and returns the
// time of one of those in microseconds.
func timed(count, warmup int, f func(n int) error) (us float64, err error) {
	if warmup > 0 {
		if err := f(warmup); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	err = f(count)
	return float64(time.Since(begin).Nanoseconds()) / 1e3 / float64(count), err
}

// verdict ends a size: all PEs say how many wrong bytes they found.
func (b *bench) verdict(bytes, wrong int) error {
	if !b.o.Validate {
		return nil
	}
	b.flaws.Local()[0] = int64(wrong)
	n, err := b.sumFlaws()
	if err != nil {
		return err
	}
	if n > 0 {
		return &knownError{fmt.Errorf("wrong data: %d bytes of messages of %d bytes are not what was sent", n, bytes)}
	}
	return nil
}

// fill writes a pattern that depends on the size and on who sends.
func fill(buf []byte, from int) {
	for i := range buf {
		buf[i] = pattern(i, len(buf), from)
	}
}

func pattern(i, bytes, from int) byte { return byte(i*7 + i>>8 + bytes + from*31 + 1) }

// differ counts the bytes that are not those of the pattern.
func differ(buf []byte, bytes, from int) (wrong int) {
	for i, v := range buf {
		if v != pattern(i, bytes, from) {
			wrong++
		}
	}
	return wrong
}
