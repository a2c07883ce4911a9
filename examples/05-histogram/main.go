// Command histogram counts random numbers in bins that are spread over all PEs. It adds
// to a bin by an atomic operation on the PE that has the bin.
//
//	oshrun -n 4 .bin/05-histogram
package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goshmem/goshmem/shmem"
)

const bins, numbers = 16, 100_000 // numbers per PE

func main() { shmem.Run(countNumbers) }

// countNumbers is the program of each PE.
func countNumbers(w *shmem.World) error {
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	// Bin b is element b/n of PE b%n.
	counts, err := shmem.Calloc[uint64](w, (bins+n-1)/n)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(2, uint64(me)))
	for range numbers {
		b := min(bins-1, max(0, int(bins/2+rng.NormFloat64()*2)))
		if err := shmem.AtomicInc(c, counts.At(b/n), b%n); err != nil {
			return err
		}
	}
	if err := w.Barrier(); err != nil {
		return err
	}
	if me == 0 {
		total := uint64(0)
		for b := range bins {
			v, err := shmem.G(c, counts.At(b/n), b%n)
			if err != nil {
				return err
			}
			fmt.Printf("%2d %7d %s\n", b, v, strings.Repeat("*", int(v)*100/(numbers*n)))
			total += v
		}
		fmt.Printf("in all: %d numbers of %d PEs\n", total, n)
	}
	return nil
}
