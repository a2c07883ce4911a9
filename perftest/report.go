package perftest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Row is the figures of one test and size, as --json writes them.
type Row struct {
	Test       string  `json:"test"`
	Op         string  `json:"op,omitempty"` // of atomics
	Bytes      int     `json:"bytes,omitempty"`
	Iterations int     `json:"iterations"`
	AvgUS      float64 `json:"avg_us"` // of one operation; in bandwidth and rate, of one message
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
	width int // negative: to the left
	text  func(r *Row) string
}

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

func sized(c ...column) []column { return append([]column{size}, c...) }

// spread are the columns of tests in which every PE has a latency of its own.
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
	out    io.Writer // nil: no tables
	before map[key]Row
}

func (t *table) heading(x *test, pes int) error {
	if t.out == nil {
		return nil
	}
	var line strings.Builder
	fmt.Fprintf(&line, "# goshmem %s Test, %d PEs\n# ", x.title, pes)
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

// readReport reads the figures to compare with.
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
