package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	rowTEPS         = "graph500/harmonic_mean"
	rowConstruction = "graph500/construction"
	rowResident     = "graph500/max_rss"
)

// graph500 has fewer rounds than other groups, because its spread is small and a run takes long.
var graph500 = group{
	rounds: 3,
	limits: []limit{
		{row: rowTEPS, unit: "MTEPS", least: 500},
		{row: rowConstruction, unit: "s", most: 4},
		{row: rowResident, unit: "MiB", most: 300},
	},
	run: runGraph500,
}

// Scales of Graph500: the one that the limits are for, and the one for --quick.
const (
	graphScale      = 20
	graphScaleQuick = 16
)

// runGraph500 runs the benchmark once, with two PEs, and validates all searches.
func runGraph500(ctx context.Context, b *bed) error {
	scale := graphScale
	if b.quick {
		scale = graphScaleQuick
	}
	file := filepath.Join(b.dir, "graph500.json")
	if _, err := b.output(ctx, 2*runLimit, "", b.oshrun, "-n", "2", "graph500", "--scale", strconv.Itoa(scale), "--json", file); err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r struct {
		NBFS         int      `json:"nbfs"`
		TEPS         float64  `json:"bfs_harmonic_mean_TEPS"`
		Construction float64  `json:"construction_s"`
		Resident     []uint64 `json:"max_rss_bytes"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("report of graph500: %w", err)
	}
	if r.NBFS != 64 || len(r.Resident) != 2 {
		return fmt.Errorf("report of graph500: %d searches, %d PEs, want 64 searches and 2 PEs", r.NBFS, len(r.Resident))
	}
	b.values.add(goshmem, rowTEPS, r.TEPS/1e6)
	b.values.add(goshmem, rowConstruction, r.Construction)
	b.values.add(goshmem, rowResident, float64(slices.Max(r.Resident))/(1<<20))
	return nil
}
