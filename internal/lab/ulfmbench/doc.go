// Package ulfmbench measures the calls of package mpi that survive deaths, as the benchmark programs of ULFM do.
//
// A cell is a case, a number of ranks and how many of them die. Measure starts jobs for each cell. The ranks of a job run
// Main (ulfm-pe), keep what they measure, and print it at the end.
//
//	case                    what a rank measures
//	agree, iagree           batches of Comm.Agree, or of Comm.Iagree with Wait, beside batches of Allreduce
//	shrink, ishrink         batches of Comm.Shrink, or of Comm.Ishrink with Wait, beside batches of Allreduce
//	revoke                  when rank 0 calls Comm.Revoke, and when each other rank gets ErrRevoked
//	barrier, recvany        when the victim kills itself, and when each survivor gets its error
//	respawn                 the same, then when Shrink, Spawn of one process, and Merge with a barrier are over
//
// With dead ranks, the first two rows have two phases:
//
//   - first: all ranks leave a barrier. The victims kill themselves by SIGKILL while the survivors make one call. That
//     call includes the time by which the death is known.
//   - steady: the survivors have acknowledged the deaths and measure batches. Allreduce runs on a communicator that
//     Shrink has made of the survivors.
//
// Ranks compare times of CLOCK_MONOTONIC, which all processes of a machine share, also those of emulated nodes. The victim
// of barrier, recvany and respawn cannot print its time, as that would wake oshrun, which watches for its death. It writes the time
// into a file instead.
//
// Each survivor checks each result: an agreement is the AND of the flags of exactly the survivors, a communicator of
// Shrink has exactly the survivors, and a revocation or a death gives exactly its own error.
//
//   - Source: github.com/ICLDisco/ulfm-testing, benchmarks.
package ulfmbench
