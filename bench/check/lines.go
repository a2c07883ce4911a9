package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// values holds all measurements, by contestant, row and round.
type values map[string]map[string][]float64

func (v values) add(who, row string, x float64) {
	if v[who] == nil {
		v[who] = map[string][]float64{}
	}
	v[who][row] = append(v[who][row], x)
}

// median returns the median: the middle value, or the mean of the middle two.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// sample has the median, the minimum and the maximum of some values.
type sample struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func sampleOf(x []float64) sample {
	if len(x) == 0 {
		return sample{}
	}
	return sample{Median: median(x), Min: slices.Min(x), Max: slices.Max(x)}
}

func (s sample) String() string { return number(s.Median) }

func (s sample) spread() string { return number(s.Min) + ".." + number(s.Max) }

// number formats a number with at least three significant digits.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// line is one row of the report.
type line struct {
	Row      string  `json:"row"`
	Unit     string  `json:"unit"`
	Ours     sample  `json:"goshmem"`
	Peer     string  `json:"peer,omitempty"`
	Theirs   sample  `json:"theirs"`
	Ratio    float64 `json:"ratio,omitempty"`    // ours divided by theirs: median of the rounds' ratios
	Interval string  `json:"interval,omitempty"` // of the ratio, by --base
	Bound    string  `json:"bound,omitempty"`
	Verdict  string  `json:"verdict,omitempty"`
}

// The verdicts on a line with a bound. The cause follows verdictSkipped.
const (
	verdictOK      = "ok"
	verdictMiss    = "MISS"
	verdictSkipped = "skipped: "
)

// allLimits returns the limits of all groups.
func allLimits() (all []limit) {
	for _, g := range groups {
		all = append(all, g.limits...)
	}
	return all
}

// lines compares the values with the limits whose rows match. missing has the cause for each missing peer. Lines have
// verdicts only if apply is set.
func lines(v values, missing map[string]string, rows *regexp.Regexp, apply bool) (out []line) {
	for _, l := range allLimits() {
		if !rows.MatchString(l.row) {
			continue
		}
		ours := v[goshmem][l.row]
		x := line{Row: l.row, Unit: l.unit, Ours: sampleOf(ours), Peer: l.peer, Bound: l.bound()}
		if x.Unit == "" {
			x.Unit = "ns"
		}
		var theirs []float64
		if l.peer != "" && missing[l.peer] == "" {
			theirs = v[l.peer][cmp.Or(l.theirs, l.row)]
			x.Theirs, x.Ratio = sampleOf(theirs), ratio(ours, theirs)
		}
		if apply {
			x.Verdict = l.verdict(&x, len(ours), len(theirs), missing[l.peer])
		}
		if cause := missing[l.peer]; x.Verdict == "" && cause != "" {
			x.Verdict = verdictSkipped + cause
		}
		out = append(out, x)
	}
	return out
}

// ratio returns the median of the rounds' ratios. The two values of a round were measured shortly after each other.
func ratio(ours, theirs []float64) float64 { return median(ratios(ours, theirs)) }

// ratios returns the ratio of each round; that of nothing to nothing is 1.
func ratios(ours, theirs []float64) (each []float64) {
	for i := range min(len(ours), len(theirs)) {
		if ours[i] == theirs[i] {
			each = append(each, 1)
		} else {
			each = append(each, ours[i]/theirs[i])
		}
	}
	return each
}

// bound returns the bounds in words.
func (l *limit) bound() string {
	var parts []string
	if l.most > 0 {
		parts = append(parts, "<= "+number(l.most))
	}
	if l.least > 0 {
		parts = append(parts, ">= "+number(l.least))
	}
	switch {
	case l.factor == 1:
		parts = append(parts, "below "+l.peer)
	case l.factor > 0:
		parts = append(parts, fmt.Sprintf("<= %s x %s", number(l.factor), l.peer))
	}
	return strings.Join(parts, ", ")
}

// verdict returns the verdict on a line. ours and theirs are the numbers of values that the line is based on.
func (l *limit) verdict(x *line, ours, theirs int, missing string) string {
	switch {
	case l.bound() == "":
		return ""
	case ours == 0:
		return verdictMiss // a row without a value misses its limit
	case l.most > 0 && x.Ours.Median > l.most, l.least > 0 && x.Ours.Median < l.least:
		return verdictMiss
	case l.factor == 0:
		return verdictOK
	case missing != "":
		return verdictSkipped + missing
	case theirs == 0, l.factor == 1 && x.Ratio >= 1, x.Ratio > l.factor:
		return verdictMiss
	default:
		return verdictOK
	}
}
