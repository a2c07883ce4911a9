// Package responder answers for a node of a job when other nodes ask whether it lives, and ends the node's processes when
// they order that (a fence). Package packet has the datagrams.
//
// A busy node must not be taken for a dead one. So the answer comes from the best place that the machine permits:
//
//	tier     who answers                      needs                                  beside busy loops, answers take
//	kernel   a program in the kernel, where   Linux 6.13 with BTF, CAP_BPF,          some 0.1 ms
//	         packets come in                  CAP_PERFMON and CAP_NET_ADMIN in the
//	                                          machine's user and pid namespace;
//	                                          IPv4 (IPv6 is planned), Ethernet or lo
//	process  the keeper, under SCHED_FIFO     CAP_SYS_NICE or RLIMIT_RTPRIO, and     some 0.2 ms, with gaps up to 50 ms
//	                                          a command for it (Config.Keeper)
//	user     a goroutine of the daemon        nothing                                30 ms and more
//
// Open uses the first one that works, or Config.Tier. Passed says what better ones lack.
//
// # Answers
//
// All tiers give the same answers, by the same rules:
//
//   - Only pings and fences of the job and of this node are answered, with a MAC by the job's key. All others are ignored.
//   - A ping is answered with the incarnation, the tick, and the flags.
//   - A fence of another incarnation is ignored. One of this incarnation kills all processes of Add, and the daemon, by
//     SIGKILL. Then it is acknowledged. It may come several times.
//
// The flags are:
//
//	DaemonDead  the daemon has ended; the user tier does not know
//	Starved     the tick has stood still for 20 ms, and a thread of the daemon is runnable but does not run; the user
//	            tier does not know
//	Fenced      a fence has come
//
// # The page
//
// The daemon shares one page of memory with who answers: the identity of the node, the tick, and the processes that a
// fence kills. It is a map of the kernel program, a memfd of the keeper, or ordinary memory. Each field has one writer:
//
//	field                  writer
//	tick, victims, used    the daemon
//	fences, ended          who answers
//	all others             the daemon, before the first answer
//
// A process is registered with its start time: a fence does not kill a later process with the same number. A fence that
// comes during Add misses no process: the fence sets its mark and then reads the entries; Add writes its entry and then
// reads the mark.
//
// # The keeper
//
// The keeper is a small process ("oshrun heartbeat") that outlives the daemon for Config.TTL, so that others learn by an
// answer that the daemon has ended, not by silence.
//
//   - Kernel tier: it only holds the descriptors of the attachments and of the socket. The kernel goes on answering as long
//     as it does. Nothing is pinned in a file system: when the daemon and the keeper are killed, nothing is left.
//   - Process tier: it is the one that answers.
//   - It knows the daemon's end by the end of its standard input. It ignores other signals than SIGKILL.
//   - If it ends before the daemon, the daemon starts another one.
//
// # Why the programs are attached as they are
//
// The program is attached by tcx at ingress, ahead of others. It lets all packets pass that are not for its own port. It
// is attached to the interface with the address, and to lo, which packets of the same machine take. The answer leaves by
// the interface of the question, to the link address that it came from: no routing is needed.
package responder

//go:generate go tool -modfile=../../tools/go.mod bpf2go -target bpfel -tags linux respond bpf/respond.bpf.c -- -Wall -Werror -mcpu=v2
