// Package weave writes changed sources for "go test -overlay": mutants, which a test has to
// find, and packages whose accesses to shared memory go through functions of an explorer.
// The sources themselves stay as they are, and what is shipped pays for neither.
package weave
