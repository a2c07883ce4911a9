/*
 * All ranks make a group with a number, and end it. They print the number.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
	exit(1);
}

int main(void)
{
	pmix_proc_t wild;
	pmix_info_t info, *results = NULL;
	size_t n = 0, i, number = 0;
	bool yes = true;

	check("init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&wild, me.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	check("construct", PMIx_Group_construct("all", &wild, 1, &info, 1, &results, &n));
	for (i = 0; i < n; i++)
		if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
			number = results[i].value.data.size;
	printf("number %zu\n", number);
	check("destruct", PMIx_Group_destruct("all", NULL, 0));
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
