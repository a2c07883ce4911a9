package cli

import (
	"strings"
	"testing"

	"github.com/goshmem/goshmem/sim/detect"
)

func TestSimDetect(t *testing.T) {
	r := sayJSON[detect.Report](t, strings.Fields("sim detect --fail contiguous:64 --order plain --samples 4 --json")...)
	if r.Last == nil || r.Last.Max > 200 || r.Missed > 0 || r.FalseReports > 0 || r.Nodes != 1024 || r.Victims != 64 || r.PeriodMS != 100 {
		t.Errorf("64 in a row: %+v, want all to know within 200 ms", r)
	}
	l := sayJSON[detect.Report](t, strings.Fields("sim detect --fail contiguous:64 --literal --samples 1 --json")...)
	if l.Last == nil || l.Last.Max < 12_000 || l.Tier != "literal" || !l.Options.Literal {
		t.Errorf("64 in a row, literal: %+v, want more than 12 s", l)
	}
	none := sayJSON[detect.Report](t, strings.Fields("sim detect --nodes 16 --fail none --samples 1 --json")...)
	if none.First != nil || none.Last != nil || none.Victims != 0 {
		t.Errorf("none dead: %+v, want no times", none)
	}
	text, err := say(t, strings.Fields("sim detect --nodes 64 --fail 3,5 --samples 2 --heartbeat-period 50ms")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"64 nodes, 3,5 dead (2), kernel, permuted ring, period 50ms", "FIGURE", "first to know, ms", "last to know, ms",
		"messages of reports", "ring messages per node and second", "0 living nodes reported, 0 deaths missed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("sim detect lacks %q:\n%s", want, text)
		}
	}
}

func TestSimDetectRefuses(t *testing.T) {
	refuses(t, "sim detect", map[string]string{
		"--nodes 1":                     `--nodes: "1", want 2 to`,
		"--fail all":                    `--fail: "all", want none, contiguous:K, random:K`,
		"--fail random:0":               `--fail: "random:0", want a number from 1 to 1023`,
		"--tier moon":                   `--tier: "moon", want kernel, process, user`,
		"--literal --prrte":             "--prrte",
		"--literal --tier user":         "--literal",
		"--pes 4":                       "--pes",
		"--latency 7us":                 "a multiple of the overhead",
		"--heartbeat-period 0s":         "--heartbeat-period",
		"--heartbeat-period fast":       "--heartbeat-period",
		"--loss 100":                    "--loss",
		"--parallel 0":                  "--parallel",
		"extra":                         `argument "extra", want none`,
		"--failed 5":                    "oshrun: sim detect: unknown option --failed, did you mean --fail?\nhint: oshrun sim detect --help",
		"--death daemon --tier process": "--death",
	})
}
