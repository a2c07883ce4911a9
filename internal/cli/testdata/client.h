/* What PMIx clients of the tests of events have in common: they wait for words that handlers set. */

#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int registered, heard;

static void check(const char *what, pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
	exit(1);
}

static void set(int *word)
{
	pthread_mutex_lock(&lock);
	*word = 1;
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
}

static void await(int *word)
{
	pthread_mutex_lock(&lock);
	while (!*word)
		pthread_cond_wait(&news, &lock);
	pthread_mutex_unlock(&lock);
}
