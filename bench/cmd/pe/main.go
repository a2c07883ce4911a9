// Command pe measures goshmem's operations:
//
//	oshrun -n 2 pe [flags] onesided    between two PEs
//	oshrun -n 4 pe [flags] together    collectives among all PEs
//	oshrun -n 4 --recover pe [flags] tolerant    the same beside strict ones
//	oshrun -n 2 pe [flags] messages    messages between two PEs
//	oshrun -n 4 pe [flags] private     collectives of package mpi among all PEs
//	oshrun --emulate 2 -n 2 pe [flags] far    one-sided operations on a PE of another node
//	oshrun --emulate 2 -n 4 pe [flags] far    the same on a PE of the same node
//
// PE 0 prints one JSON record per row. A row is the median of many short batches: a time slice of another
// process then spoils a few batches, but not the result. oshmem/micro.c, oshmem/far.c,
// oshmem/together.c and oshmem/messages.c make the same measurements, row by row.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pe:", err)
		os.Exit(1)
	}
}

// parts are the sets of rows by name, with the length of a batch. With fewer processors than PEs, a batch is
// long enough for each PE to have a few turns.
var parts = map[string]struct {
	run   func(m *meter) error
	batch time.Duration
}{
	"onesided": {(*meter).oneSided, 250 * time.Microsecond},
	"together": {(*meter).together, time.Millisecond},
	"tolerant": {(*meter).tolerant, time.Millisecond},
	"messages": {(*meter).messages, time.Millisecond},
	"private":  {(*meter).private, time.Millisecond},
	"rounds":   {(*meter).rounds, 500 * time.Millisecond},
	"far":      {(*meter).far, time.Millisecond},
	"spanning": {(*meter).spanning, time.Millisecond},
}

func run(args []string, out io.Writer) error {
	set := flag.NewFlagSet("pe", flag.ContinueOnError)
	batches := set.Int("batches", 101, "batches per row")
	batch := set.Duration("batch", 0, "least length of a batch (0: the default of the rows)")
	rows := set.String("rows", "", "only rows whose name matches this `regexp`")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *batches < 1 || *batch < 0 {
		return fmt.Errorf("-batches %d -batch %v, want -batches 1 or more and -batch 0 or more", *batches, *batch)
	}
	wanted, err := regexp.Compile(*rows)
	if err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	part, ok := parts[set.Arg(0)]
	if !ok || set.NArg() != 1 {
		return fmt.Errorf("arguments %q, want one of onesided, together, tolerant, messages, private, rounds, far, spanning", set.Args())
	}
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	m := &meter{
		w: w, c: w.Ctx(), me: w.MyPE(),
		rows: wanted, batches: *batches, batch: cmp.Or(*batch, part.batch), out: json.NewEncoder(out),
	}
	if err := part.run(m); err != nil {
		return err
	}
	return w.Finalize()
}
