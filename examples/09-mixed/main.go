// Command mixed uses messages and one-sided communication in one program. Heat flows along a
// rod. Each PE sends the ends of its part to its neighbors as messages, counts its cells by an
// atomic operation, and sums up the heat by a reduction. The program survives killed PEs and
// lost nodes: the neighbors of the dead get an error instead of a message, and treat that end
// as insulated. The first living PE has the counter; a new first PE counts from 0. With
// --kill, a PE kills itself half way.
//
//	oshrun -n 4 --recover .bin/09-mixed --kill 2
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

const cells = 1000 // of each PE

func main() {
	steps := flag.Int("steps", 200, "how often heat flows")
	kill := flag.Int("kill", -1, "the PE that kills itself half way")
	flag.Parse()
	shmem.Run(func(w *shmem.World) error { return heatRod(w, *steps, *kill) })
}

// heatRod is the program of each PE; kill is the PE that kills itself half way.
func heatRod(w *shmem.World, steps, kill int) error {
	m, err1 := mpi.Init()                 // rank i is PE i
	done, err2 := shmem.Calloc[int](w, 1) // on the first PE: cells that were computed
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	c, me, n := m.Comm(), w.MyPE(), w.NPEs()
	rod, next := make([]float64, cells+2), make([]float64, cells+2) // with one cell of each neighbor
	rod[1+me*10] = 1000
	pes := make([]int, 1) // who lives; PE 0 is the first one
	heat := 0.0           // of all who live
	for step := range steps {
		if step == steps/2 && me == kill {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
		}
		// Messages bring the neighbors' cells. No heat flows at the ends of the rod and beside dead PEs.
		rod[0], rod[cells+1] = rod[1], rod[cells]
		if err := swap(c, me-1, n, step, rod[1:2], rod[:1]); err != nil {
			return err
		}
		if err := swap(c, me+1, n, step, rod[cells:cells+1], rod[cells+1:]); err != nil {
			return err
		}
		for i := 1; i <= cells; i++ {
			next[i] = rod[i] + (rod[i-1]-2*rod[i]+rod[i+1])/4
		}
		rod, next = next, rod
		err := shmem.AtomicAdd(w.Ctx(), done, cells, pes[0]) // one-sided: that PE does nothing for it
		if err == nil {
			err = w.Ctx().Quiet() // complete the addition before the next collective
		}
		if err != nil && !errors.Is(err, shmem.ErrPEDied) {
			return err
		}
		// The heat of all who live. It holds the PEs in step, too.
		heat = 0
		for _, x := range rod[1 : cells+1] {
			heat += x
		}
		if heat, err = shmem.ReduceValue(w.Team(), heat, shmem.Sum); err != nil {
			return err
		}
		pes = w.Team().Outcome().Contributors // the same on all living PEs
	}
	if me == pes[0] {
		fmt.Printf("heat %.3f on %d PEs, %d cells counted on PE %d\n", heat, len(pes), done.Local()[0], me)
	}
	return m.Finalize() // shmem.Run finalizes shmem; the order does not matter
}

// swap sends an end to a neighbor and receives the neighbor's end, if that neighbor exists and lives.
func swap(c *mpi.Comm, neighbor, n, step int, mine, theirs []float64) error {
	if neighbor < 0 || neighbor >= n || slices.Contains(c.Failed(), neighbor) {
		return nil
	}
	_, err := mpi.Sendrecv(c, mine, neighbor, step, theirs, neighbor, step)
	if errors.Is(err, mpi.ErrDied) {
		return nil
	}
	return err
}
