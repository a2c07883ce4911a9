package main

import (
	"context"
	"errors"
	"fmt"
)

// together is collectives among so many PEs, which have a processor each or take
// turns, as they come.
func together(pes int) group {
	g := group{run: func(ctx context.Context, b *bed) error {
		return errors.Join(
			b.records(ctx, goshmem, b.ours(pes, b.rows.String(), "together"), ""),
			b.beside(ctx, oshmem, pes, "together"),
		)
	}}
	for _, row := range []string{
		"barrier", "sum_reduce/8", "sum_reduce/65536", "broadcast/8", "broadcast/65536",
		"alltoall/8", "alltoall/8192", "fcollect/8", "fcollect/8192",
	} {
		g.limits = append(g.limits, limit{row: fmt.Sprintf("%dpe/%s", pes, row), peer: oshmem, factor: 1})
	}
	return g
}
