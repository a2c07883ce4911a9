/* Does what bench/cmd/startup does, for OSHMEM: joins its job, prints the time when it
 * had joined, in nanoseconds of the wall clock, and leaves. */
#include <shmem.h>
#include <stdio.h>
#include <time.h>

int main(void) {
	struct timespec now;

	shmem_init();
	clock_gettime(CLOCK_REALTIME, &now);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	fflush(stdout);
	shmem_finalize();
	return 0;
}
