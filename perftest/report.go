package perftest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Row has the figures of one test and size, as --json writes them.
type Row struct {
	Test       string  `json:"test"`
	Op         string  `json:"op,omitempty"` // atomic operation
	Bytes      int     `json:"bytes,omitempty"`
	Iterations int     `json:"iterations"`
	AvgUS      float64 `json:"avg_us"` // of one operation; in tests of bandwidth and rate, of one message
	MinUS      float64 `json:"min_us,omitempty"`
	MaxUS      float64 `json:"max_us,omitempty"`
	MBPerS     float64 `json:"mb_per_s,omitempty"` // 10^6 bytes
	PerS       float64 `json:"per_s,omitempty"`    // messages or operations
}

// Report is what --json writes.
type Report struct {
	Program string `json:"program"`
	Version int    `json:"version"` // of this format
	PEs     int    `json:"pes"`
	Nodes   int    `json:"nodes"`
	Far     bool   `json:"far"` // the PEs of a pair are on different nodes
	Rows    []Row  `json:"rows"`
}

const (
	programName   = "goshmem bench"
	reportVersion = 1
)

// key names a row in a comparison.
type key struct {
	test, op string
	bytes    int
}

func (r *Row) key() key { return key{r.Test, r.Op, r.Bytes} }

// column is one column of a table.
type column struct {
	head  string
	width int // negative: the text stands to the left
	text  func(r *Row) string
}

// fixed returns the text of a figure with a number of decimals.
func fixed(decimals int, f func(r *Row) float64) func(r *Row) string {
	return func(r *Row) string { return strconv.FormatFloat(f(r), 'f', decimals, 64) }
}

var (
	size      = column{"Size", -12, func(r *Row) string { return strconv.Itoa(r.Bytes) }}
	operation = column{"Operation", -22, func(r *Row) string { return r.Op }}
	latency   = column{"Latency (us)", 16, fixed(3, func(r *Row) float64 { return r.AvgUS })}
	bandwidth = column{"Bandwidth (MB/s)", 20, fixed(2, func(r *Row) float64 { return r.MBPerS })}
	rate      = column{"Messages/s", 20, fixed(2, func(r *Row) float64 { return r.PerS })}
	millions  = column{"Million ops/s", 18, fixed(2, func(r *Row) float64 { return r.PerS / 1e6 })}
)

// sized returns the columns of a test over sizes.
func sized(c ...column) []column { return append([]column{size}, c...) }

// spread returns the columns of tests in which each PE has a latency of its own.
func spread() []column {
	return []column{
		{"Avg Latency(us)", 18, latency.text},
		{"Min Latency(us)", 18, fixed(3, func(r *Row) float64 { return r.MinUS })},
		{"Max Latency(us)", 18, fixed(3, func(r *Row) float64 { return r.MaxUS })},
		{"Iterations", 13, func(r *Row) string { return strconv.Itoa(r.Iterations) }},
	}
}

// table prints the rows of a test as they come.
type table struct {
	out    io.Writer   // nil: no tables
	before map[key]Row // figures to put beside; nil: none
}

// heading prints the heading of a test's table, after an empty line if another table precedes it.
func (t *table) heading(x *test, pes int, far, isNext bool) error {
	if t.out == nil {
		return nil
	}
	var line strings.Builder
	if isNext {
		line.WriteByte('\n')
	}
	fmt.Fprintf(&line, "# goshmem %s Test, %d PEs", x.title, pes)
	if far && x.pes > 1 {
		line.WriteString(", pairs on different nodes")
	}
	line.WriteString("\n# ")
	for i, c := range x.cols {
		width := c.width
		if i == 0 && width < 0 {
			width += 2 // for the "# "
		}
		fmt.Fprintf(&line, "%*s", width, c.head)
	}
	if t.before != nil {
		fmt.Fprintf(&line, "%16s%12s", "Before (us)", "Time ratio")
	}
	_, err := fmt.Fprintln(t.out, line.String())
	return err
}

// row prints a row of a test's table.
func (t *table) row(x *test, r *Row) error {
	if t.out == nil {
		return nil
	}
	var line strings.Builder
	for _, c := range x.cols {
		fmt.Fprintf(&line, "%*s", c.width, c.text(r))
	}
	if t.before != nil {
		old, ratio := "-", "-"
		if b, ok := t.before[r.key()]; ok && b.AvgUS > 0 {
			old, ratio = latency.text(&b), strconv.FormatFloat(r.AvgUS/b.AvgUS, 'f', 3, 64)
		}
		fmt.Fprintf(&line, "%16s%12s", old, ratio)
	}
	_, err := fmt.Fprintln(t.out, line.String())
	return err
}

// output is where PE 0's figures go: to a table as they come, and to a report at the end. On other
// PEs it is empty.
type output struct {
	table  table
	report Report
	file   io.WriteCloser // what the report is written to; nil: no report
}

// nopCloser keeps standard output open.
type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }

// openOutput opens all that PE 0 will read and write, before anything is measured in vain.
func openOutput(o Options, pes, nodes int, stdout io.Writer) (out output, err error) {
	out.report = Report{Program: programName, Version: reportVersion, PEs: pes, Nodes: nodes, Far: o.Far, Rows: []Row{}}
	out.table.out = stdout
	if o.Compare != "" {
		if out.table.before, err = readReport(o.Compare); err != nil {
			return out, err
		}
	}
	switch o.JSON {
	case "":
		return out, nil
	case "-":
		out.table.out, out.file = nil, nopCloser{stdout}
		return out, nil
	}
	f, err := os.Create(o.JSON)
	if err != nil {
		return out, fmt.Errorf("--json: %w", err)
	}
	out.file = f
	return out, nil
}

// add adds a row to the table and the report.
func (w *output) add(x *test, r *Row) error {
	w.report.Rows = append(w.report.Rows, *r)
	return w.table.row(x, r)
}

// writeReport writes the report, if one is wanted, and closes its file.
func (w *output) writeReport() error {
	if w.file == nil {
		return nil
	}
	return w.report.write(w.file)
}

// readReport reads the figures of --compare.
func readReport(name string) (map[key]Row, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("--compare: %s: %w, want a file that bench --json wrote", name, err)
	}
	if r.Program != programName || r.Version != reportVersion {
		return nil, fmt.Errorf("--compare: %s: program %q, version %d, want %q, version %d", name, r.Program, r.Version, programName, reportVersion)
	}
	rows := map[key]Row{}
	for _, x := range r.Rows {
		rows[x.key()] = x
	}
	return rows, nil
}

// write writes the report and closes the file.
func (r *Report) write(out io.WriteCloser) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	err := enc.Encode(r)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}
