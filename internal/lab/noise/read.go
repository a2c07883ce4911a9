package noise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/perftest"
)

// Figure is one measurement of a run. Less is better.
type Figure struct {
	Name  string // unique in a run
	Test  string // the test that the figure belongs to
	Bytes int    // size of a message; 0: the figure has no size
	Unit  string
	Value float64
	Worst float64 // the maximum over PEs; 0: Value is of one PE, or there is none

	aside bool // the figure is not part of the mean of all figures
}

// worst returns the value that the paper's maxima are of.
func (f *Figure) worst() float64 { return max(f.Worst, f.Value) }

// program is a built-in program that measures itself.
type program struct {
	flags []string                           // flags that make it print its figures
	read  func(out []byte) ([]Figure, error) // parses its output
}

var programs = map[string]*program{
	"bench":    {flags: []string{"--json", "-"}, read: readBench},
	"graph500": {flags: []string{"--json", "/dev/stdout"}, read: readGraph500},
}

// builtin returns the built-in program that is measured, or nil if it is another program.
func (o *Options) builtin() *program { return programs[o.Program[0]] }

// output collects the standard output of a run.
type output struct{ bytes.Buffer }

// readBench parses the output of bench --json.
func readBench(out []byte) ([]Figure, error) {
	var r perftest.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("parse the report: %w", err)
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("the report has no figures, want at least one row")
	}
	var figures []Figure
	for _, row := range r.Rows {
		f := Figure{Name: row.Test, Test: row.Test, Bytes: row.Bytes, Unit: "us", Value: row.AvgUS, Worst: row.MaxUS}
		if row.Op != "" {
			f.Name += " " + row.Op
		}
		if row.Bytes > 0 {
			f.Name += " " + plot.Power(float64(row.Bytes))
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// readGraph500 parses the report of graph500, which follows its lines of text. It returns the times of
// construction, search and validation; the paper's figures have the last two.
func readGraph500(out []byte) ([]Figure, error) {
	begin := bytes.Index(out, []byte("\n{"))
	if begin < 0 {
		return nil, errors.New("the output has no JSON report")
	}
	var r struct {
		Construction float64 `json:"construction_s"`
		Search       float64 `json:"bfs_mean_time"`
		Validate     float64 `json:"bfs_mean_validate"`
	}
	if err := json.Unmarshal(out[begin:], &r); err != nil {
		return nil, fmt.Errorf("parse the report: %w", err)
	}
	figures := []Figure{
		{Name: "construction", Test: "construction", Unit: "s", Value: r.Construction},
		{Name: "search", Test: "search", Unit: "s", Value: r.Search},
	}
	if r.Validate > 0 { // 0 with --validate none
		figures = append(figures, Figure{Name: "validation", Test: "validation", Unit: "s", Value: r.Validate})
	}
	return figures, nil
}
