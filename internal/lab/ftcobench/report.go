package ftcobench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is the output of --json.
type Report struct {
	measure.Head
	NoticeDelay float64 `json:"notice_delay_ms"`
	Watchdog    string  `json:"watchdog"`
	measure.Machine
	Cases []*Result `json:"cases"`
}

const (
	programName   = "goshmem ftco-bench"
	reportVersion = 1
)

// Result is the result of a case. Times are in milliseconds; null means that there are none.
type Result struct {
	Nodes   int    `json:"nodes"`
	PEs     int    `json:"pes"`
	Members int    `json:"members"` // of the team that die alone: PEs on one node, otherwise nodes
	Doubles int    `json:"doubles"`
	Way     string `json:"way"`
	Faults  string `json:"faults"`
	When    string `json:"when"`
	Samples int    `json:"samples"` // jobs

	// Longest is the time from the call to the right result, of the survivor for which it is longest: in each job, or in
	// each round of jobs without faults. The steps below are those of the same survivor.
	Longest *sample.Spread `json:"longest_ms"`
	Mean    float64        `json:"longest_mean_ms"` // of the same; 0: there are none

	Lead    *sample.Spread `json:"lead_ms"`    // from the call to the first death: negative if the survivor was late
	News    *sample.Spread `json:"news_ms"`    // from the call to the last news of a death on the survivor's node
	Resumed *sample.Spread `json:"resumed_ms"` // from that news to the result of a tolerant reduction
	Failed  *sample.Spread `json:"failed_ms"`  // from the call to the error of a strict reduction
	Shrunk  *sample.Spread `json:"shrunk_ms"`  // from that error to the end of the last Shrink
	Retried *sample.Spread `json:"retried_ms"` // from there to the result

	LeftOut int    `json:"left_out"`                // jobs whose result lacks the data of a dead PE
	Wrong   int    `json:"wrong"`                   // wrong results
	Missed  int    `json:"missed"`                  // survivors without a result
	Problem string `json:"problem,omitempty"`       // the first wrong or missed result
	NotHere string `json:"not_available,omitempty"` // why the case cannot be measured here

	of      Case
	longest []float64
	lead    []float64
	steps   [5][]float64 // of News to Retried
}

// newResult returns the result of a case without samples.
func newResult(c Case) *Result {
	return &Result{Nodes: c.Nodes, PEs: c.PEs, Members: c.members(), Doubles: c.Doubles, Way: c.Way, Faults: c.Faults, When: c.When, of: c}
}

// add adds the result of a job.
func (r *Result) add(t *trial) {
	if t.notHere != "" {
		r.NotHere = t.notHere
		return
	}
	r.Samples++
	if len(t.dead) == 0 {
		r.addRounds(t)
		return
	}
	slowest, whose := (*seen)(nil), []int(nil)
	for _, q := range t.survivors() {
		s := t.seen[q]
		switch {
		case s == nil:
			r.miss(fmt.Errorf("PE %d has not reported", q))
			continue
		case s.Error != "":
			r.miss(fmt.Errorf("PE %d: %s", q, s.Error))
			continue
		case s.Wrong != "":
			r.mistake(fmt.Errorf("PE %d: %s", q, s.Wrong))
		}
		if err := t.checkContributors(s.Contributors); err != nil {
			r.mistake(fmt.Errorf("PE %d: %w", q, err))
		}
		if whose == nil {
			whose = s.Contributors
		} else if !slices.Equal(whose, s.Contributors) {
			r.mistake(fmt.Errorf("PE %d has the result of PEs %v, and another survivor that of %v", q, s.Contributors, whose))
		}
		if slowest == nil || s.Returned-s.Called > slowest.Returned-slowest.Called {
			slowest = s
		}
	}
	if slowest == nil {
		return
	}
	if len(whose) < len(t.seen) {
		r.LeftOut++
	}
	r.longest = append(r.longest, measure.Milliseconds(slowest.Returned-slowest.Called))
	r.lead = append(r.lead, measure.Milliseconds(t.killed-slowest.Called))
	r.addSteps(slowest)
}

// addRounds adds the rounds of a job without faults.
func (r *Result) addRounds(t *trial) {
	for i := range t.rounds[0] {
		longest := time.Duration(0)
		for _, took := range t.rounds {
			longest = max(longest, took[i])
		}
		r.longest = append(r.longest, measure.Milliseconds(longest))
	}
}

// addSteps adds the steps of a survivor.
func (r *Result) addSteps(s *seen) {
	add := func(step int, from, to time.Duration) {
		if from > 0 && to >= from {
			r.steps[step] = append(r.steps[step], measure.Milliseconds(to-from))
		}
	}
	add(0, s.Called, s.News) // none: the result was there before the news
	switch {
	case s.Failed > 0:
		add(2, s.Called, s.Failed)
		add(3, s.Failed, s.Shrunk)
		add(4, s.Shrunk, s.Returned)
	case r.Way == Tolerant && s.News > s.Called:
		add(1, s.News, s.Returned)
	}
}

// miss notes that a survivor has no result.
func (r *Result) miss(err error) {
	r.Missed++
	r.note(err)
}

// mistake notes a wrong result.
func (r *Result) mistake(err error) {
	r.Wrong++
	r.note(err)
}

func (r *Result) note(err error) {
	if r.Problem == "" {
		r.Problem = err.Error()
	}
}

// checkContributors checks that a result has the data of all survivors, and of no PE that has not reduced.
func (t *trial) checkContributors(all []int) error {
	for _, q := range t.survivors() {
		if !slices.Contains(all, q) {
			return fmt.Errorf("the result of PEs %v lacks PE %d, which lives", all, q)
		}
	}
	for _, q := range all {
		if slices.Contains(t.silent, q) {
			return fmt.Errorf("the result of PEs %v has PE %d, which has not reduced", all, q)
		}
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || all[0] < 0 || all[len(all)-1] >= len(t.seen) {
		return fmt.Errorf("a result of PEs %v, want ascending numbers of %d PEs", all, len(t.seen))
	}
	return nil
}

// fillSpreads fills the spreads from the samples.
func (r *Result) fillSpreads() {
	r.Longest, r.Mean, r.Lead = sample.SpreadOf(r.longest), sample.Mean(r.longest), sample.SpreadOf(r.lead)
	for i, s := range []**sample.Spread{&r.News, &r.Resumed, &r.Failed, &r.Shrunk, &r.Retried} {
		*s = sample.SpreadOf(r.steps[i])
	}
}

// Failures returns an error that lists the cases with wrong or missed results, or nil if there are none.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Cases {
		if c.Wrong > 0 || c.Missed > 0 {
			all = append(all, c.failure())
		}
	}
	return measure.JoinFailures(all)
}

// Find returns the result of a case, or nil if it is not in the report or was not available.
func (r *Report) Find(c Case) *Result {
	for _, res := range r.Cases {
		if res.of == c && res.NotHere == "" && res.Longest != nil {
			return res
		}
	}
	return nil
}

// Notes returns the lines below the tables: the cases with wrong or missed results, and why cases were not available, each
// reason of a team once.
func (r *Report) Notes() (notes []string) {
	type reason struct {
		way, text string
		Group
	}
	faults := map[reason][]string{}
	var order []reason
	for _, c := range r.Cases {
		if c.Wrong+c.Missed > 0 {
			notes = append(notes, c.failure())
		}
		if c.NotHere == "" {
			continue
		}
		key := reason{c.Way, c.NotHere, Group{c.Nodes, c.PEs}}
		if len(faults[key]) == 0 {
			order = append(order, key)
		}
		if !slices.Contains(faults[key], c.Faults) {
			faults[key] = append(faults[key], c.Faults)
		}
	}
	for _, key := range order {
		notes = append(notes, fmt.Sprintf("not available here: %s, %v, faults %s: %s", key.way, key.Group, strings.Join(faults[key], ", "), key.text))
	}
	return notes
}

// failure describes the wrong and missed results of a case.
func (r *Result) failure() string {
	return fmt.Sprintf("%v: %d wrong results, %d survivors without one: %s", r.of, r.Wrong, r.Missed, r.Problem)
}
