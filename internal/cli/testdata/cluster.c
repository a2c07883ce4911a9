/*
 * Each rank prints its number, its node and its host. Then it does what the argument says:
 *   hello      nothing
 *   allreduce  sums arrays of several sizes, up to 1 MiB
 *   ring       passes 4 MiB once around the ring, adding 1 to each word
 *   abort      rank 2 aborts the job with 42, and the others wait
 *   exit       rank 2 exits with 7, and the others wait
 *   wait       all wait
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1 << 20 };

static void wait_for_the_end(void)
{
	for (;;)
		pause();
}

static void add_one(int *words)
{
	int i;

	for (i = 0; i < WORDS; i++)
		words[i]++;
}

static void ring(int rank, int size)
{
	int *words = malloc(WORDS * sizeof *words);
	int to = (rank + 1) % size, from = (rank + size - 1) % size, i;

	if (words == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0) {
		for (i = 0; i < WORDS; i++)
			words[i] = i;
		MPI_Send(words, WORDS, MPI_INT, to, 0, MPI_COMM_WORLD);
	}
	MPI_Recv(words, WORDS, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	add_one(words);
	if (rank != 0) {
		MPI_Send(words, WORDS, MPI_INT, to, 0, MPI_COMM_WORLD);
	} else {
		for (i = 0; i < WORDS; i++) {
			if (words[i] != i + size) {
				printf("word %d is %d, want %d\n", i, words[i], i + size);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
	}
	free(words);
}

static void allreduce(int rank, int size)
{
	double *mine = malloc((1 << 17) * sizeof *mine), *sums = malloc((1 << 17) * sizeof *sums);
	int n, i;

	if (mine == NULL || sums == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (n = 1; n <= 1 << 17; n *= 2) {
		for (i = 0; i < n; i++)
			mine[i] = (double)rank * n + i;
		MPI_Allreduce(mine, sums, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		for (i = 0; i < n; i++) {
			double want = (double)n * size * (size - 1) / 2 + (double)size * i;
			if (sums[i] != want) {
				printf("sum %d of %d is %g, want %g\n", i, n, sums[i], want);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
	}
	free(mine);
	free(sums);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "hello", *node = getenv("PMIX_HOSTNAME");
	char host[256] = "";
	int rank, size, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	gethostname(host, sizeof host - 1);
	printf("rank %d of %d, node %s, host %s, sum %d\n", rank, size, node ? node : "?", host, sum);
	fflush(stdout);
	if (strcmp(what, "allreduce") == 0)
		allreduce(rank, size);
	if (strcmp(what, "ring") == 0)
		ring(rank, size);
	if (strcmp(what, "abort") == 0 && rank == 2)
		MPI_Abort(MPI_COMM_WORLD, 42);
	if (strcmp(what, "exit") == 0 && rank == 2)
		_exit(7);
	if (strcmp(what, "abort") == 0 || strcmp(what, "exit") == 0 || strcmp(what, "wait") == 0)
		wait_for_the_end();
	MPI_Finalize();
	return 0;
}
