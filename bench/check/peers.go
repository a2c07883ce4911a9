package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/internal/envvar"
)

// peer is a contestant other than goshmem.
type peer struct {
	name    string
	version string
	missing string                       // why the peer does not take part; empty if it does
	launch  func(processes int) []string // launcher command, to which the program is appended
	// capability is the peer's name in GOSHMEM_TEST_REQUIRE.
	capability string
}

// findPeers compiles the peers' programs. It marks a peer that is not installed as missing; that is an error if
// GOSHMEM_TEST_REQUIRE names the peer.
func (b *bed) findPeers(ctx context.Context) error {
	return b.findPeersBy(ctx, b.findOSHMEM, b.findOpenMPI, b.findC, b.findMPICH)
}

// findPeersBy is findPeers with some peers.
func (b *bed) findPeersBy(ctx context.Context, finds ...func(context.Context) (peer, error)) error {
	required, err := envvar.Required(os.LookupEnv)
	if err != nil {
		return err
	}
	for _, find := range finds {
		p, err := find(ctx)
		if err != nil {
			return err
		}
		if p.missing != "" && slices.Contains(required, p.capability) {
			return fmt.Errorf("%s: %s, and %s requires %s", p.name, p.missing, envvar.TestRequire, p.capability)
		}
		b.peers = append(b.peers, p)
	}
	return nil
}

// findOSHMEM compiles for Open MPI's OSHMEM. Its launcher is called oshrun like ours, so findOSHMEM uses the one
// beside its compiler.
func (b *bed) findOSHMEM(ctx context.Context) (peer, error) {
	p := peer{name: oshmem, capability: "oshmem"}
	oshcc, err := exec.LookPath("oshcc")
	if err != nil {
		p.missing = "oshcc is not installed"
		return p, nil
	}
	launcher := filepath.Join(filepath.Dir(oshcc), "oshrun")
	version, err := b.output(ctx, runLimit, "", launcher, "--version")
	first, _, _ := strings.Cut(string(version), "\n")
	if err != nil || !strings.Contains(string(version), "open-mpi") {
		p.missing = "no oshrun of Open MPI beside " + oshcc
		return p, nil
	}
	p.version = "OSHMEM, " + first
	p.launch = byOpenMPI(launcher)
	return p, b.compile(ctx, oshcc, "micro", "far", "together", "startup")
}

// byOpenMPI returns the launch function for a launcher of Open MPI.
func byOpenMPI(launcher string) func(processes int) []string {
	return func(n int) []string {
		bind := "none"
		if n <= runtime.NumCPU() {
			bind = "core"
		}
		return []string{
			launcher, "--allow-run-as-root", "--oversubscribe", "--mca", "opal_common_ucx_opal_mem_hooks", "0",
			"--bind-to", bind, "-n", strconv.Itoa(n),
		}
	}
}

// findOpenMPI compiles for Open MPI.
func (b *bed) findOpenMPI(ctx context.Context) (peer, error) {
	p := peer{name: openMPI, capability: "openmpi"}
	for _, name := range []string{"mpicc.openmpi", "mpirun.openmpi"} {
		if _, err := exec.LookPath(name); err != nil {
			p.missing = name + " is not installed"
			return p, nil
		}
	}
	version, err := b.output(ctx, runLimit, "", "mpirun.openmpi", "--version")
	if err != nil {
		return p, err
	}
	p.version, _, _ = strings.Cut(string(version), "\n")
	p.launch = byOpenMPI("mpirun.openmpi")
	return p, b.compile(ctx, "mpicc.openmpi", "messages", "rounds")
}

// findC compiles plain.c and wire.c.
func (b *bed) findC(ctx context.Context) (peer, error) {
	p := peer{name: plainC, capability: "cc"}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		p.missing = "gcc is not installed"
		return p, nil
	}
	version, err := b.output(ctx, runLimit, "", gcc, "-dumpfullversion")
	if err != nil {
		return p, err
	}
	p.version = "gcc " + strings.TrimSpace(string(version)) + " -O3"
	p.launch = func(int) []string { return nil }
	return p, b.compile(ctx, gcc, "plain", "wire")
}

// compile compiles programs from the sources of this module.
func (b *bed) compile(ctx context.Context, compiler string, names ...string) error {
	if err := os.CopyFS(b.dir, bench.Sources); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range names {
		if err := b.compileAs(ctx, compiler, name, name); err != nil {
			return err
		}
	}
	return nil
}

// compileAs compiles a source that compile has copied, under another program name.
func (b *bed) compileAs(ctx context.Context, compiler, name, program string) error {
	fmt.Fprintln(b.log, "check: compiling", name+".c")
	source := filepath.Join(b.dir, "oshmem", name+".c")
	_, err := b.output(ctx, buildLimit, "", compiler, "-O3", "-o", filepath.Join(b.dir, program), source)
	return err
}

// missing returns the cause for each peer that does not take part.
func (b *bed) missing() map[string]string {
	m := map[string]string{}
	for _, p := range b.peers {
		if p.missing != "" {
			m[p.name] = p.missing
		}
	}
	return m
}

// versions describes the peers.
func (b *bed) versions() (all []string) {
	for _, p := range b.peers {
		if p.missing != "" {
			all = append(all, p.name+": "+p.missing)
		} else {
			all = append(all, p.version)
		}
	}
	if len(all) == 0 {
		all = []string{"none was asked for"}
	}
	return all
}
