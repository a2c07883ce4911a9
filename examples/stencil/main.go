// Command stencil simulates heat on a plate whose rows are divided among the PEs, which commit a checkpoint every 20
// steps. When PEs die, even all of a node, the others go back to the last one, share the rows anew, and go on. The result is
// the same to the last bit. With --kill, a PE kills itself half way.
//
//	oshrun -n 6 --recover .bin/stencil --kill 2
package main

import (
	"errors"
	"flag"
	"os"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	steps := flag.Int("steps", 200, "how many steps")
	kill := flag.Int("kill", -1, "the PE that kills itself half way")
	flag.Parse()
	shmem.Run(func(w *shmem.World) error { return simulate(w, *steps/every*every, *kill) })
}

// simulate is the program of each PE.
func simulate(w *shmem.World, steps, kill int) (err error) {
	p := &plate{w: w}
	if p.cells, err = shmem.Calloc[float64](w, 2*rows*width); err != nil {
		return err
	}
	for i := range width {
		p.cells.Local()[i], p.cells.Local()[rows*width+i] = 100, 100 // the upper rim is hot
	}
	if p.saved, err = shmem.NewCheckpoint(w, shmem.Partner(0)); err != nil {
		return err
	}
	if err = p.saved.Protect("cells", p.cells); err != nil {
		return err
	}
	p.share()
	_, err = p.saved.Commit() // epoch 1: before the first step
	for step := 0; err == nil && step < steps; {
		if step == steps/2+every/2 && w.MyPE() == kill {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
		}
		if err = p.advance(step); err == nil {
			if step++; step%every == 0 {
				_, err = p.saved.Commit()
			}
		}
		for errors.Is(err, shmem.ErrPEDied) {
			step, err = p.goBack()
		}
	}
	if first, _ := p.saved.Team().Translate(0, w.Team()); err != nil || w.MyPE() != first {
		return err
	}
	return p.print(steps)
}
