/* Spawns a job: arguments N PROGRAM ARGS... [, N PROGRAM ARGS...]. Prints the result, and ends. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	pmix_proc_t me;
	pmix_app_t *apps;
	pmix_nspace_t nspace;
	pmix_status_t rc;
	size_t napps = 1, n = 0;
	int i, err;

	rc = PMIx_Init(&me, NULL, 0);
	if (rc != PMIX_SUCCESS) {
		fprintf(stderr, "init: %s\n", PMIx_Error_string(rc));
		return 1;
	}
	for (i = 1; i < argc; i++)
		napps += strcmp(argv[i], ",") == 0;
	PMIX_APP_CREATE(apps, napps);
	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], ",") == 0) {
			n++;
		} else if (apps[n].maxprocs == 0) {
			apps[n].maxprocs = atoi(argv[i]);
		} else {
			if (apps[n].cmd == NULL)
				apps[n].cmd = strdup(argv[i]);
			PMIX_ARGV_APPEND(err, apps[n].argv, argv[i]);
		}
	}
	(void)err;
	rc = PMIx_Spawn(NULL, 0, apps, napps, nspace);
	printf("spawn: %s\n", rc == PMIX_SUCCESS ? "well" : PMIx_Error_string(rc));
	fflush(stdout);
	rc = PMIx_Finalize(NULL, 0);
	return rc == PMIX_SUCCESS ? 0 : 1;
}
