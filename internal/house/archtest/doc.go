// Package archtest has the tests that enforce docs/architecture.md.
//
//   - Rules: the imports of each package; the users of unsafe, cgo and the system packages; the places where a
//     process may wait; documentation; the size of files and functions.
//   - Tables: the rules are in table_test.go. A new package must be added there. With -update, TestTableInDocs writes
//     the tables into docs/architecture.md.
//   - Cost: the tests read the source with go/parser and start no program. They need neither the go command nor a
//     module cache.
//   - Tests of the tests: each checker runs on small made-up modules that break its rule.
package archtest
