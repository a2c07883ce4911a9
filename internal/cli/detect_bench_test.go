package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/detectbench"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Real failures: every survivor hears of each one, on every tier that works, and all times are in the right order.
func TestDetectBench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	picture := filepath.Join(t.TempDir(), "detect")
	args := "detect-bench -n 3 --samples 2 --seed 9 --size 16M --cases small,threads,heap,anonymous,segv,exit,oom --watchdog all --json --plot " + picture + ".svg," + picture + "-2.svg"
	r := experimentJSON[detectbench.Report](t, 0, strings.Fields(args)...)
	if r.Seed != 9 || r.Size != 16<<20 || r.CPUs < 1 {
		t.Errorf("%+v", r)
	}
	tiers := slices.DeleteFunc(usableTiers(t), func(tier string) bool { return tier == watchdogOff })
	measured := map[string]bool{}
	for _, c := range r.Cases {
		if c.NotHere != "" {
			if c.Case != "oom" && (c.Case != detectbench.All || slices.Contains(tiers, c.Tier)) {
				t.Errorf("%s, %s: not available: %s", c.Case, c.Tier, c.NotHere)
			}
			continue
		}
		measured[c.Tier] = true
		if c.Samples != 2 || c.PEs != 3 || c.Nodes != 1 || c.False != 0 || c.Missed != 0 {
			t.Errorf("%s, %s: %+v", c.Case, c.Tier, c)
		}
		for name, s := range map[string]*sample.Spread{"first": c.First, "last": c.Last, "stored": c.Stored, "returned": c.Returned, "called": c.Called} {
			if s == nil || s.Min <= 0 || s.P50 < s.Min || s.Max < s.P50 {
				t.Fatalf("%s, %s: %s %+v", c.Case, c.Tier, name, s)
			}
		}
		if c.Stored.Min > c.First.Min || c.First.P50 > c.Last.P50 || c.Returned.Max != c.Last.Max || c.Returned.Min != c.First.Min || c.Called.Min < c.Stored.Min {
			t.Errorf("%s, %s: out of order: %+v", c.Case, c.Tier, c)
		}
	}
	for _, tier := range tiers {
		if !measured[tier] {
			t.Errorf("no case has tier %s", tier)
		}
	}
	drawn(t, picture)
}

// A PE that is stopped is reported as stopped, goes on, and is never reported as dead.
func TestDetectBenchStop(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the watchdog's look at all PEs")
	}
	j := start(t, strings.Fields("detect-bench -n 2 --samples 1 --cases stop")...)
	j.expect(0)
	var row []string
	for _, line := range lines(j.stdout.String()) {
		if strings.HasPrefix(line, "stop ") {
			row = strings.Fields(line)
		}
	}
	if n := len(row); n < 10 || row[3] != "1" || row[n-2] != "0" || row[n-1] != "0" || strings.Join(row[4:8], "") != "----" {
		t.Errorf("table has %q, want one sample, and none false or missed:\n%s", row, &j.stdout)
	}
}

func TestDetectTable(t *testing.T) {
	s := &sample.Spread{Min: 0.0712, P50: 0.25, Max: 12.345}
	text := string(detectTable(&detectbench.Report{Head: measure.Head{Seed: 5}, Machine: measure.Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}}, Cases: []*detectbench.Result{
		{Case: "small", Tier: "bpf", PEs: 4, Samples: 10, First: s, Last: s, Stored: s, Called: s, False: 1},
		{Case: "oom", Tier: "bpf", NotHere: "no groups"},
	}}))
	for _, want := range []string{
		"seed 5, 2 processors, load 1 2 3 before, 4 5 6 after", "STORED", "RETURNED, LAST",
		"small  bpf   4    10       0.25 (0.0712 to 12.3)", "not available here: case oom, tier bpf: no groups",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestDetectBenchRefuses(t *testing.T) {
	refuses(t, "detect-bench", map[string]string{
		"--samples 0":        "--samples: 0, want 1",
		"-n 1":               "-n: 1, want 2",
		"--cases small,fire": `--cases: "fire", want some of small, threads`,
		"--watchdog off":     `--watchdog: "off", want best, all or bpf`,
		"--size much":        "--size",
		"--size 0":           "--size",
		"--plot x.jpg":       `--plot: "x.jpg"`,
		"more":               `argument "more", want none`,
	})
}

// An interrupt ends the current job and the command.
func TestDetectBenchInterrupted(t *testing.T) {
	interrupts(t, "detect-bench -n 2 --samples 100000 --cases small --watchdog pidfd")
}

// The program of its PEs is hidden from users.
func TestDetectProgramIsHidden(t *testing.T) {
	hides(t, detectPE, "detect-bench")
}
