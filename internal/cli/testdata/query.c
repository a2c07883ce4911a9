/*
 * Rank 0 asks for the processes of the job, for those of the host that the argument names, and for the state of the last
 * rank. Then that rank exits with status 7, and rank 0 asks for the status of the job until it is a failure.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
	exit(1);
}

/* ask returns the answer to one key with one qualifier. */
static pmix_value_t ask(const char *key, const char *about, const void *value, pmix_data_type_t type)
{
	pmix_query_t query;
	pmix_info_t *results = NULL;
	size_t n = 0;
	int rc;

	PMIX_QUERY_CONSTRUCT(&query);
	PMIX_ARGV_APPEND(rc, query.keys, key);
	check(key, rc);
	PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
	PMIX_INFO_LOAD(&query.qualifiers[0], about, value, type);
	check(key, PMIx_Query_info(&query, 1, &results, &n));
	if (n != 1) {
		fprintf(stderr, "%s: %zu answers\n", key, n);
		exit(1);
	}
	return results[0].value;
}

static void print_table(const char *what, pmix_value_t v)
{
	pmix_proc_info_t *rows = v.data.darray->array;
	pmix_value_t *pid;
	size_t i;

	for (i = 0; i < v.data.darray->size; i++) {
		check("pid", PMIx_Get(&rows[i].proc, "pid", NULL, 0, &pid));
		printf("%s: rank %u on %s, state %d, %s\n", what, rows[i].proc.rank, rows[i].hostname, rows[i].state,
		       pid->data.integer == (int)rows[i].pid ? "its pid" : "another pid");
	}
}

int main(int argc, char **argv)
{
	pmix_value_t pid = { .type = PMIX_INT, .data.integer = getpid() }, *size, v;
	pmix_proc_t wild, last;
	pmix_info_t collect;
	bool yes = true;

	alarm(60);
	check("init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&wild, me.nspace, PMIX_RANK_WILDCARD);
	check("size", PMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &size));
	PMIX_LOAD_PROCID(&last, me.nspace, size->data.uint32 - 1);
	check("put", PMIx_Put(PMIX_GLOBAL, "pid", &pid));
	check("commit", PMIx_Commit());
	PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	check("fence", PMIx_Fence(&wild, 1, &collect, 1));
	if (me.rank == 0) {
		print_table("all", ask(PMIX_QUERY_PROC_TABLE, PMIX_NSPACE, me.nspace, PMIX_STRING));
		print_table("host", ask(PMIX_QUERY_LOCAL_PROC_TABLE, PMIX_HOSTNAME, argv[1], PMIX_STRING));
		v = ask(PMIX_PROC_STATE_STATUS, PMIX_PROCID, &last, PMIX_PROC);
		printf("last: state %d\n", v.data.state);
		v = ask(PMIX_QUERY_JOB_STATUS, PMIX_NSPACE, me.nspace, PMIX_STRING);
		printf("job: %d\n", v.data.status);
	}
	check("fence", PMIx_Fence(&wild, 1, NULL, 0));
	if (me.rank == last.rank)
		_exit(7);
	if (me.rank == 0) {
		do
			v = ask(PMIX_QUERY_JOB_STATUS, PMIX_NSPACE, me.nspace, PMIX_STRING);
		while (v.data.status == PMIX_SUCCESS);
		printf("then: %d\n", v.data.status);
	}
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
