// Command queue counts in how many ways eight queens can stand on a chess board so that
// none attacks another. What is to be done lies in a queue on PE 0, which a lock
// guards: PEs take boards out of it, and put those with a queen more into it.
//
//	oshrun -n 4 .bin/06-queue
package main

import (
	"fmt"
	"log"

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

func main() {
	w, err := shmem.Init()
	check(err)
	c := w.Ctx()
	lock, err := shmem.NewLock(w)
	check(err)
	queue, err := shmem.Calloc[board](w, size*size*size)
	check(err)
	now, err := shmem.Calloc[state](w, 1)
	check(err)
	now.Local()[0] = state{Queued: 1, Undone: 1} // the empty board; only PE 0's is used
	check(w.Barrier())
	for {
		check(lock.Acquire(c))
		s, err := shmem.G(c, now, 0)
		check(err)
		if s.Queued == 0 {
			check(lock.Release(c))
			if s.Undone == 0 {
				break
			}
			continue // others may find more to do
		}
		s.Queued--
		b, err := shmem.G(c, queue.At(s.Queued), 0)
		check(err)
		check(shmem.P(c, now, s, 0))
		check(lock.Release(c)) // which completes what was put

		more, found := b.children(), b.Rows/size

		check(lock.Acquire(c))
		s, err = shmem.G(c, now, 0)
		check(err)
		check(shmem.Put(c, queue.Slice(s.Queued, queue.Len()), more, 0))
		s = state{s.Queued + len(more), s.Undone + len(more) - 1, s.Found + found}
		check(shmem.P(c, now, s, 0))
		check(lock.Release(c))
	}
	check(w.Barrier())
	if w.MyPE() == 0 {
		fmt.Printf("%d PEs found %d ways to place %d queens\n", w.NPEs(), now.Local()[0].Found, size)
	}
	check(w.Finalize())
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
