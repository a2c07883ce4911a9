// Command ring passes a token three times around the PEs. Each PE waits for the token
// and puts it into the memory of the next PE.
//
//	oshrun -n 4 .bin/02-ring
package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

const rounds = 3

func main() { shmem.Run(passToken) }

// passToken passes the token on.
func passToken(w *shmem.World) error {
	token, err := shmem.Calloc[int](w, 1) // number of steps that the token has made, as known here
	if err != nil {
		return err
	}
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	next := (me + 1) % n
	for r := range rounds {
		if r > 0 || me > 0 { // PE 0 begins
			if err := shmem.WaitUntil(c, token, shmem.EQ, r*n+me); err != nil {
				return err
			}
		}
		if err := shmem.P(c, token, r*n+me+1, next); err != nil {
			return err
		}
	}
	if me == 0 {
		if err := shmem.WaitUntil(c, token, shmem.EQ, rounds*n); err != nil {
			return err
		}
		fmt.Printf("the token has gone %d times round %d PEs\n", token.Local()[0]/n, n)
	}
	return nil
}
