// Command ring passes a token from PE to PE, three times round: each one waits until
// it has come, and puts it to the next.
//
//	oshrun -n 4 .bin/02-ring
package main

import (
	"fmt"
	"log"

	"github.com/goshmem/goshmem/shmem"
)

const rounds = 3

func main() {
	w, err := shmem.Init()
	check(err)
	token, err := shmem.Calloc[int](w, 1) // how far it has come, seen from here
	check(err)
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	next := (me + 1) % n
	for r := range rounds {
		if r > 0 || me > 0 { // PE 0 begins
			check(shmem.WaitUntil(c, token, shmem.EQ, r*n+me))
		}
		check(shmem.P(c, token, r*n+me+1, next))
	}
	if me == 0 {
		check(shmem.WaitUntil(c, token, shmem.EQ, rounds*n))
		fmt.Printf("the token has gone %d times round %d PEs\n", token.Local()[0]/n, n)
	}
	check(w.Finalize())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
