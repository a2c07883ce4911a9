/*
 * A program for any MPI library. The first argument says what it does. It writes
 * the results that tests check to standard output, one a line.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int ok, const char *what)
{
	if (!ok) {
		printf("rank %d: %s is wrong\n", rank, what);
		MPI_Abort(MPI_COMM_WORLD, 99);
	}
}

static void hello(void)
{
	printf("rank %d of %d\n", rank, size);
}

/* Sums one number, and many. */
static void allreduce(void)
{
	enum { MANY = 10000 };
	int i, sum, *in = malloc(MANY * sizeof *in), *out = malloc(MANY * sizeof *out);

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	check(sum == size * (size - 1) / 2, "sum");
	for (i = 0; i < MANY; i++)
		in[i] = rank + i;
	MPI_Allreduce(in, out, MANY, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	for (i = 0; i < MANY; i++)
		check(out[i] == size - 1 + i, "maximum");
	printf("rank %d sum %d\n", rank, sum);
	free(in);
	free(out);
}

/* A message of 4 MiB goes around a ring; every rank adds one to each number. */
static void ring(void)
{
	enum { COUNT = 4 << 20 >> 3 };
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	long long i, *text;

	if (size == 1)
		return;
	text = malloc(COUNT * sizeof *text);
	if (rank == 0) {
		for (i = 0; i < COUNT; i++)
			text[i] = i;
		MPI_Send(text, COUNT, MPI_LONG_LONG, next, 1, MPI_COMM_WORLD);
	}
	MPI_Recv(text, COUNT, MPI_LONG_LONG, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0; i < COUNT; i++)
		check(text[i]++ == i + (rank ? rank - 1 : size - 1), "message");
	if (rank != 0)
		MPI_Send(text, COUNT, MPI_LONG_LONG, next, 1, MPI_COMM_WORLD);
	free(text);
}

/* The last rank ends as the argument says while the others wait for it. */
static void leave(const char *how)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1) {
		if (!strcmp(how, "abort"))
			MPI_Abort(MPI_COMM_WORLD, 42);
		if (!strcmp(how, "abort256"))
			MPI_Abort(MPI_COMM_WORLD, 256);
		if (!strcmp(how, "exit"))
			_exit(7);
		if (!strcmp(how, "quiet"))
			_exit(0);
		kill(getpid(), SIGKILL);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A parent and its children see each other, and the argument arrives. */
static void spawn(char *self)
{
	char *args[] = { "child", "two words", NULL };
	int sum, one = 1, errors[3];
	MPI_Comm children;

	MPI_Comm_spawn(self, args, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, children);
	printf("parent %d of %d sees %d children\n", rank, size, sum);
	MPI_Comm_disconnect(&children);
}

static void child(const char *arg)
{
	int sum, one = 1;
	MPI_Comm parents;

	MPI_Comm_get_parent(&parents);
	check(parents != MPI_COMM_NULL, "parent");
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parents);
	printf("child %d of %d with \"%s\" sees %d parents\n", rank, size, arg, sum);
	MPI_Comm_disconnect(&parents);
}

/* Half of the ranks are servers; the others find them by name. */
static void names(void)
{
	char port[MPI_MAX_PORT_NAME] = "";
	int serves = rank < size / 2, sum, one = 1, others;
	MPI_Comm half, peers;

	MPI_Comm_split(MPI_COMM_WORLD, serves, rank, &half);
	if (rank == 0) {
		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Publish_name("goshmem-service", MPI_INFO_NULL, port);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (serves) {
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &peers);
	} else {
		MPI_Lookup_name("goshmem-service", MPI_INFO_NULL, port);
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &peers);
	}
	MPI_Comm_remote_size(peers, &others);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, peers);
	check(sum == others, "number of peers");
	printf("rank %d sees %d %s\n", rank, sum, serves ? "clients" : "servers");
	MPI_Comm_disconnect(&peers);
	if (rank == 0) {
		MPI_Unpublish_name("goshmem-service", MPI_INFO_NULL, port);
		MPI_Close_port(port);
	}
	MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!strcmp(argv[1], "work")) {
		hello();
		allreduce();
		ring();
		printf("rank %d is done\n", rank);
	} else if (!strcmp(argv[1], "spawn")) {
		spawn(argv[0]);
	} else if (!strcmp(argv[1], "child")) {
		child(argv[2]);
	} else if (!strcmp(argv[1], "names")) {
		names();
	} else {
		leave(argv[1]);
	}
	MPI_Finalize();
	return 0;
}
