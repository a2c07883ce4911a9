/*
 * Makes MPICH's own PMI-1 client do what the first argument says. MPI itself uses
 * these services only over networks for which Debian's MPICH is not built.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	const char *key;
	char *val;
} PMI_keyval_t;

int PMI_Init(int *spawned);
int PMI_Finalize(void);
int PMI_Get_rank(int *rank);
int PMI_Get_size(int *size);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);
int PMI_Barrier(void);
int PMI_KVS_Get_my_name(char name[], int length);
int PMI_KVS_Put(const char name[], const char key[], const char value[]);
int PMI_KVS_Get(const char name[], const char key[], char value[], int length);
int PMI_Publish_name(const char service[], const char port[]);
int PMI_Unpublish_name(const char service[]);
int PMI_Lookup_name(const char service[], char port[]);
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
		       const int info_sizes[], const PMI_keyval_t *infos[],
		       int preput_size, const PMI_keyval_t preput[], int errors[]);

static char kvs[256], value[1024];
static int rank, size, spawned;

static void try(const char *what, int error)
{
	if (error) {
		printf("rank %d: %s fails with %d\n", rank, what, error);
		exit(1);
	}
}

/* Every rank reads the values that all ranks have put. */
static void exchange(void)
{
	char key[32], text[32];
	int i, sum = 0, universe, appnum;

	snprintf(key, sizeof key, "key-%d", rank);
	snprintf(text, sizeof text, "%d", rank);
	try("put", PMI_KVS_Put(kvs, key, text));
	try("barrier", PMI_Barrier());
	for (i = 0; i < size; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		try("get", PMI_KVS_Get(kvs, key, value, sizeof value));
		sum += atoi(value);
	}
	try("universe", PMI_Get_universe_size(&universe));
	try("appnum", PMI_Get_appnum(&appnum));
	printf("rank %d of %d sum %d universe %d appnum %d\n", rank, size, sum, universe, appnum);
}

static void names(void)
{
	if (rank == 0) {
		try("publish", PMI_Publish_name("the service", "tag#0$port"));
		if (!PMI_Publish_name("the service", "another"))
			printf("published twice\n");
	}
	try("barrier", PMI_Barrier());
	try("lookup", PMI_Lookup_name("the service", value));
	printf("rank %d found %s\n", rank, value);
	try("barrier", PMI_Barrier());
	if (rank == 0)
		try("unpublish", PMI_Unpublish_name("the service"));
	try("barrier", PMI_Barrier());
	if (!PMI_Lookup_name("the service", value))
		printf("rank %d found it again\n", rank);
}

static void spawn(const char *self)
{
	const char *cmds[] = { self, self }, *first[] = { "child", "two words=2", NULL }, *second[] = { "child", "", NULL };
	const char **argvs[] = { first, second };
	const int maxprocs[] = { 2, 1 }, info_sizes[] = { 1, 0 };
	const PMI_keyval_t infos[] = { { "wdir", "/" } }, *vectors[] = { infos, NULL };
	const PMI_keyval_t preput[] = { { "PARENT_ROOT_PORT_NAME", "tag#0$parent" } };
	int errors[3] = { 9, 9, 9 };

	if (rank == 0) {
		try("spawn", PMI_Spawn_multiple(2, cmds, argvs, maxprocs, info_sizes, vectors, 1, preput, errors));
		printf("spawned %d %d %d\n", errors[0], errors[1], errors[2]);
	}
	try("barrier", PMI_Barrier());
}

static void child(const char *arg)
{
	int appnum;

	try("appnum", PMI_Get_appnum(&appnum));
	try("get", PMI_KVS_Get(kvs, "PARENT_ROOT_PORT_NAME", value, sizeof value));
	try("barrier", PMI_Barrier());
	printf("child %d of %d, program %d \"%s\": spawned %d, parent %s\n", rank, size, appnum, arg, spawned, value);
}

int main(int argc, char **argv)
{
	try("init", PMI_Init(&spawned));
	try("rank", PMI_Get_rank(&rank));
	try("size", PMI_Get_size(&size));
	try("name", PMI_KVS_Get_my_name(kvs, sizeof kvs));
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!strcmp(argv[1], "exchange"))
		exchange();
	else if (!strcmp(argv[1], "names"))
		names();
	else if (!strcmp(argv[1], "spawn"))
		spawn(argv[0]);
	else if (!strcmp(argv[1], "child"))
		child(argv[2]);
	try("finalize", PMI_Finalize());
	return 0;
}
