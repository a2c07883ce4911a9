// Package kernel learns from the kernel that processes end or cannot run: as
// early as can be, without being asked by them, and whether they are children
// of this process or not.
//
// A Watch is opened once and told the processes by Add. Of each it reports Dead
// once and then Released once, whatever happens. In between the process may
// still hold its memory and descriptors: giving back 4 GiB takes seconds, and
// whatever a parent can see (SIGCHLD, wait, a pidfd, the end of a socket) comes
// after that. Who reaps a process before Released may lose its status; its
// number is its own until it is reaped.
//
// # Tiers
//
// Open takes the first tier that works here, or the one that is asked for;
// Passed and *TierError name what is missing for better ones.
//
//	tier      needs                         Dead comes           of others  At   status
//	bpf       CAP_BPF and CAP_PERFMON (or   at the exit, before  yes        yes  always
//	          CAP_SYS_ADMIN), Linux 5.8     memory is freed
//	          with BTF                      (Linux 6.16)
//	procconn  the machine's own network,    with Released        yes        yes  always
//	          pid and user namespaces;
//	          CAP_NET_ADMIN before 6.6
//	pidfd     Linux 5.3                     with Released        yes        no   of children
//	sigchld   nothing                       with Released        no         no   always
//
// "Of others": processes that are no children of this one can be watched. A
// descriptor is held for each process until Released, but in the last tier. The
// status of a child in Released is what wait will say.
//
// All of bpf is tracepoints and an iterator. fentry and kprobe would give more
// and are refused by kernels that are locked down. An error of permission is
// told by the name of the capability.
//
// Open takes some 40 ms for bpf, nearly all of it to read the types of the
// kernel, and 0.1 ms for the others. Add takes processes that have ended, so Open
// may run beside their start. With procconn it lists their threads: 25 µs and
// 1.5 µs for each, instead of 5 µs.
//
// # What the kernel program sends
//
// Processes stand in a hash map by their number, with their start time, so that
// a number that is used again is another process. Every exit of a thread of the
// machine comes by (some hundred nanoseconds each); what is not the last thread
// of a watched process goes no further. Records go through a ring buffer to the
// one goroutine that calls Report; nothing else is between.
//
//   - Linux 6.16 moved the tracepoint sched_process_exit ahead of the release of
//     memory and gave it a second argument, whether the thread is the last one.
//     The type of the tracepoint in the kernel's BTF says which of the two
//     programs is loaded.
//   - Before, it fires when memory has been given back, and has no such
//     argument: the count of living threads (signal->live), which is down
//     already, says the same. Two last threads side by side may both see 0; the
//     first record counts. To be early there, too, a program at signal_deliver
//     (5.11, amd64 and arm64) tells of the deaths by signals; exits by status come
//     after the release of memory. What it tells has to be certain, in two ways. The process must be ending:
//     it is marked so (SIGNAL_GROUP_EXIT), and nothing ever clears that mark. The
//     kernel sets it when a signal is sent that will end the process, but not for
//     those that dump core. And no thread may run: each thread of a marked process
//     comes by the tracepoint on its way out, once, and executes nothing of the
//     program after that. The program counts them. The first one notes how many
//     threads have not begun to exit, to which none is added after the mark, and
//     the one that makes the count full tells. If a thread was exiting by itself
//     meanwhile, or called exit_group, or dumps core, the count stays short, and
//     Dead comes after the release of memory.
//     Of a signal that dumps core, the death is told at once if the process has a
//     single thread, whose action is the default, and is no init of a pid
//     namespace: a debugger has had its say before the tracepoint, and the lock
//     of the handlers is held until the decision. Dead does not say yet whether
//     there is a core; Released does.
//   - A victim of the out-of-memory killer is known by signal->oom_mm in the
//     exit itself. The tracepoint mark_victim would say no more, and has other
//     arguments in each of three kernels. Killed from another processor, a victim
//     could in principle exit before it is marked; it has then been killed by
//     SIGKILL and nothing else is said.
//
// In every tier Dead means that no thread will execute another instruction of the
// program: what the process wrote to shared memory is there, and nothing will be
// added. The collectives of package coll/board rest on that.
//
//	what tells of the death          why no thread runs
//	exit program, Linux 6.16         the last thread is in its exit; all others have left theirs behind
//	exit program before 6.16         the same, later in the exit
//	signal program, mark             all threads have come by on their way out, by the count
//	signal program, core dump        the only thread has come by
//	connector, pidfd, SIGCHLD        the process is over: all threads have exited
//
// # Nothing is lost, nothing comes twice
//
// A process may end while it is being added. The order in Add is: pidfd, entry
// in the map, watch of the pidfd. An exit after the map entry is sent; the pidfd
// of one before it is ready at once, or when its memory has been given back. The
// pidfd also tells of a death whose record found no room in the ring (256 KiB,
// 6500 records) or was lost by the connector. The first of both is Dead; later
// ones are dropped. Records are taken before pidfds in each round, and a record is
// older than the pidfd of the same process.
//
// Leaders: a process whose first thread has ended lives on, and its pidfd and
// program know. A thread that executes a program takes the leader's number and
// start time.
//
// The connector tells of threads, and no event says that it is the last one of a
// process. That it is over, by its pidfd, when an event is read does not make it
// that: an earlier thread's may have been in the queue for as long, and the last
// one comes microseconds after the pidfd is ready. So the threads of each process
// are kept count of: those that /proc lists in Add, then those of later events:
// begins, ends, and execs, after which there is one thread. The end that leaves
// none says when and how. If packets were lost, which the socket says, all are
// listed again. An event for which the kernel itself has no memory is lost without
// a word. If it was an end, or its thread gets no processor to send it, Dead comes
// 20 ms after the pidfd and without a time.
//
// Of a process that is no child, the connector's status is that of the thread
// whose end left none. It is what wait says as well, except where threads end one
// by one and not with their process: of two that do so side by side it may be the
// other one's, and before Linux 5.17 wait says the leader's.
//
// # Hangs
//
// With Config.Poll a goroutine looks at all threads of the watched processes,
// by an iterator in the kernel (bpf: 0.2 ms a walk) or by /proc. Stopped is
// what is so now; Stuck and Starved compare with the walk before: a thread that
// was in uninterruptible sleep both times and not on a processor between, and a
// process of which a thread was runnable both times and none had a processor.
// Neither is a death. A process that computes without end looks like any other
// to the scheduler.
//
// # The object files
//
// The programs are C, and the compiled object is committed: who builds goshmem
// needs Go alone. C rather than instructions put together in Go, because later
// programs of this package (an answering XDP program with message
// authentication, fencing) are too long for that. The price is that the object
// must be what the source says: go generate has to reproduce it to the byte,
// which CI checks with the clang of Debian 12 (clang, llvm, libbpf-dev). No
// header of a certain kernel is used: bpf/kernel.h names the fields, and their
// places are looked up in the running kernel's BTF. The object is little endian;
// on other processors the tier is refused.
package kernel

//go:generate go tool -modfile=../../tools/go.mod bpf2go -target bpfel -tags linux watch bpf/watch.bpf.c -- -Wall -Werror -mcpu=v2
