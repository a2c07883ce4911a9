package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// What the commands that measure by running jobs have in common.

// tiers are the values of --watchdog that are one, from the best to the last.
var tiers = slices.DeleteFunc(slices.Clone(watchdogWords), func(w string) bool { return w == watchdogOff })

// interruption is why an experiment ended early.
type interruption struct{ signal syscall.Signal }

// Error names the signal.
func (i *interruption) Error() string {
	return fmt.Sprintf("interrupted by signal %d (%s); no figures", int(i.signal), xunix.SignalName(i.signal))
}

// interruptible returns a context that ends with the first signal that asks this
// process to end. Jobs that run in it are ended by their own oshrun.
func interruptible(cmd *cobra.Command) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(&interruption{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// failed is the error of an experiment that came to no result. Its exit status is
// that of the signal that ended it, or of the run that failed.
func failed(name string, err error) error {
	status := rerun.StatusOf(err, launch.StatusError)
	if i, ok := errors.AsType[*interruption](err); ok {
		status = launch.StatusSignal + int(i.signal)
	}
	return &statusError{status: status, err: fmt.Errorf("%s: %w", name, err)}
}

// seedOf returns the seed that was asked for, or a new one.
func seedOf(cmd *cobra.Command, seed uint64) uint64 {
	if cmd.Flags().Changed("seed") {
		return seed
	}
	return rand.Uint64() >> 32 // short enough to be typed
}

// checkPlots refuses files that cannot be drawn into before anything was measured
// for them.
func checkPlots(flag string, files []string) error {
	for _, file := range files {
		if !plot.Knows(file) {
			return fmt.Errorf("%s: %q, want a name that ends in .svg", flag, file)
		}
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// drawPlots draws a figure into each of the files.
func drawPlots(flag string, f *plot.Figure, files []string) error {
	for _, file := range files {
		if err := f.Write(file); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}
