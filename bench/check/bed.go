package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/bench"
)

// Nothing takes longer than this unless it hangs.
const (
	buildLimit = 5 * time.Minute
	runLimit   = 5 * time.Minute
)

// bed is where everything is built and run.
type bed struct {
	dir    string // for programs and reports, removed at the end
	root   string // of the parent module
	quick  bool
	log    io.Writer
	oshrun string // ours
	peers  []peer
	mpich  string // a program of MPICH; empty: there is none
	values values
}

// isGraph, isTest and isRow tell which programs a row needs.
func isGraph(row string) bool { return strings.HasPrefix(row, "graph500/") }
func isTest(row string) bool  { return row == rowAllocations }
func isRow(row string) bool {
	return !isGraph(row) && !isTest(row) && !isOutput(row) && !isStartup(row) && !isMPICH(row)
}

// wanted says whether a row of a kind is asked for.
func wanted(rows *regexp.Regexp, kind func(string) bool) bool {
	return slices.ContainsFunc(limits, func(l limit) bool { return kind(l.row) && rows.MatchString(l.row) })
}

// build builds our programs and finds or builds the peers'.
func (b *bed) build(ctx context.Context, rows *regexp.Regexp) error {
	root, err := b.output(ctx, buildLimit, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/goshmem/goshmem")
	if err != nil {
		return err
	}
	b.root = strings.TrimSpace(string(root))
	b.oshrun = filepath.Join(b.dir, "goshmem-oshrun")
	for _, x := range []struct{ dir, to, pkg string }{
		{b.root, b.oshrun, "./cmd/oshrun"},
		{"", filepath.Join(b.dir, "pe"), "github.com/goshmem/goshmem/bench/cmd/pe"},
	} {
		fmt.Fprintln(b.log, "check: building", x.pkg)
		if _, err := b.output(ctx, buildLimit, x.dir, "go", "build", "-trimpath", "-o", x.to, x.pkg); err != nil {
			return err
		}
	}
	if wanted(rows, isRow) || wanted(rows, isStartup) || wanted(rows, isMPICH) {
		return b.findPeers(ctx)
	}
	return nil
}

// measure runs all contestants by turns.
func (b *bed) measure(ctx context.Context, rounds int, rows *regexp.Regexp) error {
	if wanted(rows, isTest) {
		if err := b.allocations(ctx); err != nil {
			return err
		}
	}
	for i := range rounds {
		fmt.Fprintf(b.log, "check: round %d of %d\n", i+1, rounds)
		if wanted(rows, isRow) {
			if err := b.round(ctx); err != nil {
				return err
			}
		}
		if wanted(rows, isOutput) {
			if err := b.floods(ctx); err != nil {
				return err
			}
		}
		if wanted(rows, isStartup) {
			if err := b.startups(ctx); err != nil {
				return err
			}
		}
		if wanted(rows, isMPICH) {
			if err := b.mpichJobs(ctx); err != nil {
				return err
			}
		}
		if wanted(rows, isGraph) && i < graphRounds {
			if err := b.graph500(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// round runs goshmem and then each peer once.
func (b *bed) round(ctx context.Context) error {
	ours := []string{b.oshrun, "-n", "2", filepath.Join(b.dir, "pe")}
	if b.quick {
		ours = append(ours, "-batches", "3", "-batch", "50us")
	}
	if err := b.records(ctx, goshmem, ours); err != nil {
		return err
	}
	for _, p := range b.peers {
		if p.missing != "" || p.command == nil {
			continue
		}
		command := p.command
		if b.quick {
			command = append(slices.Clone(command), "3", "50")
		}
		if err := b.records(ctx, p.name, command); err != nil {
			return err
		}
	}
	return nil
}

// records runs a program and keeps what it measured.
func (b *bed) records(ctx context.Context, who string, command []string) error {
	out, err := b.output(ctx, runLimit, "", command...)
	if err != nil {
		return err
	}
	all, err := bench.Read(bytes.NewReader(out))
	if err != nil {
		return fmt.Errorf("output of %s: %w", strings.Join(command, " "), err)
	}
	for _, r := range all {
		b.values.add(who, r.Row(), r.Nanos)
	}
	return nil
}

// allocations runs the test that no call on a data path allocates.
func (b *bed) allocations(ctx context.Context) error {
	_, err := b.output(ctx, runLimit, b.root, "go", "test", "-count=1", "-run", "^TestNoAllocations$", "./shmem")
	var failed *exec.ExitError
	switch {
	case err == nil:
		b.values.add(goshmem, rowAllocations, 0)
	case errors.As(err, &failed):
		fmt.Fprintln(b.log, "check:", err)
		b.values.add(goshmem, rowAllocations, 1)
	default:
		return err
	}
	return nil
}

// output runs a command and returns what it prints; an error carries its
// messages.
func (b *bed) output(ctx context.Context, limit time.Duration, dir string, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a launcher ends its processes
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

// tail returns the end of an output, where the cause usually stands.
func tail(text []byte) []byte {
	const most = 2000
	if len(text) > most {
		return append([]byte("...\n"), text[len(text)-most:]...)
	}
	return text
}
