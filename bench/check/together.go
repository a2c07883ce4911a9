package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// together is the group of collectives among a number of PEs. With fewer processors than PEs, the PEs take turns.
func together(pes int) group {
	var g group
	g.run = func(ctx context.Context, b *bed) error {
		ours := b.records(ctx, goshmem, b.ours(pes, b.rows.String(), "together"), "")
		if pes <= mostRanks {
			ours = errors.Join(ours, b.records(ctx, goshmem, b.ours(pes, b.rows.String(), "private"), ""))
		}
		return errors.Join(
			ours,
			b.beside(ctx, oshmem, pes, "together"),
			b.theirs(ctx, &g, openMPI, pes, "messages"),
		)
	}
	name := func(row string) string { return fmt.Sprintf("%dpe/%s", pes, row) }
	for _, row := range []string{
		"barrier", "sum_reduce/8", "sum_reduce/1024", "sum_reduce/65536", "sum_reduce/1048576", "broadcast/8", "broadcast/65536",
		"alltoall/8", "alltoall/8192", "fcollect/8", "fcollect/8192", "lock",
	} {
		g.limits = append(g.limits, limit{row: name(row), peer: oshmem, factor: 1})
	}
	if pes > mostRanks {
		return g
	}
	for _, row := range [][2]string{
		{"barrier", "barrier"},
		{"sum_reduce/8", "allreduce/8"},
		{"sum_reduce/1024", "allreduce/1024"},
		{"sum_reduce/65536", "allreduce/65536"},
		{"sum_reduce/1048576", "allreduce/1048576"},
		{"broadcast/65536", "bcast/65536"},
		{"alltoall/8", "alltoall/8"},
		{"alltoall/8192", "alltoall/8192"},
		{"allreduce/8", "allreduce/8"},
		{"allreduce/1024", "allreduce/1024"},
		{"allreduce/65536", "allreduce/65536"},
		{"allreduce/1048576", "allreduce/1048576"},
		{"bcast/65536", "bcast/65536"},
		{"bcast/1048576", "bcast/1048576"},
		{"reduce/65536", "reduce/65536"},
		{"reduce/1048576", "reduce/1048576"},
	} {
		g.limits = append(g.limits, limit{row: name(row[0]), peer: openMPI, theirs: name(row[1]), factor: 1})
	}
	return g
}

// toleranceCost is the factor for a tolerant collective against the same strict one, and for an agreement against a
// reduction of one element.
const toleranceCost = 1.10

// tolerant is the group of collectives of a tolerant team beside those of a strict team in the same job.
func tolerant(pes int) group {
	var g group
	g.run = func(ctx context.Context, b *bed) error {
		command := b.ours(pes, b.rows.String(), "tolerant")
		return b.records(ctx, goshmem, slices.Insert(command, 1, "--recover"), "")
	}
	for _, row := range []string{
		"barrier", "sum_reduce/8", "sum_reduce/1024", "sum_reduce/65536", "sum_reduce/1048576", "broadcast/8", "broadcast/65536",
		"alltoall/8", "alltoall/8192", "fcollect/8", "fcollect/8192",
	} {
		g.limits = append(g.limits, limit{row: fmt.Sprintf("%dpe/ft_%s", pes, row), peer: strict, factor: toleranceCost})
	}
	g.limits = append(g.limits, limit{row: fmt.Sprintf("%dpe/agree", pes), peer: allreduce, factor: toleranceCost})
	return g
}

// messages is the group of messages between two ranks, each on its own processor: with an answer, in windows, and
// one after the other.
func messages() group {
	var g group
	g.run = func(ctx context.Context, b *bed) error {
		return errors.Join(
			b.records(ctx, goshmem, b.ours(2, b.rows.String(), "messages"), ""),
			b.theirs(ctx, &g, openMPI, 2, "messages"),
		)
	}
	for _, row := range []string{
		"message", "message/8", "message/1024", "message/2048", "message/4096", "message/8192", "message/65536", "message/1048576", "message/4194304",
		"window/8", "window/1024", "window/65536", "window/1048576", "window/4194304", "rate/8",
	} {
		g.limits = append(g.limits, limit{row: "2pe/" + row, peer: openMPI, factor: 1})
	}
	return g
}

// mostRanks is the largest number of ranks for which Open MPI's collectives are measured.
const mostRanks = 8
