// Package fabench runs the experiment of Figure 2 of the paper on FA-MPI: applications in transactions, ranks of which die at given iterations, beside the
// same applications without deaths, and beside a restart from the beginning.
//
// A job is an application (Apps) in a case (Cases). Its ranks run Main (fa-pe), note when each phase of the recovery is over, and print that at the end.
//
//	phase     from                       to
//	detect    the first victim's death   the first survivor whose operations have failed
//	agree     there                      the last survivor has agreed to reject the block, and to begin the recovery
//	shrink    there                      the last survivor has the communicator of the survivors
//	spawn     there                      the last survivor knows that the new processes have called Init
//	rebuild   there                      the last process has the communicator of survivors and new processes
//	reload    there                      the last process has its data and goes on
//
// Each phase begins where the one before ends, so their sum is the time from the death to the next iteration. A recovery that begins anew, as after a further
// death, is not split: each phase ends when it ends for the last time.
//
// Processes compare times of CLOCK_MONOTONIC, which all processes of a machine share. A victim writes its time into a file, as output would wake oshrun,
// which watches for the death. Then it gets SIGSEGV. In case node it stops and kills all processes of its node instead.
//
//   - Source: Hassani, Skjellum, Bangalore, Brightwell, Practical Resilient Cases for FA-MPI, section 5 and Figure 2.
package fabench
