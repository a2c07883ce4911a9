/*
 * The lower bounds in plain C, on memory shared by two processes: a store followed
 * by an atomic instruction (p_quiet); a fetching add, alone, while the other process
 * reads a word of another cache line, and while it reads one of the same line;
 * memcpy into and out of a mapped memfd (put, get). Rows are named as in cmd/pe.
 *
 *	gcc -O3 plain.c -o plain && ./plain [ROWS [BATCHES [MICROSECONDS]]]
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "common.h"

enum { LARGEST = 4 << 20 };

static volatile long sink;
static long *word, *flag; /* target of the operations; what the other process reads */
static char *heap, *buf;

static void fetch_add(long n, size_t bytes)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += __atomic_fetch_add(word, 3, __ATOMIC_SEQ_CST);
	sink += sum;
}

/* Stores, checks whether the target sleeps (a word 192 bytes on), and drains the stores. */
static void store_drain(long n, size_t bytes)
{
	int local = 0;
	for (long i = 0; i < n; i++) {
		*(volatile long *)word = i;
		if (*(volatile long *)(word + 24) != 0)
			abort();
		__atomic_fetch_add(&local, 0, __ATOMIC_SEQ_CST);
	}
}

static void put(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		memcpy(heap, buf, bytes);
		__asm__ volatile("" ::: "memory");
	}
}

static void get(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		memcpy(buf, heap, bytes);
		__asm__ volatile("" ::: "memory");
	}
}

/* Measures while a child reads the flag, until the flag is not zero. */
static int beside(const char *name)
{
	pid_t child;
	if (!asked(name, 8))
		return 0;
	*flag = 0;
	child = fork();
	if (child < 0) {
		perror("plain: fork");
		return 1;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0)
			;
		_exit(0);
	}
	row(name, 8, fetch_add);
	__atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
	return waitpid(child, NULL, 0) != child;
}

static void copies(void)
{
	for (size_t bytes = 1 << 20; bytes <= LARGEST; bytes *= 2) {
		row("put", bytes, put);
		row("get", bytes, get);
	}
}

int main(int argc, char **argv)
{
	int fd, bad = options(argc, argv);
	long *m;
	if (bad)
		return bad;
	fd = memfd_create("heap", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, LARGEST) < 0) {
		perror("plain: memfd");
		return 1;
	}
	heap = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	buf = aligned_alloc(4096, LARGEST);
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (heap == MAP_FAILED || !buf || m == MAP_FAILED) {
		perror("plain: mmap");
		return 1;
	}
	memset(heap, 0, LARGEST);
	memset(buf, 0, LARGEST);
	word = &m[256];
	row("p_quiet", 8, store_drain);
	word = &m[0];
	row("fetch_add", 8, fetch_add);
	flag = &m[64];
	if (beside("fetch_add_spin"))
		return 1;
	word = &m[129];
	flag = &m[128];
	if (beside("fetch_add_line"))
		return 1;
	copies();
	return 0;
}
