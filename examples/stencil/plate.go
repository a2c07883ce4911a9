package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/goshmem/goshmem/shmem"
)

const rows, width, every = 98, 130, 20 // of the plate, with its rim; steps from one checkpoint to the next

// plate is a PE's part of the program.
type plate struct {
	w     *shmem.World
	cells shmem.Sym[float64] // of even steps, and of odd ones; other PEs' rows are there as well, but have no meaning
	saved *shmem.Checkpoint
	owner [rows]int // of each row: a PE
}

// share divides the rows among the PEs that live.
func (p *plate) share() {
	t := p.saved.Team()
	for i := range p.owner {
		p.owner[i], _ = t.Translate(i*t.NPEs()/rows, p.w.Team())
	}
}

// row returns a row of the plate as it is at some step.
func (p *plate) row(step, i int) shmem.Sym[float64] {
	return p.cells.Slice((step%2*rows+i)*width, (step%2*rows+i+1)*width)
}

// advance computes the cells of the next step, and puts them where neighbors need them.
func (p *plate) advance(step int) error {
	c, me := p.w.Ctx(), p.w.MyPE()
	for i := 1; i < rows-1; i++ {
		if p.owner[i] != me {
			continue
		}
		up, now, down, next := p.row(step, i-1).Local(), p.row(step, i).Local(), p.row(step, i+1).Local(), p.row(step+1, i).Local()
		for j := 1; j < width-1; j++ {
			next[j] = (up[j] + now[j-1] + now[j+1] + down[j]) / 4
		}
		for _, other := range []int{p.owner[i-1], p.owner[i+1]} {
			if other != me {
				if err := shmem.Put(c, p.row(step+1, i), next, other); err != nil {
					return err
				}
			}
		}
	}
	return errors.Join(c.Quiet(), p.saved.Team().Sync())
}

// goBack goes back to the latest checkpoint, with the PEs that live. Each gets those of its rows that others had, and rows
// beside them. It returns the step.
func (p *plate) goBack() (step int, err error) {
	done, err := p.saved.Restore()
	switch {
	case err != nil:
		return 0, err
	case done.Epoch == 0:
		return 0, errors.New("a PE has died before the first checkpoint")
	case len(done.Lost) > 0:
		return 0, fmt.Errorf("PEs %v and the PEs with their copies have died between two checkpoints", done.Lost)
	}
	step = int(done.Epoch-1) * every
	old, me := p.owner, p.w.MyPE()
	p.share()
	for i := range rows {
		mine := p.owner[i] == me || i > 0 && p.owner[i-1] == me || i < rows-1 && p.owner[i+1] == me
		if x := p.row(step, i); mine && old[i] != me {
			if err := shmem.GetCommitted(p.saved, x.Local(), x, old[i]); err != nil {
				return 0, err
			}
		}
	}
	return step, p.saved.Team().Sync()
}

// print prints a sum of all bits of the plate, which is there after the last step.
func (p *plate) print(steps int) error {
	sum := fnv.New64a()
	for i := range rows {
		row, x := make([]float64, width), p.row(steps, i)
		if err := shmem.GetCommitted(p.saved, row, x, p.owner[i]); err != nil {
			return err
		}
		for _, v := range row {
			_ = binary.Write(sum, binary.LittleEndian, math.Float64bits(v))
		}
	}
	_, err := fmt.Printf("%d steps, %d PEs at the end: the cells' sum is %016x\n", steps, p.saved.Team().NPEs(), sum.Sum64())
	return err
}
