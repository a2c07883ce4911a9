/* Spawns processes of itself: arguments N KEY VALUE..., the pairs of an MPI_Info. They say on which host they are, and
   disconnect. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	MPI_Comm parent, child;
	MPI_Info info;
	int rank, i;

	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&parent);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (parent == MPI_COMM_NULL) {
		MPI_Info_create(&info);
		for (i = 2; i + 1 < argc; i += 2)
			MPI_Info_set(info, argv[i], argv[i + 1]);
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, atoi(argv[1]), info, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
		MPI_Info_free(&info);
		MPI_Comm_disconnect(&child);
	} else {
		printf("%d: %s\n", rank, getenv("PMIX_HOSTNAME"));
		fflush(stdout);
		MPI_Comm_disconnect(&parent);
	}
	MPI_Finalize();
	return 0;
}
