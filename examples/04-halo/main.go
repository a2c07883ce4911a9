// Command halo simulates heat on a plate that is divided into blocks, one for each PE. Before each
// step, every PE puts the cells at the rims of its block into its neighbors' memory and signals it.
//
//	oshrun -n 4 .bin/04-halo
package main

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const (
	size, steps = 48, 200  // side of the plate in cells; number of steps
	line        = size + 2 // from one row to the next, with room for neighbors' cells
)

// side is a side of a block, with the neighbor there.
type side struct {
	row, col  int // place of the neighbor in the grid
	from, to  int // first cell of this side here, and its place in the neighbor's memory
	stride, n int
}

func main() { shmem.Run(heatPlate) }

// heatPlate is the program of each PE.
func heatPlate(w *shmem.World) error {
	c, n, rows := w.Ctx(), w.NPEs(), 1 // rows of PEs: as near to a square as their number allows
	for rows*rows < n || n%rows > 0 {
		rows++
	}
	cols := n / rows
	if rows > size {
		return fmt.Errorf("%d PEs make a grid of %d x %d, want at most %d rows, one cell for each", n, rows, cols, size)
	}
	row, col := w.MyPE()/cols, w.MyPE()%cols
	height, width := extent(row, rows), extent(col, cols)
	sides := [4]side{ // the opposite of s is 3-s
		{row - 1, col, line + 1, (extent(row-1, rows)+1)*line + 1, 1, width},
		{row, col - 1, line + 1, line + extent(col-1, cols) + 1, line, height},
		{row, col + 1, line + width, line, line, height},
		{row + 1, col, height*line + 1, 1, 1, width},
	}
	// Two plates, of even and of odd steps: a neighbor may be a step ahead.
	cells, err := shmem.Calloc[float64](w, 2*line*line)
	if err != nil {
		return err
	}
	plate := [2]shmem.Sym[float64]{cells.Slice(0, line*line), cells.Slice(line*line, 2*line*line)}
	for j := 0; row == 0 && j < line; j++ {
		plate[0].Local()[j], plate[1].Local()[j] = 100, 100 // the upper rim is hot
	}
	arrived, err := shmem.Calloc[uint64](w, 4) // the step of each neighbor's cells
	if err != nil {
		return err
	}
	change := 0.0 // the greatest one of the latest step

	for step := range steps {
		cell, next := plate[step%2], plate[(step+1)%2].Local()
		old := cell.Local()
		for s, x := range sides {
			if pe := x.row*cols + x.col; inside(x, rows, cols) {
				err := shmem.IPut(c, cell.Slice(x.to, cell.Len()), old[x.from:], shmem.Stride{Dst: x.stride, Src: x.stride, N: x.n}, pe)
				// Fence orders the cells before the signal.
				if err := errors.Join(err, c.Fence(), c.SignalSet(arrived.At(3-s), uint64(step+1), pe)); err != nil {
					return err
				}
			}
		}
		for s, x := range sides {
			if inside(x, rows, cols) {
				if err := shmem.WaitUntil(c, arrived.At(s), shmem.GE, uint64(step+1)); err != nil {
					return err
				}
			}
		}
		change = 0
		for i := 1; i <= height; i++ {
			for k := i*line + 1; k <= i*line+width; k++ {
				next[k] = (old[k-line] + old[k-1] + old[k+1] + old[k+line]) / 4
				change = max(change, next[k]-old[k])
			}
		}
	}
	change, err = shmem.ReduceValue(w.Team(), change, shmem.Max)
	if err == nil && w.MyPE() == 0 {
		fmt.Printf("%d x %d PEs, %d steps: no cell gets warmer by more than %.9f\n", rows, cols, steps, change)
	}
	return err
}

// extent returns how many cells the i-th of n blocks has.
func extent(i, n int) int { return (i+1)*size/n - i*size/n }

func inside(x side, rows, cols int) bool {
	return x.row >= 0 && x.row < rows && x.col >= 0 && x.col < cols
}
