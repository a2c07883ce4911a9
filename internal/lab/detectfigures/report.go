package detectfigures

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/noise"
	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is the output of --json.
type Report struct {
	measure.Head
	Samples    int `json:"samples"`     // of each emulated experiment
	SimSamples int `json:"sim_samples"` // of each simulated experiment
	measure.Machine
	Figures []*Figure `json:"figures"`
}

const (
	programName   = "goshmem detect-figures"
	reportVersion = 1
)

// Figure is a figure of the paper.
type Figure struct {
	Name  string        `json:"figure"` // its number
	Title string        `json:"title"`
	Rows  []*Row        `json:"rows"`
	Fits  []Fit         `json:"fits,omitempty"`
	Noise *noise.Report `json:"noise,omitempty"` // of Figure 7, which has no rows
	Paper []Published   `json:"paper"`
	File  string        `json:"file,omitempty"` // the picture

	spec *spec
}

// How a row came about.
const (
	Emulated  = "emulated"
	Simulated = "simulated"
	Measured  = "measured" // by another program, whose report was read
)

// Row is the result of an experiment. Its fields have the names of the report of detect-bench. Times are null if there are
// none.
type Row struct {
	How      string         `json:"how"`
	Detector string         `json:"detector"`
	Case     string         `json:"case"`
	Nodes    int            `json:"nodes"` // members of SWIM have one each
	PEs      int            `json:"pes"`
	Tier     string         `json:"tier,omitempty"`
	Period   float64        `json:"period_ms"`
	Loss     float64        `json:"loss_percent,omitempty"`
	Samples  int            `json:"samples"`
	First    *sample.Spread `json:"first_ms"` // until the first survivor knew of all deaths; simulated: of one
	Last     *sample.Spread `json:"last_ms"`  // until the last survivor knew of all
	False    int            `json:"false_reports"`
	Missed   int            `json:"missed"`
	Unseen   int            `json:"models_unseen,omitempty"` // PEs of hybrid programs whose models did not see each other
	Failed   int            `json:"failed_jobs,omitempty"`   // jobs that ended in an unexpected way, without a sample
	NotHere  string         `json:"not_available,omitempty"` // why there are no samples
}

// The detectors of rows.
const (
	ours    = "goshmem"
	literal = "literal"             // the paper's algorithm as printed; a member is a node
	perPE   = "literal, PE members" // the same; a member is a PE, as in ULFM
	swim    = "swim"
	hybrid  = "hybrid" // of experiments; rows have hybridViews
)

// hybridViews are the ways in which a PE of a hybrid program learns of a death.
var hybridViews = []string{"shmem, call", "shmem, callback", "mpi, call"}

// Fit is the curve a log2 N + b through the medians of last_ms.
type Fit struct {
	How      string  `json:"how"`
	Detector string  `json:"detector"`
	Of       string  `json:"of"` // what N is: nodes or PEs
	A        float64 `json:"a_ms"`
	B        float64 `json:"b_ms"`
	Points   int     `json:"points"`
}

// String returns the curve in words.
func (f *Fit) String() string {
	return fmt.Sprintf("fit, %s, %s: last = %.3g log2 N %+.3g ms, N %s, %d points", f.How, f.Detector, f.A, f.B, f.Of, f.Points)
}

// fewestPoints is the least number of points for a fit: two would always lie on the curve.
const fewestPoints = 3

// fit fits the curve to each kind of rows.
func (f *Figure) fit() {
	type kind struct{ how, detector string }
	var kinds []kind
	x, y := map[kind][]float64{}, map[kind][]float64{}
	for _, r := range f.Rows {
		if r.Last == nil {
			continue
		}
		k := kind{r.How, r.Detector}
		if x[k] == nil {
			kinds = append(kinds, k)
		}
		x[k], y[k] = append(x[k], float64(r.members())), append(y[k], r.Last.P50)
	}
	for _, k := range kinds {
		if len(x[k]) < fewestPoints {
			continue
		}
		of := "nodes"
		if k.detector == perPE {
			of = "PEs"
		}
		a, b := sample.FitLog2(x[k], y[k])
		f.Fits = append(f.Fits, Fit{How: k.how, Detector: k.detector, Of: of, A: a, B: b, Points: len(x[k])})
	}
}

// members returns how many take part in a broadcast.
func (r *Row) members() int {
	if r.Detector == perPE {
		return r.PEs
	}
	return r.Nodes
}

// series returns what a picture and messages call the rows of one kind.
func (r *Row) series() string { return r.Detector + ", " + r.How }

// Failures returns an error that lists what was missed, reported falsely or ended unexpectedly in emulated jobs, or nil.
func (r *Report) Failures() error {
	var all []string
	for _, f := range r.Figures {
		for _, row := range f.Rows {
			if row.How == Emulated && row.False+row.Missed+row.Failed+row.Unseen > 0 {
				all = append(all, fmt.Sprintf("figure %s, %s, %d nodes, %g ms: %d false reports, %d missed, %d jobs failed, %d PEs with models that do not see each other",
					f.Name, row.Case, row.Nodes, row.Period, row.False, row.Missed, row.Failed, row.Unseen))
			}
		}
	}
	return measure.JoinFailures(all)
}

// Picture draws the figure.
func (f *Figure) Picture() *plot.Figure { return f.spec.picture(f) }
