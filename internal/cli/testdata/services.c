/*
 * Each rank publishes a name, and finds that of the next rank. What the name stands for is not looked at: MPICH 4.0 does
 * not return it, under no launcher.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static const char *answer(int err) { return err == MPI_SUCCESS ? "yes" : "no"; }

int main(int argc, char **argv)
{
	char own[64], next[64], port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME] = "";
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	snprintf(own, sizeof own, "service of %d", rank);
	snprintf(next, sizeof next, "service of %d", (rank + 1) % size);
	snprintf(port, sizeof port, "port %d", rank);
	printf("%d: published %s\n", rank, answer(MPI_Publish_name(own, MPI_INFO_NULL, port)));
	MPI_Barrier(MPI_COMM_WORLD);
	printf("%d: finds the next %s\n", rank, answer(MPI_Lookup_name(next, MPI_INFO_NULL, found)));
	printf("%d: publishes the next again %s\n", rank, answer(MPI_Publish_name(next, MPI_INFO_NULL, port)));
	MPI_Barrier(MPI_COMM_WORLD);
	printf("%d: withdrawn %s\n", rank, answer(MPI_Unpublish_name(own, MPI_INFO_NULL, port)));
	MPI_Barrier(MPI_COMM_WORLD);
	printf("%d: finds the next then %s\n", rank, answer(MPI_Lookup_name(next, MPI_INFO_NULL, found)));
	MPI_Finalize();
	return 0;
}
