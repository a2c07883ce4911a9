// Command queue counts in how many ways eight queens can stand on a chess board so that
// none attacks another. What is to be done lies in a queue on PE 0, which a lock
// guards: PEs take boards out of it, and put those with a queen more into it.
//
//	oshrun -n 4 .bin/06-queue
package main

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const size = 8 // of the board

// board has queens in the first Rows rows.
type board struct {
	Rows int
	Col  [size]int
}

// state is what the lock guards, beside the queue.
type state struct {
	Queued int
	Undone int // boards in the queue or in somebody's hands
	Found  int
}

func main() { shmem.Run(placeQueens) }

// placeQueens is what each PE does.
func placeQueens(w *shmem.World) error {
	c := w.Ctx()
	lock, err1 := shmem.NewLock(w)
	queue, err2 := shmem.Calloc[board](w, size*size*size)
	now, err3 := shmem.Calloc[state](w, 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	now.Local()[0] = state{Queued: 1, Undone: 1} // the empty board; only PE 0's is used
	if err := w.Barrier(); err != nil {
		return err
	}
	for {
		s, err := enter(c, lock, now)
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
			continue // others may find more to do
		}
		s.Queued--
		b, err := shmem.G(c, queue.At(s.Queued), 0)
		if err := errors.Join(err, shmem.P(c, now, s, 0), lock.Release(c)); err != nil { // Release completes what was put
			return err
		}

		more, found := b.children(), b.Rows/size

		if s, err = enter(c, lock, now); err != nil {
			return err
		}
		err = shmem.Put(c, queue.Slice(s.Queued, queue.Len()), more, 0)
		s = state{s.Queued + len(more), s.Undone + len(more) - 1, s.Found + found}
		if err := errors.Join(err, shmem.P(c, now, s, 0), lock.Release(c)); err != nil {
			return err
		}
	}
}

// enter acquires the lock and returns what it guards. The grant is not needed: a PE's death ends the job.
func enter(c *shmem.Ctx, lock shmem.Lock, now shmem.Sym[state]) (state, error) {
	if _, err := lock.Acquire(c); err != nil {
		return state{}, err
	}
	return shmem.G(c, now, 0)
}

// children returns the boards with one queen more.
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
