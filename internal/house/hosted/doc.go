// Package hosted holds the tests of programs that are not goshmem's: unmodified
// C programs of Open MPI, its OpenSHMEM and MPICH under oshrun. The user sets
// nothing for them.
package hosted
