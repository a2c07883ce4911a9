/*
 * All ranks make a group with a number, and end it. They print the number. With "leave" every fourth rank leaves the
 * group while the others end it. Then all make another group of the name.
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

static void make_group(void)
{
	pmix_proc_t wild;
	pmix_info_t info, *results = NULL;
	size_t n = 0, i, number = 0;
	bool yes = true;

	PMIX_LOAD_PROCID(&wild, me.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	check("construct", PMIx_Group_construct("all", &wild, 1, &info, 1, &results, &n));
	for (i = 0; i < n; i++)
		if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
			number = results[i].value.data.size;
	printf("number %zu\n", number);
}

int main(int argc, char **argv)
{
	check("init", PMIx_Init(&me, NULL, 0));
	make_group();
	if (argc > 1) {
		if (me.rank % 4 == 3)
			check("leave", PMIx_Group_leave("all", NULL, 0));
		else
			check("destruct without leavers", PMIx_Group_destruct("all", NULL, 0));
		check("fence", PMIx_Fence(NULL, 0, NULL, 0));
		make_group();
	}
	check("destruct", PMIx_Group_destruct("all", NULL, 0));
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
