package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// findOpenMPIRows compiles mpirows.c for Open MPI. Ranks that share processors yield while they wait: otherwise each one
// keeps its processor for a time slice.
func (b *bed) findOpenMPIRows(ctx context.Context) (peer, error) {
	p := peer{name: openMPI, capability: "openmpi"}
	version, err := b.findRows(ctx, &p, "mpicc.openmpi", "mpirun.openmpi", "mpirun.openmpi")
	p.version, _, _ = strings.Cut(version, "\n")
	byLauncher := byOpenMPI("mpirun.openmpi")
	p.launch = func(n int) []string {
		command := byLauncher(n)
		if n > runtime.NumCPU() {
			command = slices.Insert(command, 1, "--mca", "mpi_yield_when_idle", "1")
		}
		return command
	}
	return p, err
}

// findMPICHRows compiles mpirows.c for MPICH.
func (b *bed) findMPICHRows(ctx context.Context) (peer, error) {
	p := peer{name: mpich, capability: "mpich"}
	version, err := b.findRows(ctx, &p, "mpicc.mpich", "mpiexec.hydra", "mpichversion")
	p.version = strings.Join(strings.Fields(version), " ")
	p.launch = func(n int) []string {
		command := []string{"mpiexec.hydra", "-n", strconv.Itoa(n)}
		if n <= runtime.NumCPU() {
			command = append(command, "-bind-to", "core")
		}
		return command
	}
	return p, err
}

// findRows compiles mpirows.c for a peer, and returns what the peer says of its version.
func (b *bed) findRows(ctx context.Context, p *peer, compiler, launcher, teller string) (version string, err error) {
	for _, name := range []string{compiler, launcher, teller} {
		if _, err := exec.LookPath(name); err != nil {
			p.missing = name + " is not installed"
			return "", nil
		}
	}
	told, err := b.output(ctx, runLimit, "", teller, "--version")
	if err != nil {
		return "", err
	}
	if err := b.compile(ctx, compiler); err != nil { // copies the sources
		return "", err
	}
	return string(told), b.compileAs(ctx, compiler, "mpirows", filepath.Base(b.rowsOf(p.name)))
}

// rowsOf returns the path of a peer's program.
func (b *bed) rowsOf(who string) string {
	return filepath.Join(b.dir, "mpirows-"+strings.ReplaceAll(strings.ToLower(who), " ", ""))
}
