// Package perftest is a program that measures the calls of package shmem one by
// one, as the OSU micro-benchmarks do for other libraries: latency, bandwidth,
// message rate, atomics and collectives over sizes, in the columns that their
// users know.
//
// Where nothing else is said, PE 0 acts on PE 1 and the others wait at a
// barrier. A figure is the mean over the iterations after the warm-up, of which
// there are fewer for large messages.
//
// One file, one kind of test: pairs.go what one PE does to another, messages.go, atomics.go,
// together.go collectives. bench.go keeps the time, report.go prints, options.go
// reads the command line, Main is the program.
package perftest
