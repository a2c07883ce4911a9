/* An MPI program whose processes find each other by published names. One publishes
 * a port, and the other connects to it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(int err) {
    static char text[MPI_MAX_ERROR_STRING];
    int class, len;

    if (err == MPI_SUCCESS) {
        return "found";
    }
    MPI_Error_class(err, &class);
    MPI_Error_string(class, text, &len);
    return text;
}

int main(int argc, char **argv) {
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    int rank, size, got = -1, err;
    MPI_Comm other;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "range", "nspace");
    MPI_Info_set(info, "persistence", "proc");
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name("service", info, port);
        printf("twice: %s\n", MPI_Publish_name("service", info, port) == MPI_SUCCESS ? "published" : "refused");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    err = MPI_Lookup_name("service", MPI_INFO_NULL, found);
    printf("%d: service %s\n", rank, name_of(err));
    printf("%d: nothing %s\n", rank, name_of(MPI_Lookup_name("nothing", info, port)));
    if (rank == 0) {
        MPI_Comm_accept(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Send(&rank, 1, MPI_INT, 0, 1, other);
        MPI_Comm_disconnect(&other);
    } else if (rank == 1) {
        MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Recv(&got, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&other);
        printf("1: received %d over the port\n", got);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("unpublish: %s\n", name_of(MPI_Unpublish_name("service", MPI_INFO_NULL, found)));
        printf("again: %s\n", name_of(MPI_Unpublish_name("service", MPI_INFO_NULL, found)));
        MPI_Close_port(found);
    }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
