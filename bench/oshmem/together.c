/*
 * Measures OSHMEM's collectives among all PEs, row by row as cmd/pe does for goshmem.
 * A batch ends with a barrier, so that it includes the work of all PEs.
 *
 *	oshcc -O3 together.c -o together && oshrun -n 4 together [ROWS [BATCHES [MICROSECONDS]]]
 */
#include <shmem.h>
#include "common.h"

enum { LARGEST = 1 << 20 }; /* bytes of an object */

static long *src, *dst;
static long psync[2][SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE + SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE];
static long pwrk[2][LARGEST / 8 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void barrier(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_barrier_all();
}

static void sum_reduce(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_sum_to_all(dst, src, bytes / 8, 0, 0, pes, pwrk[i & 1], psync[i & 1]);
	shmem_barrier_all();
}

static void broadcast(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_broadcast64(dst, src, bytes / 8, 0, 0, 0, pes, psync[i & 1]);
	shmem_barrier_all();
}

static void alltoall(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_alltoall64(dst, src, bytes / 8, 0, 0, pes, psync[i & 1]);
	shmem_barrier_all();
}

static void fcollect(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_fcollect64(dst, src, bytes / 8, 0, 0, pes, psync[i & 1]);
	shmem_barrier_all();
}

static long lock;

/* Each PE takes the lock n times, so the lock is handed over pes times per operation. */
static void hand_over(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		shmem_set_lock(&lock);
		shmem_clear_lock(&lock);
	}
	shmem_barrier_all();
}

static long word;

/* Returns PE 0's value on all PEs. */
static long agree(long v)
{
	if (shmem_my_pe() == 0)
		for (int i = 0; i < pes; i++)
			shmem_long_p(&word, v, i);
	shmem_barrier_all();
	v = word;
	shmem_barrier_all();
	return v;
}

/* Measures batches that take PE 0 at least batch_ns. */
static void all(const char *name, size_t bytes, body *f)
{
	long n = 0, next = 1;
	if (!asked(name, bytes))
		return;
	while (next != n) {
		n = next;
		next = agree(timed(f, n, bytes) < batch_ns ? 2 * n : n);
	}
	fixed(name, bytes, n, f);
}

/* Keeps all PEs busy until the system has spread them over its processors. */
static void settle(double ns)
{
	double start = now();
	do
		barrier(100, 0);
	while (agree(now() - start < ns));
}

int main(int argc, char **argv)
{
	int bad;
	batch_ns = 1e6; /* as long as all PEs need for a few turns on few processors */
	bad = options(argc, argv);
	if (bad)
		return bad;
	shmem_init();
	pes = shmem_n_pes();
	silent = shmem_my_pe() != 0;
	src = shmem_align(4096, LARGEST);
	dst = shmem_align(4096, LARGEST);
	if (!src || !dst) {
		fprintf(stderr, "%s: no memory for two times %d bytes\n", argv[0], LARGEST);
		shmem_global_exit(1);
	}
	memset(src, 0, LARGEST);
	memset(dst, 0, LARGEST);
	for (size_t i = 0; i < sizeof psync[0] / sizeof *psync[0]; i++)
		psync[0][i] = psync[1][i] = SHMEM_SYNC_VALUE;
	shmem_barrier_all();

	settle(400e6);
	all("barrier", 0, barrier);
	all("sum_reduce", 8, sum_reduce);
	all("sum_reduce", 1024, sum_reduce);
	all("sum_reduce", 65536, sum_reduce);
	all("sum_reduce", LARGEST, sum_reduce);
	all("broadcast", 8, broadcast);
	all("broadcast", 65536, broadcast);
	all("alltoall", 8, alltoall);
	all("alltoall", 8192, alltoall);
	all("fcollect", 8, fcollect);
	all("fcollect", 8192, fcollect);
	all("lock", 0, hand_over);
	shmem_finalize();
	return 0;
}
