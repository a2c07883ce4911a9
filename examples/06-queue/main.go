// Command queue counts the ways to place eight queens on a chess board so that none
// attacks another. PE 0 has a queue of unfinished boards, which a lock guards. PEs take
// a board from the queue, and put the boards with one more queen into it.
//
//	oshrun -n 4 .bin/06-queue
package main

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const size = 8 // side of the board

// board has queens in the first Rows rows.
type board struct {
	Rows int
	Col  [size]int
}

// state is guarded by the lock, like the queue.
type state struct {
	Queued int
	Undone int // boards in the queue, or taken by a PE that is not done with them
	Found  int
}

func main() { shmem.Run(placeQueens) }

// placeQueens is the program of each PE.
func placeQueens(w *shmem.World) error {
	c := w.Ctx()
	lock, err1 := shmem.NewLock(w)
	queue, err2 := shmem.Calloc[board](w, size*size*size)
	now, err3 := shmem.Calloc[state](w, 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	now.Local()[0] = state{Queued: 1, Undone: 1} // the empty board; only PE 0's state is used
	if err := w.Barrier(); err != nil {
		return err
	}
	for {
		s, err := readState(c, lock, now)
		if err != nil {
			return err
		}
		if s.Undone == 0 && w.MyPE() == 0 {
			fmt.Printf("%d PEs found %d ways to place %d queens\n", w.NPEs(), s.Found, size)
		}
		if s.Queued == 0 {
			if err := lock.Release(c); err != nil || s.Undone == 0 {
				return err
			}
			continue // other PEs may add boards
		}
		s.Queued--
		b, err := shmem.G(c, queue.At(s.Queued), 0)
		if err := errors.Join(err, shmem.P(c, now, s, 0), lock.Release(c)); err != nil { // Release completes the puts
			return err
		}

		more, found := b.children(), b.Rows/size

		if s, err = readState(c, lock, now); err != nil {
			return err
		}
		err = shmem.Put(c, queue.Slice(s.Queued, queue.Len()), more, 0)
		s = state{s.Queued + len(more), s.Undone + len(more) - 1, s.Found + found}
		if err := errors.Join(err, shmem.P(c, now, s, 0), lock.Release(c)); err != nil {
			return err
		}
	}
}

// readState acquires the lock and returns the state. The grant is not needed: a PE's death ends the job.
func readState(c *shmem.Ctx, lock shmem.Lock, now shmem.Sym[state]) (state, error) {
	if _, err := lock.Acquire(c); err != nil {
		return state{}, err
	}
	return shmem.G(c, now, 0)
}

// children returns the boards with one more queen.
func (b board) children() (all []board) {
next:
	for col := range size {
		for row, other := range b.Col[:b.Rows] {
			if d := b.Rows - row; other == col || other == col-d || other == col+d {
				continue next
			}
		}
		child := board{Rows: b.Rows + 1, Col: b.Col}
		child.Col[b.Rows] = col
		all = append(all, child)
	}
	return all
}
