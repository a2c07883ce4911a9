// Package archtest holds the tests that keep the source in the shape that
// docs/architecture.md describes: which package may import which, who may use
// unsafe, cgo and the system packages, where a process may wait, what has to be
// documented, and how long files and functions may get.
//
// The rules are tables in table_test.go; a new package is added there. The
// tests read the source with go/parser and start no program, so they need
// neither the go command nor a module cache. Each checker is itself tested on
// small made-up modules that break its rule.
package archtest
