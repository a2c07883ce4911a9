// Package hosted has the tests of other projects' programs: unmodified C programs of Open MPI, its OpenSHMEM, and
// MPICH run under oshrun, without any setting by the user.
package hosted
