/*
 * The lower bounds of operations between nodes in plain C: a round trip of 8 bytes
 * and a stream of messages over a TCP connection on loopback, by a process at each
 * end that reads and writes blocking; and stores of 8 bytes in memory of its own, at
 * the places where cmd/pe far puts.
 *
 *	gcc -O3 wire.c -o wire && ./wire [ROWS [BATCHES [MICROSECONDS]]]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "common.h"

enum { LARGE = 1 << 20, STREAM = 16, STORES = 1 << 17 };

static int wire; /* the connection */
static char *buf;
static volatile uint64_t *words;
static uint64_t mask, random_word = 1;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Reads or writes all bytes. Reading, returns 0 at the end of the connection. */
static int moved(int writes, char *at, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = writes ? write(wire, at, bytes) : read(wire, at, bytes);
		if (n == 0 && !writes)
			return 0;
		if (n <= 0)
			die(writes ? "wire: write" : "wire: read");
		at += n;
		bytes -= n;
	}
	return 1;
}

static void move(int writes, char *at, size_t bytes)
{
	if (!moved(writes, at, bytes)) {
		fprintf(stderr, "wire: the other process has ended\n");
		exit(1);
	}
}

static void ping_pong(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		move(1, buf, bytes);
		move(0, buf, bytes);
	}
}

static void echo(void)
{
	while (moved(0, buf, 8))
		move(1, buf, 8);
	_exit(0);
}

/* Sends n messages and waits for one answer. */
static void stream(long n, size_t bytes)
{
	for (long i = 0; i < n; i++)
		move(1, buf, bytes);
	move(0, buf, 8);
}

static void answer(void)
{
	for (long i = 1; moved(0, buf, LARGE); i++)
		if (i % STREAM == 0)
			move(1, buf, 8);
	_exit(0);
}

static void store(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		random_word = random_word * 6364136223846793005u + 1442695040888963407u;
		words[random_word >> 33 & mask] = i;
	}
}

/* Starts a process that runs other at the other end of a connection. */
static pid_t connected(void (*other)(void))
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof at;
	int yes = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t child;
	if (door < 0 || bind(door, (struct sockaddr *)&at, size) < 0 || listen(door, 1) < 0 ||
	    getsockname(door, (struct sockaddr *)&at, &size) < 0)
		die("wire: listen");
	child = fork();
	if (child < 0)
		die("wire: fork");
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	wire = child == 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : accept(door, NULL, NULL);
	if (wire < 0 || (child == 0 && connect(wire, (struct sockaddr *)&at, size) < 0) ||
	    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
		die("wire: connect");
	close(door);
	if (child == 0)
		other();
	return child;
}

/* Closes the connection, and waits for the other process. */
static void closed(pid_t child)
{
	int status;
	close(wire);
	if (waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "wire: the other process has failed\n");
		exit(1);
	}
}

static void stores(const char *name, size_t bytes)
{
	if (!asked(name, 8))
		return;
	words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED)
		die("wire: mmap");
	memset((void *)words, 0, bytes);
	mask = bytes / 8 - 1;
	fixed(name, 8, STORES, store);
	munmap((void *)words, bytes);
}

int main(int argc, char **argv)
{
	pid_t child;
	int bad;
	batch_ns = 1e6;
	bad = options(argc, argv);
	if (bad)
		return bad;
	buf = calloc(1, LARGE);
	if (!buf)
		die("wire: calloc");
	signal(SIGPIPE, SIG_IGN); /* write says what has failed */
	if (asked("far/ping_pong", 8)) {
		child = connected(echo);
		row("far/ping_pong", 8, ping_pong);
		closed(child);
	}
	if (asked("far/stream", LARGE)) {
		child = connected(answer);
		fixed("far/stream", LARGE, STREAM, stream);
		closed(child);
	}
	stores("far/store_1M", 1 << 20);
	stores("far/store_64M", 64 << 20);
	return 0;
}
