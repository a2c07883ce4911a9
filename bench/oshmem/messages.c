/*
 * Measures messages and collectives of MPI among all ranks, row by row as cmd/pe
 * does for goshmem. A batch of collectives ends with a barrier, so that it includes
 * the work of all ranks.
 *
 *	mpicc -O3 messages.c -o messages && mpirun -n 2 messages [ROWS [BATCHES [MICROSECONDS]]]
 */
#include <mpi.h>
#include "common.h"

enum { LARGEST = 4 << 20 }; /* bytes */

static char *src, *dst;
static int me;

static void barrier(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		MPI_Allreduce(src, dst, bytes / 8, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		MPI_Bcast(dst, bytes / 8, MPI_LONG, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void reduce(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		MPI_Reduce(src, dst, bytes / 8, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void alltoall(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		MPI_Alltoall(src, bytes / 8, MPI_LONG, dst, bytes / 8, MPI_LONG, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A message each way counts as two operations, so the time of one is half the round trip.
 * Ranks beyond the first two wait. */
static void message(long n, size_t bytes)
{
	for (long i = 0; i < n; i += 2) {
		if (me == 0) {
			MPI_Send(src, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(dst, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (me == 1) {
			MPI_Recv(dst, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(src, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		}
	}
}

/* The receiver answers the sender with an empty message. */
static void acknowledge(void)
{
	if (me == 1)
		MPI_Send(src, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	else if (me == 0)
		MPI_Recv(dst, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Windows of messages from rank 0 to rank 1, with an answer to each window. */
static void window(long n, size_t bytes)
{
	enum { IN_WINDOW = 64 };
	MPI_Request all[IN_WINDOW];
	if (me > 1)
		return;
	for (long w = 0; w < n; w++) {
		for (int i = 0; i < IN_WINDOW; i++)
			if (me == 0)
				MPI_Isend(src, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &all[i]);
			else
				MPI_Irecv(dst, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &all[i]);
		MPI_Waitall(IN_WINDOW, all, MPI_STATUSES_IGNORE);
		acknowledge();
	}
}

/* Messages from rank 0 to rank 1, one after the other, with an answer at the end. */
static void rate(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		if (me == 0)
			MPI_Send(src, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
		else if (me == 1)
			MPI_Recv(dst, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	acknowledge();
}

/* Returns rank 0's value on all ranks. */
static long agree(long v)
{
	MPI_Bcast(&v, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return v;
}

/* Measures batches that take rank 0 at least batch_ns, of at least two operations. */
static void all(const char *name, size_t bytes, body *f)
{
	long n = 0, next = 2;
	if (!asked(name, bytes))
		return;
	while (next != n) {
		n = next;
		next = agree(timed(f, n, bytes) < batch_ns ? 2 * n : n);
	}
	fixed(name, bytes, n, f);
}

/* Keeps all ranks busy until the system has spread them over its processors. */
static void settle(double ns)
{
	double start = now();
	do
		barrier(100, 0);
	while (agree(now() - start < ns));
}

int main(int argc, char **argv)
{
	static const size_t messages[] = {0, 8, 1024, 2048, 4096, 8192, 65536, 1048576, LARGEST};
	static const size_t windows[] = {8, 1024, 65536, 1048576, LARGEST};
	int bad;
	batch_ns = 1e6; /* as in together.c */
	bad = options(argc, argv);
	if (bad)
		return bad;
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &pes);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	silent = me != 0;
	src = aligned_alloc(4096, LARGEST);
	dst = aligned_alloc(4096, LARGEST);
	if (!src || !dst) {
		fprintf(stderr, "%s: no memory for two times %d bytes\n", argv[0], LARGEST);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memset(src, 0, LARGEST);
	memset(dst, 0, LARGEST);

	settle(400e6);
	all("barrier", 0, barrier);
	all("allreduce", 8, allreduce);
	all("allreduce", 1024, allreduce);
	all("allreduce", 65536, allreduce);
	all("allreduce", 1048576, allreduce);
	all("bcast", 65536, bcast);
	all("bcast", 1048576, bcast);
	all("reduce", 65536, reduce);
	all("reduce", 1048576, reduce);
	all("alltoall", 8, alltoall);
	all("alltoall", 8192, alltoall);
	if (pes > 1) {
		for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
			all("message", messages[i], message);
		for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
			all("window", windows[i], window);
		all("rate", 8, rate);
	}
	MPI_Finalize();
	return 0;
}
