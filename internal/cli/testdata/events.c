/*
 * "ranges": rank 0 raises events with several ranges, the last one for all. The others print what they hear.
 * "lost": the last rank kills its daemon. The ranks of other nodes hear that the node is down, and go on.
 */
#include "client.h"

enum { FIRST = -3001, LAST = -3006, NODE_DOWN = -231 };

static void note(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
	size_t about = 0, i;

	for (i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC))
			about = 1;
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROCS))
			about = info[i].value.data.darray->size;
	}
	if (status == NODE_DOWN)
		printf("rank %u hears %d about %zu\n", me.rank, status, about);
	else
		printf("rank %u hears %d from %u\n", me.rank, status, source->rank);
	fflush(stdout);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
	if (status == LAST || status == NODE_DOWN)
		set(&heard);
}

static void ready(pmix_status_t status, size_t id, void *data)
{
	check("register", status);
	set(&registered);
}

static void raise_event(pmix_status_t code, pmix_data_range_t range, pmix_info_t *info, size_t n)
{
	check("notify", PMIx_Notify_event(code, &me, range, info, n, NULL, NULL));
}

static void raise_all(void)
{
	pmix_proc_t third;
	pmix_info_t only;

	PMIX_LOAD_PROCID(&third, me.nspace, 3);
	PMIX_INFO_LOAD(&only, PMIX_EVENT_CUSTOM_RANGE, &third, PMIX_PROC);
	raise_event(FIRST, PMIX_RANGE_SESSION, NULL, 0);
	raise_event(FIRST - 1, PMIX_RANGE_NAMESPACE, NULL, 0);
	raise_event(FIRST - 2, PMIX_RANGE_CUSTOM, &only, 1);
	raise_event(FIRST - 3, PMIX_RANGE_LOCAL, NULL, 0);
	raise_event(FIRST - 4, PMIX_RANGE_PROC_LOCAL, NULL, 0);
	raise_event(LAST, PMIX_RANGE_GLOBAL, NULL, 0);
}

int main(int argc, char **argv)
{
	pmix_status_t codes[] = { NODE_DOWN, FIRST, FIRST - 1, FIRST - 2, FIRST - 3, FIRST - 4, LAST };
	pmix_value_t *val;
	pmix_proc_t wild;

	check("init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&wild, me.nspace, PMIX_RANK_WILDCARD);
	check("size", PMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &val));
	PMIx_Register_event_handler(codes, sizeof codes / sizeof codes[0], NULL, 0, note, ready, NULL);
	await(&registered);
	check("fence", PMIx_Fence(NULL, 0, NULL, 0));
	if (strcmp(argv[1], "ranges") == 0) {
		if (me.rank == 0)
			raise_all();
		else
			await(&heard);
		check("fence", PMIx_Fence(NULL, 0, NULL, 0));
	} else if (me.rank == val->data.uint32 - 1) {
		kill(getppid(), SIGKILL);
		for (;;)
			pause();
	} else {
		await(&heard);
	}
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
