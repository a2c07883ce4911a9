// Command pipeline sends blocks of numbers through all PEs. Each PE adds its part to a
// block when the block has arrived, and puts it to the next PE with a signal. So the PEs
// work on different blocks at the same time.
//
//	oshrun -n 4 .bin/07-pipeline
package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const blocks, length = 64, 4096

func main() { shmem.Run(sendBlocks) }

// sendBlocks is the program of each PE.
func sendBlocks(w *shmem.World) error {
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	data, err := shmem.Calloc[int](w, blocks*length)
	if err != nil {
		return err
	}
	arrived, err := shmem.Calloc[uint64](w, 1) // number of blocks that have arrived
	if err != nil {
		return err
	}
	for b := range blocks {
		if me > 0 { // PE 0 has all blocks, of zeros
			_, err := c.SignalWaitUntil(arrived, shmem.GE, uint64(b+1))
			if err != nil {
				return err
			}
		}
		block := data.Slice(b*length, (b+1)*length)
		for i := range block.Local() {
			block.Local()[i] += (me + 1) * (b + i)
		}
		if me < n-1 {
			// Blocks may arrive out of order, so a signal stands for its own block only.
			// With Fence, it stands for all earlier blocks as well.
			if err := c.Fence(); err != nil {
				return err
			}
			if err := shmem.PutSignalNBI(c, block, block.Local(), arrived, 1, shmem.SignalAdd, me+1); err != nil {
				return err
			}
		}
	}
	if err := c.Quiet(); err != nil { // from here on, the source may be changed
		return err
	}
	if me == n-1 {
		for k, v := range data.Local() {
			if want := n * (n + 1) / 2 * (k/length + k%length); v != want {
				return fmt.Errorf("number %d of block %d is %d, want %d", k%length, k/length, v, want)
			}
		}
		fmt.Printf("%d blocks went through %d PEs\n", blocks, n)
	}
	return nil
}
