package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	barWidth    = 40                     // characters of a full bar
	barInterval = 100 * time.Millisecond // between two drawings of a bar
)

// progressBars returns a Progress that draws a bar for each phase on a terminal.
// The bar of a phase is drawn at its first and last call, and at most every
// barInterval between them.
func progressBars(w io.Writer, now func() time.Time) graph500.Progress {
	var phase string
	var drawn time.Time
	return func(of string, done, total int) {
		at := now()
		if of == phase && done < total && at.Sub(drawn) < barInterval {
			return
		}
		phase, drawn = of, at
		full := barWidth * done / max(1, total)
		fmt.Fprintf(w, "\r%-14s %3d%% |%s%s| (%d/%d)", phase, 100*done/max(1, total),
			strings.Repeat("█", full), strings.Repeat(" ", barWidth-full), done, total)
		if done == total {
			fmt.Fprintln(w)
		}
	}
}

// showProgress returns a function that counts on a terminal, nil if there is none.
func showProgress(cmd *cobra.Command, what string) func(done, all int) {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !xunix.IsTerminal(f.Fd()) {
		return nil
	}
	return func(done, all int) {
		fmt.Fprintf(f, "\r%d of %d %s", done, all, what)
		if done == all {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}
