package detectfigures

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/goshmem/goshmem/internal/lab/sample"
)

// swimReport is what this package reads of the JSON of bench/cmd/swimbench.
type swimReport struct {
	Program string `json:"program"`
	Rows    []struct {
		Config  string         `json:"config"`
		Members int            `json:"members"`
		Period  float64        `json:"period_ms"`
		Idle    float64        `json:"idle_s"`
		Samples int            `json:"samples"`
		Not     int            `json:"not_started"`
		First   *sample.Spread `json:"first_ms"`
		Last    *sample.Spread `json:"last_ms"`
		False   int            `json:"false_reports"`
		Missed  int            `json:"missed"`
	} `json:"rows"`
}

// readSWIM reads the rows in which a member was killed.
func readSWIM(name string) (rows []*Row, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--swim: %w", err)
	}
	var r swimReport
	if err := json.Unmarshal(text, &r); err != nil || r.Program != "swimbench" {
		return nil, fmt.Errorf("--swim: %s: %w, want the output of swimbench --json (go -C bench run ./cmd/swimbench)", name, jsonError(err))
	}
	for _, m := range r.Rows {
		if m.Idle > 0 {
			continue
		}
		row := &Row{
			How: Measured, Detector: swim + " " + m.Config, Case: "member", Nodes: m.Members, PEs: m.Members, Period: m.Period, Samples: m.Samples - m.Not,
			First: m.First, Last: m.Last, False: m.False, Missed: m.Missed,
		}
		if m.Not > 0 {
			row.NotHere = fmt.Sprintf("%d of %d groups whose members did not all see each other, %d reports of living ones", m.Not, m.Samples, m.False)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("--swim: %s has no rows in which a member is killed, want some", name)
	}
	return rows, nil
}

// jsonError returns what is wrong with a report.
func jsonError(err error) error {
	if err == nil {
		return fmt.Errorf("a report of another program")
	}
	return err
}

// swimOf returns the rows of SWIM that belong to a figure.
func (o *Options) swimOf(f *Figure) (rows []*Row) {
	for _, row := range o.swimRows {
		if f.spec.swim != nil && f.spec.swim(o, row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// swimMembers returns the number of members that the reports have with the most periods; of several, the largest.
func (o *Options) swimMembers() (members int) {
	periods := map[int]map[float64]bool{}
	for _, row := range o.swimRows {
		if periods[row.PEs] == nil {
			periods[row.PEs] = map[float64]bool{}
		}
		periods[row.PEs][row.Period] = true
	}
	for n, p := range periods {
		if most := len(periods[members]); len(p) > most || len(p) == most && n > members {
			members = n
		}
	}
	return members
}
