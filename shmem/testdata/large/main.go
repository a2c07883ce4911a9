// Command large uses elements of 8 KiB. TestLargeElements builds and runs it.
package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

type block struct{ Words [1024]uint64 }

func main() { shmem.Run(pass) }

// pass passes a block to the next PE by each call that takes any element, and back.
func pass(w *shmem.World) error {
	all, err := shmem.Calloc[block](w, 4)
	if err != nil {
		return err
	}
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	next := (me + 1) % n
	mine := []block{{}, {}}
	mine[0].Words[1023], mine[1].Words[1023] = uint64(10+me), uint64(20+me)
	if err := shmem.P(c, all, mine[0], next); err != nil {
		return err
	}
	if err := shmem.Put(c, all.Slice(1, 3), mine, next); err != nil {
		return err
	}
	if err := shmem.PutNBI(c, all.Slice(3, 4), mine[1:], next); err != nil {
		return err
	}
	if err := w.Barrier(); err != nil {
		return err
	}
	first, err := shmem.G(c, all, next)
	if err != nil {
		return err
	}
	back := make([]block, 3)
	if err := shmem.Get(c, back[:2], all.Slice(1, 3), next); err != nil {
		return err
	}
	if _, err := shmem.GetNBI(c, back[2:], all.Slice(3, 4), next); err != nil {
		return err
	}
	if err := c.Quiet(); err != nil {
		return err
	}
	fmt.Println(me, first.Words[1023], back[0].Words[1023], back[1].Words[1023], back[2].Words[1023])
	return nil
}
