package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// rounds is the group of rounds of a barrier and a sum of 8 bytes, alone and beside busy loops. The loops are in the
// session of this program, like those of a user who starts both in one shell. If the kernel's autogroup is on, it
// gives one weight to the loops, the launchers, and the processes that stay in their session.
func rounds(pes int) group {
	var g group
	g.run = func(ctx context.Context, b *bed) error {
		var errs []error
		for _, loops := range besideLoops {
			if suffix := besideSuffix(loops); b.wanted(&g, func(l *limit) bool { return l.row == roundsRow(pes, suffix) }) {
				errs = append(errs, b.besideLoops(ctx, loops, func() error { return b.roundsOnce(ctx, pes, suffix) }))
			}
		}
		return errors.Join(errs...)
	}
	for _, loops := range besideLoops {
		for _, who := range []string{openMPI, mpich} {
			g.limits = append(g.limits, limit{row: roundsRow(pes, besideSuffix(loops)), peer: who, factor: 1})
		}
	}
	return g
}

// besideLoops are the numbers of busy loops.
var besideLoops = []int{0, 2, 4}

func roundsRow(pes int, suffix string) string { return fmt.Sprintf("%dpe/round%s", pes, suffix) }

func besideSuffix(loops int) string {
	if loops == 0 {
		return ""
	}
	return "/beside" + strconv.Itoa(loops)
}

// roundsOnce measures all contestants.
func (b *bed) roundsOnce(ctx context.Context, pes int, suffix string) error {
	ours := []string{b.oshrun, "-n", strconv.Itoa(pes), b.pe}
	var short []string
	if b.quick {
		ours, short = append(ours, "-batch", "5ms"), []string{"", "1", "5000"}
	}
	errs := []error{b.records(ctx, goshmem, append(ours, "rounds"), suffix)}
	launchers := map[string][]string{
		openMPI: {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"},
		mpich:   {"mpiexec.hydra"},
	}
	for _, p := range b.peers {
		if launcher := launchers[p.name]; launcher != nil && p.missing == "" {
			command := slices.Concat(launcher, []string{"-n", strconv.Itoa(pes), b.roundsOf(p.name)}, short)
			errs = append(errs, b.records(ctx, p.name, command, suffix))
		}
	}
	return errors.Join(errs...)
}

// roundsOf returns a peer's program.
func (b *bed) roundsOf(who string) string {
	if who == mpich {
		return filepath.Join(b.dir, "rounds-mpich")
	}
	return filepath.Join(b.dir, "rounds")
}

// besideLoops calls f beside busy loops. The loops end when f returns, or when this program ends.
func (b *bed) besideLoops(ctx context.Context, loops int, f func() error) (err error) {
	for range loops {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // its error is the kill
		}()
	}
	return f()
}
