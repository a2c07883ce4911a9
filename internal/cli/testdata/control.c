/*
 * Rank 0 does what the argument says to rank 1, and then ends the other ranks by
 * SIGUSR1.
 */
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(rc));
	exit(1);
}

static void control(pmix_rank_t rank, const char *key, void *value, pmix_data_type_t type)
{
	pmix_proc_t target;
	pmix_info_t info, *results = NULL;
	size_t nresults = 0;

	PMIX_LOAD_PROCID(&target, me.nspace, rank);
	PMIX_INFO_LOAD(&info, key, value, type);
	check(key, PMIx_Job_control(&target, 1, &info, 1, &results, &nresults));
}

static void wait_for(int sig)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, sig);
	sigwait(&set, &got);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	pmix_value_t *val;
	pmix_proc_t target, wild;
	uint32_t size, r;
	int usr1 = SIGUSR1, usr2 = SIGUSR2;
	bool yes = true;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (strcmp(what, "terminate") == 0)
		signal(SIGTERM, SIG_IGN);
	check("init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&wild, me.nspace, PMIX_RANK_WILDCARD);
	check("size", PMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &val));
	size = val->data.uint32;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	check("fence", PMIx_Fence(NULL, 0, NULL, 0));
	if (me.rank != 0) {
		if (me.rank == 1 && strcmp(what, "signal") == 0)
			wait_for(SIGUSR2);
		wait_for(SIGUSR1);
		check("finalize", PMIx_Finalize(NULL, 0));
		return 0;
	}
	PMIX_LOAD_PROCID(&target, me.nspace, 1);
	if (strcmp(what, "abort") == 0)
		PMIx_Abort(9, "rank 1 is not wanted", &target, 1);
	else if (strcmp(what, "abort-all") == 0)
		PMIx_Abort(9, "nobody is wanted", &wild, 1);
	else if (strcmp(what, "kill") == 0)
		control(1, PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
	else if (strcmp(what, "terminate") == 0)
		control(1, PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL);
	else if (strcmp(what, "signal") == 0)
		control(1, PMIX_JOB_CTRL_SIGNAL, &usr2, PMIX_INT);
	else if (strcmp(what, "pause") == 0) {
		control(1, PMIX_JOB_CTRL_PAUSE, &yes, PMIX_BOOL);
		printf("paused\n");
		fflush(stdout);
		wait_for(SIGUSR2);
		control(1, PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL);
	}
	/* Except after "terminate", rank 1 gets SIGUSR1, too. It must not hide which rank requested the end of rank 1. */
	for (r = strcmp(what, "terminate") == 0 ? 2 : 1; r < size; r++)
		control(r, PMIX_JOB_CTRL_SIGNAL, &usr1, PMIX_INT);
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
