// Command pi throws darts at a square and counts the hits of the circle in it, which are
// pi/4 of all. It survives killed PEs, and lost nodes: under --recover, a reduction adds up
// the values of the living PEs. So neither the hits nor the throws of a dead PE count any
// more. With --kill, a PE kills itself half way.
//
//	oshrun -n 8 --recover .bin/03-pi --kill 3
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/goshmem/goshmem/shmem"
)

const darts = 100_000 // per PE and round

func main() {
	rounds := flag.Int("rounds", 20, "how often each PE throws its darts")
	kill := flag.Int("kill", -1, "the PE that kills itself half way")
	flag.Parse()
	shmem.Run(func(w *shmem.World) error { return throwDarts(w, *rounds, *kill) })
}

// throwDarts is the program of each PE; kill is the PE that kills itself half way.
func throwDarts(w *shmem.World, rounds, kill int) error {
	mine, err := shmem.Calloc[uint64](w, 2) // hits and throws
	if err != nil {
		return err
	}
	all, err := shmem.Calloc[uint64](w, 2)
	if err != nil {
		return err
	}
	for r := range rounds {
		if r == rounds/2 && w.MyPE() == kill {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
		}
		count := mine.Local()
		for range darts {
			if x, y := rand.Float64(), rand.Float64(); x*x+y*y < 1 {
				count[0]++
			}
		}
		count[1] += darts
		if err := shmem.Reduce(w.Team(), all, mine, shmem.Sum); err != nil {
			return err
		}
	}
	// The contributors to the last sum are the same on all survivors.
	if pes := w.Team().Outcome().Contributors; w.MyPE() == pes[0] {
		hits, throws := all.Local()[0], all.Local()[1]
		fmt.Printf("pi is about %.4f, by %d darts of %d PEs\n", 4*float64(hits)/float64(throws), throws, len(pes))
	}
	return nil
}
