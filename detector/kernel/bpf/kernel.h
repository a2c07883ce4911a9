/*
 * The fields of kernel types that the programs use. The loader finds each field
 * by its name in the kernel's BTF (CO-RE), so unused fields are left out and the
 * order of fields does not matter.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

enum { /* enum bpf_map_type */
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_NOEXIST = 1 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct mm_struct;

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
	unsigned int flags;
	int group_exit_code;
	struct mm_struct *oom_mm; /* set by the out-of-memory killer */
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int exit_code;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct sched_entity se;
};

struct task_struct___before_5_14 {
	volatile long state;
};

struct k_sigaction;

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define SIGNAL_GROUP_EXIT 0x00000004 /* in signal_struct.flags: the process will end, and nothing can stop it */
#define SIGNAL_UNKILLABLE 0x00000040
#define PF_EXITING 0x00000004 /* in task_struct.flags */
