package noise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/perftest"
)

// Figure is something that a run has measured; less is better.
type Figure struct {
	Name  string // unique in a run
	Test  string // what it belongs to
	Bytes int    // size of a message; 0: there is none
	Unit  string
	Value float64

	aside bool // no part of the mean of all figures
}

// program is a built-in one that measures itself.
type program struct {
	flags []string // that make it print its figures
	read  func(out []byte) ([]Figure, error)
}

var programs = map[string]*program{
	"bench":    {flags: []string{"--json", "-"}, read: readBench},
	"graph500": {flags: []string{"--json", "/dev/stdout"}, read: readGraph500},
}

// own is how the program measures itself, nil if it does not.
func (o *Options) own() *program { return programs[o.Program[0]] }

// output is what a run writes to standard output.
type output struct{ bytes.Buffer }

// readBench reads what bench --json writes.
func readBench(out []byte) ([]Figure, error) {
	var r perftest.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("its figures: %w", err)
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("no figures")
	}
	var figures []Figure
	for _, row := range r.Rows {
		f := Figure{Name: row.Test, Test: row.Test, Bytes: row.Bytes, Unit: "us", Value: row.AvgUS}
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

// readGraph500 reads the report of graph500, which follows its lines: the times
// of the paper's figures, of searching and of validating, and of construction.
func readGraph500(out []byte) ([]Figure, error) {
	begin := bytes.Index(out, []byte("\n{"))
	if begin < 0 {
		return nil, errors.New("no figures")
	}
	var r struct {
		Construction float64 `json:"construction_s"`
		Search       float64 `json:"bfs_mean_time"`
		Validate     float64 `json:"bfs_mean_validate"`
	}
	if err := json.Unmarshal(out[begin:], &r); err != nil {
		return nil, fmt.Errorf("its figures: %w", err)
	}
	figures := []Figure{
		{Name: "construction", Test: "construction", Unit: "s", Value: r.Construction},
		{Name: "search", Test: "search", Unit: "s", Value: r.Search},
	}
	if r.Validate > 0 { // not with --validate none
		figures = append(figures, Figure{Name: "validation", Test: "validation", Unit: "s", Value: r.Validate})
	}
	return figures, nil
}
