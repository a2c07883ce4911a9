/*
 * Answers pings and fences of one node of a job in the kernel. The package documentation says how. Responders of
 * several nodes and jobs can be attached to one interface: each looks at its own port only.
 */
#include "../../kernel/bpf/kernel.h"

#include <bpf/bpf_endian.h>

char gpl[] SEC("license") = "GPL";

enum { BPF_MAP_TYPE_ARRAY = 2, BPF_F_MMAPABLE = 1 << 10 };
enum { TCX_NEXT = -1 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5 };

enum pid_type { PIDTYPE_PID, PIDTYPE_TGID };

extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern int bpf_send_signal_task(struct task_struct *task, int sig, enum pid_type type, __u64 value) __ksym;

/* Iterates over the threads of a process. */
struct bpf_iter_task {
	__u64 __opaque[3];
};

enum { BPF_TASK_ITER_PROC_THREADS = 2 };

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;

/* Loops by the kernel's iterator: the verifier would go through each turn of an ordinary loop by itself. */
struct bpf_iter_num {
	__u64 __opaque[1];
};

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

/* The head of the kernel's type. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
};

#define NSEC_PER_TICK 10000000 /* of the start time in /proc/PID/stat */
#define STILL 20000000 /* nanoseconds after which a tick that has not changed stands still */
#define SIGKILL 9
#define EBUSY 16
#define VICTIMS 504

/* The type page in page.go has the same layout. */
struct responder_victim {
	__u64 start; /* ticks since boot; 0: unknown */
	__u32 pid; /* 0: free */
	__u32 unused;
};

struct responder_page {
	__u64 job;
	__u64 key[2];
	__u32 node;
	__u32 inc;
	__u32 address; /* of the node, as in packets */
	__u16 port; /* as in packets */
	__u16 spare; /* 1: a fence leaves the daemon alone */
	__u32 daemon; /* number of its process */
	__u32 tick;
	__u32 ended; /* 1: the daemon has ended */
	__u32 fences; /* that have come; 0: the node is not fenced */
	__u32 used; /* entries of victims from here on are free */
	__u32 still_tick;
	__u64 still_since; /* when still_tick was seen first */
	__u64 answers;
	__u64 unused[6];
	struct responder_victim victims[VICTIMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct responder_page);
} pages SEC(".maps");

/* The headers before a datagram: Ethernet, IPv4 without options, UDP. */
struct responder_headers {
	__u16 unused; /* aligns the rest */
	__u16 to_link[3];
	__u16 from_link[3];
	__be16 protocol;
	__u8 version;
	__u8 service;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 hops;
	__u8 transport;
	__be16 header_sum;
	__be32 from;
	__be32 to;
	__be16 from_port;
	__be16 to_port;
	__be16 length;
	__be16 sum;
};

#define HEADERS 42 /* bytes, without responder_headers.unused */
#define SUM_AT 40 /* of the UDP checksum */
#define WORDS 7 /* of a datagram */
#define DATAGRAM (8 * WORDS)
#define PADDING 32 /* bytes that may follow it */

/* Words of a datagram; package packet has the fields. */
enum { HEAD, WHO, AT, STATE, JOB, FROM, MAC };

#define MAGIC 0x31485347 /* "GSH1" */
enum { PING = 1, ANSWER = 2, FENCE = 4, FENCED = 5 };
enum { DAEMON_DEAD = 1, STARVED = 2, NODE_FENCED = 4 };

#define ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))
#define ROUND \
	do { \
		v0 += v1; v1 = ROTATE(v1, 13); v1 ^= v0; v0 = ROTATE(v0, 32); \
		v2 += v3; v3 = ROTATE(v3, 16); v3 ^= v2; \
		v0 += v3; v3 = ROTATE(v3, 21); v3 ^= v0; \
		v2 += v1; v1 = ROTATE(v1, 17); v1 ^= v2; v2 = ROTATE(v2, 32); \
	} while (0)

/* SipHash-2-4 of the words before MAC. */
static __always_inline __u64 sign(const struct responder_page *page, const __u64 *words)
{
	__u64 k0 = page->key[0], k1 = page->key[1];
	__u64 v0 = k0 ^ 0x736f6d6570736575ULL, v1 = k1 ^ 0x646f72616e646f6dULL;
	__u64 v2 = k0 ^ 0x6c7967656e657261ULL, v3 = k1 ^ 0x7465646279746573ULL;
	__u64 last = (__u64)(8 * MAC) << 56;

#pragma unroll
	for (int i = 0; i < MAC; i++) {
		v3 ^= words[i];
		ROUND;
		ROUND;
		v0 ^= words[i];
	}
	v3 ^= last;
	ROUND;
	ROUND;
	v0 ^= last;
	v2 ^= 0xff;
	ROUND;
	ROUND;
	ROUND;
	ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

static __always_inline struct responder_page *find_page(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pages, &zero);
}

/* Says whether a thread of a process is runnable but does not run. */
static __always_inline bool waits_for_processor(__u32 pid)
{
	struct task_struct *process = bpf_task_from_pid(pid), *thread;
	struct bpf_iter_task it;
	bool waits = 0;

	if (!process)
		return 0;
	bpf_iter_task_new(&it, process, BPF_TASK_ITER_PROC_THREADS);
	while (!waits && (thread = bpf_iter_task_next(&it))) {
		if (thread->__state != 0)
			continue;
		waits = !bpf_core_field_exists(thread->on_cpu) || !thread->on_cpu;
	}
	bpf_iter_task_destroy(&it);
	bpf_task_release(process);
	return waits;
}

/*
 * Says whether the daemon gets no processor: its tick stands still, and a thread is runnable but does not run. That may be
 * any thread: the one that moves the tick may sleep until another one wakes it. Packets on several processors may race
 * here, and then one answer may lack the flag.
 */
static __always_inline bool is_starved(struct responder_page *page)
{
	__u32 tick = *(volatile __u32 *)&page->tick;
	__u64 now = bpf_ktime_get_ns();

	if (tick != page->still_tick || !page->still_since) {
		page->still_tick = tick;
		page->still_since = now;
		return 0;
	}
	return now - page->still_since >= STILL && waits_for_processor(page->daemon);
}

/* Kills a process if it is the one that began at a time. Returns false if the kernel could not send the signal now. */
static __always_inline bool kill_process(__u32 pid, __u64 start)
{
	struct task_struct *task;
	int err = 0;

	if (!pid)
		return 1;
	task = bpf_task_from_pid(pid);
	if (!task)
		return 1;
	if (!start || task->start_boottime / NSEC_PER_TICK == start)
		err = bpf_send_signal_task(task, SIGKILL, PIDTYPE_TGID, 0);
	bpf_task_release(task);
	return err != -EBUSY;
}

/*
 * Kills all registered processes and the daemon. The mark comes first: a process that is registered after the loop has
 * passed finds the mark. Returns false if a signal could not be sent; the fence is then not acknowledged, and comes again.
 */
static __always_inline bool fence(struct responder_page *page)
{
	struct bpf_iter_num it;
	bool all = 1;
	__u32 *turn;

	__sync_fetch_and_add(&page->fences, 1);
	bpf_iter_num_new(&it, 0, VICTIMS);
	while ((turn = (__u32 *)bpf_iter_num_next(&it))) {
		__u64 i = *turn;

		if (i >= VICTIMS || i >= *(volatile __u32 *)&page->used)
			break;
		if (!kill_process(page->victims[i].pid, page->victims[i].start))
			all = 0;
	}
	bpf_iter_num_destroy(&it);
	if (!page->spare && !page->ended && !kill_process(page->daemon, 0))
		all = 0;
	return all;
}

/* Says whether the headers are of a datagram to this node. */
static __always_inline bool is_ours(const struct responder_page *page, const struct responder_headers *h)
{
	return h->protocol == bpf_htons(0x0800) && h->version == 0x45 && h->transport == 17 &&
	       h->to_port == page->port && h->to == page->address &&
	       !(h->fragment & bpf_htons(0x3fff)) &&
	       h->total == bpf_htons(20 + 8 + DATAGRAM) && h->length == bpf_htons(8 + DATAGRAM);
}

/*
 * Makes the answer to a datagram. Returns false if it gets none: it is of another job, is not signed by the job's key,
 * is about another node, or asks for nothing that the kernel does.
 */
static __always_inline bool answer(struct responder_page *page, const __u64 *in, __u64 *out)
{
	__u32 kind = (in[HEAD] >> 32) & 0xff, reply, flags = 0;

	if ((__u32)in[HEAD] != MAGIC || in[HEAD] >> 43 || in[JOB] != page->job || in[WHO] >> 32 != page->node || in[FROM] >> 32)
		return 0; /* in[HEAD] >> 43: bits that are always 0; in[FROM] >> 32: the length of a body */
	if (kind != PING && kind != FENCE)
		return 0;
	if (sign(page, in) != in[MAC])
		return 0;
	if (kind == PING) {
		reply = ANSWER;
		if (is_starved(page))
			flags |= STARVED;
	} else {
		if ((__u32)in[STATE] != page->inc || !fence(page))
			return 0;
		reply = FENCED;
	}
	if (*(volatile __u32 *)&page->ended)
		flags = DAEMON_DEAD;
	if (*(volatile __u32 *)&page->fences)
		flags |= NODE_FENCED;
	out[HEAD] = MAGIC | (__u64)reply << 32 | (__u64)flags << 40;
	out[WHO] = in[WHO];
	out[AT] = in[AT];
	out[STATE] = page->inc | (__u64)*(volatile __u32 *)&page->tick << 32;
	out[JOB] = in[JOB];
	out[FROM] = page->node;
	out[MAC] = sign(page, out);
	return 1;
}

/* Makes the headers of the answer. Sums over addresses and ports stay what they are: these only change places. */
static __always_inline void turn(struct responder_headers *h)
{
	__be32 address = h->from;
	__be16 port = h->from_port;

	h->from = h->to;
	h->to = address;
	h->from_port = h->to_port;
	h->to_port = port;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		__u16 part = h->from_link[i];

		h->from_link[i] = h->to_link[i];
		h->to_link[i] = part;
	}
}

/*
 * Sees each packet that comes in at an interface. The first comparisons let nearly all of them pass. The helper for
 * checksums knows what is left to the network card, so that the answer's checksum is right on any way.
 */
SEC("tcx/ingress")
int respond(struct __sk_buff *skb)
{
	struct responder_headers h = {};
	__u64 in[WORDS], out[WORDS];
	struct responder_page *page;
	__s64 change;

	if (skb->pkt_type) /* not to this machine's address: a switch that does not know the way floods it to all */
		return TCX_NEXT;
	if (skb->protocol != bpf_htons(0x0800) || skb->len < HEADERS + DATAGRAM || skb->len > HEADERS + DATAGRAM + PADDING)
		return TCX_NEXT;
	page = find_page();
	if (!page || bpf_skb_load_bytes(skb, 0, h.to_link, HEADERS) || !is_ours(page, &h))
		return TCX_NEXT;
	if (bpf_skb_load_bytes(skb, HEADERS, in, DATAGRAM) || !answer(page, in, out))
		return TCX_NEXT;
	turn(&h);
	change = bpf_csum_diff((__be32 *)in, DATAGRAM, (__be32 *)out, DATAGRAM, 0);
	if (change < 0 || bpf_skb_store_bytes(skb, 0, h.to_link, HEADERS, 0) ||
	    bpf_skb_store_bytes(skb, HEADERS, out, DATAGRAM, 0) ||
	    bpf_l4_csum_replace(skb, SUM_AT, 0, change, BPF_F_MARK_MANGLED_0))
		return TCX_NEXT;
	__sync_fetch_and_add(&page->answers, 1);
	return bpf_redirect(skb->ifindex, 0);
}

/* Notes the end of the daemon: its last thread exits. */
SEC("tp_btf/sched_process_exit")
int daemon_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct responder_page *page = find_page();

	if (page && task->tgid == page->daemon && task->signal->live.counter == 0)
		page->ended = 1;
	return 0;
}
