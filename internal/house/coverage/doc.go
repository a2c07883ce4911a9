// Package coverage has the list of OpenSHMEM's routines. It finds the Go function for each routine by the Source
// lines in package shmem's comments, and the routine's test.
//
//   - Markdown writes docs/openshmem.md.
//   - Mutants and Overlay make the functions wrong; the tests must find each mutant.
package coverage
