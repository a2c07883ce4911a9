/*
 * Common code of the programs in C. A row is the median of many short batches, so
 * that a time slice of another process spoils a few batches but not the row. Each
 * row is printed as one JSON record, like those of cmd/pe.
 *
 * Arguments: [ROWS [BATCHES [MICROSECONDS]]]; ROWS is an extended regular
 * expression for the names of rows.
 */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int batches = 101;
static double batch_ns = 250e3;
static regex_t wanted;
static int pes;    /* number of PEs, in rows whose names contain it */
static int silent; /* this PE prints no rows */

/* The operation to measure: n times on this many bytes. */
typedef void body(long n, size_t bytes);

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}

static double timed(body *f, long n, size_t bytes)
{
	double start = now();
	f(n, bytes);
	return now() - start;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Returns whether a row is selected. */
static int asked(const char *name, size_t bytes)
{
	char row[96];
	int n = 0;
	if (pes > 0)
		n += snprintf(row + n, sizeof row - n, "%dpe/", pes);
	n += snprintf(row + n, sizeof row - n, "%s", name);
	if (bytes > 0)
		snprintf(row + n, sizeof row - n, "/%zu", bytes);
	return regexec(&wanted, row, 0, NULL, 0) == 0;
}

/* Measures batches of n operations. */
static void fixed(const char *name, size_t bytes, long n, body *f)
{
	double each[batches];
	for (int i = 0; i < batches; i++)
		each[i] = timed(f, n, bytes) / n;
	if (silent)
		return;
	qsort(each, batches, sizeof *each, ascending);
	printf("{\"name\":\"%s\",\"pes\":%d,\"bytes\":%zu,\"ns_per_op\":%.4g}\n", name, pes, bytes, each[batches / 2]);
	fflush(stdout);
}

/* Measures batches of at least batch_ns on this PE alone. */
static void row(const char *name, size_t bytes, body *f)
{
	long n = 1;
	if (!asked(name, bytes))
		return;
	while (timed(f, n, bytes) < batch_ns)
		n *= 2;
	fixed(name, bytes, n, f);
}

/* Reads the arguments. Returns 0, or an exit status. */
static int options(int argc, char **argv)
{
	char cause[200];
	int bad = regcomp(&wanted, argc > 1 ? argv[1] : "", REG_EXTENDED | REG_NOSUB);
	if (bad) {
		regerror(bad, &wanted, cause, sizeof cause);
		fprintf(stderr, "%s: rows %s: %s\n", argv[0], argv[1], cause);
		return 2;
	}
	if (argc > 2)
		batches = atoi(argv[2]);
	if (argc > 3)
		batch_ns = 1e3 * atof(argv[3]);
	if (batches < 1 || batch_ns <= 0) {
		fprintf(stderr, "%s: %d batches of %g ns, want both positive\n", argv[0], batches, batch_ns);
		return 2;
	}
	return 0;
}
