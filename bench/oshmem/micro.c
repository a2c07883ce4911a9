/*
 * Measures OSHMEM's one-sided operations between two PEs, row by row as
 * cmd/pe does for goshmem.
 *
 *	oshcc -O3 micro.c -o micro && oshrun -n 2 micro [ROWS [BATCHES [MICROSECONDS]]]
 */
#include <shmem.h>
#include <unistd.h>
#include "common.h"

enum { TARGET = 1, ROUNDS = 1000, MANY = 64, LARGEST = 4 << 20 };

static long *flag, *x, *pair, *buf;
static long done; /* sections that have ended */
static volatile long sink;

static void p(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_p(x, i, TARGET);
	shmem_quiet();
}

static void p_quiet(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		shmem_long_p(x, i, TARGET);
		shmem_quiet();
	}
}

static void g(long n, size_t bytes)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += shmem_long_g(x, TARGET);
	sink += sum;
}

static void put(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_put(x, buf, bytes / 8, TARGET);
	shmem_quiet();
}

static void put_quiet(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		shmem_long_put(x, buf, bytes / 8, TARGET);
		shmem_quiet();
	}
}

static void get(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		shmem_long_get(buf, x, bytes / 8, TARGET);
}

/* MANY operations on as many elements and one quiet count as one operation. */

static void puts_quiet(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		for (int k = 0; k < MANY; k++)
			shmem_long_put(&x[k], &buf[k], 1, TARGET);
		shmem_quiet();
	}
}

static void puts_nbi(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		for (int k = 0; k < MANY; k++)
			shmem_long_put_nbi(&x[k], &buf[k], 1, TARGET);
		shmem_quiet();
	}
}

static void gets_nbi(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		for (int k = 0; k < MANY; k++)
			shmem_long_get_nbi(&buf[k], &x[k], 1, TARGET);
		shmem_quiet();
	}
}

static long *counter;

static void fetch_add(long n, size_t bytes)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += shmem_long_atomic_fetch_add(counter, 3, TARGET);
	sink += sum;
}

static void compare_swap(long n, size_t bytes)
{
	long old = shmem_long_atomic_fetch(counter, TARGET);
	for (long i = 0; i < n; i++) {
		long seen = shmem_long_atomic_compare_swap(counter, old, old + 1, TARGET);
		if (seen != old)
			shmem_global_exit(3);
		old++;
	}
}

/* What PE 1 does while PE 0 measures. */
static void nap(void)
{
	while (!shmem_long_test(flag, SHMEM_CMP_GE, done))
		usleep(1000);
}

static void spin(void)
{
	while (!shmem_long_test(flag, SHMEM_CMP_GE, done))
		;
}

static void wait_for_it(void)
{
	shmem_long_wait_until(flag, SHMEM_CMP_GE, done);
}

static void transfers(void)
{
	static const int sizes[] = { 8, 64, 1024, 4096, 65536, 1 << 20, 2 << 20, LARGEST };
	row("p", 8, p);
	row("p_quiet", 8, p_quiet);
	row("g", 8, g);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		row("put", sizes[i], put);
		row("put_quiet", sizes[i], put_quiet);
		row("get", sizes[i], get);
	}
	row("64_put_quiet", 8, puts_quiet);
	row("64_put_nbi_quiet", 8, puts_nbi);
	row("64_get_nbi_quiet", 8, gets_nbi);
}

static void waited(void) { row("p_wait", 8, p); }
static void alone(void) { row("fetch_add", 8, fetch_add); row("compare_swap", 8, compare_swap); }
static void add_spin(void) { row("fetch_add_spin", 8, fetch_add); row("compare_swap_spin", 8, compare_swap); }
static void add_line(void) { row("fetch_add_line", 8, fetch_add); row("compare_swap_line", 8, compare_swap); }
static void add_wait(void) { row("fetch_add_wait", 8, fetch_add); row("compare_swap_wait", 8, compare_swap); }

/* Runs rows on PE 0 while PE 1 idles until they are done. */
static void section(void (*idle)(void), void (*rows)(void))
{
	done++;
	shmem_barrier_all();
	if (shmem_my_pe() == TARGET) {
		idle();
		return;
	}
	rows();
	shmem_long_p(flag, done, TARGET);
	shmem_quiet();
}

static void atomics(void)
{
	long *old = flag;
	counter = x;
	section(nap, alone);
	section(spin, add_spin);
	flag = &pair[0];
	counter = &pair[1];
	section(spin, add_line);
	flag = old;
	counter = x;
	section(wait_for_it, add_wait);
}

static long ball_word, ball;

static void ping_pong(long n, size_t bytes)
{
	int me = shmem_my_pe();
	for (long i = 0; i < n / 2; i++) {
		ball++;
		if (me == 0)
			shmem_long_p(&ball_word, ball, TARGET);
		shmem_long_wait_until(&ball_word, SHMEM_CMP_GE, ball);
		if (me == TARGET)
			shmem_long_p(&ball_word, ball, 0);
	}
}

int main(int argc, char **argv)
{
	int bad = options(argc, argv);
	if (bad)
		return bad;
	shmem_init();
	if (shmem_n_pes() != 2) {
		fprintf(stderr, "%s: %d PEs, want 2\n", argv[0], shmem_n_pes());
		shmem_global_exit(2);
	}
	silent = shmem_my_pe() != 0;
	flag = shmem_calloc(8, sizeof *flag); /* on cache lines of its own */
	x = shmem_align(4096, LARGEST);
	pair = shmem_align(64, 64);
	buf = aligned_alloc(4096, LARGEST);
	if (!flag || !x || !pair || !buf) {
		fprintf(stderr, "%s: no memory for %d bytes\n", argv[0], LARGEST);
		shmem_global_exit(1);
	}
	memset(x, 0, LARGEST);
	memset(buf, 0, LARGEST);
	pair[0] = pair[1] = 0;
	shmem_barrier_all();

	section(nap, transfers);
	section(wait_for_it, waited);
	atomics();
	shmem_barrier_all();
	if (asked("ping_pong", 8))
		fixed("ping_pong", 8, 2 * ROUNDS, ping_pong);
	shmem_finalize();
	return 0;
}
