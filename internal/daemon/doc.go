// Package daemon is what runs on each node for a job: the step. It makes the
// segments of the local PEs and keeps them, serves PMIx, hands descriptors to
// the PEs, starts them, carries their input and output and reports their ends.
// The PEs of a step are those of a job and of the jobs that these spawn, each
// with a namespace, heaps and numbers of its own.
//
// The step decides nothing about the job: it turns what happens into events,
// on which package launch acts. When an end is a failure, and when it is known,
// package life says: the state machine of one PE.
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
