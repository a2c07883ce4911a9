/* An MPI program that says who it is, which ranks share its node, and what all know together. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, sum, near, lowest;
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &near);
    MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node);
    printf("%d of %d, sum %d, %d ranks from %d on\n", rank, size, sum, near, lowest);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
