/* Spawns processes of itself: arguments N KEY VALUE..., the pairs of an MPI_Info. They say on which host they are, exchange
   a message with the first of those that have spawned them, and disconnect. With WAIT as the name of a file in the
   environment, the first one waits for that file before it ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	MPI_Comm parent, child;
	MPI_Info info;
	int rank, i, n, got;

	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&parent);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (parent == MPI_COMM_NULL) {
		MPI_Info_create(&info);
		for (i = 2; i + 1 < argc; i += 2)
			MPI_Info_set(info, argv[i], argv[i + 1]);
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, atoi(argv[1]), info, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
		MPI_Info_free(&info);
		MPI_Comm_remote_size(child, &n);
		for (i = 0; rank == 0 && i < n; i++) {
			MPI_Send(&i, 1, MPI_INT, i, 1, child);
			MPI_Recv(&got, 1, MPI_INT, i, 2, child, MPI_STATUS_IGNORE);
			if (got != 2 * i + 1)
				MPI_Abort(MPI_COMM_WORLD, 9);
		}
		MPI_Comm_disconnect(&child);
		while (rank == 0 && getenv("WAIT") && access(getenv("WAIT"), F_OK) != 0)
			usleep(20000);
	} else {
		MPI_Recv(&got, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
		got += rank + 1;
		MPI_Send(&got, 1, MPI_INT, 0, 2, parent);
		printf("%d: %s\n", rank, getenv("PMIX_HOSTNAME"));
		fflush(stdout);
		MPI_Comm_disconnect(&parent);
	}
	MPI_Finalize();
	return 0;
}
