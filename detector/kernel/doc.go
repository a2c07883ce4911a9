// Package kernel learns of process deaths and hangs from the kernel. It learns of a death as early as the
// kernel permits, without help from the process, and for children as well as for other processes.
//
// A Watch is opened once; Add names the processes to watch. For each process the Watch reports Dead once,
// then Released once.
//
//   - Between the two, the process may still hold its memory and descriptors. Freeing 4 GiB takes
//     seconds. SIGCHLD, wait, a pidfd and the end of a socket all come after that.
//   - A parent that reaps a process before Released may lose the status for this package.
//   - The kernel does not reuse the process's number before it is reaped.
//
// # Tiers
//
// Open uses the first tier that works here, or the tier in Config.Tier. Passed and *TierError name what
// better tiers lack.
//
//		tier      needs                         Dead comes           of others  At   status
//		bpf       CAP_BPF and CAP_PERFMON (or   at the exit, before  yes        yes  always
//		          CAP_SYS_ADMIN), Linux 5.8     memory is freed
//		          with BTF                      (Linux 6.16)
//		procconn  the machine's own network,    with Released        yes        yes  always
//		          pid and user namespaces;
//		          CAP_NET_ADMIN before 6.6
//		pidfd     Linux 5.3                     with Released        yes        no   of children
//		sigchld   nothing                       with Released        no         no   always
//
//	  - "Of others": the tier can watch processes that are not children of this one.
//	  - Descriptors: every tier but sigchld holds one for each process until Released.
//	  - Status: for a child, Released carries the status that wait returns.
//	  - Cost of Open: 20 ms for bpf, half of it to read the kernel's types; 0.1 ms for the others.
//	    Add accepts processes that have ended already, so Open may run while they start.
//	  - Cost of Add: 5 µs; procconn lists the threads as well and takes 25 µs and 1.5 µs for each thread.
//
// The bpf tier uses tracepoints and an iterator only. fentry and kprobe would see more, but a locked-down
// kernel refuses them. A permission error names the missing capability.
//
// # What the kernel program sends
//
// The watched processes are in a hash map, from process number to start time. The start time tells a
// process from a later one with the same number. The exit program runs at every thread exit of the machine
// and costs some hundred nanoseconds there. It returns early unless the thread is the last one of a
// watched process. Records go through a ring buffer to the one goroutine that calls Report.
//
//   - Since Linux 6.16, the tracepoint sched_process_exit fires before memory is freed. Its second
//     argument says whether the thread is the last one. Open reads the tracepoint's type in the kernel's
//     BTF and loads the program for that type.
//   - Before Linux 6.16, the tracepoint fires after memory was freed, without that argument. The program
//     reads the count of live threads (signal->live) instead, which the exiting thread has decremented
//     already. Two last threads that exit side by side may both see 0; the first record counts.
//   - Before Linux 6.16, a second program runs at signal_deliver, to report deaths by signals before
//     memory is freed (next section). It needs Linux 5.11, and amd64 or arm64. Exits by status are
//     reported after memory was freed.
//   - The exit program knows a victim of the out-of-memory killer by signal->oom_mm. The tracepoint
//     mark_victim would say no more, and it has different arguments in each of three kernels. A victim that
//     is killed from another processor could exit before it is marked; it is then reported as killed by
//     SIGKILL.
//
// # Deaths by signals before Linux 6.16
//
// The signal program reports a death only if the process must end and no thread will run again.
//
// A signal that dumps no core:
//
//   - The kernel marks the process (SIGNAL_GROUP_EXIT) when such a signal is sent. Nothing clears the
//     mark, so the process must end.
//   - Each thread of a marked process passes signal_deliver once on its way out. It executes no
//     instruction of the program after that.
//   - The program counts these threads. The first one notes how many threads have not begun to exit; no
//     thread is added after the mark. The thread that completes the count sends the record.
//   - If a thread was exiting by itself, called exit_group or dumps core, the count stays short. Dead
//     then comes after memory was freed.
//
// A signal that dumps core sets no mark. The program reports such a death at once if all of these hold:
//
//   - The process has a single thread, and is not the init of a pid namespace.
//   - The signal's action is the default. The kernel holds the lock of the handlers until the decision, so
//     the action cannot change.
//   - A debugger has had its chance to drop the signal, which is before the tracepoint.
//
// Dead does not say whether there is a core file; Released does.
//
// # Dead means that nothing is written any more
//
// In every tier Dead means that no thread will execute another instruction of the program. What the process
// wrote to shared memory is there, and nothing will be added. The collectives of package coll/board depend
// on it.
//
//	what reports the death           why no thread runs
//	exit program, Linux 6.16         the last thread is in its exit; all others have passed theirs
//	exit program before 6.16         the same, later in the exit
//	signal program, mark             the count says that all threads have passed on their way out
//	signal program, core dump        the only thread has passed
//	connector, pidfd, SIGCHLD        the process is over: all threads have exited
//
// # Nothing is lost, nothing is reported twice
//
// A process may end while Add runs. Add opens the pidfd, then enters the process in the kernel's map, then
// polls the pidfd.
//
//   - An exit after the map entry sends a record.
//   - An exit before the map entry makes the pidfd ready: at once, or when memory has been freed.
//   - A record that found no room in the ring (256 KiB, 6500 records), or that the connector lost, is
//     replaced by the pidfd in the same way.
//   - The first of the two is reported as Dead; later ones are dropped.
//   - Each round reads the records before it handles ready pidfds. A record is older than the ready pidfd
//     of the same process, so its time and status are used if there is one.
//
// A process lives on after its first thread (the leader) has ended; pidfd and programs take that into
// account. A thread that calls exec takes over the leader's number and start time.
//
// # The connector counts threads
//
// The connector sends events of threads. No event says that its thread is the last one of the process, and
// two short cuts fail:
//
//   - "The pidfd is ready, so this exit event is the last one" is false: the event of an earlier thread may
//     have waited in the queue.
//   - "The queue is empty, so the previous event was the last one" is false: the last event comes some
//     microseconds after the pidfd is ready.
//
// So the connector keeps the set of live threads of each process. Add fills it from /proc. Later events
// change it: a thread begins, a thread ends, or an exec leaves one thread. The exit event that empties the
// set carries the time and the status of the death.
//
//   - If the socket reports lost packets, the connector lists all threads anew.
//   - The kernel drops an event silently if it has no memory for it. If that was an exit event, or if the
//     exiting thread gets no processor to send it, Dead comes 20 ms after the pidfd and without a time.
//   - For a process that is not a child, the status is that of the thread that emptied the set. It equals
//     what wait returns, unless threads end one by one: of two that end side by side it may be the other
//     one's status, and before Linux 5.17 wait returns the leader's.
//
// # Hangs
//
// With Config.Poll, a goroutine samples all threads of the watched processes: by an iterator in the kernel
// (bpf, 0.2 ms a walk) or by /proc. None of these states is a death, and a process in an endless
// computation looks healthy to the scheduler.
//
//	state     when
//	Stopped   now: all threads are stopped or traced
//	Stuck     in this sample and the one before: a thread was in uninterruptible sleep, and had no processor between
//	Starved   in this sample and the one before: a thread was runnable, and no thread had a processor between
//
// # The kernel's types
//
// The programs use a dozen types of the kernel's BTF, which has more than 100,000. The library would map it and
// index all of them: 20 ms more of a processor, and 5 MB more of memory at the peak. Open reads only what the
// programs name, through a buffer (typeReader), in two passes:
//
//   - The strings: where the wanted names are.
//   - The types: which have these names. Members that the programs do not name are left out, and pointers point to void.
//
// The library then finds the fields in these types. Open loads the programs itself: the library looks for the
// number of each tracepoint among all types of the kernel.
//
// If any of this fails, but not for lack of rights, Open reads all types and has the library load the programs. So an
// unusual kernel gets the same tier, and every error is that of the library.
//
// # The object files
//
// The programs are written in C, and the compiled object is committed: building goshmem needs Go alone.
//
//   - Language: C rather than instructions assembled in Go, because planned programs of this package (an
//     answering XDP program with message authentication, fencing) are too long for that.
//   - Reproducible: go generate must reproduce the object to the byte. CI checks it with the clang of
//     Debian 12 (clang, llvm, libbpf-dev).
//   - Portable: the programs use no header of a particular kernel. bpf/kernel.h names the fields, and the
//     loader finds their offsets in the running kernel's BTF.
//   - Byte order: the object is little endian. On other processors Open refuses the tier.
package kernel

//go:generate go tool -modfile=../../tools/go.mod bpf2go -target bpfel -tags linux watch bpf/watch.bpf.c -- -Wall -Werror -mcpu=v2
