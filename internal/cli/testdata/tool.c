/*
 * A tool: attaches to the server that a file names, lists the namespaces, spawns
 * the program in its other arguments, and passes on the program's output. With
 * "push RANK TEXT" it sends the text and the end of input to a rank instead. With
 * "table" it prints which program each process runs.
 */
#include <pmix.h>
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(rc));
	exit(1);
}

static volatile pmix_status_t outcome;
static volatile int pushing;

static void pushed(pmix_status_t rc, void *arg)
{
	(void)arg;
	outcome = rc;
	__sync_synchronize();
	pushing = 0;
}

static void push(const pmix_proc_t *to, char *text)
{
	pmix_byte_object_t bytes = {text, strlen(text)};
	pmix_info_t end;
	bool yes = true;

	PMIX_INFO_LOAD(&end, PMIX_IOF_COMPLETE, &yes, PMIX_BOOL);
	pushing = 1;
	check("push", PMIx_IOF_push(to, 1, &bytes, &end, *text == '\0', pushed, NULL));
	while (pushing)
		usleep(1000); /* libpmix has no other way to wait for it */
	__sync_synchronize();
	check("pushed", outcome);
}

static void table(char *nspace)
{
	pmix_query_t query;
	pmix_info_t *results = NULL;
	pmix_proc_info_t *rows;
	size_t n, nresults = 0;
	int err;

	PMIX_QUERY_CONSTRUCT(&query);
	PMIX_ARGV_APPEND(err, query.keys, PMIX_QUERY_PROC_TABLE);
	PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
	PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
	check("query", PMIx_Query_info(&query, 1, &results, &nresults));
	rows = results[0].value.data.darray->array;
	for (n = 0; n < results[0].value.data.darray->size; n++)
		printf("%u runs %s\n", rows[n].proc.rank, rows[n].executable_name);
	(void)err;
}

int main(int argc, char **argv)
{
	pmix_proc_t me, to;
	pmix_info_t init, *results = NULL;
	pmix_query_t query;
	pmix_app_t app;
	pmix_nspace_t nspace;
	size_t n, nresults = 0;
	int i;

	PMIX_INFO_LOAD(&init, PMIX_TOOL_ATTACHMENT_FILE, argv[1], PMIX_STRING);
	check("tool_init", PMIx_tool_init(&me, &init, 1));
	PMIX_QUERY_CONSTRUCT(&query);
	PMIX_ARGV_APPEND(i, query.keys, PMIX_QUERY_NAMESPACES);
	check("query", PMIx_Query_info(&query, 1, &results, &nresults));
	for (n = 0; n < nresults; n++)
		if (results[n].value.type == PMIX_STRING)
			printf("namespaces %s\n", results[n].value.data.string);
	fflush(stdout);
	if (argc == 5 && strcmp(argv[2], "push") == 0) {
		PMIX_LOAD_PROCID(&to, results[0].value.data.string, atoi(argv[3]));
		push(&to, argv[4]);
		push(&to, "");
	} else if (argc == 3 && strcmp(argv[2], "table") == 0) {
		table(results[0].value.data.string);
	} else if (argc > 2) {
		PMIX_APP_CONSTRUCT(&app);
		app.cmd = strdup(argv[2]);
		app.maxprocs = 1;
		for (i = 2; i < argc; i++)
			PMIX_ARGV_APPEND(n, app.argv, argv[i]);
		check("spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace));
		printf("spawned %s\n", nspace);
		fflush(stdout);
	}
	check("finalize", PMIx_tool_finalize());
	return 0;
}
