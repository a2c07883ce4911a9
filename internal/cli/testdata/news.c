/*
 * Rank 1 ends as the argument says. Rank 0 has a handler for that, rank 2 registers
 * one afterwards, and rank 3 has none.
 */
#include "client.h"

static void note(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
	int about = -1;
	size_t i;

	for (i = 0; i < ninfo; i++)
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC))
			about = (int)info[i].value.data.proc->rank;
	printf("rank %u hears %d about %d\n", me.rank, status, about);
	fflush(stdout);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
	pthread_mutex_lock(&lock);
	heard++;
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
}

static void ready(pmix_status_t status, size_t id, void *data)
{
	check("register", status);
	set(&registered);
}

static void listen_for_ends(void)
{
	pmix_status_t codes[] = { PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_EXIT_NONZERO_TERM, PMIX_ERR_PROC_TERM_WO_SYNC,
				  PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_PROC_REQUESTED_ABORT };

	PMIx_Register_event_handler(codes, 5, NULL, 0, note, ready, NULL);
	await(&registered);
}

static void meet(const pmix_rank_t *ranks, size_t n)
{
	pmix_proc_t procs[4];
	size_t i;

	for (i = 0; i < n; i++)
		PMIX_LOAD_PROCID(&procs[i], me.nspace, ranks[i]);
	check("fence", PMIx_Fence(procs, n, NULL, 0));
}

static void kill_rank_1(void)
{
	pmix_info_t info, *results = NULL;
	size_t nresults = 0;
	bool yes = true;
	pmix_proc_t target;

	PMIX_LOAD_PROCID(&target, me.nspace, 1);
	PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
	check("control", PMIx_Job_control(&target, 1, &info, 1, &results, &nresults));
}

static int end(const char *how)
{
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "segv"))
		kill(getpid(), SIGSEGV);
	if (!strcmp(how, "exit"))
		_exit(7);
	if (!strcmp(how, "leave"))
		_exit(0);
	if (!strcmp(how, "abort"))
		PMIx_Abort(9, "not wanted", &me, 1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	pmix_rank_t all[] = { 0, 1, 2, 3 }, living[] = { 0, 2, 3 };

	check("init", PMIx_Init(&me, NULL, 0));
	if (me.rank == 0)
		listen_for_ends();
	meet(all, 4);
	if (me.rank == 1)
		return end(argv[1]);
	if (me.rank == 0 && !strcmp(argv[1], "command"))
		kill_rank_1();
	if (me.rank == 0)
		await(&heard);
	meet(living, 3);
	if (me.rank == 2) {
		listen_for_ends();
		await(&heard);
	}
	meet(living, 3);
	check("finalize", PMIx_Finalize(NULL, 0));
	printf("rank %u goes on\n", me.rank);
	return 0;
}
