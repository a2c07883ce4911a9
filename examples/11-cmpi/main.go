//go:build cmpi

// Command cmpi calls a C library of MPI beside package shmem, in the same processes and on the same memory. Each PE
// counts random numbers in bins of all PEs by atomic operations of shmem. Then MPI sums up the bins where they are, and
// sends them to the next rank, which puts them back with a signal. The C part is any MPI's; the build needs cgo:
//
//	CC=mpicc.openmpi go build -tags cmpi -o .bin/ ./examples/11-cmpi
//	oshrun -n 4 .bin/11-cmpi
package main

/*
#include <mpi.h>
#include <stdint.h>

// The macros of mpi.h are not for Go. MPI's default error handler ends the job, so the results need no check.
static int start(int *rank, int *size) {
	int level;
	MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
	return level >= MPI_THREAD_SERIALIZED;
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void sum(uint64_t *in, uint64_t *out, int n) { MPI_Allreduce(in, out, n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD); }
static void shift(uint64_t *out, int to, uint64_t *in, int from, int n) {
	MPI_Sendrecv(out, n, MPI_UINT64_T, to, 0, in, n, MPI_UINT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

const bins, numbers = 4096, 10_000 // per PE

func main() { shmem.Run(countForMPI) }

// countForMPI is the program of each PE.
func countForMPI(w *shmem.World) error {
	var rank, size C.int
	if C.start(&rank, &size) == 0 { // goroutines change threads, so MPI must take calls from any
		return errors.New("MPI_Init_thread: no MPI_THREAD_SERIALIZED, want an MPI library that has it")
	}
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	if int(rank) != me || int(size) != n {
		return fmt.Errorf("rank %d of %d is PE %d of %d, want equal numbers", rank, size, me, n)
	}
	// Symmetric memory lies outside of Go's heap. So C may keep its addresses, and it may be the buffer of a message.
	counts, err1 := shmem.Calloc[uint64](w, bins)
	sums, err2 := shmem.Calloc[uint64](w, bins)
	before, err3 := shmem.Calloc[uint64](w, bins) // the bins of the PE before this one
	back, err4 := shmem.Calloc[uint64](w, bins)   // this PE's bins, as the next PE has got them
	arrived, err5 := shmem.Calloc[uint64](w, 1)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(3, uint64(me)))
	for range numbers {
		if err := shmem.AtomicInc(c, counts.At(rng.IntN(bins)), rng.IntN(n)); err != nil {
			return err
		}
	}
	// MPI_Barrier alone completes no operation of shmem: Quiet comes before it.
	if err := c.Quiet(); err != nil {
		return err
	}
	C.barrier()
	next, last := (me+1)%n, (me+n-1)%n
	C.sum(address(counts), address(sums), bins)
	C.shift(address(counts), C.int(next), address(before), C.int(last), bins)
	// What MPI has received is there for a put at once: MPI_Sendrecv has returned.
	if err := shmem.PutSignal(c, back, before.Local(), arrived, 1, shmem.SignalSet, last); err != nil {
		return err
	}
	if _, err := c.SignalWaitUntil(arrived, shmem.EQ, 1); err != nil {
		return err
	}
	total := uint64(0)
	for _, v := range sums.Local() {
		total += v
	}
	if !slices.Equal(back.Local(), counts.Local()) || total != uint64(n*numbers) {
		return fmt.Errorf("PE %d: %d numbers in all, want %d; or the bins came back different", me, total, n*numbers)
	}
	C.MPI_Finalize() // not after an error: it would wait for ranks that wait for this one
	fmt.Printf("rank %d is PE %d: MPI sums up %d numbers, and shmem puts back what MPI has sent\n", rank, me, total)
	return nil
}

// address returns where this PE has a symmetric object, for C.
func address(s shmem.Sym[uint64]) *C.uint64_t { return (*C.uint64_t)(&s.Local()[0]) }
