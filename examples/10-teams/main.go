// Command teams multiplies a matrix with a vector on a grid of PEs: a team for each
// column of the grid has a part of the vector, and a team for each row adds up a part
// of the result.
//
//	oshrun -n 8 .bin/10-teams
package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const size = 840 // which all numbers up to 8 divide

func main() { shmem.Run(multiply) }

// multiply is what each PE does.
func multiply(w *shmem.World) error {
	rows := 1 // of the grid: as near to a square as the number of PEs allows
	for rows*rows < w.NPEs() || w.NPEs()%rows > 0 {
		rows++
	}
	cols := w.NPEs() / rows
	if size%rows > 0 || size%cols > 0 {
		return fmt.Errorf("%d x %d PEs cannot share a %d x %d matrix alike, want numbers that divide %d", rows, cols, size, size, size)
	}
	row, column, err := w.Team().Split2D(cols, nil, nil)
	if err != nil {
		return err
	}

	// This PE has the block of the matrix from element (top, left) on.
	height, width := size/rows, size/cols
	top, left := column.MyPE()*height, row.MyPE()*width
	part, err := shmem.Calloc[int](w, width) // of the vector, for the columns of the block
	if err != nil {
		return err
	}
	source, err := shmem.Calloc[int](w, width)
	if err != nil {
		return err
	}
	sum, err := shmem.Calloc[int](w, height) // of the result, for the rows of the block
	if err != nil {
		return err
	}
	result, err := shmem.Calloc[int](w, size)
	if err != nil {
		return err
	}

	// The first PE of each column knows the vector, which is 0, 1, 2, ...
	if column.MyPE() == 0 {
		for j := range source.Local() {
			source.Local()[j] = left + j
		}
	}
	if err := shmem.Broadcast(column, part, source, 0); err != nil {
		return err
	}
	for i := range sum.Local() {
		for j, v := range part.Local() {
			sum.Local()[i] += element(top+i, left+j) * v
		}
	}
	if err := shmem.Reduce(row, sum, sum, shmem.Sum); err != nil {
		return err
	}
	if err := shmem.FCollect(column, result, sum); err != nil { // now everybody has all of it
		return err
	}

	for i, v := range result.Local() {
		want := 0
		for j := range size {
			want += element(i, j) * j
		}
		if v != want {
			return fmt.Errorf("element %d of the result is %d, want %d", i, v, want)
		}
	}
	if last, is := row.Translate(cols-1, w.Team()); is && w.MyPE() == 0 {
		fmt.Printf("a %d x %d matrix on %d x %d PEs: right; my row ends at PE %d\n", size, size, rows, cols, last)
	}
	if err := row.Destroy(); err != nil {
		return err
	}
	if err := column.Destroy(); err != nil {
		return err
	}
	return nil
}

// element makes the matrix.
func element(i, j int) int { return i*31 + j*17%13 }
