/* An MPI program that spawns two processes of itself and sums with them. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void add_up(MPI_Comm between, int high, const char *who) {
    MPI_Comm all;
    int rank, size, sum;
    MPI_Intercomm_merge(between, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    printf("%s %d of %d, sum %d\n", who, rank, size, sum);
    fflush(stdout);
    MPI_Comm_free(&all);
}

int main(int argc, char **argv) {
    MPI_Comm parent, child;
    int failed[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *args[] = {"an argument", NULL};
        MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, failed);
        add_up(child, 0, "parent");
        MPI_Comm_disconnect(&child);
    } else {
        printf("argument: %s\n", argc > 1 ? argv[1] : "none");
        add_up(parent, 1, "child");
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return 0;
}
