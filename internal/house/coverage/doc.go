// Package coverage knows the routines of OpenSHMEM and looks up in the source of
// package shmem which Go function stands for each of them, by the Source lines of the
// comments, and which test holds it. It writes docs/openshmem.md, and makes the
// mutants of the functions that the tests have to find.
package coverage
