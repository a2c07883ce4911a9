package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// The comparison with another version of this project, by --base.
const (
	// layouts is the number of random orders in which the linker puts the functions of both versions' programs. Where a
	// function lies changes some rows by 30 % and more, which is no merit of either version.
	layouts = 3
	// batches is the number of batches of a row in one round; the rounds are many.
	batches = "5"
	// within is the bound of the ratio of both versions.
	within = 1.05
)

// newBase returns the bed of the version in a folder.
func newBase(b *bed, folder string) (*bed, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder, "bench", "cmd", "pe")); err != nil {
		return nil, fmt.Errorf("%w: --base %s: %w; want a folder of another version of this project: git worktree add FOLDER COMMIT", errUsage, folder, err)
	}
	base := *b
	base.dir, base.bench, base.values = filepath.Join(b.dir, "base"), filepath.Join(folder, "bench"), values{}
	return &base, os.Mkdir(base.dir, 0o700)
}

// buildBoth builds both versions, each program of PEs in several layouts.
func buildBoth(ctx context.Context, beds ...*bed) error {
	for _, b := range beds {
		b.layouts = layouts
		if err := b.build(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureBoth runs all groups in each round, of both versions by turns. The version that begins alternates.
func measureBoth(ctx context.Context, beds ...*bed) error {
	for i := range beds[0].rounds {
		fmt.Fprintf(beds[0].log, "check: round %d of %d\n", i+1, beds[0].rounds)
		for n, g := range groups {
			for k := range beds {
				if err := beds[(i+n+k)%len(beds)].round(ctx, &g, i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// baseLines compares the values of two versions. A line has the unit only if a limit has it.
func baseLines(now, before values) (out []line) {
	units, more := map[string]string{}, map[string]bool{}
	for _, l := range allLimits() {
		units[l.row], more[l.row] = l.unit, l.least > 0
	}
	for _, who := range []string{goshmem, strict, allreduce, barrier} {
		for _, row := range slices.Sorted(maps.Keys(now[who])) {
			ours, theirs := now[who][row], before[who][row]
			x := line{Row: row, Unit: units[row], Ours: sampleOf(ours), Peer: "before", Theirs: sampleOf(theirs), Bound: fmt.Sprintf("<= %.2f", within)}
			if who != goshmem {
				x.Row += " (" + who + ")"
			}
			if x.Unit == "" {
				x.Unit = "ns"
			}
			if more[row] {
				ours, theirs = theirs, ours // more is better
				x.Bound += ", inverse"
			}
			x.Ratio = ratio(ours, theirs)
			low, high := interval(ratios(ours, theirs))
			x.Interval = fmt.Sprintf("%.3f..%.3f", low, high)
			switch {
			case len(theirs) == 0 || len(ours) == 0:
				x.Bound = "" // a row of one version
			case x.Ratio <= within, low <= 1:
				x.Verdict = verdictOK
			default:
				x.Verdict = verdictMiss
			}
			out = append(out, x)
		}
	}
	return out
}

// interval returns the bounds between which the median of a distribution lies with at least 95 %, by a sample of it: as
// many values are left out at each end as are so rare. A small sample gives its least and its greatest value.
func interval(x []float64) (low, high float64) {
	if len(x) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(x))
	out, rare, one := 0, 0.0, math.Pow(0.5, float64(len(s))) // one: the probability that "out" values are below the median
	for {
		rare += one
		if 2*rare > 0.05 || 2*(out+1) >= len(s) {
			break
		}
		one *= float64(len(s)-out) / float64(out+1)
		out++
	}
	out = max(out-1, 0)
	return s[out], s[len(s)-1-out]
}

// baseMarkdown returns the report about two versions.
func (r *report) baseMarkdown() string {
	var b bytes.Buffer
	writeParagraph(&b, fmt.Sprintf("Command: `%s`, %d rounds, %d orders of linking.", r.Command, r.Rounds, layouts))
	writeParagraph(&b, fmt.Sprintf("Machine: %s.", r.Machine))
	table := [][]string{{"row", "unit", "now", "min..max", "before", "min..max", "ratio", "95 %", "bound", ""}}
	var product float64
	var n int
	for _, l := range r.Lines {
		if l.Bound == "" { // a row of the new version only
			table = append(table, []string{l.Row, l.Unit, l.Ours.String(), l.Ours.spread(), "", "", "", "", "", ""})
			continue
		}
		table = append(table, []string{
			l.Row, l.Unit, l.Ours.String(), l.Ours.spread(), l.Theirs.String(), l.Theirs.spread(),
			strconv.FormatFloat(l.Ratio, 'f', 3, 64), l.Interval, l.Bound, l.Verdict,
		})
		if l.Ratio > 0 {
			product, n = product+math.Log(l.Ratio), n+1
		}
	}
	writeTable(&b, table)
	fmt.Fprintf(&b, "\nGeometric mean of %d ratios: %.3f.\n", n, math.Exp(product/float64(max(n, 1))))
	return b.String()
}
