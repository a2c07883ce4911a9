/* Every PE puts its number to the next PE and prints the number that it received. */
#include <shmem.h>
#include <stdio.h>

static long got = -1;

int main(void)
{
	int me, n;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	shmem_barrier_all();
	shmem_long_p(&got, me, (me + 1) % n);
	shmem_barrier_all();
	printf("PE %d of %d got %ld\n", me, n, got);
	fflush(stdout);
	shmem_finalize();
	return 0;
}
