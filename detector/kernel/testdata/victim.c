// A process to be watched. It writes "ready", or the number of a process, to
// standard output and acts when it reads a byte from standard input.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char **args;

static void ready(void)
{
	if (write(1, "ready\n", 6) != 6)
		_exit(99);
}

static void await(void)
{
	char c;

	if (read(0, &c, 1) < 0)
		_exit(98);
}

static void number(pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", pid);

	if (write(1, text, n) != n)
		_exit(99);
}

static void *sleeper(void *none)
{
	for (;;)
		pause();
	return none;
}

static void *survivor(void *none)
{
	char path[64], line[64] = "";

	// wait until the leader is a zombie
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (!strchr(line, 'Z')) {
		FILE *f = fopen(path, "r");
		if (!f || !fgets(line, sizeof(line), f))
			_exit(97);
		fclose(f);
	}
	ready();
	await();
	if (args[2])
		_exit(atoi(args[2]));
	syscall(SYS_exit, 0);
	return none;
}

static void *executor(void *none)
{
	await();
	execl(args[0], args[0], "exit", args[2], NULL);
	_exit(96);
	return none;
}

static void *brief(void *none) { return none; }

#define MAPPED 65536 // bytes of the file that other processes map, too
#define COPIES 1024 // in one system call

static volatile unsigned long *counters; // one for each thread, a cache line apart

static void *counter(void *none)
{
	static int threads;
	volatile unsigned long *own = counters + 8 * __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);

	for (;;)
		++*own;
	return none;
}

// copier makes the kernel write numbers to the first counter, in calls that take many milliseconds and that signals do not interrupt.
static void *copier(void *none)
{
	struct iovec to[COPIES];
	int fd = memfd_create("numbers", 0);

	if (ftruncate(fd, (off_t)COPIES * MAPPED))
		_exit(94);
	for (unsigned long i = 0; i < COPIES; i++) {
		unsigned long number = i + 1;
		if (pwrite(fd, &number, sizeof(number), i * MAPPED) != sizeof(number))
			_exit(91);
		to[i].iov_base = (void *)counters;
		to[i].iov_len = MAPPED;
	}
	for (;;)
		if (preadv(fd, to, COPIES, 0) < 0)
			_exit(90);
	return none;
}

// map maps a file that other processes map, too.
static void *map(const char *name)
{
	int fd = open(name, O_RDWR);
	void *p = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED)
		_exit(92);
	return p;
}

static void start(void *(*f)(void *))
{
	pthread_t t;
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	if (pthread_create(&t, &small, f, NULL))
		_exit(95);
}

static void touch(size_t size, int shared)
{
	char *p;
	int fd = shared ? memfd_create("victim", 0) : -1;

	if (shared && ftruncate(fd, size))
		_exit(94);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (p == MAP_FAILED)
		_exit(93);
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
}

static void handler(int sig)
{
	if (sig == SIGTERM)
		ready();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	args = argv;
	if (!strcmp(what, "exit")) { // exit with a status
		ready();
		await();
		return n;
	} else if (!strcmp(what, "abort")) { // dump core
		struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
		getrlimit(RLIMIT_CORE, &all);
		all.rlim_cur = all.rlim_max;
		setrlimit(RLIMIT_CORE, &all);
		ready();
		await();
		*(volatile int *)16 = 0;
	} else if (!strcmp(what, "threads")) { // many threads
		for (int i = 0; i < n; i++)
			start(sleeper);
		ready();
		await();
	} else if (!strcmp(what, "count")) { // threads write to a file all the time
		counters = map(argv[3]);
		for (int i = 0; i < n; i++)
			start(counter);
		while (!counters[8 * (n - 1)])
			sched_yield();
		ready();
		await();
	} else if (!strcmp(what, "copy")) { // the kernel writes to a file on its behalf all the time
		counters = map(argv[3]);
		start(copier);
		while (!counters[0])
			sched_yield();
		ready();
		await();
	} else if (!strcmp(what, "churn")) { // threads start and end
		ready();
		await();
		for (int i = 0; i < n; i++) {
			pthread_t t;
			if (pthread_create(&t, NULL, brief, NULL) || pthread_join(t, NULL))
				_exit(95);
		}
		ready();
		await();
		return 0;
	} else if (!strcmp(what, "leader")) { // the first thread ends, and another one goes on
		start(survivor);
		syscall(SYS_exit, 0);
	} else if (!strcmp(what, "leader later")) { // the same, after a byte
		ready();
		await();
		start(survivor);
		syscall(SYS_exit, 0);
	} else if (!strcmp(what, "exec")) { // a second thread executes a program
		ready();
		start(executor);
		pause(); // the exec ends this thread
	} else if (!strcmp(what, "parent")) { // has a child that the test kills
		pid_t pid = fork();
		if (!pid)
			sleeper(NULL);
		number(pid);
		await();
		return waitpid(pid, NULL, 0) != pid;
	} else if (!strcmp(what, "vfork")) { // uninterruptible until the child ends
		pid_t pid = vfork();
		if (!pid) {
			number(getpid());
			sleeper(NULL);
		}
		ready();
		await();
	} else if (!strcmp(what, "signals")) { // survive signals that can be handled or ignored
		signal(SIGTERM, handler);
		signal(SIGSEGV, handler);
		signal(SIGABRT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
		ready();
		await();
		return 0;
	} else if (!strcmp(what, "spin")) {
		ready();
		for (;;)
			;
	} else if (!strcmp(what, "shared") || !strcmp(what, "anonymous")) { // n MiB
		touch((size_t)n << 20, what[0] == 's');
		ready();
		await();
	} else if (!strcmp(what, "hog")) { // allocate memory until killed
		ready();
		await();
		for (;;)
			touch(16 << 20, 0);
	}
	return 92;
}
