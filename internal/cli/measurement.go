package cli

import (
	"bytes"
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

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// What the commands that measure by running jobs have in common.

// measurement is one run of such a command. Its report has the type R.
type measurement[R any] struct {
	counts  string       // what the progress counts: "jobs"
	check   func() error // checks the options
	plots   []plotFlag[R]
	asJSON  bool
	measure func(ctx context.Context, progress func(done, all int)) (R, error)
	table   func(R) []byte
	// failures returns what the report shows to be wrong, or nil. A *statusError is returned to the user as it is.
	failures func(R) error
}

// plotFlag is a flag whose values are files that a picture of the report is drawn into.
type plotFlag[R any] struct {
	flag    string // with its dashes
	files   []string
	picture func(R) *plot.Figure
}

// run checks all options, measures, prints the report and draws the pictures. The report is printed before the pictures
// are drawn: a picture that cannot be written must not take a long measurement with it.
func (m *measurement[R]) run(cmd *cobra.Command) error {
	err := m.check()
	for i := 0; err == nil && i < len(m.plots); i++ {
		err = checkPlots(m.plots[i].flag, m.plots[i].files)
	}
	if err != nil {
		return &usageError{err: err, hint: "oshrun " + cmd.Name() + " --help"}
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	r, err := m.measure(ctx, showProgress(cmd, m.counts))
	if err != nil {
		return failed(cmd.Name(), err)
	}
	return measure.FirstError(m.print(cmd, r), statusOf(cmd.Name(), m.draw(r)), statusOf(cmd.Name(), m.failures(r)))
}

// print prints the report as JSON or as a table.
func (m *measurement[R]) print(cmd *cobra.Command, r R) error {
	if m.asJSON {
		return emitJSON(cmd, r)
	}
	return emit(cmd, m.table(r))
}

// draw draws the pictures whose flags have files.
func (m *measurement[R]) draw(r R) error {
	for _, p := range m.plots {
		if len(p.files) == 0 {
			continue
		}
		if err := drawPlots(p.flag, p.picture(r), p.files); err != nil {
			return err
		}
	}
	return nil
}

// statusOf gives an error the exit status of a measurement that found something wrong, unless it has a status. It
// returns nil for nil.
func statusOf(name string, err error) error {
	if _, ok := errors.AsType[*statusError](err); ok || err == nil {
		return err
	}
	return &statusError{status: launch.StatusError, err: fmt.Errorf("%s: %w", name, err)}
}

// helpRows returns the lines of a help text that explain names.
func helpRows[T any](all []T, explain func(*T) (name, about string)) string {
	var b bytes.Buffer
	var rows [][]string
	for i := range all {
		name, about := explain(&all[i])
		rows = append(rows, []string{"  " + name, about})
	}
	tabulate(&b, rows)
	return b.String()
}

// tiers are the values of --watchdog that name a tier, the best one first.
var tiers = slices.DeleteFunc(slices.Clone(watchdogWords), func(w string) bool { return w == watchdogOff })

// interruption is the cause of a measurement's early end: a signal.
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

// failed returns the error of a measurement without a result. Its exit status is
// that of the signal that ended the measurement, or of the run that failed.
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

// checkPlots returns an error if a picture cannot be written to one of the files. A
// command calls it before it measures.
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
