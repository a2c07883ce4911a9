/*
 * Each rank puts its number, and fences three times: without data, collecting data, and again collecting what it has put
 * meanwhile. After the second and the third fence it gets what three others have put: the next rank, the previous one,
 * and the one opposite.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS)
		return;
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
	exit(1);
}

static void put(const char *key, uint32_t number)
{
	pmix_value_t v = { .type = PMIX_UINT32, .data.uint32 = number };

	check("put", PMIx_Put(PMIX_GLOBAL, key, &v));
	check("commit", PMIx_Commit());
}

static void fence(const pmix_proc_t *all, bool collects)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
	check("fence", PMIx_Fence(all, 1, &info, 1));
}

static void expect(uint32_t rank, const char *key, uint32_t number)
{
	pmix_proc_t other;
	pmix_value_t *v;

	PMIX_LOAD_PROCID(&other, me.nspace, rank);
	check("get", PMIx_Get(&other, key, NULL, 0, &v));
	if (v->type != PMIX_UINT32 || v->data.uint32 != number) {
		fprintf(stderr, "rank %u: rank %u has put %u as %s, want %u\n", me.rank, rank, v->data.uint32, key, number);
		exit(1);
	}
	PMIX_VALUE_RELEASE(v);
}

int main(void)
{
	pmix_proc_t all;
	pmix_value_t *v;
	uint32_t n, others[3], i;

	check("init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	check("size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v));
	n = v->data.uint32;
	others[0] = (me.rank + 1) % n;
	others[1] = (me.rank + n - 1) % n;
	others[2] = (me.rank + n / 2) % n;
	fence(&all, false);
	put("first", 1000 + me.rank);
	fence(&all, true);
	for (i = 0; i < 3; i++)
		expect(others[i], "first", 1000 + others[i]);
	put("second", 2000 + me.rank);
	fence(&all, true);
	for (i = 0; i < 3; i++)
		expect(others[i], "second", 2000 + others[i]);
	check("get node", PMIx_Get(&me, PMIX_NODEID, NULL, 0, &v));
	printf("rank %u of %u on node %u has all\n", me.rank, n, v->data.uint32);
	check("finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
