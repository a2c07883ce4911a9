package perftest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/goshmem/goshmem/shmem"
)

// bench is a run of tests on one PE.
type bench struct {
	w      *shmem.World
	c      *shmem.Ctx
	o      Options
	me     int
	npes   int
	homes  []int64            // by PE: the first PE of its node
	target int                // the PE that PE 0 acts on
	out    output             // PE 0's
	tally  tally              // of wrong bytes and errors
	stats  shmem.Sym[float64] // on PE 0, one figure of each PE

	repeats repeats
}

// run measures what the options say and prints it on PE 0.
func run(w *shmem.World, o Options, stdout io.Writer) error {
	b := &bench{w: w, c: w.Ctx(), o: o, me: w.MyPE(), npes: w.NPEs()}
	err := b.findNodes()
	if err != nil {
		return err
	}
	if b.target, err = b.chooseTarget(); err != nil {
		return err
	}
	chosen, err := b.chooseTests()
	if err != nil {
		return err
	}
	if b.stats, err = shmem.Calloc[float64](w, b.npes); err != nil {
		return err
	}
	if b.repeats.word, err = shmem.Calloc[uint64](w, 1); err != nil {
		return err
	}
	if b.tally, err = newTally(w); err != nil {
		return err
	}
	if b.me == 0 {
		b.out, err = openOutput(o, b.npes, countNodes(b.homes), stdout)
	}
	if err := b.tally.shareError(err); err != nil {
		return err
	}
	for i, t := range chosen {
		if err := b.measure(i, t); err != nil {
			return err
		}
	}
	err = b.out.writeReport()
	return errors.Join(b.tally.shareError(err), b.tally.free(), shmem.Free(w, b.repeats.word), shmem.Free(w, b.stats))
}

// chooseTests returns the tests to run. All PEs come to the same result.
func (b *bench) chooseTests() (chosen []*test, err error) {
	nodes := countNodes(b.homes)
	for _, name := range b.o.Tests {
		if name == "all" {
			for _, t := range tests {
				if t.allows(b.npes) && (!t.near || nodes == 1) {
					chosen = append(chosen, t)
				}
			}
			continue
		}
		t := findTest(name)
		if !t.allows(b.npes) {
			want := fmt.Sprintf("at least %d", t.pes)
			if t.even {
				want = "an even number"
			}
			return nil, &usageError{"PEs for test " + name, strconv.Itoa(b.npes), want, "oshrun -n 2 bench " + name}
		}
		if t.near && nodes > 1 {
			return nil, &usageError{"nodes for test " + name, strconv.Itoa(nodes), "one", "oshrun -n 2 bench " + name}
		}
		if !slices.Contains(chosen, t) {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// measure runs test i of the run.
func (b *bench) measure(i int, t *test) error {
	if b.me == 0 {
		if err := b.out.table.heading(t, b.npes, b.o.Far, i > 0); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	if err := t.run(b, t); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// sizes returns the message sizes of a test, from the first multiple of unit on.
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

// emit prints a row of PE 0 and keeps it for the report.
func (b *bench) emit(t *test, r Row) error {
	if b.me != 0 {
		return nil
	}
	r.Test = t.name
	return b.out.add(t, &r)
}

// validate ends the measurement of a size: all PEs say how many wrong bytes they have found.
func (b *bench) validate(bytes, wrong int) error {
	if !b.o.Validate {
		return nil
	}
	return b.tally.checkWrong(bytes, wrong)
}

// gather returns on PE 0 the figures of all PEs, by PE. It returns nothing on the others.
func (b *bench) gather(us float64) ([]float64, error) {
	if err := shmem.P(b.c, b.stats.At(b.me), us, 0); err != nil {
		return nil, err
	}
	if err := b.w.Barrier(); err != nil {
		return nil, err
	}
	var all []float64
	if b.me == 0 {
		all = slices.Clone(b.stats.Local())
	}
	return all, b.w.Barrier() // the next figures are written only after PE 0 has read these
}

// fill writes a pattern that depends on the size and on the sender.
func fill(buf []byte, from int) {
	for i := range buf {
		buf[i] = pattern(i, len(buf), from)
	}
}

// pattern returns byte i of the pattern of a size and a sender.
func pattern(i, bytes, from int) byte { return byte(i*7 + i>>8 + bytes + from*31 + 1) }

// countWrong counts the bytes that differ from the pattern.
func countWrong(buf []byte, bytes, from int) (wrong int) {
	for i, v := range buf {
		if v != pattern(i, bytes, from) {
			wrong++
		}
	}
	return wrong
}
