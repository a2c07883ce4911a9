package detectbench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is what --json writes.
type Report struct {
	Program string    `json:"program"`
	Version int       `json:"version"` // of this format
	Seed    uint64    `json:"seed"`
	Size    int       `json:"size_bytes"` // of the cases with memory
	CPUs    int       `json:"cpus"`
	Load    [2]string `json:"load"` // over 1, 5 and 15 minutes, before and after
	Cases   []*Result `json:"cases"`
}

const (
	programName   = "goshmem detect-bench"
	reportVersion = 1
)

// Result is what came out of a case in a tier. Times are milliseconds from just
// before the failure was injected; null: there are none.
type Result struct {
	Case    string  `json:"case"`
	Nodes   int     `json:"nodes"`
	PEs     int     `json:"pes"`
	Period  float64 `json:"period_ms"` // of heartbeats: there are none on a node
	Tier    string  `json:"tier"`
	Samples int     `json:"samples"`

	First *sample.Spread `json:"first_ms"` // the first survivor whose call returns
	Last  *sample.Spread `json:"last_ms"`  // the last

	Kernel   *sample.Spread `json:"kernel_ms"`   // the kernel's own time of the death
	Stored   *sample.Spread `json:"stored_ms"`   // the failure is on the page
	Returned *sample.Spread `json:"returned_ms"` // blocked calls return, of all survivors
	Called   *sample.Spread `json:"called_ms"`   // callbacks run, of all survivors
	Said     *sample.Spread `json:"said_ms"`     // oshrun says so

	False   int    `json:"false_reports"` // of PEs that had not failed
	Missed  int    `json:"missed"`        // survivors that were not told
	NotHere string `json:"not_available,omitempty"`

	of           Case
	first, last  []float64
	kernel, told []float64
	stored       []float64
	returned     []float64
	said         []float64
}

// trial is one failure: what was done and what all survivors have seen.
type trial struct {
	victim   int
	injected time.Duration // just before kill(2); 0: the victim knows
	said     time.Duration // when oshrun said it, 0 for never
	seen     []*seen       // of each PE; nil: not a word
	stops    bool
}

// from is when it began.
func (t *trial) from() time.Duration {
	for _, s := range t.seen {
		if t.injected == 0 && s != nil {
			return s.Injected // as the victim has told everybody
		}
	}
	return t.injected
}

// add takes a trial.
func (r *Result) add(t *trial) {
	r.Samples++
	if from := t.from(); from > 0 && t.said > from {
		r.said = append(r.said, ms(t.said-from))
	}
	if t.stops {
		r.addStop(t)
		return
	}
	from := t.from()
	var returned []float64
	stored := false
	for q, s := range t.seen {
		if q == t.victim {
			continue
		}
		if s == nil {
			r.Missed++
			continue
		}
		knows := slices.Contains(s.Failed, t.victim) && slices.Contains(s.Told, t.victim)
		if !knows {
			r.Missed++
		}
		if others(s.Failed, t.victim) || others(s.Told, t.victim) || knows && s.Stored < from {
			r.False++
		}
		if !knows || s.Stored < from {
			continue
		}
		returned = append(returned, ms(s.Returned-from))
		r.told = append(r.told, ms(s.Called-from))
		if !stored { // one page for all of them
			stored = true
			r.stored = append(r.stored, ms(s.Stored-from))
			if s.Kernel > 0 {
				r.kernel = append(r.kernel, ms(s.Kernel-from))
			}
		}
	}
	if len(returned) > 0 {
		r.returned = append(r.returned, returned...)
		r.first, r.last = append(r.first, slices.Min(returned)), append(r.last, slices.Max(returned))
	}
}

// addStop takes a trial in which nobody died: oshrun has to say it, and nobody
// else may.
func (r *Result) addStop(t *trial) {
	if t.said == 0 {
		r.Missed++
	}
	for _, s := range t.seen {
		if s != nil && len(s.Failed)+len(s.Told) > 0 {
			r.False++
		}
	}
}

// others says whether somebody else than the victim is among PEs.
func others(pes []int, victim int) bool {
	return slices.ContainsFunc(pes, func(q int) bool { return q != victim })
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// conclude sums up.
func (r *Result) conclude() {
	r.First, r.Last = sample.SpreadOf(r.first), sample.SpreadOf(r.last)
	r.Kernel, r.Stored = sample.SpreadOf(r.kernel), sample.SpreadOf(r.stored)
	r.Returned, r.Called, r.Said = sample.SpreadOf(r.returned), sample.SpreadOf(r.told), sample.SpreadOf(r.said)
}

// Failures says what should not have happened, nothing if all is well.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Cases {
		if c.False > 0 || c.Missed > 0 {
			all = append(all, fmt.Sprintf("%s, %s: %d false reports, %d missed", c.Case, c.Tier, c.False, c.Missed))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(all, "; "))
}
