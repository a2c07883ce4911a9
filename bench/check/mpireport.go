package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mpiReport is the result of check mpi.
type mpiReport struct {
	Command string   `json:"command"`
	Machine state    `json:"machine"`
	Rounds  int      `json:"rounds"`
	Peers   []string `json:"peers"`
	Rows    []mpiRow `json:"rows"`
}

// mpiRow is a row of one kind of memory, beside the peers.
type mpiRow struct {
	Row        string             `json:"row"`
	Memory     string             `json:"memory"`
	Unit       string             `json:"unit"`
	Operations int                `json:"operations"` // of a batch
	Batches    int                `json:"batches"`
	Sides      map[string]mpiSide `json:"sides"`  // goshmem and the peers that take part
	Ratios     map[string]float64 `json:"ratios"` // times of goshmem divided by those of each peer: median of the rounds' ratios
}

// mpiSide is what a side has measured.
type mpiSide struct {
	sample             // in the row's unit
	Best     float64   `json:"best"`     // by the shortest batch
	Nanos    []float64 `json:"nanos"`    // median of the batches in each round; 0: the job has failed
	Shortest []float64 `json:"shortest"` // batch in each round
}

// rows returns the rows of the report.
func (m *mpiBed) rows() (all []mpiRow) {
	for _, c := range m.cells {
		for _, memory := range m.o.memory {
			if memory == memorySymmetric && c.bytes == 0 {
				continue // it moves no data
			}
			all = append(all, m.rowOf(c, memory))
		}
	}
	return all
}

func (m *mpiBed) rowOf(c cell, memory string) mpiRow {
	unit, convert := c.unit()
	r := mpiRow{Row: c.row(), Memory: memory, Unit: unit, Operations: c.n, Batches: c.batches, Sides: map[string]mpiSide{}, Ratios: map[string]float64{}}
	ours := m.values[side{who: goshmem, memory: memory}.name()][r.Row]
	for _, s := range m.sides {
		if s.who == goshmem && s.memory != memory {
			continue
		}
		var x mpiSide
		var converted, shortest, ratios []float64
		values := m.values[s.name()][r.Row]
		for i, v := range values {
			x.Nanos, x.Shortest = append(x.Nanos, v.median), append(x.Shortest, v.least)
			if v.median == 0 {
				continue
			}
			converted, shortest = append(converted, convert(v.median)), append(shortest, v.least)
			if i < len(ours) && ours[i].median > 0 {
				ratios = append(ratios, ours[i].median/v.median)
			}
		}
		if converted == nil {
			continue
		}
		x.sample, x.Best = sampleOf(converted), convert(slices.Min(shortest))
		r.Sides[s.who] = x
		if s.who != goshmem && ratios != nil {
			r.Ratios[s.who] = median(ratios)
		}
	}
	return r
}

// isBehind says whether goshmem takes so many times as long as a peer in a row.
func (r *mpiReport) isBehind(row, memory string, ratio float64) bool {
	return slices.ContainsFunc(r.Rows, func(x mpiRow) bool { return x.Row == row && x.Memory == memory && x.behind(ratio) })
}

func (x *mpiRow) behind(ratio float64) bool {
	for _, v := range x.Ratios {
		if v > ratio {
			return true
		}
	}
	return false
}

// publish prints the report and writes the file that was asked for.
func (r *mpiReport) publish(o *mpiOptions, stdout io.Writer) error {
	if o.json != "" {
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	_, err := io.WriteString(stdout, r.markdown(o.behind))
	return err
}

// markdown returns the report as Markdown.
func (r *mpiReport) markdown(behind float64) string {
	var b bytes.Buffer
	writeParagraph(&b, fmt.Sprintf("Command: `%s`, %d rounds.", r.Command, r.Rounds))
	writeParagraph(&b, fmt.Sprintf("Machine: %s.", r.Machine))
	writeParagraph(&b, fmt.Sprintf("Peers: %s.", strings.Join(r.Peers, "; ")))
	writeParagraph(&b, "A ratio is goshmem's time divided by the peer's: below 1, goshmem is faster.")
	peers := []string{openMPI, mpich}
	table := [][]string{{"row", "memory", "unit", "goshmem", "min..max", openMPI, "min..max", "ratio", mpich, "min..max", "ratio", "operations"}}
	late := [][]string{{"row", "memory", openMPI, mpich}}
	for _, x := range r.Rows {
		ours := x.Sides[goshmem]
		line := []string{x.Row, x.Memory, x.Unit, ours.String(), ours.spread()}
		behindBy := []string{x.Row, x.Memory}
		for _, p := range peers {
			theirs, ok := x.Sides[p]
			if !ok {
				line, behindBy = append(line, "", "", ""), append(behindBy, "")
				continue
			}
			line = append(line, theirs.String(), theirs.spread(), number(x.Ratios[p]))
			behindBy = append(behindBy, number(x.Ratios[p]))
		}
		table = append(table, append(line, strconv.Itoa(x.Operations)+" x "+strconv.Itoa(x.Batches)))
		if x.behind(behind) {
			late = append(late, behindBy)
		}
	}
	writeTable(&b, table)
	fmt.Fprintf(&b, "\nRows in which goshmem takes more than %s times as long as a peer: %d of %d.\n\n", number(behind), len(late)-1, len(r.Rows))
	if len(late) > 1 {
		writeTable(&b, late)
	}
	return b.String()
}
