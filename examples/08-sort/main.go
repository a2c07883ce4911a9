// Command sort sorts random numbers by samples: PEs agree on the numbers that
// separate their parts, tell each other how much goes where, and put it there.
//
//	oshrun -n 4 .bin/08-sort
package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

const numbers, samples = 100_000, 32 // of each PE

func main() {
	w, err := shmem.Init()
	check(err)
	team, me, n := w.Team(), w.MyPE(), w.NPEs()
	rng := rand.New(rand.NewPCG(3, uint64(me)))
	mine := make([]uint64, numbers)
	for i := range mine {
		mine[i] = rng.Uint64()
	}
	slices.Sort(mine)

	// Everybody's samples give the numbers at which the parts of PEs begin.
	few, every := alloc(w, samples), alloc(w, samples*n)
	for i := range few.Local() {
		few.Local()[i] = mine[i*numbers/samples]
	}
	check(shmem.FCollect(team, every, few))
	slices.Sort(every.Local())
	ends := make([]int, n) // PE pe gets mine[ends[pe-1]:ends[pe]]
	for pe := range n - 1 {
		ends[pe], _ = slices.BinarySearch(mine, every.Local()[(pe+1)*samples])
	}
	ends[n-1] = numbers

	// Who has told how much it has for me, hears where in my part that begins.
	give, get, place, begins := alloc(w, n), alloc(w, n), alloc(w, n), alloc(w, n)
	for pe := range n {
		give.Local()[pe] = uint64(ends[pe] - start(ends, pe))
	}
	check(shmem.Alltoall(team, get, give))
	total := uint64(0)
	for pe, count := range get.Local() {
		place.Local()[pe], total = total, total+count
	}
	check(shmem.Alltoall(team, begins, place))
	size := alloc(w, 1)
	size.Local()[0] = total
	most := alloc(w, 1)
	check(shmem.Reduce(team, most, size, shmem.Max))
	part := alloc(w, int(most.Local()[0]))
	for pe := range n {
		at := int(begins.Local()[pe])
		check(shmem.Put(w.Ctx(), part.Slice(at, part.Len()), mine[start(ends, pe):ends[pe]], pe))
	}
	check(w.Barrier())
	slices.Sort(part.Local()[:total])

	// All parts one after the other, of however many numbers each.
	sorted := alloc(w, numbers*n)
	check(shmem.Collect(team, sorted, part.Slice(0, int(total))))
	if me == n-1 {
		fmt.Printf("%d numbers of %d PEs, sorted: %v\n", sorted.Len(), n, slices.IsSorted(sorted.Local()))
	}
	check(w.Finalize())
}

func start(ends []int, pe int) int {
	if pe == 0 {
		return 0
	}
	return ends[pe-1]
}

func alloc(w *shmem.World, n int) shmem.Sym[uint64] {
	x, err := shmem.Calloc[uint64](w, n)
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
