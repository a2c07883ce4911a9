/*
 * Measures messages and collectives of MPI, row by row as cmd/mpirows does for
 * goshmem, and checks their results.
 *
 *	mpicc -O3 mpirows.c -o mpirows && mpirun -n 4 mpirows PLAN [MICROSECONDS]
 *
 * PLAN is a file with one row on a line: its name, its bytes, the operations of a
 * batch and the number of batches. With 0 operations, rank 0 finds out how many
 * take its share of MICROSECONDS.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_WINDOW = 64, MOST_BATCHES = 1000, MOST_SETTLE = 32 };
static const long of_rank = 1000003; /* element k of rank r is r * of_rank + k */
static const double warm_up_ns = 200e6;

static long *src, *dst;
static int me, ranks;
static int *counts, *displs;
static MPI_Request requests[2 * IN_WINDOW];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* An operation in which a rank gives to, or gets from, each other one m elements. */
typedef void operation(int m);

static void latency(int m)
{
	if (me > 1)
		return;
	if (me == 0)
		MPI_Send(src, m, MPI_LONG, 1, 0, MPI_COMM_WORLD);
	MPI_Recv(dst, m, MPI_LONG, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (me == 1)
		MPI_Send(src, m, MPI_LONG, 0, 0, MPI_COMM_WORLD);
}

/* A window from each rank of the first half to one of the second, with an empty answer. */
static void rate(int m)
{
	int half = ranks / 2;
	if (me >= 2 * half)
		return;
	for (int i = 0; i < IN_WINDOW; i++)
		if (me < half)
			MPI_Isend(src, m, MPI_LONG, me + half, 0, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(dst, m, MPI_LONG, me - half, 0, MPI_COMM_WORLD, &requests[i]);
	MPI_Waitall(IN_WINDOW, requests, MPI_STATUSES_IGNORE);
	if (me >= half)
		MPI_Send(src, 0, MPI_LONG, me - half, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(dst, 0, MPI_LONG, me + half, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void bw(int m)
{
	if (ranks == 2)
		rate(m);
}

static void bibw(int m)
{
	if (me > 1)
		return;
	for (int i = 0; i < IN_WINDOW; i++)
		MPI_Irecv(dst, m, MPI_LONG, 1 - me, 0, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < IN_WINDOW; i++)
		MPI_Isend(src, m, MPI_LONG, 1 - me, 0, MPI_COMM_WORLD, &requests[IN_WINDOW + i]);
	MPI_Waitall(2 * IN_WINDOW, requests, MPI_STATUSES_IGNORE);
}

static void barrier(int m)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int m)
{
	MPI_Bcast(me == 0 ? src : dst, m, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void reduce(int m)
{
	MPI_Reduce(src, dst, m, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(int m)
{
	MPI_Allreduce(src, dst, m, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter_block(int m)
{
	MPI_Reduce_scatter_block(src, dst, m, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(int m)
{
	MPI_Gather(src, m, MPI_LONG, dst, m, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void allgather(int m)
{
	MPI_Allgather(src, m, MPI_LONG, dst, m, MPI_LONG, MPI_COMM_WORLD);
}

static void scatter(int m)
{
	MPI_Scatter(src, m, MPI_LONG, dst, m, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void alltoall(int m)
{
	MPI_Alltoall(src, m, MPI_LONG, dst, m, MPI_LONG, MPI_COMM_WORLD);
}

static void scan(int m)
{
	MPI_Scan(src, dst, m, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void exscan(int m)
{
	MPI_Exscan(src, dst, m, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void gatherv(int m)
{
	MPI_Gatherv(src, m, MPI_LONG, dst, counts, displs, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void allgatherv(int m)
{
	MPI_Allgatherv(src, m, MPI_LONG, dst, counts, displs, MPI_LONG, MPI_COMM_WORLD);
}

static void scatterv(int m)
{
	MPI_Scatterv(src, counts, displs, MPI_LONG, dst, m, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void alltoallv(int m)
{
	MPI_Alltoallv(src, counts, displs, MPI_LONG, dst, counts, displs, MPI_LONG, MPI_COMM_WORLD);
}

static void reduce_scatter(int m)
{
	MPI_Reduce_scatter(src, dst, counts, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

/* What a rank has in its destination after an operation. */
enum result { NOTHING, OF_PARTNER, OF_SENDER, OF_ROOT, SUM_AT_ROOT, SUM, SUM_OF_BLOCK, BLOCKS_AT_ROOT, BLOCKS, BLOCK_OF_ROOT, EXCHANGED, SUM_TO_ME, SUM_BEFORE_ME };

static const struct rowkind {
	const char *name;
	operation *op;
	enum result result;
} kinds[] = {
	{"latency", latency, OF_PARTNER},
	{"bw", bw, OF_SENDER},
	{"bibw", bibw, OF_PARTNER},
	{"rate", rate, OF_SENDER},
	{"barrier", barrier, NOTHING},
	{"bcast", bcast, OF_ROOT},
	{"reduce", reduce, SUM_AT_ROOT},
	{"allreduce", allreduce, SUM},
	{"reduce_scatter_block", reduce_scatter_block, SUM_OF_BLOCK},
	{"gather", gather, BLOCKS_AT_ROOT},
	{"allgather", allgather, BLOCKS},
	{"scatter", scatter, BLOCK_OF_ROOT},
	{"alltoall", alltoall, EXCHANGED},
	{"scan", scan, SUM_TO_ME},
	{"exscan", exscan, SUM_BEFORE_ME},
	{"gatherv", gatherv, BLOCKS_AT_ROOT},
	{"allgatherv", allgatherv, BLOCKS},
	{"scatterv", scatterv, BLOCK_OF_ROOT},
	{"alltoallv", alltoallv, EXCHANGED},
	{"reduce_scatter", reduce_scatter, SUM_OF_BLOCK},
};

/* Returns element k of the sum of the first n ranks. */
static long sum(long n, long k)
{
	return n * (n - 1) / 2 * of_rank + n * k;
}

/* Returns whether this rank has a result, and its length in elements. */
static long length_of(const struct rowkind *kind, long m)
{
	int half = ranks / 2;
	switch (kind->result) {
	case OF_PARTNER:
		return me < 2 ? m : 0;
	case OF_SENDER:
		return me >= half && me < 2 * half && (kind->op == rate || ranks == 2) ? m : 0;
	case OF_ROOT:
		return me > 0 ? m : 0;
	case SUM_AT_ROOT:
		return me == 0 ? m : 0;
	case BLOCKS_AT_ROOT:
		return me == 0 ? m * ranks : 0;
	case BLOCKS:
	case EXCHANGED:
		return m * ranks;
	case SUM_BEFORE_ME:
		return me > 0 ? m : 0;
	case NOTHING:
		return 0;
	default:
		return m;
	}
}

/* Returns what element k of the result must be. */
static long expected(enum result result, long m, long k)
{
	switch (result) {
	case OF_PARTNER:
		return (1 - me) * of_rank + k;
	case OF_SENDER:
		return (me - ranks / 2) * of_rank + k;
	case OF_ROOT:
		return k;
	case SUM_OF_BLOCK:
		return sum(ranks, me * m + k);
	case BLOCKS_AT_ROOT:
	case BLOCKS:
		return k / m * of_rank + k % m;
	case BLOCK_OF_ROOT:
		return me * m + k;
	case EXCHANGED:
		return k / m * of_rank + me * m + k % m;
	case SUM_TO_ME:
		return sum(me + 1, k);
	case SUM_BEFORE_ME:
		return sum(me, k);
	default:
		return sum(ranks, k);
	}
}

/* Makes one operation and checks its result. */
static void checked(const struct rowkind *kind, long m)
{
	for (long k = 0; k < m * ranks; k++)
		dst[k] = -1;
	MPI_Barrier(MPI_COMM_WORLD);
	kind->op(m);
	for (long k = 0, n = length_of(kind, m); k < n; k++) {
		long want = expected(kind->result, m, k);
		if (dst[k] != want) {
			fprintf(stderr, "mpirows: row %s of %ld bytes: rank %d has %ld in element %ld of %ld, want %ld\n", kind->name, 8 * m, me, dst[k], k, n, want);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
}

/* Returns how long a batch takes, from one barrier to the next. */
static double batch(operation *op, long n, int m)
{
	double start;
	MPI_Barrier(MPI_COMM_WORLD);
	start = now();
	for (long i = 0; i < n; i++)
		op(m);
	MPI_Barrier(MPI_COMM_WORLD);
	return now() - start;
}

/* Returns rank 0's answer on all ranks. */
static int agree(int answer)
{
	MPI_Bcast(&answer, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return answer;
}

/* Makes operations for a while: the first ones come to memory that was never used. */
static void settle(operation *op, int m, double target)
{
	double start = now();
	int i = 0;
	do
		batch(op, 1, m);
	while (agree(++i < MOST_SETTLE && now() - start < target));
}

static void measure(const struct rowkind *kind, long bytes, long n, int batches, double target)
{
	double each[MOST_BATCHES];
	int m = bytes / 8;
	checked(kind, m);
	settle(kind->op, m, target);
	if (n == 0)
		for (n = 1; agree(batch(kind->op, n, m) < target / batches);)
			n *= 2;
	for (int i = 0; i < batches; i++)
		each[i] = batch(kind->op, n, m) / n;
	checked(kind, m);
	if (me != 0)
		return;
	qsort(each, batches, sizeof *each, ascending);
	printf("{\"name\":\"%s\",\"pes\":%d,\"bytes\":%ld,\"ns_per_op\":%.6g,\"least_ns\":%.6g}\n", kind->name, ranks, bytes, each[batches / 2], each[0]);
	fflush(stdout);
}

/* A row of the plan. */
struct planned {
	char name[40];
	long bytes, n;
	int batches;
};

/* Reads the next row. Returns NULL at the end, or ends the job if the row is bad. */
static const struct rowkind *next(FILE *plan, struct planned *row)
{
	int got = fscanf(plan, "%39s %ld %ld %d", row->name, &row->bytes, &row->n, &row->batches);
	if (got == EOF)
		return NULL;
	for (size_t i = 0; got == 4 && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(row->name, kinds[i].name) == 0 && row->bytes >= 0 && row->bytes % 8 == 0 && row->n >= 0 && row->batches > 0 && row->batches <= MOST_BATCHES)
			return &kinds[i];
	fprintf(stderr, "mpirows: row %s of the plan, want the name of a row, a multiple of 8 bytes, operations, and 1 to %d batches\n", row->name, MOST_BATCHES);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

int main(int argc, char **argv)
{
	double target = 20e6, start;
	const struct rowkind *kind;
	struct planned row;
	long most = 8;
	FILE *plan;
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	plan = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (argc > 2)
		target = 1e3 * atof(argv[2]);
	if (!plan || target <= 0) {
		fprintf(stderr, "mpirows: plan %s, %g ns, want the file of a plan and a positive time\n", argc > 1 ? argv[1] : "is missing", target);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	while ((kind = next(plan, &row)))
		if (row.bytes * ranks > most)
			most = row.bytes * ranks;
	rewind(plan);
	src = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
	dst = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
	counts = calloc(ranks, sizeof *counts);
	displs = calloc(ranks, sizeof *displs);
	if (!src || !dst || !counts || !displs) {
		fprintf(stderr, "mpirows: no memory for two times %ld bytes\n", most);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (long k = 0; k < most / 8; k++) {
		src[k] = me * of_rank + k;
		dst[k] = -1;
	}
	start = now();
	do
		for (int i = 0; i < 100; i++)
			MPI_Barrier(MPI_COMM_WORLD);
	while (agree(now() - start < warm_up_ns));
	while ((kind = next(plan, &row))) {
		for (int i = 0; i < ranks; i++) {
			counts[i] = row.bytes / 8;
			displs[i] = i * counts[i];
		}
		measure(kind, row.bytes, row.n, row.batches, target);
	}
	MPI_Finalize();
	return 0;
}
