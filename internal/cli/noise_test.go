package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/noise"
)

// Each real program is measured by its own figures.
func TestNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		program string
		rows    []string
	}{
		{"bench put barrier -m 8:16 -i 100", []string{"put 8", "put 16", "barrier", "wall"}},
		{"graph500 --scale 6 --roots 2", []string{"construction", "search", "validation", "wall"}},
		{"true", []string{"wall"}},
	} {
		picture := filepath.Join(dir, strings.Fields(c.program)[0])
		args := append(strings.Fields("noise -n 2 --samples 2 --seed 5 --watchdog pidfd --json --plot"), picture+".svg,"+picture+"-2.svg", "--")
		r := experimentJSON[noise.Report](t, 0, append(args, strings.Fields(c.program)...)...)
		var names []string
		for _, row := range r.Rows {
			names = append(names, row.Name)
			if len(row.Off.Samples) != 2 || len(row.On.Samples) != 2 || row.Off.Mean <= 0 || row.Detectable < 0 || row.Low > row.Overhead || row.High < row.Overhead {
				t.Errorf("%s: row %+v", c.program, row)
			}
		}
		if !slices.Equal(names, c.rows) {
			t.Errorf("%s: rows %v, want %v", c.program, names, c.rows)
		}
		if r.Seed != 5 || r.PEs != 2 || r.Samples != 2 || r.Warmup != 1 || r.Watchdog != "pidfd" || r.Control != nil || strings.Join(r.Program, " ") != c.program {
			t.Errorf("%s: %+v", c.program, r)
		}
		drawn(t, picture)
	}
}

// Jobs of two emulated nodes are measured as those of one node are.
func TestNoiseEmulated(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	picture := filepath.Join(t.TempDir(), "emulated")
	args := append(strings.Fields("noise --emulate 2 -n 2 --samples 2 --seed 5 --watchdog pidfd --json --plot"), picture+".svg,"+picture+"-2.svg", "--")
	r := experimentJSON[noise.Report](t, 0, append(args, strings.Fields("bench barrier put --far -m 8:8 -i 100")...)...)
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		if len(row.Off.Samples) != 2 || len(row.On.Samples) != 2 || row.Off.Mean <= 0 {
			t.Errorf("row %+v", row)
		}
	}
	if !slices.Equal(names, []string{"barrier", "put 8", "wall"}) || r.Emulate != "2" || r.Periods != nil || r.Samples != 2 || r.Watchdog != "pidfd" {
		t.Errorf("rows %v, report %+v", names, r)
	}
	drawn(t, picture)
	j := start(t, strings.Fields("noise --emulate 2 -n 2 --samples 2 --warmup 0 --seed 1 --watchdog pidfd true")...)
	status, said := j.ended(testPatience)
	if status != 0 || said != "" || !strings.Contains(j.stdout.String(), "true, 2 PEs, --emulate 2, watchdog pidfd, 2 pairs of runs after 0, seed 1; ") {
		t.Errorf("status %d, %s%s", status, &j.stdout, said)
	}
}

// With the control, the exit status agrees with the report, which gives the reason. Whether a hog is found depends on
// the machine.
func TestNoiseControl(t *testing.T) {
	if testing.Short() {
		t.Skip("starts jobs one after another")
	}
	j := start(t, strings.Fields("noise -n 2 --samples 3 --control bench barrier -i 2000")...)
	status, said := j.ended(testPatience)
	found := strings.Contains(j.stdout.String(), "of a core, was found")
	lost := strings.Contains(j.stdout.String(), "of a core, was NOT found")
	if found == lost || status != map[bool]int{true: 0, false: 1}[found] || said != "" {
		t.Errorf("status %d, report says found %v, not found %v:\n%s%s", status, found, lost, &j.stdout, said)
	}
	for _, want := range []string{"seed ", "OVERHEAD %", "barrier", "smallest effect that these samples would have shown: "} {
		if !strings.Contains(j.stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &j.stdout)
		}
	}
}

func TestNoiseTable(t *testing.T) {
	side := &noise.Side{Mean: 12.3456, Deviation: 0.5}
	row := noise.Row{Name: "put 8", Unit: "us", Off: side, On: side, Overhead: -1.5, Band: 4.05, Low: -3, High: 0.25, Detectable: 2.5}
	all := noise.Row{Name: "all", Overhead: 7, Band: 4, Low: 5, High: 9, Detectable: 3}
	text := string(noiseTable(&noise.Report{
		Program: []string{"bench", "put"}, PEs: 2, Samples: 10, Warmup: 1, Seed: 77, Watchdog: "bpf",
		Comparison: &noise.Comparison{Rows: []noise.Row{row, row}, All: all}, Control: &noise.Control{Percent: 5.04, Found: true},
	}))
	for _, want := range []string{
		"bench put, 2 PEs, watchdog bpf, 10 pairs of runs after 1, seed 77",
		"put 8   us    12.35 ± 0.5  12.35 ± 0.5  -1.50       ±4.05   -3.00 to +0.25  2.50",
		"overhead +7.00 %, outside the band of natural variability of 4.00 %; 95 % interval +5.00 to +9.00 %",
		"smallest effect that these samples would have shown: 3.00 %", "took 5.0 % of a core, was found",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

// With a list of periods, each row has its period.
func TestNoiseTablePeriods(t *testing.T) {
	side := &noise.Side{Mean: 12.3456, Deviation: 0.5}
	row := noise.Row{Name: "put 8", Unit: "us", Off: side, On: side, Overhead: -1.5, Band: 4.05, Low: -3, High: 0.25, Detectable: 2.5}
	text := string(noiseTable(&noise.Report{
		Program: []string{"bench", "put"}, PEs: 4, Emulate: "4:netns", Samples: 10, Warmup: 1, Seed: 77, Watchdog: "best",
		Periods: []*noise.Comparison{{Period: "1ms", Rows: []noise.Row{row}, All: row}, {Period: "off", Rows: []noise.Row{row, row}, All: row}},
	}))
	for _, want := range []string{
		"bench put, 4 PEs, --emulate 4:netns, watchdog best, 10 rounds after 1, seed 77",
		"PERIOD  FIGURE  UNIT  OFF", "1ms     put 8   us    12.35 ± 0.5  12.35 ± 0.5  -1.50       ±4.05", "off     all ",
		"period 1ms: overhead -1.50 %, within the band of natural variability of 4.05 %", "off against off: smallest effect",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestNoiseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"noise":                                                   "no program",
		"noise -n 0 true":                                         "-n: 0, want 1 or more",
		"noise --samples 1 true":                                  "--samples: 1, want 2 to",
		"noise --samples many true":                               `--samples: "many"`,
		"noise --warmup -1 true":                                  "--warmup: -1",
		"noise --watchdog off true":                               `--watchdog: "off", want one of bpf`,
		"noise --plot x.gif true":                                 `--plot: "x.gif", want a name`,
		"noise --plot /nothing/here/x.svg tr":                     "/nothing/here",
		"noise -n 2 -- bench put --json x":                        "bench --json",
		"noise --emulate 0 true":                                  `--emulate: "0", want a number of nodes`,
		"noise --emulate 2:net true":                              `--emulate: "2:net", want a number of nodes`,
		"noise --heartbeat-period 1ms true":                       "heartbeats go between nodes, want --emulate 2 or more",
		"noise --emulate 2 --heartbeat-period 1ms,x true":         `--heartbeat-period: "x", want off, or periods`,
		"noise --emulate 2 --heartbeat-period 1ms,1ms true":       `--heartbeat-period: "1ms" twice`,
		"noise --emulate 2 --heartbeat-period= true":              "--heartbeat-period: nothing, want off",
		"noise --emulate 2 --control --heartbeat-period off true": "--heartbeat-period has no period but off",
		"noise --unknown true":                                    "--unknown",
		"noise -n 2 --samples 2 -- bench fire":                    `"fire", want one of`,
	} {
		j := start(t, strings.Fields(args)...)
		j.expect(2, want)
	}
}

// A program that fails ends the measurement, with its status and its messages. So do a program that does not exist, and
// a signal.
func TestNoiseFails(t *testing.T) {
	j := start(t, "noise", "-n", "1", "--samples", "2", "--seed", "1", "--", "sh", "-c", "echo why >&2; exit 7")
	j.expect(7, "noise: pair 1 of 3, detection o", "-- sh -c echo why >&2; exit 7: exit status 7:", "why\n")
	j = start(t, "noise", "--samples", "2", "/no/such/program")
	j.expect(4, "/no/such/program")
	for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		gate := t.TempDir() + "/gate"
		check(t, syscall.Mkfifo(gate, 0o600))
		j = start(t, "noise", "-n", "1", "--", "sh", "-c", `echo begun >"$0"; sleep 1000`, gate)
		_, err := os.ReadFile(gate) // exists once the program has begun
		check(t, err)
		check(t, j.cmd.Process.Signal(sig))
		j.expect(status, "noise: in pair 1 of 11: interrupted by signal")
	}
}
