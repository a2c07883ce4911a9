package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rows of start-up. The PEs of these jobs only join and leave.
const (
	startupPrefix = "startup/"     // from the start of oshrun to its end
	fencePrefix   = "first_fence/" // from the start of oshrun until the last PE has joined
)

var startup = group{
	limits: []limit{
		{row: "startup/2", unit: "ms", most: 100, peer: oshmem, factor: 1},
		{row: "startup/8", unit: "ms", most: 200, peer: oshmem, factor: 1},
		{row: "startup/32", unit: "ms", most: 500, peer: oshmem, factor: 1},
		{row: "first_fence/2", unit: "ms", peer: oshmem},
		{row: "first_fence/8", unit: "ms", peer: oshmem},
		{row: "first_fence/32", unit: "ms", most: 60, peer: oshmem, factor: 1},
		{row: "first_fence/128", unit: "ms", most: 300},
		{row: "startup/128", unit: "ms"},
	},
	run: runStartups,
}

// startupPEs are the sizes of jobs. Peers run the smaller ones only, because they start slowly.
var (
	startupPEs      = []int{2, 8, 32, 128}
	startupPeersPEs = []int{2, 8, 32}
)

// startupRuns is the number of runs per value, which is their median.
const startupRuns = 3

// runStartups runs the jobs of goshmem, then those of OSHMEM.
func runStartups(ctx context.Context, b *bed) error {
	program, err := b.buildOnce(ctx, "startup")
	if err != nil {
		return err
	}
	for _, n := range startupPEs {
		if err := b.startup(ctx, goshmem, n, []string{b.oshrun, "-n", strconv.Itoa(n), program}); err != nil {
			return err
		}
	}
	for _, p := range b.peers {
		if p.missing != "" || p.name != oshmem {
			continue
		}
		theirs := filepath.Join(b.dir, "startup")
		for _, n := range startupPeersPEs {
			if err := b.startup(ctx, p.name, n, append(p.launch(n), theirs)); err != nil {
				return err
			}
		}
	}
	return nil
}

// startup times jobs of n PEs. Each PE prints the time when it has joined, in nanoseconds of the wall clock.
func (b *bed) startup(ctx context.Context, who string, n int, command []string) error {
	var whole, fence []float64
	for range startupRuns {
		begin := time.Now()
		out, err := b.output(ctx, runLimit, "", command...)
		if err != nil {
			return err
		}
		whole = append(whole, time.Since(begin).Seconds()*1e3)
		words := bytes.Fields(out)
		if len(words) != n {
			return fmt.Errorf("%s: output has %d times, want %d, one for each PE", strings.Join(command, " "), len(words), n)
		}
		var last int64
		for _, w := range words {
			at, err := strconv.ParseInt(string(w), 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
			last = max(last, at)
		}
		fence = append(fence, float64(last-begin.UnixNano())/1e6)
	}
	b.values.add(who, startupPrefix+strconv.Itoa(n), median(whole))
	b.values.add(who, fencePrefix+strconv.Itoa(n), median(fence))
	return nil
}
