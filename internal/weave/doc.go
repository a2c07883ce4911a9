// Package weave writes changed sources for "go test -overlay". The sources in the repository stay unchanged, so
// shipped programs pay nothing for it.
//
//   - Switch adds mutants, which tests must find.
//   - Weave routes a package's accesses to shared memory through functions of an explorer.
package weave
