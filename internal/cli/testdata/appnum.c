/* Which program of the job each rank runs. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, found, *app;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &found);
	printf("rank %d of %d, app %d\n", rank, size, found ? *app : -1);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
