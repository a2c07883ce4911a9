package graph500

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
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

// writeSample writes a report under a name as a run does, and fails the test if the name is
// refused.
func writeSample(t *testing.T, name string) {
	t.Helper()
	if err := checkReport(name); err != nil {
		t.Fatal(err)
	}
	if err := sampleResult().writeReport(name); err != nil {
		t.Fatal(err)
	}
}

// wantReport fails the test unless raw is a report.
func wantReport(t *testing.T, raw []byte) {
	t.Helper()
	var got struct{ Searches []Search }
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Searches) != 2 {
		t.Errorf("%v in %q, want a report of 2 searches", err, raw)
	}
}

// A link stays a link, whether it leads to a file, to a name that does not exist yet or to another
// link. A file that is replaced keeps its mode.
func TestReportThroughLinks(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	must(t, os.Mkdir(at("deep"), 0o755))
	must(t, os.WriteFile(at("deep/old"), []byte("longer than nothing"), 0o600))
	must(t, os.Symlink("deep/old", at("link")))
	must(t, os.Symlink(at("link"), at("link-to-link")))
	must(t, os.Symlink("deep", at("folder")))
	must(t, os.Symlink("../new", at("deep/up")))
	for _, c := range []struct{ name, file string }{
		{"link", "deep/old"}, {"link-to-link", "deep/old"}, {"folder/up", "new"}, {"folder/up", "new"},
	} {
		writeSample(t, at(c.name))
		if info, err := os.Lstat(at(c.name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no longer a link: %v, %v", c.name, info, err)
		}
		raw, err := os.ReadFile(at(c.file))
		must(t, err)
		wantReport(t, raw)
		must(t, os.WriteFile(at(c.file), nil, 0))
	}
	for name, want := range map[string]os.FileMode{"deep/old": 0o600, "new": 0o644} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	must(t, os.Symlink("round", at("round")))
	if err := checkReport(at("round")); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
		t.Errorf("a link to itself: %v", err)
	}
}

// A FIFO is written to once and stays a FIFO.
func TestReportIntoFIFO(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(name, 0o600))
	if err := checkReport(name); err != nil { // does not wait for a reader
		t.Fatal(err)
	}
	read := make(chan []byte)
	go func() {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		read <- raw
	}()
	if err := sampleResult().writeReport(name); err != nil {
		t.Fatal(err)
	}
	wantReport(t, <-read)
	if info, err := os.Lstat(name); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the FIFO is now %v, %v", info, err)
	}
}

// A device is written to, not replaced. The test does not write, because a mistake would replace
// the machine's device.
func TestReportIntoDevice(t *testing.T) {
	if to, err := findTarget("/dev/null"); err != nil || !to.inPlace {
		t.Errorf("%+v, %v, want a target that is not replaced", to, err)
	}
}

// A name that stands for stdout writes the report there, before what is printed next.
func TestReportToStdout(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	stdout := os.Stdout
	os.Stdout = f
	defer func() { os.Stdout = stdout }()
	writeSample(t, name)
	fmt.Fprintln(f, "after")
	raw, err := os.ReadFile(name)
	must(t, err)
	report, found := bytes.CutSuffix(raw, []byte("after\n"))
	if !found {
		t.Errorf("got %q, want the report and then what was printed after it", raw)
	}
	wantReport(t, report)
}

// A file that cannot be written to is refused before the run and stays unchanged.
func TestReportRefused(t *testing.T) {
	folder := t.TempDir()
	socket := filepath.Join(folder, "socket")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	must(t, err)
	defer l.Close()
	if err := checkReport(socket); err == nil || !strings.Contains(err.Error(), "it is a socket") {
		t.Errorf("a socket: %v", err)
	}
	testenv.Need(t, testenv.User) // root may write to every file
	file := filepath.Join(folder, "file")
	must(t, os.WriteFile(file, []byte("precious"), 0o444))
	if err := checkReport(file); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a file of mode 0444: %v", err)
	}
	if err := sampleResult().writeReport(file); err == nil {
		t.Error("a file of mode 0444 was replaced")
	}
	if raw, err := os.ReadFile(file); string(raw) != "precious" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
