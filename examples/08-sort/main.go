// Command sort is a sample sort of random numbers. Samples determine the range of each PE.
// The PEs exchange how many numbers each sends to each, then put the numbers there.
//
//	oshrun -n 4 .bin/08-sort
package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

const numbers, samples = 100_000, 32 // per PE

func main() { shmem.Run(sortNumbers) }

// sortNumbers is the program of each PE.
func sortNumbers(w *shmem.World) error {
	team, me, n := w.Team(), w.MyPE(), w.NPEs()
	rng := rand.New(rand.NewPCG(3, uint64(me)))
	mine := make([]uint64, numbers)
	for i := range mine {
		mine[i] = rng.Uint64()
	}
	slices.Sort(mine)

	// The samples of all PEs determine the number at which each PE's part begins.
	all, err := shmem.Calloc[uint64](w, samples*(1+n))
	if err != nil {
		return err
	}
	few, every := all.Slice(0, samples), all.Slice(samples, samples*(1+n))
	for i := range few.Local() {
		few.Local()[i] = mine[i*numbers/samples]
	}
	if err := shmem.FCollect(team, every, few); err != nil {
		return err
	}
	slices.Sort(every.Local())
	ends := make([]int, n+1) // PE pe gets mine[ends[pe]:ends[pe+1]]
	for pe := 1; pe < n; pe++ {
		ends[pe], _ = slices.BinarySearch(mine, every.Local()[pe*samples])
	}
	ends[n] = numbers

	// Who has told how much it has for me, hears where in my part that begins.
	counts, err := shmem.Calloc[uint64](w, 4*n)
	if err != nil {
		return err
	}
	give, get, place, begins := counts.Slice(0, n), counts.Slice(n, 2*n), counts.Slice(2*n, 3*n), counts.Slice(3*n, 4*n)
	for pe := range n {
		give.Local()[pe] = uint64(ends[pe+1] - ends[pe])
	}
	if err := shmem.Alltoall(team, get, give); err != nil {
		return err
	}
	total := uint64(0)
	for pe, count := range get.Local() {
		place.Local()[pe], total = total, total+count
	}
	if err := shmem.Alltoall(team, begins, place); err != nil {
		return err
	}
	most, err := shmem.ReduceValue(team, total, shmem.Max)
	if err != nil {
		return err
	}
	part, err := shmem.Calloc[uint64](w, int(most))
	if err != nil {
		return err
	}
	for pe := range n {
		at := int(begins.Local()[pe])
		if err := shmem.Put(w.Ctx(), part.Slice(at, part.Len()), mine[ends[pe]:ends[pe+1]], pe); err != nil {
			return err
		}
	}
	if err := w.Barrier(); err != nil {
		return err
	}
	slices.Sort(part.Local()[:total])

	// Collect appends the parts, which have different lengths.
	sorted, err := shmem.Calloc[uint64](w, numbers*n)
	if err != nil {
		return err
	}
	if err := shmem.Collect(team, sorted, part.Slice(0, int(total))); err != nil {
		return err
	}
	if me == n-1 {
		fmt.Printf("%d numbers of %d PEs, sorted: %v\n", sorted.Len(), n, slices.IsSorted(sorted.Local()))
	}
	return nil
}
