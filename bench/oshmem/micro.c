/*
 * Measures OSHMEM's operations between two PEs, row by row as cmd/pe does for
 * goshmem: the median of many short batches, one record of JSON per row.
 *
 *	oshcc -O3 micro.c -o micro && oshrun -n 2 micro [batches [microseconds]]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { TARGET = 1, ROUNDS = 1000, LARGEST = 131072 };

static int me, batches = 101;
static double batch_ns = 250e3;

static long *flag, *x, *pair, *buf;
static long done; /* sections that ended */
static volatile long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}

/* What is measured: n operations on count elements of 8 bytes. */
typedef void body(long n, size_t count);

static double timed(body *f, long n, size_t count)
{
	double start = now();
	f(n, count);
	return now() - start;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Measures batches of n operations. */
static void fixed(const char *name, int bytes, long n, body *f)
{
	double each[batches];
	for (int i = 0; i < batches; i++)
		each[i] = timed(f, n, bytes / 8) / n;
	if (me != 0)
		return;
	qsort(each, batches, sizeof *each, ascending);
	printf("{\"name\":\"%s\",\"bytes\":%d,\"ns_per_op\":%.4g}\n", name, bytes, each[batches / 2]);
}

/* Measures batches of at least batch_ns. */
static void row(const char *name, int bytes, body *f)
{
	long n = 1;
	while (timed(f, n, bytes / 8) < batch_ns)
		n *= 2;
	fixed(name, bytes, n, f);
}

static void p(long n, size_t count)
{
	for (long i = 0; i < n; i++)
		shmem_long_p(x, i, TARGET);
	shmem_quiet();
}

static void p_quiet(long n, size_t count)
{
	for (long i = 0; i < n; i++) {
		shmem_long_p(x, i, TARGET);
		shmem_quiet();
	}
}

static void g(long n, size_t count)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += shmem_long_g(x, TARGET);
	sink += sum;
}

static void put(long n, size_t count)
{
	for (long i = 0; i < n; i++)
		shmem_long_put(x, buf, count, TARGET);
	shmem_quiet();
}

static void put_quiet(long n, size_t count)
{
	for (long i = 0; i < n; i++) {
		shmem_long_put(x, buf, count, TARGET);
		shmem_quiet();
	}
}

static void get(long n, size_t count)
{
	for (long i = 0; i < n; i++)
		shmem_long_get(buf, x, count, TARGET);
}

static long *counter;

static void fetch_add(long n, size_t count)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += shmem_long_atomic_fetch_add(counter, 3, TARGET);
	sink += sum;
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
	static const int sizes[] = { 1, 8, 128, 512, 8192, LARGEST };
	row("p", 8, p);
	row("p_quiet", 8, p_quiet);
	row("g", 8, g);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		row("put", 8 * sizes[i], put);
		row("put_quiet", 8 * sizes[i], put_quiet);
		row("get", 8 * sizes[i], get);
	}
}

static void waited(void) { row("p_wait", 8, p); }
static void add(void) { row("fetch_add", 8, fetch_add); }
static void add_spin(void) { row("fetch_add_spin", 8, fetch_add); }
static void add_line(void) { row("fetch_add_line", 8, fetch_add); }
static void add_wait(void) { row("fetch_add_wait", 8, fetch_add); }

/* Runs rows on PE 0 while PE 1 idles until they are done. */
static void section(void (*idle)(void), void (*rows)(void))
{
	done++;
	shmem_barrier_all();
	if (me == TARGET) {
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
	section(nap, add);
	section(spin, add_spin);
	flag = &pair[0];
	counter = &pair[1];
	section(spin, add_line);
	flag = old;
	counter = x;
	section(wait_for_it, add_wait);
}

static void barrier(long n, size_t count)
{
	for (long i = 0; i < n; i++)
		shmem_barrier_all();
}

static long src, dst, ball_word, ball;
static long psync[2][SHMEM_REDUCE_SYNC_SIZE];
static long pwrk[2][SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void reduce(long n, size_t count)
{
	for (long i = 0; i < n; i++)
		shmem_long_sum_to_all(&dst, &src, 1, 0, 0, 2, pwrk[i & 1], psync[i & 1]);
}

static void ping_pong(long n, size_t count)
{
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
	if (argc > 1)
		batches = atoi(argv[1]);
	if (argc > 2)
		batch_ns = 1e3 * atof(argv[2]);
	shmem_init();
	me = shmem_my_pe();
	if (shmem_n_pes() != 2 || batches < 1 || batch_ns <= 0) {
		fprintf(stderr, "micro: %d PEs, want 2; %d batches of %g ns, want both positive\n",
			shmem_n_pes(), batches, batch_ns);
		shmem_global_exit(2);
	}
	flag = shmem_calloc(8, sizeof *flag); /* cache lines of their own */
	x = shmem_align(64, LARGEST * sizeof *x);
	pair = shmem_align(64, 8 * sizeof *pair);
	buf = calloc(LARGEST, sizeof *buf);
	for (long i = 0; i < LARGEST; i++)
		x[i] = 0;
	pair[0] = pair[1] = 0;
	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		psync[0][i] = psync[1][i] = SHMEM_SYNC_VALUE;
	shmem_barrier_all();

	section(nap, transfers);
	section(wait_for_it, waited);
	atomics();
	shmem_barrier_all();
	fixed("barrier", 0, ROUNDS, barrier);
	fixed("sum_reduce", 8, ROUNDS, reduce);
	shmem_barrier_all();
	fixed("ping_pong", 8, 2 * ROUNDS, ping_pong);
	shmem_finalize();
	return 0;
}
