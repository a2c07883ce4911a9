// Package bench has the common parts of this module's programs: the format of a measurement, and the sources of the
// peers' programs.
//
//	cmd/pe         measures goshmem; oshrun starts it as a job
//	cmd/mpirows    measures messages and collectives of package mpi, for check mpi
//	cmd/startup    joins a job and leaves it, to time both
//	cmd/flood      writes lines, to time output through oshrun
//	oshmem         the same measurements in C for OSHMEM, and a lower limit in plain C
//	check          runs those above in alternation and compares with the promised figures
//	cmd/swimbench  measures how soon members of a SWIM group know of a death
package bench

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
)

// Sources holds the programs in C and their header. They are compiled when needed.
//
//go:embed oshmem
var Sources embed.FS

// Record is one measurement, a line of JSON on the standard output of a
// program. A program reports each row once.
type Record struct {
	Name  string  `json:"name"`
	PEs   int     `json:"pes"`   // number of PEs that take part; 0: implied by the name
	Bytes int     `json:"bytes"` // bytes that one operation moves; 0: no data
	Nanos float64 `json:"ns_per_op"`
	Least float64 `json:"least_ns,omitempty"` // of the shortest batch, where it is measured
	As    string  `json:"as,omitempty"`       // contestant that the record counts for; empty: the program
}

// The contestants within a program: the same collective on a strict team, and a reduction of one element on a
// strict team.
const (
	Strict    = "strict"
	Allreduce = "allreduce"
	Barrier   = "barrier"
)

// Row names the measurement in tables: "put/8", "4pe/barrier".
func (r Record) Row() string {
	row := r.Name
	if r.PEs > 0 {
		row = fmt.Sprintf("%dpe/%s", r.PEs, row)
	}
	if r.Bytes > 0 {
		row = fmt.Sprintf("%s/%d", row, r.Bytes)
	}
	return row
}

// Read returns all records of a program's output.
func Read(r io.Reader) (all []Record, err error) {
	dec := json.NewDecoder(r)
	for {
		var x Record
		switch err := dec.Decode(&x); {
		case err == io.EOF: //nolint:errorlint // Decode promises it as it is
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("record %d: %w", len(all)+1, err)
		case x.Name == "" || x.Nanos <= 0:
			return nil, fmt.Errorf("record %d: %+v, want a name and a positive time", len(all)+1, x)
		}
		all = append(all, x)
	}
}
