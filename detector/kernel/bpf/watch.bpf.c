/*
 * Reports the deaths of watched processes at the moment of exit, and what their
 * threads are doing. The package documentation says what is sent when.
 */
#include "kernel.h"

char gpl[] SEC("license") = "GPL";

/* Inode number of the watcher's pid namespace; 0: the machine's own namespace. */
const volatile __u32 pid_namespace = 0;

#define NSEC_PER_TICK 10000000 /* of the start time in /proc/PID/stat */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* number of the process in the watcher's namespace */
	__type(value, __u64); /* its start time in ticks since boot; 0: unknown */
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

/* A watched process whose threads are being killed. */
struct ending {
	__u32 threads; /* threads that had not begun to exit when the first one was killed */
	__u32 halted;  /* how many of them will execute no further instruction of the program */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* as in watched */
	__type(value, struct ending);
} endings SEC(".maps");

struct event {
	__u64 at;    /* CLOCK_MONOTONIC */
	__u64 start; /* ticks since boot */
	__u32 pid;
	__u32 status; /* as wait has it */
	__u32 oom;
	__u32 unused;
};

/* Returns the process number of a task in the watcher's pid namespace; 0: it has none there. */
static __always_inline __u32 process_of(struct task_struct *task)
{
	struct pid *pid;
	__u32 level;

	if (!pid_namespace)
		return task->tgid;
	pid = BPF_CORE_READ(task, group_leader, thread_pid);
	level = BPF_CORE_READ(pid, level);
	for (int i = 1; i < 16; i++) { /* of 32 that may be nested */
		void *at = (void *)pid + bpf_core_field_offset(pid->numbers) + i * bpf_core_type_size(struct upid);

		if (i > level)
			break;
		if (BPF_CORE_READ((struct upid *)at, ns, ns.inum) == pid_namespace)
			return BPF_CORE_READ((struct upid *)at, nr);
	}
	return 0;
}

static __always_inline void tell(struct task_struct *task, __u32 status)
{
	__u32 pid = process_of(task);
	__u64 *want = bpf_map_lookup_elem(&watched, &pid);
	__u64 start;
	struct event *e;

	if (!want)
		return;
	start = task->group_leader->start_boottime / NSEC_PER_TICK;
	if (*want && *want != start)
		return; /* the number was given to another process */
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e)
		return; /* its pidfd will tell */
	e->at = bpf_ktime_get_ns();
	e->start = start;
	e->pid = pid;
	e->status = status;
	e->oom = task->signal->oom_mm != 0;
	e->unused = 0;
	bpf_ringbuf_submit(e, 0);
}

/*
 * Returns the status that wait will return. If the leader ended first and the
 * last thread then ended by itself, kernels before Linux 5.17 set no group exit
 * code; the status is then the leader's.
 */
static __always_inline __u32 status_of(struct task_struct *task)
{
	if (task->signal->flags & SIGNAL_GROUP_EXIT)
		return task->signal->group_exit_code;
	return task->group_leader->exit_code;
}

/* Drops the state of a process that is over, because its number can be reused. */
static __always_inline void forget(struct task_struct *task)
{
	__u32 pid = process_of(task);

	bpf_map_delete_elem(&endings, &pid);
}

/* Since Linux 6.16: runs before the memory is freed. */
SEC("tp_btf/sched_process_exit")
int exit_with_group(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if ((bool)ctx[1]) {
		tell(task, status_of(task));
		forget(task);
	}
	return 0;
}

/*
 * Before Linux 6.16: runs after the memory is freed. The count is decremented already. Two last
 * threads that exit side by side may both see 0; the reader takes the first record.
 */
SEC("tp_btf/sched_process_exit")
int exit_alone(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if (task->signal->live.counter == 0) {
		tell(task, status_of(task));
		forget(task);
	}
	return 0;
}

/* Signals that dump core. The kernel decides their effect at delivery. The numbers are those of x86 and arm. */
#define BIT(n) (1ULL << (n))
#define CORE_SIGNALS (BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(11) | BIT(24) | BIT(25) | BIT(31))

/*
 * Counts the current thread, which is being killed, and says whether it is the last one of its process. The first thread
 * to be counted records how many threads there are. No thread is added after SIGNAL_GROUP_EXIT, and each one is counted once.
 * If one was about to exit by itself, the count stays short, and the exit program reports the death.
 */
static __always_inline bool halts_last(struct task_struct *task)
{
	__u32 pid = process_of(task);
	struct ending first = { .threads = task->signal->live.counter };
	struct ending *e;

	if (!bpf_map_lookup_elem(&watched, &pid))
		return 0;
	bpf_map_update_elem(&endings, &pid, &first, BPF_NOEXIST);
	e = bpf_map_lookup_elem(&endings, &pid);
	if (!e)
		return 0;
	__sync_fetch_and_add(&e->halted, 1);
	return *(volatile __u32 *)&e->halted >= e->threads;
}

/*
 * A signal is about to take effect on the current thread. A debugger can no longer
 * drop it, and the lock of the signal handlers is held. The package documentation
 * says why a death reported here is certain.
 */
SEC("tp_btf/signal_deliver")
int deliver(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct k_sigaction *action = (void *)ctx[2];
	__u32 sig = ctx[0];

	if (task->signal->flags & SIGNAL_GROUP_EXIT) {
		if (halts_last(task))
			tell(task, task->signal->group_exit_code);
	} else if (sig < 32 && (BIT(sig) & CORE_SIGNALS) && !action->sa.sa_handler &&
		   task->signal->live.counter == 1 && !(task->signal->flags & SIGNAL_UNKILLABLE)) {
		tell(task, sig);
	}
	return 0;
}

/* The state and progress of a thread. */
struct sample {
	__u64 ran;      /* nanoseconds of processor time */
	__u64 switches; /* context switches */
	__u32 pid;
	__u32 thread;
	__u32 state;
	__u32 running; /* right now */
};

SEC("iter/task")
int sample_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct sample s = {};

	if (!task || task->flags & PF_EXITING)
		return 0;
	s.pid = process_of(task);
	if (!bpf_map_lookup_elem(&watched, &s.pid))
		return 0;
	s.thread = task->pid;
	if (bpf_core_field_exists(task->__state))
		s.state = task->__state;
	else
		s.state = BPF_CORE_READ((struct task_struct___before_5_14 *)task, state);
	if (bpf_core_field_exists(task->on_cpu))
		s.running = task->on_cpu;
	s.ran = task->se.sum_exec_runtime;
	s.switches = task->nvcsw + task->nivcsw;
	bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}
