// Command pe measures goshmem's operations between two PEs:
//
//	oshrun -n 2 pe [-batches 101] [-batch 250us]
//
// PE 0 prints one record of JSON per row. A row is the median of many short
// batches, so that a time slice of some other process spoils a few of them and
// not the result. oshmem/micro.c makes the same measurements, row by row.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pe:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	set := flag.NewFlagSet("pe", flag.ContinueOnError)
	batches := set.Int("batches", 101, "batches per row")
	batch := set.Duration("batch", 250*time.Microsecond, "length of a batch at least")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *batches < 1 || *batch <= 0 {
		return fmt.Errorf("-batches %d -batch %v, want both positive", *batches, *batch)
	}
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	if w.NPEs() != 2 {
		return fmt.Errorf("job of %d PEs, want 2: oshrun -n 2 pe", w.NPEs())
	}
	m := &meter{w: w, c: w.Ctx(), me: w.MyPE(), batches: *batches, batch: *batch, out: json.NewEncoder(out)}
	if m.flag, err = shmem.Calloc[int64](w, 1); err != nil {
		return err
	}
	for _, part := range []func() error{m.transfers, m.atomics, m.together} {
		if err := part(); err != nil {
			return err
		}
	}
	return w.Finalize()
}

// meter measures on PE 0.
type meter struct {
	w       *shmem.World
	c       *shmem.Ctx
	me      int
	batches int
	batch   time.Duration
	out     *json.Encoder

	flag shmem.Sym[int64] // of PE 1: the number of the latest section that ended
	done int64            // sections that ended
}

// target is the PE on which PE 0 works.
const target = 1

// section runs rows on PE 0 while PE 1 does what idle says until they are done.
func (m *meter) section(idle func(m *meter) error, rows func() error) error {
	m.done++
	if err := m.w.Barrier(); err != nil {
		return err
	}
	if m.me == target {
		return idle(m)
	}
	if err := rows(); err != nil {
		return err
	}
	if err := shmem.P(m.c, m.flag, m.done, target); err != nil {
		return err
	}
	return m.c.Quiet()
}

// nap leaves the processor alone, as a PE that waits for a disk would.
func nap(m *meter) error {
	for {
		over, err := shmem.Test(m.c, m.flag, shmem.GE, m.done)
		if over || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// spin reads its flag all the time.
func spin(m *meter) error {
	for {
		over, err := shmem.Test(m.c, m.flag, shmem.GE, m.done)
		if over || err != nil {
			return err
		}
	}
}

// wait is in the library's wait function, for something else than what comes.
func wait(m *meter) error { return shmem.WaitUntil(m.c, m.flag, shmem.GE, m.done) }

// row measures body, which makes n operations, in batches of at least m.batch.
func (m *meter) row(name string, bytes int, body func(n int) error) error {
	n := 1
	for {
		t, err := timed(body, n)
		if err != nil {
			return err
		}
		if t >= m.batch {
			break
		}
		n *= 2
	}
	return m.fixed(name, bytes, n, body)
}

// fixed measures body in batches of n operations.
func (m *meter) fixed(name string, bytes, n int, body func(n int) error) error {
	each := make([]float64, m.batches)
	for i := range each {
		t, err := timed(body, n)
		if err != nil {
			return err
		}
		each[i] = float64(t.Nanoseconds()) / float64(n)
	}
	if m.me != 0 {
		return nil
	}
	slices.Sort(each)
	return m.out.Encode(bench.Record{Name: name, Bytes: bytes, Nanos: each[len(each)/2]})
}

func timed(body func(n int) error, n int) (time.Duration, error) {
	start := time.Now()
	err := body(n)
	return time.Since(start), err
}
