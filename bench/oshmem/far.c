/*
 * Measures OSHMEM's one-sided operations over TCP, row by row as cmd/pe far does for
 * goshmem. UCX performs them by messages, which the target answers in its wait
 * function.
 *
 *	oshcc -O3 far.c -o far && oshrun -n 2 far [ROWS [BATCHES [MICROSECONDS]]]
 */
#define _GNU_SOURCE
#include <shmem.h>
#include <stdint.h>
#include "common.h"

enum { TARGET = 1, LARGE = 1 << 20, LARGEST = 64 << 20, PUTS = 16, STREAM = 1 << 13 };

static long *flag, *x, *buf;
static uint64_t mask, random_word = 1;
static volatile long sink;

static void get(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_get(buf, x, bytes / 8, TARGET);
}

static void fetch_add(long n, size_t bytes)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += shmem_long_atomic_fetch_add(x, 3, TARGET);
	sink += sum;
}

static void compare_swap(long n, size_t bytes)
{
	static long old;
	for (long i = 0; i < n; i++)
		old = shmem_long_atomic_compare_swap(x, old, old + 1, TARGET);
}

static void put_quiet(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		shmem_long_p(x, 1, TARGET);
		shmem_quiet();
	}
}

static void puts_random(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		random_word = random_word * 6364136223846793005u + 1442695040888963407u;
		shmem_long_p(&x[random_word >> 33 & mask], i, TARGET);
	}
	shmem_quiet();
}

static void put(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_put(x, buf, bytes / 8, TARGET);
	shmem_quiet();
}

static void many(const char *name, size_t range)
{
	mask = range / 8 - 1;
	if (asked(name, 8))
		fixed(name, 8, STREAM, puts_random); /* fewer than in cmd/pe: each takes longer */
}

int main(int argc, char **argv)
{
	int bad;
	batch_ns = 1e6;
	bad = options(argc, argv);
	if (bad)
		return bad;
	setenv("UCX_TLS", "tcp,self", 1);
	shmem_init();
	if (shmem_n_pes() != 2) {
		fprintf(stderr, "%s: %d PEs, want 2\n", argv[0], shmem_n_pes());
		shmem_global_exit(2);
	}
	flag = shmem_calloc(8, sizeof *flag); /* on a cache line of its own */
	x = shmem_align(4096, LARGEST);
	buf = aligned_alloc(4096, LARGE);
	if (!flag || !x || !buf) {
		fprintf(stderr, "%s: no memory for %d bytes\n", argv[0], LARGEST);
		shmem_global_exit(1);
	}
	memset(x, 0, LARGEST);
	memset(buf, 0, LARGE);
	shmem_barrier_all();
	if (shmem_my_pe() == TARGET) {
		shmem_long_wait_until(flag, SHMEM_CMP_EQ, 1);
	} else {
		row("far/get", 8, get);
		row("far/fetch_add", 8, fetch_add);
		row("far/compare_swap", 8, compare_swap);
		row("far/put_quiet", 8, put_quiet);
		many("far/put_1M", 1 << 20);
		many("far/put_64M", LARGEST);
		if (asked("far/put", LARGE))
			fixed("far/put", LARGE, PUTS, put);
		shmem_long_p(flag, 1, TARGET);
		shmem_quiet();
	}
	shmem_barrier_all();
	shmem_finalize();
	return 0;
}
