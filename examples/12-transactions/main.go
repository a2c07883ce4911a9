// Command transactions adds up the squares of the first 10,000 numbers in batches, which the ranks share. Each batch is a
// block: all ranks accept it, or none does. If a rank dies, the others reject the batch, and do it again among those
// that live. So the sum is right whoever dies, and whenever. With --kill, a rank kills itself half way.
//
//	oshrun -n 4 --recover .bin/12-transactions --kill 2
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
)

const numbers = 10_000

func main() {
	batches := flag.Int("batches", 100, "in how many blocks the numbers are added")
	kill := flag.Int("kill", -1, "the rank that kills itself half way")
	flag.Parse()
	w, err := mpi.Init()
	if err == nil {
		if err = addSquares(w.Comm(), *batches, *kill); err == nil {
			err = w.Finalize()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// addSquares is the program of each rank; kill is the rank that kills itself half way.
func addSquares(c *mpi.Comm, batches, kill int) error {
	me := c.Rank()
	total, rejected := 0, 0
	for batch := 0; batch < batches; {
		if me == kill && batch == batches/2 {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
		}
		sum, err := addBatch(c, batch, batches)
		switch decision, _ := ft.IsFault(err); {
		case err == nil: // accepted by all
			total += sum
			batch++
		case decision == ft.Reject:
			rejected++
			if c, err = c.Shrink(); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("the squares add up to %d, by %d ranks at the end; %d batches were rejected\n", total, c.Size(), rejected)
	}
	return nil
}

// addBatch adds up the squares of a batch, of which each rank has a share.
func addBatch(c *mpi.Comm, batch, batches int) (int, error) {
	part, sum := []int{0}, []int{0}
	b := ft.Try(c, ft.Global)
	share := mpi.Go(func(context.Context) error {
		for i := batch + c.Rank()*batches; i < numbers; i += c.Size() * batches {
			part[0] += i * i
		}
		return nil
	})
	if _, err := share.Wait(); err != nil {
		return 0, err
	}
	_ = b.Add(mpi.Iallreduce(c, sum, part, mpi.Sum)) // an error is a fault of the block
	_, err := b.Finish(nil, time.Minute).Wait()
	return sum[0], err
}
