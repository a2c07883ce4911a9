// Command hello is a first program: every PE writes its number into its right
// neighbor's memory, and prints what its left neighbor wrote into its own.
//
//	oshrun -n 4 .bin/01-hello
package main

import (
	"fmt"
	"log"

	"github.com/goshmem/goshmem/shmem"
)

func main() {
	w, err := shmem.Init()
	check(err)
	x, err := shmem.Alloc[int](w, 1) // one int on every PE
	check(err)
	me, n := w.MyPE(), w.NPEs()
	check(shmem.P(w.Ctx(), x, me, (me+1)%n)) // a one-sided put
	check(w.Barrier())                       // all puts are complete
	fmt.Printf("PE %d of %d: my left neighbor is PE %d\n", me, n, x.Local()[0])
	check(w.Finalize())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
