package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/ftcobench"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// The shape of the paper's Table 1: parallel deaths cost one delay of the news, and deaths in series cost two.
func TestFTCOBenchTable1(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	const delay = 800 // ms
	r := experimentJSON[ftcobench.Report](t, 0, strings.Fields("ftco-bench --parts table1 --when before -n 5 --samples 1 --seed 9 --notice-delay 800ms --json")...)
	if r.Seed != 9 || r.NoticeDelay != delay || r.CPUs < 1 || len(r.Cases) != 5 {
		t.Errorf("%+v", r)
	}
	delays := map[string]float64{"one": 1, "parallel": 1, "series": 2, "mixed": 2}
	for _, c := range r.Cases {
		checkFTCO(t, c, 1, 5)
		if c.Doubles != 1 || c.Way != ftcobench.Tolerant {
			t.Errorf("%+v", c)
		}
		n := delays[c.Faults]
		if n == 0 {
			continue
		}
		if c.LeftOut != 1 {
			t.Errorf("%s: %d results lack the dead, want 1", c.Faults, c.LeftOut)
		}
		news := c.News.P50 - c.Lead.P50 // from the first death to the last news
		if news < n*delay || news >= (n+1)*delay {
			t.Errorf("%s: last news %.1f ms after the first death, want %.0f to %.0f", c.Faults, news, n*delay, (n+1)*delay)
		}
	}
}

// checkFTCO checks what all results have in common.
func checkFTCO(t *testing.T, c *ftcobench.Result, nodes, pes int) {
	t.Helper()
	if c.Nodes != nodes || c.PEs != pes || c.Samples != 1 || c.Wrong+c.Missed > 0 || c.Problem != "" || c.NotHere != "" {
		t.Fatalf("%+v", c)
	}
	if (c.Faults == "none") != (c.When == "") || (c.Lead == nil) != (c.Faults == "none") {
		t.Errorf("%+v", c)
	}
	for name, s := range map[string]*sample.Spread{"longest": c.Longest, "news": c.News, "resumed": c.Resumed, "failed": c.Failed, "shrunk": c.Shrunk, "retried": c.Retried} {
		if s == nil && name != "longest" {
			continue
		}
		if s == nil || s.P50 < s.Min || s.Max < s.P50 || name == "longest" && s.Min <= 0 {
			t.Errorf("%s, %s: %s %+v", c.Way, c.Faults, name, s)
		}
	}
	if (c.Failed == nil) != (c.Shrunk == nil) || (c.Failed == nil) != (c.Retried == nil) || c.Way == ftcobench.Tolerant && c.Failed != nil {
		t.Errorf("%s, %s: failed %v, shrunk %v, retried %v: want all or none, and none of a tolerant team", c.Way, c.Faults, c.Failed, c.Shrunk, c.Retried)
	}
}

// Both ways have a result, small and large, whenever the victim dies.
func TestFTCOBenchFigure6(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	picture := filepath.Join(t.TempDir(), "ftco")
	args := "ftco-bench --parts figure6 -n 4 --samples 1 --doubles 1,8K --json --plot " + picture + ".svg," + picture + "-2.svg"
	r := experimentJSON[ftcobench.Report](t, 0, strings.Fields(args)...)
	if len(r.Cases) != 2*2*3 {
		t.Errorf("%d cases, want those of two sizes and two ways: none, before, during", len(r.Cases))
	}
	for _, c := range r.Cases {
		checkFTCO(t, c, 1, 4)
		if c.When == ftcobench.Before && (c.LeftOut != 1 || c.Way == ftcobench.Strict && c.Failed == nil) {
			t.Errorf("%s: %d results lack the dead, error after %v ms, want 1, and an error of a strict team", c.Way, c.LeftOut, c.Failed)
		}
	}
	drawn(t, picture)
}

// On several nodes, what teams cannot do there is said, and all else is measured.
func TestFTCOBenchNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	r := experimentJSON[ftcobench.Report](t, 0, strings.Fields("ftco-bench --parts figure6 --when before --nodes 3 -n 6 --samples 1 --doubles 1 --json")...)
	for _, c := range r.Cases {
		if c.Members != 3 {
			t.Errorf("%d members, want the 3 nodes", c.Members)
		}
		if c.NotHere == "" {
			checkFTCO(t, c, 3, 6)
		} else if c.Samples != 0 || !strings.Contains(c.NotHere, "several nodes") || c.Way == ftcobench.Strict && c.Faults == "none" {
			t.Errorf("%s, %s: %d samples, not available: %s", c.Way, c.Faults, c.Samples, c.NotHere)
		}
	}
}

// A case with more victims than there can be is not available, and the exit status is 0.
func TestFTCOBenchTooSmall(t *testing.T) {
	j := start(t, strings.Fields("ftco-bench --parts table1 --when before -n 2 --samples 1")...)
	j.expect(0)
	for _, want := range []string{
		"Tolerant reduction of one double (Table 1)\nNODES", "not available here: tolerant, 2 PEs, faults parallel, series: the team has 2 members, want more than the 2 that die",
	} {
		if !strings.Contains(j.stdout.String(), want) {
			t.Errorf("want %q:\n%s", want, &j.stdout)
		}
	}
}

func TestFTCOTable(t *testing.T) {
	j := start(t, strings.Fields("ftco-bench --when before -n 4 --samples 1 --doubles 1K --seed 5 --notice-delay 50ms")...)
	j.expect(0)
	text := j.stdout.String()
	for _, want := range []string{
		"watchdog pidfd, news held back for 50 ms; seed 5, ", "(Table 1)", "2 IN PARALLEL", "(Figure 6)", "STRICT / TOLERANT", "(Figure 5)", "SHRINK",
		"\n1      4    before        ", "\n1      4    1024     none    ", "\n1      4    1024     before  tolerant  1     1 ", "\n1      4    1024     before  strict    1     1 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestFTCOSpread(t *testing.T) {
	for s, want := range map[*sample.Spread]string{
		nil: "-", {Min: 0.0712, P50: 0.25, Max: 12.345}: "0.25 (0.0712 to 12.3)", {Min: 99, P50: 2009.54, Max: 12345.6}: "2009.5 (99 to 12345.6)",
	} {
		if got := ftcoSpread(s); got != want {
			t.Errorf("%+v is shown as %q, want %q", s, got, want)
		}
	}
}

func TestFTCOBenchRefuses(t *testing.T) {
	refuses(t, "ftco-bench", map[string]string{
		"--samples 0":       "--samples: 0, want 1",
		"-n 1":              "-n: 1, want 2",
		"--nodes 8 -n 4":    "-n: 4 PEs on 8 nodes",
		"--parts all":       `--parts: "all", want some of table1, figure6`,
		"--when never":      `--when: "never", want some of before, during`,
		"--watchdog off":    `--watchdog: "off", want bpf`,
		"--doubles many":    `--doubles: "many"`,
		"--doubles 1T":      "--doubles: 1099511627776, want 1 to",
		"--notice-delay 2h": "--notice-delay: 2h0m0s, want 0 to 1m0s",
		"--plot x.jpg":      `--plot: "x.jpg"`,
		"more":              `argument "more", want none`,
	})
	refuses(t, "", map[string]string{
		"--recover -n 2 --lab-notice-delay 2s true":                  "--lab-notice-delay: only jobs of oshrun ftco-bench have it",
		"-n 2 --lab-notice-delay 2s ftco-pe":                         "--lab-notice-delay: only jobs of oshrun ftco-bench have it",
		"--recover --lab-notice-delay 2s -n 1 ftco-pe : -n 1 true":   "--lab-notice-delay: only jobs of oshrun ftco-bench have it",
		"--recover -n 2 --lab-notice-delay 2h ftco-pe":               "--lab-notice-delay: 2h0m0s, want 0 to 1m0s",
		"--recover -n 2 --lab-notice-delay -1s ftco-pe":              "--lab-notice-delay: -1s, want 0 to 1m0s",
		"--recover -n 2 --lab-notice-delay soon ftco-pe tolerant 10": "--lab-notice-delay",
	})
}

// An interrupt ends the current job and the command.
func TestFTCOBenchInterrupted(t *testing.T) {
	interrupts(t, "ftco-bench -n 2 --samples 100000 --parts table1")
}

// The program of its PEs and the flag of its jobs are hidden from users.
func TestFTCOProgramIsHidden(t *testing.T) {
	hides(t, ftcoPE, "ftco-bench")
	for _, args := range []string{"--help", "__complete --", "help mpirun"} {
		text, err := say(t, strings.Fields(args)...)
		if err != nil || strings.Contains(text, newsDelayFlag) {
			t.Errorf("oshrun %s: %v, want nothing of --%s:\n%s", args, err, newsDelayFlag, text)
		}
	}
}
