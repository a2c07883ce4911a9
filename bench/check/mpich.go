package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mpich is the contestant MPICH: its launcher runs the same program as oshrun.
const mpich = "MPICH"

// mpichPrefix begins the rows of MPICH jobs: the time from the start of the launcher to its end.
const mpichPrefix = "mpich/"

var mpichJobs = group{
	limits: []limit{
		{row: "mpich/16", unit: "ms", peer: mpich, factor: 1.2},
		{row: "mpich/2", unit: "ms", peer: mpich},
		{row: "mpich/8", unit: "ms", peer: mpich},
	},
	run: runMPICH,
}

// mpichRanks are the sizes of jobs.
var mpichRanks = []int{2, 8, 16}

// findMPICH finds MPICH and compiles mpich.c and rounds.c with it.
func (b *bed) findMPICH(ctx context.Context) (peer, error) {
	p := peer{name: mpich, capability: "mpich"}
	for _, name := range []string{"mpicc.mpich", "mpiexec.hydra", "mpichversion"} {
		if _, err := exec.LookPath(name); err != nil {
			p.missing = name + " is not installed"
			return p, nil
		}
	}
	version, err := b.output(ctx, runLimit, "", "mpichversion", "--version")
	if err != nil {
		return p, err
	}
	p.version = strings.Join(strings.Fields(string(version)), " ")
	b.mpich = filepath.Join(b.dir, "mpich")
	if err := b.compile(ctx, "mpicc.mpich", "mpich"); err != nil {
		return p, err
	}
	return p, b.compileAs(ctx, "mpicc.mpich", "rounds", "rounds-mpich")
}

// runMPICH times MPICH jobs under oshrun and under MPICH's launcher, in alternation.
func runMPICH(ctx context.Context, b *bed) error {
	if b.mpich == "" {
		return nil
	}
	launchers := map[string][]string{goshmem: {b.oshrun}, mpich: {"mpiexec.hydra"}}
	for _, n := range mpichRanks {
		times := map[string][]float64{}
		for range startupRuns {
			for who, launcher := range launchers {
				begin := time.Now()
				if _, err := b.output(ctx, runLimit, "", slices.Concat(launcher, []string{"-n", strconv.Itoa(n), b.mpich})...); err != nil {
					return err
				}
				times[who] = append(times[who], time.Since(begin).Seconds()*1e3)
			}
		}
		for who, t := range times {
			b.values.add(who, mpichPrefix+strconv.Itoa(n), median(t))
		}
	}
	return nil
}
