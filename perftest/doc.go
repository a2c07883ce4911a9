// Package perftest is a program that measures the calls of package shmem one by one, as the OSU
// micro-benchmarks do for other libraries: latency, bandwidth, message rate, atomics and
// collectives over sizes. Its tables have the columns of those benchmarks.
//
// Unless a test says otherwise, PE 0 acts on PE 1 and the other PEs wait at a barrier. With --far it
// acts on the first PE of another node instead. A figure is the mean over the iterations after the
// warm-up. Large messages get fewer iterations.
//
// Each kind of test has a file: pairs.go what one PE does to another, messages.go messages of
// package mpi, atomics.go atomic operations, together.go collectives. bench.go runs the tests,
// nodes.go says which PEs are a pair, tally.go adds up errors over PEs, report.go prints, options.go
// reads the command line, main.go is the program.
package perftest
