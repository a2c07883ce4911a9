// Command mpirows measures messages and collectives of package mpi, row by row as oshmem/mpirows.c does with MPI:
//
//	oshrun -n 4 mpirows [-memory symmetric] [-target 20ms] PLAN
//
// PLAN is a file with one row on a line: its name, its bytes, the operations of a batch and the number of batches. With 0
// operations, rank 0 finds out how many take its share of -target. Rank 0 prints one JSON record per row. Each row begins
// and ends with one operation whose result all ranks check. After the first one, further operations warm up the row's memory, for
// -target or 32 operations, whichever ends first.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mpirows:", err)
		os.Exit(1)
	}
}

// row is a line of the plan.
type row struct {
	name    string
	bytes   int
	n       int // operations of a batch; 0: to be found out
	batches int
}

func run(args []string, out io.Writer) (err error) {
	set := flag.NewFlagSet("mpirows", flag.ContinueOnError)
	memory := set.String("memory", "private", "where buffers are: private or symmetric")
	target := set.Duration("target", 20*time.Millisecond, "least time of the batches of a row whose operations are 0 in the plan")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 1 || *target <= 0 || *memory != "private" && *memory != "symmetric" {
		return fmt.Errorf("-memory %q, -target %v, arguments %q, want private or symmetric, a positive time, and the file of a plan", *memory, *target, set.Args())
	}
	plan, err := readPlan(set.Arg(0))
	if err != nil {
		return err
	}
	world, err := mpi.Init()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Finalize()) }()
	m := &meter{c: world.Comm(), target: *target, out: json.NewEncoder(out)}
	m.me, m.n = m.c.Rank(), m.c.Size()
	if *memory == "private" {
		m.src, m.dst = make([]int64, m.largest(plan)), make([]int64, m.largest(plan))
		return m.measure(plan)
	}
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Finalize()) }()
	for _, to := range []*[]int64{&m.src, &m.dst} {
		x, err := shmem.Calloc[int64](w, m.largest(plan), shmem.Align(4096))
		if err != nil {
			return err
		}
		*to = x.Local()
	}
	return m.measure(plan)
}

// readPlan reads the rows of a plan.
func readPlan(name string) (plan []row, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r row
		if _, err := fmt.Sscan(lines.Text(), &r.name, &r.bytes, &r.n, &r.batches); err != nil || r.bytes < 0 || r.bytes%8 != 0 || r.n < 0 || r.batches < 1 {
			return nil, fmt.Errorf("%s, row %d: %q, want a name, a multiple of 8 bytes, operations, and batches", name, len(plan)+1, lines.Text())
		}
		plan = append(plan, r)
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("%s has no rows, want one on each line", name)
	}
	return plan, nil
}

// meter measures rows; rank 0 prints them.
type meter struct {
	c        *mpi.Comm
	me, n    int
	src, dst []int64
	target   time.Duration
	out      *json.Encoder
	window   [2 * inWindow]mpi.Request
}

// largest returns the elements of the longest buffer of a plan.
func (m *meter) largest(plan []row) (most int) {
	for _, r := range plan {
		most = max(most, r.bytes/8*m.n)
	}
	return max(most, 1)
}

// ofRank tells the elements of different ranks apart: element k of rank r is r*ofRank + k.
const ofRank = 1_000_003

// warmUp is how long all ranks are busy before the first row, until the kernel has spread them over the processors.
const warmUp = 200 * time.Millisecond

// measure measures all rows.
func (m *meter) measure(plan []row) error {
	for k := range m.src {
		m.src[k], m.dst[k] = int64(m.me*ofRank+k), -1 // pages that were only read share one page of zeros
	}
	for start, more := time.Now(), true; more; {
		for range 100 {
			if err := m.c.Barrier(); err != nil {
				return err
			}
		}
		v, err := m.agree(int(time.Since(start)))
		if err != nil {
			return err
		}
		more = time.Duration(v) < warmUp
	}
	for _, r := range plan {
		if err := m.row(r); err != nil {
			return fmt.Errorf("row %s of %d bytes: %w", r.name, r.bytes, err)
		}
	}
	return nil
}

// agree returns rank 0's value on all ranks.
func (m *meter) agree(v int) (int, error) {
	x := []int64{int64(v)}
	err := mpi.Bcast(m.c, x, 0)
	return int(x[0]), err
}

// row measures one row.
func (m *meter) row(r row) error {
	op, ok := m.operation(r.name, r.bytes/8)
	if !ok {
		return errors.New("no such row, want one of oshmem/mpirows.c")
	}
	if err := m.checked(r, op); err != nil {
		return err
	}
	if err := m.settle(op); err != nil {
		return err
	}
	n := r.n
	if n == 0 {
		var err error
		if n, err = m.operations(op, m.target/time.Duration(r.batches)); err != nil {
			return err
		}
	}
	each := make([]float64, r.batches)
	for i := range each {
		t, err := m.timed(op, n)
		if err != nil {
			return err
		}
		each[i] = float64(t) / float64(n)
	}
	if err := m.checked(r, op); err != nil || m.me != 0 {
		return err
	}
	slices.Sort(each)
	return m.out.Encode(bench.Record{Name: r.name, PEs: m.n, Bytes: r.bytes, Nanos: each[len(each)/2], Least: each[0]})
}

// mostSettle bounds the operations by which a row settles.
const mostSettle = 32

// settle makes operations for as long as the target: the first ones come to memory that was never used.
func (m *meter) settle(op func() error) error {
	start := time.Now()
	for range mostSettle {
		if _, err := m.timed(op, 1); err != nil {
			return err
		}
		if took, err := m.agree(int(time.Since(start))); err != nil || time.Duration(took) >= m.target {
			return err
		}
	}
	return nil
}

// operations returns the operations of a batch that takes at least so long by rank 0's clock.
func (m *meter) operations(op func() error, least time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		t, err := m.timed(op, n)
		if err != nil {
			return 0, err
		}
		if took, err := m.agree(int(t)); err != nil || time.Duration(took) >= least {
			return n, err
		}
	}
}

// timed returns how long a batch takes at rank 0, from one barrier to the next.
func (m *meter) timed(op func() error, n int) (time.Duration, error) {
	if err := m.c.Barrier(); err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := op(); err != nil {
			return 0, err
		}
	}
	err := m.c.Barrier()
	return time.Since(start), err
}
