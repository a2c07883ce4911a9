// Command teams multiplies a matrix by a vector on a grid of PEs. Each column of the grid
// is a team that broadcasts a part of the vector. Each row of the grid is a team that
// adds up a part of the result.
//
//	oshrun -n 8 .bin/10-teams
package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const size = 840 // divisible by all numbers up to 8

func main() { shmem.Run(multiply) }

// multiply is the program of each PE.
func multiply(w *shmem.World) error {
	rows := 1 // rows of the grid, which is as near to a square as possible
	for rows*rows < w.NPEs() || w.NPEs()%rows > 0 {
		rows++
	}
	cols := w.NPEs() / rows
	if size%rows > 0 || size%cols > 0 {
		return fmt.Errorf("%d x %d PEs cannot share a %d x %d matrix equally, want numbers that divide %d", rows, cols, size, size, size)
	}
	row, column, err := w.Team().Split2D(cols, nil, nil)
	if err != nil {
		return err
	}

	// This PE has the block of the matrix that begins at element (top, left).
	height, width := size/rows, size/cols
	top, left := column.MyPE()*height, row.MyPE()*width
	part, err := shmem.Calloc[int](w, width) // part of the vector, for the columns of the block
	if err != nil {
		return err
	}
	source, err := shmem.Calloc[int](w, width)
	if err != nil {
		return err
	}
	sum, err := shmem.Calloc[int](w, height) // part of the result, for the rows of the block
	if err != nil {
		return err
	}
	result, err := shmem.Calloc[int](w, size)
	if err != nil {
		return err
	}

	// The first PE of each column has its part of the vector, which is 0, 1, 2, ...
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
	if err := shmem.FCollect(column, result, sum); err != nil { // now every PE has the whole result
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

// element returns an element of the matrix.
func element(i, j int) int { return i*31 + j*17%13 }
