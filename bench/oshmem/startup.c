/* What bench/cmd/startup does, for OSHMEM: joins its job, says when it had done
 * so, in nanoseconds of the clock of day, and leaves it. */
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
