// Package agreebench measures agreements among the PEs of real jobs: Figure 2 of the agreement paper.
//
// A cell is a number of PEs and how many of them are dead. Measure starts jobs for each cell. The PEs of the job drive
// the machines of coll/agree and coll/ftco over TCP connections between each other.
//
//	oshrun agree-bench         a PE of the job (agree-pe)
//	start the job              exchange addresses
//	read its process number    say that it is ready
//	SIGKILL to the victims     wait until World.OnFailure has told of all deaths; make the machines
//	                           agree, one variant after the other, in each round in another order
//	read spans and digests     say when each batch of agreements began and ended, and what was decided
//
// A batch is one agreement that is not measured and then Options.Calls agreements that are. A sample is the time of a
// batch, divided by Calls:
//
//   - coordinator: from the coordinator's first measured call to its last return.
//   - all: from the first call of any survivor to the last return of any. So it holds, once, the time by which the first
//     survivor is ahead of the last.
//
// PE 0 is the coordinator and never a victim. A survivor checks each decision: it must list exactly the victims, and
// combine the votes of exactly the survivors. The survivors' digests of all decisions must be equal.
//
//   - Source: Hursey, Naughton, Vallee and Graham, A Log-Scaling Fault Tolerant Agreement Algorithm for a Fault Tolerant
//     MPI, section 5 and Figure 2.
package agreebench
