/*
 * An MPI program whose last rank is killed. With "plain" the other ranks ignore
 * it. With "handler" they register a PMIx handler and wait for its call. What
 * they do afterwards does not need the dead rank.
 */
#include <mpi.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int registered, heard, dead = -1, status_heard;

static void note(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < ninfo; i++)
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC))
			dead = (int)info[i].value.data.proc->rank;
	heard = 1;
	status_heard = status;
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void ready(pmix_status_t status, size_t id, void *data)
{
	pthread_mutex_lock(&lock);
	registered = status == PMIX_SUCCESS ? 1 : -1;
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
}

/* Waits until a word is set, for up to ten seconds. */
static int await(int *word)
{
	struct timespec end;
	int late = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 10;
	pthread_mutex_lock(&lock);
	while (!*word && !late)
		late = pthread_cond_timedwait(&news, &lock, &end);
	pthread_mutex_unlock(&lock);
	return *word;
}

int main(int argc, char **argv)
{
	pmix_status_t codes[] = { PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED };
	int rank, size, sum, handles = !strcmp(argv[1], "handler");
	pmix_proc_t me;
	MPI_Comm living;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (handles) {
		if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
			MPI_Abort(MPI_COMM_WORLD, 98);
		PMIx_Register_event_handler(codes, 2, NULL, 0, note, ready, NULL);
		if (await(&registered) != 1)
			MPI_Abort(MPI_COMM_WORLD, 97);
	}
	MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, rank, &living);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		kill(getpid(), SIGKILL);
	if (handles && !await(&heard))
		printf("rank %d heard nothing\n", rank);
	else if (handles)
		printf("rank %d hears of rank %d: %s\n", rank, dead, PMIx_Error_string(status_heard));
	else
		sleep(1); /* an event that must not come gets time to arrive */
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, living);
	printf("rank %d goes on, sum %d\n", rank, sum);
	fflush(stdout);
	if (handles)
		PMIx_Finalize(NULL, 0);
	MPI_Finalize();
	return 0;
}
