/*
 * The floor for what ends in an atomic instruction, in plain C on memory shared
 * by two processes: a store that is followed by one (p_quiet), and a fetching
 * add, alone, while the other process reads a word of another cache line, and
 * while it reads one of the same. Rows as in cmd/pe.
 *
 *	gcc -O3 atomic.c -o atomic && ./atomic [batches [microseconds]]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int batches = 101;
static double batch_ns = 250e3;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}

static volatile long sink;

/* What is measured: n operations on a word. */
typedef void body(long *word, long n);

static void fetch_add(long *counter, long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += __atomic_fetch_add(counter, 3, __ATOMIC_SEQ_CST);
	sink += sum;
}

/* Store, look whether the target sleeps (a word 192 bytes on), drain the stores. */
static void store_drain(long *word, long n)
{
	int local = 0;
	for (long i = 0; i < n; i++) {
		*(volatile long *)word = i;
		if (*(volatile long *)(word + 24) != 0)
			abort();
		__atomic_fetch_add(&local, 0, __ATOMIC_SEQ_CST);
	}
}

static double timed(body *f, long *word, long n)
{
	double start = now();
	f(word, n);
	return now() - start;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void row(const char *name, body *f, long *word)
{
	double each[batches];
	long n = 1;
	while (timed(f, word, n) < batch_ns)
		n *= 2;
	for (int i = 0; i < batches; i++)
		each[i] = timed(f, word, n) / n;
	qsort(each, batches, sizeof *each, ascending);
	printf("{\"name\":\"%s\",\"bytes\":8,\"ns_per_op\":%.4g}\n", name, each[batches / 2]);
	fflush(stdout);
}

/* Measures while a child reads flag until it is not zero. */
static int beside(const char *name, long *counter, long *flag)
{
	pid_t child = fork();
	if (child < 0) {
		perror("atomic: fork");
		return 1;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0)
			;
		_exit(0);
	}
	row(name, fetch_add, counter);
	__atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
	return waitpid(child, NULL, 0) != child;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		batches = atoi(argv[1]);
	if (argc > 2)
		batch_ns = 1e3 * atof(argv[2]);
	if (batches < 1 || batch_ns <= 0) {
		fprintf(stderr, "atomic: %d batches of %g ns, want both positive\n", batches, batch_ns);
		return 2;
	}
	long *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED) {
		perror("atomic: mmap");
		return 1;
	}
	row("p_quiet", store_drain, &m[256]);
	row("fetch_add", fetch_add, &m[0]);
	return beside("fetch_add_spin", &m[0], &m[64]) || beside("fetch_add_line", &m[129], &m[128]);
}
