// Package sched has the schedules of collectives that travel in messages. A schedule is what one rank does in a collective: a
// graph of steps, each of which sends, receives, copies or folds. It is pure: package mpi runs it, and its tests run the
// schedules of all ranks in one process, in any order that the graphs allow.
//
//   - A Plan is a schedule. It does not change, and may run as often as wanted.
//   - A Run is the state of one execution: which steps are done, and which may begin.
//
// Memory is named by areas (Src, Dst, Tmp) and bytes in them. So a plan knows neither addresses nor types.
//
// # Messages
//
// Between two ranks, a message is told from others of the same collective by its label. Messages with one label are received in the order in
// which they were sent. Both sides of a message compute the label from the same arguments.
//
// # Reductions
//
// All reductions keep the order of the ranks: acc has what lower ranks gave, in what higher ones gave. All ranks
// of an all-reduction fold in the same order, so they get the same bytes.
//
//	plan.go       steps, plans, and how a plan is built
//	run.go        one execution of a plan
//	simple.go     barrier and broadcast
//	exchange.go   gather, scatter, allgather, alltoall, and neighbors
//	reduce.go     reductions and scans
//	inter.go      collectives between two groups
package sched
