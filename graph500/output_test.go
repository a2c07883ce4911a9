package graph500

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sampleResult() *Result {
	valid := true
	return &Result{
		Options: DefaultOptions(), PEs: 4, Nodes: 1,
		GenerationSeconds: 0.25, ConstructionSeconds: 0.125, PeakResident: []uint64{1 << 20, 2 << 20, 3 << 20, 4 << 20},
		Searches: []Search{
			{Root: 7, Seconds: 0.5, Edges: 16775818, EdgesAndLoops: 16776976, Reached: 645643, Depth: 7, TEPS: 16775818 / 0.5, ValidateSeconds: 2, Valid: &valid},
			{Root: 3, Seconds: 1, Edges: 16775818, EdgesAndLoops: 16776976, Reached: 645643, Depth: 8, TEPS: 16775818, ValidateSeconds: 4, Valid: &valid},
		},
	}
}

// The block has the keys, the order and the columns of the reference program.
func TestTextBlock(t *testing.T) {
	var out strings.Builder
	if err := sampleResult().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/block.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if value := line[32:]; strings.HasPrefix(value, " ") || line[31] != ' ' {
			t.Errorf("value does not start in column 33: %q", line)
		}
	}
}

func TestReportHasAllNames(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	if err := checkReport(name); err != nil {
		t.Fatal(err)
	}
	if err := sampleResult().writeReport(name); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	names := "version options scale edgefactor nbfs pes nodes generation_s construction_s max_rss_bytes searches " +
		"bfs_harmonic_mean_TEPS bfs_harmonic_stddev_TEPS"
	for _, of := range []string{"time", "nedge", "validate", "TEPS"} {
		for _, which := range []string{"min", "firstquartile", "median", "thirdquartile", "max", "mean", "stddev"} {
			if of != "TEPS" || which != "mean" && which != "stddev" {
				names += " bfs_" + which + "_" + of
			}
		}
	}
	wantNames(t, "report", got, names)
	searches := got["searches"].([]any)
	wantNames(t, "search", searches[0].(map[string]any),
		"root time_s edges edges_with_self_loops reached depth teps validate_s valid")
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".*")); len(rest) > 0 {
		t.Errorf("temporary files left: %v", rest)
	}
}

func wantNames(t *testing.T, what string, got map[string]any, names string) {
	t.Helper()
	want := strings.Fields(names)
	for _, name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s lacks %s", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d names, want %d", what, len(got), len(want))
	}
}

func TestReportThatCannotBeCreated(t *testing.T) {
	folder := t.TempDir()
	for name, want := range map[string]string{
		filepath.Join(folder, "no", "out.json"): "no such file or directory",
		folder:                                  "is a folder",
	} {
		if err := checkReport(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestProgressPrintsPhases(t *testing.T) {
	var out strings.Builder
	p := progressLines(&out)
	for i := range 101 {
		p("generation", i, 100)
	}
	p("search", 0, 2)
	p("search", 2, 2)
	if want := "graph500: generation 100%\ngraph500: search 100%\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
