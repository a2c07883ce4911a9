// Command hello is a first program: every PE writes its number into its right
// neighbor's memory, and prints what its left neighbor wrote into its own.
//
//	oshrun -n 4 .bin/01-hello
package main

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	shmem.Run(func(w *shmem.World) error {
		me, n := w.MyPE(), w.NPEs()
		x, err := shmem.Alloc[int](w, 1) // one int on every PE
		if err != nil {
			return err
		}
		err = shmem.P(w.Ctx(), x, me, (me+1)%n) // one-sided: the neighbor does nothing for it
		err = errors.Join(err, w.Barrier())     // after the barrier, all puts are complete
		fmt.Printf("PE %d of %d: my left neighbor is PE %d\n", me, n, x.Local()[0])
		return err
	})
}
