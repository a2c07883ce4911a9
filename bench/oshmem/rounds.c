/*
 * Counts rounds of a barrier and a sum of 8 bytes among all ranks in a fixed time, as
 * cmd/pe's part "rounds" does. Beside other load, the number of rounds matters, not how
 * long most rounds take. Prints one JSON record.
 *
 *	mpicc -O3 rounds.c -o rounds && mpirun -n 2 rounds [ROWS [BATCHES [MICROSECONDS]]]
 */
#include <mpi.h>
#include "common.h"

int main(int argc, char **argv)
{
	int me, bad;
	batch_ns = 500e6;
	bad = options(argc, argv);
	if (bad)
		return bad;
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &pes);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	/* The first tenth is not counted: the system spreads the ranks over its processors. */
	for (int part = 0; part < 2; part++) {
		double start = now(), ns = part ? batch_ns : batch_ns / 10;
		long rounds = 0, over = 0, all = 0;
		while (!all) {
			MPI_Barrier(MPI_COMM_WORLD);
			over = me == 0 && now() - start >= ns;
			MPI_Allreduce(&over, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
			rounds++;
		}
		if (part && me == 0)
			printf("{\"name\":\"round\",\"pes\":%d,\"bytes\":0,\"ns_per_op\":%.4g}\n", pes, (now() - start) / rounds);
	}
	MPI_Finalize();
	return 0;
}
