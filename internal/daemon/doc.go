// Package daemon is what runs on each node for a job: the step. Of a job of several nodes it knows
// all (Share) and runs the PEs of its own. It makes the
// segments of the local PEs and keeps them, serves PMIx, hands descriptors to
// the PEs, starts them, carries their input and output and reports their ends.
// The PEs of a step are those of a job and of the jobs that these spawn, each
// with a namespace, heaps and numbers of its own.
//
// The step decides nothing about the job: it turns what happens into events,
// on which package launch acts. When an end is a failure, and when it is known,
// package life says: the state machine of one PE. When one hangs, package pulse says.
//
// # Parts
//
// Step puts parts together, each with a file of its own. Arrows of calls go down, but for clients and alerts.
//
//	Step             step.go         the parts, and what package launch calls
//	background       background.go   the goroutines, and when they end
//	clients          clients.go      what PMIx and PMI-1 servers learn, and what PEs ask for: abort, signals, input
//	spawner          spawn.go        further jobs; furtherjob.go: those of several nodes, which the root lays out
//	starter          starter.go      starts processes, on one thread
//	nodeAgent        agent.go        the process that carries one-sided operations to other nodes; agentdrop.go: what it hears of deaths
//	attachService    attach.go       hands out segments; with visitors: who is connected
//	passages         passages.go     the memory between jobs whose PEs exchange messages; peers.go gives it to PEs
//	                 guests.go       PEs of spawned jobs that the agent serves
//	authorizer       authorize.go    who may connect to the PMIx server; with census: who holds which socket
//	debuggers        debug.go        PEs that wait for a debugger
//	orders           orders.go       questions to PEs: stacks, profiles
//	signals          signals.go      signals to PEs; stop and go on
//	orphans          orphans.go      what PEs have left behind
//	deathWatch       watchdog.go     what the kernel says of processes
//	ailments         ailments.go     PEs that do not run as they should
//	hangWatch        hang.go         PEs that call nothing for long
//	ends             ends.go         a PE to its end, a job to its end
//	failures         failures.go     which ends are failures, and who learns of them when; farfailure.go: those of other nodes
//	alerts           alerts.go       callbacks of PEs
//	announcer        announce.go     events to the launcher and exits to the servers, in order
//	memoryMeter      memorymeter.go  how much memory programs have
//	niceness         session.go      nice values of sessions
//	outputs, input   io.go, stdin.go what PEs write and read
//	servers          servers.go      the servers of PMIx and PMI-1
//	crossing         crossing.go     what servers of several nodes ask each other
//	table            table.go        the jobs and PEs: localJob, localPE, jobMemory
//
// The lock of the table guards what changes of jobs and PEs. No part holds a lock while it looks at processes, starts one,
// or waits: table says how that is done, and which locks may be taken under which.
//
// # Nothing is left behind
//
// Segments are memfds, the attach socket has an abstract name, PMIx listens on
// loopback: nothing has a name in a file system, but for one private directory
// where programs of others need files (see private). Processes end with the step
// whatever ends it:
//
//   - each PE is killed by the kernel when the thread that started it ends
//     (PR_SET_PDEATHSIG; one goroutine, locked to its thread, starts all);
//   - each PE leads a process group and holds a leash: a pipe whose closing
//     makes the kernel kill that group, which catches grandchildren;
//   - what left the group is found by the job's name in its environment, among
//     the orphans that the step inherits as a subreaper.
package daemon
