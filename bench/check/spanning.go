package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Bounds of rows of collectives between nodes: of a barrier as a multiple of C's ping-pong, of a sum of values as one of a barrier,
// and of a tolerant reduction in place as one of a strict reduction. Such a reduction lies aside until all have read its sources.
const (
	farBarrier = 2.6
	farSum     = 1.2
	farInPlace = 1.30
)

// spanning is the group of collectives among a number of PEs on two emulated nodes.
func spanning(pes int) group {
	name := func(row string) string { return fmt.Sprintf("%dpe/%s", pes, row) }
	g := group{limits: []limit{
		{row: name("far_barrier"), peer: plainC, theirs: tcpPingPong},
		{row: name("far_allreduce/8"), peer: barrier, factor: farSum},
		{row: name("far_ft_reduce/8"), peer: strict, factor: toleranceCost},
		{row: name("far_ft_reduce/65536"), peer: strict, factor: toleranceCost},
		{row: name("far_ft_reduce/1048576"), peer: strict, factor: toleranceCost},
		{row: name("far_ft_in_place/1048576"), peer: strict, factor: farInPlace},
	}}
	if pes == 2 {
		g.limits[0].factor = farBarrier
	}
	g.run = func(ctx context.Context, b *bed) error {
		if _, err := os.Stat(filepath.Join(b.bench, "cmd", "pe", "spanning.go")); err != nil {
			return nil // an earlier version, of --base
		}
		command := append([]string{b.oshrun, "--emulate", "2", "-n", strconv.Itoa(pes)}, b.program(b.rows.String(), "spanning")...)
		return errors.Join(b.records(ctx, goshmem, command, ""), b.theirs(ctx, &g, plainC, 1, "wire"))
	}
	return g
}
