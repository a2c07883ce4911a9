package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/bench"
)

// Limits of one command. A command that takes longer hangs.
const (
	buildLimit = 5 * time.Minute
	runLimit   = 5 * time.Minute
)

// bed builds and runs all programs, and holds their values.
type bed struct {
	dir     string         // folder for programs and reports, removed at the end
	root    string         // folder of the parent module
	bench   string         // folder of the bench module; empty: the working folder
	pes     []string       // paths of goshmem's program of PEs, in each order of linking
	pe      string         // the one of pes that this round runs
	layouts int            // number of random orders of linking; 0: the linker's own order
	rows    *regexp.Regexp // rows to measure
	rounds  int
	quick   bool
	log     io.Writer
	oshrun  string // path of goshmem's oshrun
	binds   bool   // oshrun has --bind-to
	peers   []peer
	mpich   string // path of the MPICH program; empty: MPICH is missing
	values  values
}

// wanted says whether --rows selects a row of the group for which test is true.
func (b *bed) wanted(g *group, test func(*limit) bool) bool {
	return slices.ContainsFunc(g.limits, func(l limit) bool { return b.rows.MatchString(l.row) && test(&l) })
}

func anyRow(*limit) bool { return true }

// build builds goshmem's programs, and the peers' programs if a selected row compares with a peer.
func (b *bed) build(ctx context.Context) error {
	if err := b.buildOurs(ctx); err != nil {
		return err
	}
	for i := range max(b.layouts, 1) {
		to, flags := filepath.Join(b.dir, "pe"), ""
		if b.layouts > 0 {
			to, flags = fmt.Sprintf("%s-%d", to, i+1), fmt.Sprintf("-randlayout=%d", i+1)
		}
		if err := b.goBuild(ctx, b.bench, to, benchCommands+"pe", flags); err != nil {
			return err
		}
		b.pes = append(b.pes, to)
	}
	if b.layouts > 0 {
		return nil // peers take no part in a comparison of two versions
	}
	compared := func(g group) bool { return b.wanted(&g, (*limit).foreign) }
	if slices.ContainsFunc(groups, compared) {
		return b.findPeers(ctx)
	}
	return nil
}

// buildOurs builds oshrun.
func (b *bed) buildOurs(ctx context.Context) error {
	root, err := b.output(ctx, buildLimit, b.bench, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/goshmem/goshmem")
	if err != nil {
		return err
	}
	b.root = strings.TrimSpace(string(root))
	b.oshrun = filepath.Join(b.dir, "goshmem-oshrun")
	if err := b.goBuild(ctx, b.root, b.oshrun, "./cmd/oshrun", ""); err != nil {
		return err
	}
	help, err := b.output(ctx, runLimit, "", b.oshrun, "--help")
	if err != nil {
		return err
	}
	b.binds = bytes.Contains(help, []byte("--bind-to"))
	return nil
}

// measure runs all groups in each round, so that the contestants alternate.
func (b *bed) measure(ctx context.Context) error {
	for i := range b.rounds {
		fmt.Fprintf(b.log, "check: round %d of %d\n", i+1, b.rounds)
		for _, g := range groups {
			if err := b.round(ctx, &g, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// round runs a group in round i, if it takes part there. In a comparison of two versions each group takes part in all rounds.
func (b *bed) round(ctx context.Context, g *group, i int) error {
	if !b.wanted(g, anyRow) || g.rounds > 0 && b.layouts == 0 && i >= g.rounds {
		return nil
	}
	b.pe = b.pes[i%len(b.pes)]
	return g.run(ctx, b)
}

// benchCommands is the import path of the folder with the commands of this module.
const benchCommands = "github.com/goshmem/goshmem/bench/cmd/"

// goBuild builds a program in the folder of its module.
func (b *bed) goBuild(ctx context.Context, dir, to, pkg, flags string) error {
	fmt.Fprintln(b.log, "check: building", pkg)
	_, err := b.output(ctx, buildLimit, dir, "go", "build", "-trimpath", "-ldflags="+flags, "-o", to, pkg)
	return err
}

// buildOnce builds a command of this module if that was not done before, and returns its path.
func (b *bed) buildOnce(ctx context.Context, name string) (string, error) {
	to := filepath.Join(b.dir, "pe-"+name)
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	return to, b.goBuild(ctx, b.bench, to, benchCommands+name, "")
}

// ours returns the command that measures goshmem's rows with a number of PEs.
func (b *bed) ours(pes int, rows, part string) []string {
	command := []string{b.oshrun, "-n", strconv.Itoa(pes)}
	if pes <= runtime.NumCPU() && b.binds {
		command = append(command, "--bind-to", "core")
	}
	return append(command, b.program(rows, part)...)
}

// program returns goshmem's program of PEs with its arguments.
func (b *bed) program(rows, part string) []string {
	command := []string{b.pe, "-rows", rows}
	switch {
	case b.quick:
		command = append(command, "-batches", "3", "-batch", "50us")
	case b.layouts > 0:
		command = append(command, "-batches", batches)
	}
	return append(command, part)
}

// beside runs a program of a peer with a number of processes, if the peer takes part.
func (b *bed) beside(ctx context.Context, who string, processes int, program string) error {
	return b.rowsBeside(ctx, who, processes, program, b.rows.String())
}

// theirs is beside for a peer whose rows have other names. It runs the rows that the selected rows of the group are
// compared with.
func (b *bed) theirs(ctx context.Context, g *group, who string, processes int, program string) error {
	var names []string
	for _, l := range g.limits {
		if l.peer == who && b.rows.MatchString(l.row) {
			names = append(names, cmp.Or(l.theirs, l.row))
		}
	}
	if names == nil {
		return nil
	}
	return b.rowsBeside(ctx, who, processes, program, "^("+strings.Join(names, "|")+")$")
}

func (b *bed) rowsBeside(ctx context.Context, who string, processes int, program, rows string) error {
	for _, p := range b.peers {
		if p.name != who || p.missing != "" {
			continue
		}
		command := append(p.launch(processes), filepath.Join(b.dir, program), rows)
		if b.quick {
			command = append(command, "3", "50")
		}
		return b.records(ctx, who, command, "")
	}
	return nil
}

// records runs a program and adds its records to the values, with the suffix appended to their row names.
func (b *bed) records(ctx context.Context, who string, command []string, suffix string) error {
	out, err := b.output(ctx, runLimit, "", command...)
	if err != nil {
		return err
	}
	all, err := bench.Read(bytes.NewReader(out))
	if err != nil {
		return fmt.Errorf("output of %s: %w", strings.Join(command, " "), err)
	}
	for _, r := range all {
		b.values.add(cmp.Or(r.As, who), r.Row()+suffix, r.Nanos)
	}
	return nil
}

// output runs a command and returns its standard output. The error contains the end of its output.
func (b *bed) output(ctx context.Context, limit time.Duration, dir string, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a launcher then ends its processes
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, tail(stdout.Bytes()), tail(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// tail returns the end of an output, which usually has the cause.
func tail(text []byte) []byte {
	const most = 2000
	if len(text) > most {
		return append([]byte("...\n"), text[len(text)-most:]...)
	}
	return text
}
