package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
)

// statusError is an error that stands for an exit status of its own. Without a
// cause there is nothing to be said about it.
type statusError struct {
	status int
	err    error
}

// Error returns the cause.
func (e *statusError) Error() string {
	if e.err == nil {
		return "exit status " + strconv.Itoa(e.status)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.err }

// addJSONFlag gives a command the flag --json.
func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON instead of a table")
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: argument %q, want none", cmd.Name(), args[0])
	}
	return nil
}

// emit writes all that a command has to say. It is built in memory and written
// at once, because a full disk must not look like success.
func emit(cmd *cobra.Command, text []byte) error {
	if _, err := cmd.OutOrStdout().Write(text); err != nil {
		return &statusError{status: launch.StatusError, err: fmt.Errorf("%s: write output: %w", cmd.Name(), err)}
	}
	return nil
}

// emitJSON writes v indented, for people look at it too.
func emitJSON(cmd *cobra.Command, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return emit(cmd, b.Bytes())
}

// tabulate appends rows to b with their columns aligned.
func tabulate(b *bytes.Buffer, rows [][]string) {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = visible(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	// Empty cells at the end of a row are padded like all others.
	for line := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// visible quotes a text that would break the lines or columns of a table: the value
// of an environment variable may be any text.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
